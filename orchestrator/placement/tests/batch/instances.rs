//! Files of instances: what is read, and what is said of a wrong one.

use crate::check;
use rhumb_placement::batch::{
    instance::{self, Id},
    solve::{Budget, answer_json, solve},
};
use serde_json::json;

const TWO_NODES: &str = r#"[{"name": "two", "nodes": 2,
  "links": [{"from": 0, "to": 1, "delay_ms": 1.5, "capacity_mbps": 100, "usd_per_gbit_h": 0.04}],
  "sites": [{"id": "s", "node": 1, "pools": [{"gpu": "L4", "count": 2, "usd_per_gpu_h": 0.7}]}],
  "jobs": [{"id": 3, "source": 0, "gpus": 1, "gpu_types": ["L4"], "mbps": 60, "max_delay_ms": 1.5, "hours": 2, "reject_usd": 9},
           {"id": 1, "source": 0, "gpus": 1, "gpu_types": ["L4", "A10"], "mbps": 60, "max_delay_ms": null, "hours": 2, "reject_usd": 8}]}]"#;

fn wrong(text: &str) -> String {
    instance::read(text).unwrap_err().to_string()
}

#[test]
fn a_full_link_leaves_out_the_job_that_is_cheaper_to_reject() {
    let instances = instance::read(TWO_NODES).unwrap();
    let answer = solve(&instances[0], &Budget::default()).unwrap();
    check::sound(&instances[0], &answer);
    let shown = answer_json(&answer, 0.5);
    // 2 h x 0.7 USD, 2 h x 0.06 Gbit/s x 0.04 USD, and the other job's 8 USD
    let plan = json!([{"job": 3, "site": "s", "gpu": "L4", "links": [[0, 1]]}, {"job": 1, "rejected": true}]);
    let wanted = json!({"name": "two", "total_usd": 9.4048, "lower_bound_usd": 9.4048, "wall_ms": 0.5, "plan": plan});
    assert_eq!(shown, wanted);
    assert_eq!(answer.plan[1].0, Id::Number(1));
}

#[test]
fn a_wrong_value_is_named_with_its_instance_field_and_remedy() {
    for (from, to, said) in [
        ("\"to\": 1", "\"to\": 2", "instance two: links[0].to: 2 is an unknown node: use 0 to 1"),
        ("\"node\": 1", "\"node\": -1", "instance two: sites[0].node: -1 is an unknown node: use 0 to 1"),
        ("\"to\": 1", "\"to\": 0", "instance two: links[0].to: 0 is where the link begins: leave it out"),
        (
            "\"capacity_mbps\": 100",
            "\"capacity_mbps\": -5.5",
            "links[0].capacity_mbps: -5.5 is negative: write 0 or more",
        ),
        (
            "\"reject_usd\": 9",
            "\"reject_usd\": NaN",
            "jobs[0].reject_usd: \"NaN\" is not a number: write a decimal number of 0 or more",
        ),
        ("\"hours\": 2", "\"hours\": -Infinity", "jobs[0].hours: \"-Infinity\" is not a number"),
        ("\"hours\": 2", "\"hours\": 1e300", "is out of range: write at most 1000000000"),
        ("\"id\": 1", "\"id\": 3", "instance two: jobs: 3 is the id of two jobs: rename one"),
        ("\"gpus\": 1", "\"gpus\": 0", "jobs[0].gpus: 0 asks for nothing"),
        ("\"gpus\": 1", "\"gpus\": 1.5", "jobs[0].gpus: 1.5 is not a whole number"),
        ("[\"L4\"]", "\"L4\"", "jobs[0].gpu_types: write an array of types"),
        ("max_delay_ms", "max_delay", "jobs[0].max_delay_ms: missing: write it; \"max_delay\" is not known"),
        ("\"mbps\": 60, ", "", "jobs[0].mbps: missing: write it"),
        ("\"sites\": [", "\"sites\": 7, \"x\": [", "instance two: sites: 7 is no array: write [...]"),
        ("\"name\": \"two\"", "\"name\": \"\"", "instance : name: \"\" is no text: write a name"),
    ] {
        let text = TWO_NODES.replacen(from, to, 1);
        assert_ne!(text, TWO_NODES, "{from}");
        let shown = wrong(&text);
        assert!(shown.contains(said), "{from} -> {to}: {shown}");
    }
}

#[test]
fn what_is_no_array_of_instances_is_told_so() {
    assert!(wrong("[1,").contains("not JSON at line 1, column 3"));
    assert_eq!(wrong("{}"), "the file holds one object: write an array of instances");
    assert!(wrong("[7]").contains("instance 0: the instance: 7 is no object"));
    let twice = format!("[{0},{0}]", &TWO_NODES[1..TWO_NODES.len() - 1]);
    assert!(wrong(&twice).contains("\"two\" is the name of two instances: rename one"));
    let link = r#"{"from": 0, "to": 1, "delay_ms": 1.5, "capacity_mbps": 100, "usd_per_gbit_h": 0.04}"#;
    let shown = wrong(&TWO_NODES.replace(link, &format!("{link}, {link}")));
    assert!(shown.contains("two links from 0 to 1"), "{shown}");
}

#[test]
fn a_batch_without_jobs_sites_or_links_costs_what_rejecting_costs() {
    let none = r#"[{"name": "none", "nodes": 0, "links": [], "sites": [], "jobs": []}]"#;
    let nowhere = r#"[{"name": "nowhere", "nodes": 1, "links": [], "sites": [],
        "jobs": [{"id": 0, "source": 0, "gpus": 1, "gpu_types": ["L4"], "mbps": 0.5, "max_delay_ms": 0, "hours": 1, "reject_usd": 3.25}]}]"#;
    for (text, total) in [(none, 0), (nowhere, 3_250_000_000)] {
        let instances = instance::read(text).unwrap();
        let answer = solve(&instances[0], &Budget::default()).unwrap();
        check::sound(&instances[0], &answer);
        assert_eq!((answer.total.0, answer.lower_bound.0), (total, total));
    }
}

#[test]
fn costs_out_of_range_are_refused_and_large_ones_are_added_up() {
    let text = TWO_NODES.replace("\"reject_usd\": 9", "\"reject_usd\": 9000000").replace("0.04", "90000000");
    let instances = instance::read(&text).unwrap();
    let answer = solve(&instances[0], &Budget::default()).unwrap_err().to_string();
    assert!(answer.contains("instance two: jobs[1]: a link costs more than 10000000 USD: check its units"), "{answer}");
    let text = text.replace("90000000", "70000");
    let instances = instance::read(&text).unwrap();
    let answer = solve(&instances[0], &Budget::default()).unwrap();
    check::sound(&instances[0], &answer);
    // 1.4 USD for the device, 2 h x 0.06 Gbit/s x 70,000 USD for the link, 8 USD for the other job
    assert_eq!(answer.total.to_string(), "8409.4");
}
