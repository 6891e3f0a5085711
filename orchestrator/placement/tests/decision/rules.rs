//! The cost model's rules one by one, each with its arithmetic written out.

use crate::world::{order, submit, view};
use rhumb_model::Plan;
use rhumb_placement::{Policy, Request, audit, decide};

/// Decides, audits, and gives the plan.
fn plan(file: &str, text: &str) -> Plan {
    let (view, order) = (view(file), order(text));
    let request = Request::new(&order, submit());
    let policy = Policy::default();
    let plan = decide(&view, &request, &policy).outcome.expect("the order fits");
    assert_eq!(audit(&plan, &request, &view, &policy), vec![]);
    assert!(plan.proven_optimal);
    plan
}

fn file(sites: &str, rest: &str) -> String {
    format!(
        "
currency: CNY
rates: {{USD: 7}}
devices:
  H100: {{memory: 80GiB, fp16: 1, int8: 2}}
  A100: {{memory: 40GiB, fp16: 0.4}}
sites:
{sites}
{rest}
"
    )
}

const H: &str = "nodes: [{count: 4, accelerators: {model: H100, count: 8, islands: [8]}, cpu: 96, memory: 1TiB}]";
const A: &str = "nodes: [{count: 4, accelerators: {model: A100, count: 8}, cpu: 96, memory: 1TiB}]";

fn one(need: &str, work: &str) -> String {
    format!("name: t\nclass: training\ncomponents: [{{name: c, need: {need}, {work}}}]\n")
}

#[test]
fn hours_scale_with_the_rate_and_compute_is_devices_cores_and_memory() {
    let f = file(&format!("  - {{name: a, prices: {{A100: 2 USD, cpu: 0.5 CNY, memory_gib: 0.25 CNY}}, {A}}}"), "");
    let p = plan(
        &f,
        &one("{accelerators: {count: 2}, cpu: 4, memory: 8GiB}", "replicas: 3, work: {hours: 2, reference: H100}"),
    );
    // 2 h / 0.4 = 5 h; per replica and hour 2 x 14 + 4 x 0.5 + 8 x 0.25 = 32 CNY
    assert_eq!(p.cost.compute_micros, 3 * 32 * 5 * 1_000_000);
    assert_eq!((p.finish - p.start).as_secs(), 5 * 3600);
}

#[test]
fn duration_and_work_without_devices_are_not_scaled() {
    let f = file(&format!("  - {{name: a, prices: {{A100: 2 CNY, cpu: 1 CNY}}, {A}}}"), "");
    let p = plan(&f, &one("{accelerators: {count: 1}}", "work: {duration: 90min}"));
    assert_eq!(p.cost.total_micros, 3_000_000);
    let p = plan(&f, &one("{cpu: 2}", "work: {hours: 3}"));
    assert_eq!(p.cost.total_micros, 6_000_000);
}

#[test]
fn of_several_models_the_slowest_counts_and_all_are_paid_for_as_long() {
    let sites = "  - {name: a, prices: {A100: 1 CNY}, nodes: [{accelerators: {model: A100, count: 1}}]}
  - {name: h, prices: {H100: 1 CNY}, nodes: [{accelerators: {model: H100, count: 1}}]}";
    let p =
        plan(&file(sites, ""), &one("{accelerators: {count: 1}}", "replicas: 2, work: {hours: 1, reference: H100}"));
    // 1 h / 0.4 = 2.5 h on both
    assert_eq!(p.cost.compute_micros, 5_000_000);
}

#[test]
fn a_share_costs_its_part_of_the_device() {
    let f = file(&format!("  - {{name: a, prices: {{H100: 8 CNY}}, {H}}}"), "");
    let p = plan(&f, &one("{accelerators: {share: 25%, memory: 10GiB}}", "replicas: 2, work: {duration: 1h}"));
    assert_eq!(p.cost.compute_micros, 4_000_000);
    assert_eq!(p.components[0].assignments[0].devices_per_replica, 1);
}

#[test]
fn a_price_window_is_integrated_over_the_run() {
    let window = "windows: [{from: \"22:00\", to: \"08:00\", tz: Asia/Shanghai, factor: 0.6}]";
    let f = file(&format!("  - {{name: a, prices: {{H100: 10 CNY, {window}}}, {H}}}"), "");
    // from 20:17: 103 min by day and 77 min at night, (10 x 103 + 6 x 77) / 60 CNY, rounded half up
    let p = plan(&f, &one("{accelerators: {count: 1}}", "work: {duration: 3h}"));
    assert_eq!(p.cost.compute_micros, 24_866_667);
}

#[test]
fn with_a_deadline_and_no_value_of_time_the_start_waits_for_the_cheap_hours() {
    let window = "windows: [{from: \"22:00\", to: \"08:00\", tz: Asia/Shanghai, factor: 0.5}]";
    let f = file(&format!("  - {{name: a, prices: {{H100: 10 CNY, {window}}}, {H}}}"), "");
    let work = one("{accelerators: {count: 1}}", "work: {duration: 3h}");
    let p = plan(&f, &format!("{work}terms: {{deadline: 2026-11-30T23:00:00Z}}"));
    assert_eq!((p.start.to_string().as_str(), p.cost.total_micros), ("2026-11-30T14:00:00Z", 15_000_000));
    // an hour too early for that: start at once
    let p = plan(&f, &format!("{work}terms: {{deadline: 2026-11-30T16:00:00Z}}"));
    assert_eq!(p.start.to_string(), "2026-11-30T12:17:00Z");
    // with a value of time it never waits
    let p = plan(&f, &format!("{work}terms: {{deadline: 2026-11-30T23:00:00Z, value_per_hour: 1 CNY}}"));
    assert_eq!((p.start.to_string().as_str(), p.cost.time_micros), ("2026-11-30T12:17:00Z", 3_000_000));
}

#[test]
fn late_is_dear_where_it_is_allowed() {
    let f = file(&format!("  - {{name: a, prices: {{H100: 10 CNY}}, {H}}}"), "");
    let work = one("{accelerators: {count: 1}}", "work: {duration: 3h}");
    let p = plan(&f, &format!("{work}terms: {{deadline: 2026-11-30T14:47:00Z, late_per_hour: 6 CNY}}"));
    // half an hour late
    assert_eq!((p.cost.lateness_micros, p.cost.total_micros), (3_000_000, 33_000_000));
}

#[test]
fn the_orders_window_holds_all_from_the_first_byte_to_the_end() {
    let rest = "links: [{id: l, from: d, to: a, capacity: 8Gbps, latency: 0ms}]\ndatasets: [{name: set, size: 900GB, at: [d]}]";
    let sites = format!("  - {{name: a, prices: {{H100: 1 CNY}}, {H}}}\n  - {{name: d}}");
    let text = |to: &str| {
        let work = one("{accelerators: {count: 1}}", "work: {duration: 2h}");
        format!(
            "{work}flows: [{{from: dataset/set, to: c, rate: 2Gbps, volume: 900GB}}]\nterms: {{window: {{from: \"20:00\", to: \"{to}\", tz: Asia/Shanghai}}}}"
        )
    };
    // 900 GB at 2 Gbit/s take an hour; from 20:17 on three hours fit before 23:30
    let p = plan(&file(&sites, rest), &text("23:30"));
    assert_eq!(
        (p.start.to_string().as_str(), p.finish.to_string().as_str()),
        ("2026-11-30T13:17:00Z", "2026-11-30T15:17:00Z")
    );
    // before 23:00 they only fit on the next day, from 20:00
    let p = plan(&file(&sites, rest), &text("23:00"));
    assert_eq!(
        (p.start.to_string().as_str(), p.finish.to_string().as_str()),
        ("2026-12-01T13:00:00Z", "2026-12-01T15:00:00Z")
    );
}

const DATA: &str = "links:
  - {id: l, from: d, to: a, capacity: 100Mbps, latency: 10ms, per_gb: 0.5 CNY, per_mbps_hour: 0.09 CNY}
  - {id: m, from: d, to: b, capacity: 100Mbps, latency: 10ms, per_gb: 0.5 CNY, per_mbps_hour: 0.09 CNY}
  - {id: back, from: a, to: d, capacity: 50Mbps, latency: 0ms, per_gb: 2 CNY}
  - {id: ab, from: a, to: b, both_ways: true, capacity: 100Mbps, latency: 3ms, per_mbps_hour: 0.01 CNY}
datasets: [{name: set, size: 9GB, at: [d]}]
regions: [{name: r, at: d, access: 4ms}]";

fn two(count: u32) -> String {
    let nodes = format!("nodes: [{{count: 1, accelerators: {{model: H100, count: {count}}}, cpu: 8}}]");
    format!(
        "  - {{name: a, prices: {{H100: 10 CNY}}, {nodes}}}\n  - {{name: b, prices: {{H100: 10 CNY}}, {nodes}}}\n  - {{name: d}}"
    )
}

#[test]
fn staging_pays_per_byte_and_for_the_rate_while_it_moves() {
    let sites = format!("  - {{name: a, prices: {{H100: 10 CNY}}, {H}}}\n  - {{name: b}}\n  - {{name: d}}");
    let work = one("{accelerators: {count: 1}}", "work: {duration: 1h}");
    let p = plan(
        &file(&sites, DATA),
        &format!("{work}flows: [{{from: dataset/set, to: c}}]\nterms: {{value_per_hour: 1 CNY}}"),
    );
    // 72,000 Mbit at 100 Mbit/s take 720 s and hold 20 Mbps-hours; the start is 10 ms later still
    assert_eq!((p.flows[0].rate_kbps, p.cost.transfer_micros, p.cost.path_micros), (100_000, 4_500_000, 1_800_000));
    assert_eq!(p.start.to_string(), "2026-11-30T12:29:00.01Z");
    assert_eq!(p.cost.time_micros, 1_200_003);
}

#[test]
fn a_volume_divides_over_sites_unless_it_is_copied() {
    let work = one("{accelerators: {count: 1}}", "replicas: 3, work: {duration: 1h}, place: {spread: node}");
    let sites = "  - {name: a, prices: {H100: 10 CNY}, nodes: [{count: 2, accelerators: {model: H100, count: 1}}]}
  - {name: b, prices: {H100: 10 CNY}, nodes: [{count: 1, accelerators: {model: H100, count: 1}}]}
  - {name: d}";
    let p = plan(&file(sites, DATA), &format!("{work}flows: [{{from: dataset/set, to: c}}]"));
    let bytes: Vec<u64> = p.flows.iter().map(|l| l.volume_bytes).collect();
    assert_eq!((bytes, p.cost.transfer_micros), (vec![6_000_000_000, 3_000_000_000], 4_500_000));
    let p = plan(&file(sites, DATA), &format!("{work}flows: [{{from: dataset/set, to: c, copy: true}}]"));
    let bytes: Vec<u64> = p.flows.iter().map(|l| l.volume_bytes).collect();
    assert_eq!((bytes, p.cost.transfer_micros), (vec![9_000_000_000, 9_000_000_000], 9_000_000));
}

#[test]
fn a_flow_to_itself_has_its_full_rate_between_every_two_sites_each_way() {
    let work = one("{accelerators: {count: 1}}", "replicas: 2, work: {duration: 2h}");
    let p = plan(&file(&two(1), DATA), &format!("{work}flows: [{{from: c, to: c, rate: 50Mbps, max_latency: 3ms}}]"));
    let legs: Vec<_> = p.flows.iter().map(|l| (l.from_site.as_str(), l.path[0].as_str(), l.rate_kbps)).collect();
    assert_eq!(legs, [("a", "ab", 50_000), ("b", "ab~", 50_000)]);
    // two legs x 50 Mbps x 2 h x 0.01 CNY
    assert_eq!(p.cost.path_micros, 2_000_000);
    // on one site there is nothing to join
    let p = plan(&file(&two(2), DATA), &format!("{work}flows: [{{from: c, to: c, rate: 50Mbps, max_latency: 3ms}}]"));
    assert_eq!((p.flows.len(), p.cost.path_micros), (0, 0));
}

#[test]
fn results_are_moved_out_after_the_run_and_links_that_run_are_held_until_then() {
    let sites = format!("  - {{name: a, prices: {{H100: 10 CNY}}, {H}}}\n  - {{name: b}}\n  - {{name: d}}");
    let work = one("{accelerators: {count: 1}}", "work: {duration: 1h}");
    let flows = "flows: [{from: c, to: dataset/set, volume: 4500MB}, {from: dataset/set, to: c, rate: 10Mbps}]";
    let p = plan(&file(&sites, DATA), &format!("{work}{flows}"));
    // 36,000 Mbit at 50 Mbit/s take 12 min: finish after 72 min, while 10 Mbps are held at 0.09 CNY
    assert_eq!((p.finish - p.start).as_secs(), 72 * 60);
    assert_eq!((p.cost.transfer_micros, p.cost.path_micros), (9_000_000, 1_080_000));
    assert_eq!(p.flows.iter().map(|l| l.volume_bytes).collect::<Vec<_>>(), [4_500_000_000, 0]);
}

#[test]
fn demand_divides_by_what_sites_serve_and_needs_as_few_replicas_as_will_do() {
    let service = "
name: s
class: inference
components: [{name: web, replicas: {min: 1, max: 4}, need: {cpu: 4}, service: {serves: 10rps, port: 80}, place: {spread: site}}]
flows: [{from: region/r, to: web, demand: 15rps, rate: 3Mbps, max_latency: 14ms}]
terms: {horizon: 10h}";
    let p = plan(&file(&two(1), DATA), service);
    // two replicas for 15 rps; one serves 10, the other 5; 3 Mbit/s divide as 2 and 1
    let mut legs: Vec<_> = p.flows.iter().map(|l| (l.demand_mrps, l.rate_kbps, l.latency_us)).collect();
    legs.sort_unstable();
    assert_eq!(legs, [(5_000, 1_000, 14_000), (10_000, 2_000, 14_000)]);
    // 3 Mbps x 10 h x 0.09 CNY
    assert_eq!(p.cost.path_micros, 2_700_000);
}

#[test]
fn the_ends_of_a_flow_at_one_site_cost_and_take_nothing() {
    let sites = format!("  - {{name: d, prices: {{H100: 10 CNY}}, {H}}}\n  - {{name: a}}\n  - {{name: b}}");
    let work = one("{accelerators: {count: 1}}", "work: {duration: 1h}");
    let p =
        plan(&file(&sites, DATA), &format!("{work}flows: [{{from: dataset/set, to: c, volume: 2GB, rate: 3Mbps}}]"));
    assert_eq!((p.flows[0].path.len(), p.flows[0].rate_kbps, p.flows[0].latency_us), (0, 0, 0));
    assert_eq!((p.cost.total_micros, p.start), (10_000_000, submit()));
}

#[test]
fn legs_share_a_link_only_as_far_as_it_goes() {
    // two volumes of 9 GB over one link of 100 Mbit/s at the same time: half each, or one at 50 and one at 50
    let sites = format!("  - {{name: a, prices: {{H100: 10 CNY}}, {H}}}\n  - {{name: b}}\n  - {{name: d}}");
    let work = one("{accelerators: {count: 1}}", "work: {duration: 1h}");
    let flows = "flows: [{from: dataset/set, to: c}, {from: dataset/set, to: c}]\nterms: {value_per_hour: 10 CNY}\nconstraints: {sites: [a]}";
    let p =
        plan(&file(&sites, &DATA.replace("id: m, from: d, to: b", "id: m, from: b, to: d")), &format!("{work}{flows}"));
    assert_eq!(p.flows.iter().map(|l| l.rate_kbps).collect::<Vec<_>>(), [50_000, 50_000]);
    // with a detour as wide, each has a way of its own
    let p = plan(&file(&sites, DATA), &format!("{work}{flows}"));
    assert_eq!(p.flows.iter().map(|l| l.rate_kbps).collect::<Vec<_>>(), [100_000, 100_000]);
    assert_ne!(p.flows[0].path, p.flows[1].path);
}

#[test]
fn ties_go_to_fewer_links_and_then_to_smaller_names() {
    let nodes = "nodes: [{accelerators: {model: H100, count: 1}}]";
    let sites = format!(
        "  - {{name: z, prices: {{H100: 1 CNY}}, {nodes}}}\n  - {{name: y, prices: {{H100: 1 CNY}}, {nodes}}}\n  - {{name: x, prices: {{H100: 1 CNY}}, {nodes}}}\n  - {{name: d}}"
    );
    let links = "links:
  - {id: dx, from: d, to: x, capacity: 1Gbps, latency: 1ms}
  - {id: xz, from: x, to: y, capacity: 1Gbps, latency: 1ms}
  - {id: dz2, from: d, to: z, capacity: 1Gbps, latency: 1ms}
  - {id: dz1, from: d, to: z, capacity: 1Gbps, latency: 1ms}
datasets: [{name: set, size: 1GB, at: [d]}]";
    let work = one("{accelerators: {count: 1}}", "work: {duration: 1h}");
    let text = format!("{work}flows: [{{from: dataset/set, to: c}}]");
    let p = plan(&file(&sites, links), &text);
    assert_eq!((p.components[0].assignments[0].site.as_str(), p.flows[0].rate_kbps), ("x", 1_000_000));
    let p = plan(&file(&sites, links), &format!("{text}\nconstraints: {{not_sites: [x]}}"));
    assert_eq!((p.components[0].assignments[0].site.as_str(), p.flows[0].path[0].as_str()), ("z", "dz1"));
}

#[test]
fn the_answer_does_not_depend_on_the_order_of_the_input_nor_on_asking_again() {
    use rhumb_placement::generate::{self, Size};
    let made = generate::federation(Size::of(12), 7);
    let mut turned = made.clone();
    turned.sites.reverse();
    turned.links.reverse();
    turned.transit.reverse();
    let views = [&made, &turned].map(|f| rhumb_federation::View::from_file(f).unwrap());
    let policy = Policy::default();
    for order in generate::orders(12, 40, 7) {
        let request = Request::new(&order, submit());
        let first = rhumb_placement::place(&views[0], &request, &policy);
        assert_eq!(first, rhumb_placement::place(&views[0], &request, &policy));
        assert_eq!(first, rhumb_placement::place(&views[1], &request, &policy), "{}", order.name);
        if let Some(plan) = first.plan() {
            assert_eq!(audit(plan, &request, &views[0], &policy), vec![], "{}", order.name);
        }
    }
}
