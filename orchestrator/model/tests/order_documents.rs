//! What a tenant can get wrong in an order, and what the answer says.
#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

use rhumb_model::{DocumentError, Order};

/// A sound order with parts replaced, one `(old, new)` at a time.
fn order(changes: &[(&str, &str)]) -> String {
    let mut text = String::from(
        r#"name: sound
class: training
components:
  - name: trainer
    replicas: 2
    gang: true
    need:
      accelerators: {count: 8, models: [H100, A100], memory: 40GiB, precision: fp16, interconnect: nvlink}
      cpu: 16
      memory: 256GiB
    work: {hours: 6, reference: H100}
    run: {command: ["python", "train.py"], image: "registry.example/train:1", variants: {ascend: {image: "x/y:1"}}, env: {A: b}}
    place: {spread: site, colocate: [web]}
  - name: web
    need: {cpu: 1, memory: 1GiB, accelerators: {share: 25%, memory: 10GiB}}
    service: {serves: 10rps, port: 8000}
flows:
  - {from: dataset/corpus, to: trainer, volume: 2TB}
  - {from: trainer, to: trainer, rate: 10Gbps, max_latency: 5ms}
  - {from: region/wuhan-users, to: web, demand: 40rps, rate: 1Mbps}
constraints: {jurisdictions: [CN], labels: [gov-cloud], encrypted: false, max_sites: 2, sites: [], not_sites: []}
terms: {deadline: "2026-12-01T08:00:00Z", budget: 5000 CNY, value_per_hour: 30 CNY, late_per_hour: 50 CNY, priority: 50,
        window: {from: "22:00", to: "06:00", tz: Asia/Shanghai}, value: 9000 CNY, horizon: 24h, failover: none,
        preemptible: false, checkpoint: {signal: SIGUSR1, grace: 30s}}
"#,
    );
    for (old, new) in changes {
        assert!(text.contains(old), "{old} is not in the sound order");
        text = text.replacen(old, new, 1);
    }
    text
}

fn refused(text: &str) -> DocumentError {
    match Order::read(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error,
    }
}

#[test]
fn the_sound_order_is_read_and_reads_back() {
    let read = Order::read(&order(&[])).unwrap();
    assert_eq!(read.components.len(), 2);
    let json = serde_json::to_string(&read).unwrap();
    assert_eq!(Order::read_json(&json).unwrap(), read);
    assert_eq!(Order::from_value(serde_json::to_value(&read).unwrap()).unwrap(), read);
}

#[test]
fn each_mistake_is_named_with_its_place_and_remedy() {
    let components = |n: usize| {
        let one = |i| format!("  - {{name: c{i}, need: {{cpu: 1}}, work: {{duration: 1h}}}}\n");
        format!("name: x\nclass: tuning\ncomponents:\n{}", (0..n).map(one).collect::<String>())
    };
    // text, pointer of the (first) problem, a word of the remedy
    let table: Vec<(String, &str, &str)> = vec![
        (order(&[("gang: true", "gnag: true")]), "/components/0/gnag", "nearest known is \"gang\""),
        (order(&[("max_latency", "maxLatency")]), "/flows/1/maxLatency", "\"max_latency\""),
        (order(&[("budget:", "bugdet:")]), "/terms/bugdet", "\"budget\""),
        (order(&[("replicas: 2", "replicas: {mni: 1}")]), "/components/0/replicas/mni", "\"min\""),
        (order(&[("class: training", "klass: training")]), "/klass", "\"class\""),
        (order(&[("class: training", "class: trainin")]), "/class", "\"training\""),
        (order(&[("class: training", "class: zzz")]), "/class", "training, inference"),
        (order(&[("class: training\n", "")]), "/class", "missing"),
        (order(&[("volume: 2TB", "volume: 2")]), "/flows/0/volume", "such as 40GiB"),
        (order(&[("volume: 2TB", "volume: \"2\"")]), "/flows/0/volume", "no unit"),
        (order(&[("volume: 2TB", "volume: 2Tb")]), "/flows/0/volume", "such as 40GiB"),
        (order(&[("volume: 2TB", "volume: -2TB")]), "/flows/0/volume", "such as 40GiB"),
        (order(&[("volume: 2TB", "volume: 0B")]), "/flows/0/volume", "use more"),
        (order(&[("volume: 2TB", "volume: 1e309B")]), "/flows/0/volume", "such as 40GiB"),
        (order(&[("rate: 10Gbps", "rate: NaNGbps")]), "/flows/1/rate", "such as 10Gbps"),
        (order(&[("rate: 10Gbps", "rate: 0")]), "/flows/1/rate", "such as 10Gbps"),
        (order(&[("rate: 10Gbps", "rate: 0Mbps")]), "/flows/1/rate", "use more"),
        (order(&[("rate: 10Gbps", "rate: 10GB")]), "/flows/1/rate", "such as 10Gbps"),
        (order(&[("max_latency: 5ms", "max_latency: 5")]), "/flows/1/max_latency", "such as 20ms"),
        (order(&[("replicas: 2", "replicas: 0")]), "/components/0/replicas", "use 1 to 10000"),
        (order(&[("replicas: 2", "replicas: -1")]), "/components/0/replicas", "use 1 to 10000"),
        (order(&[("replicas: 2", "replicas: 2.5")]), "/components/0/replicas", "whole number"),
        (order(&[("replicas: 2", "replicas: .nan")]), "/components/0/replicas", "plain decimal"),
        (order(&[("replicas: 2", "replicas: 10001")]), "/components/0/replicas", "use 1 to 10000"),
        (order(&[("replicas: 2", "replicas: 99999999999")]), "/components/0/replicas", "use 1 to 10000"),
        (order(&[("replicas: 2", "replicas: 99999999999999999999999")]), "/components/0/replicas", "smaller"),
        (order(&[("replicas: 2", "replicas: {min: 3, max: 2}")]), "/components/0/replicas", "swap"),
        (order(&[("count: 8", "count: 0")]), "/components/0/need/accelerators/count", "use 1 to 64"),
        (order(&[("count: 8", "count: 4294967296")]), "/components/0/need/accelerators/count", "whole number"),
        (order(&[("count: 8", "count: 65")]), "/components/0/need/accelerators/count", "use 1 to 64"),
        (order(&[("count: 8, ", "")]), "/components/0/need/accelerators/count", "add count"),
        (order(&[("count: 8", "count: 8, share: 10%")]), "/components/0/need/accelerators/count", "keep one"),
        (order(&[("count: 8", "share: 10%, mig: 1g.5gb")]), "/components/0/need/accelerators/mig", "keep one"),
        (order(&[("count: 8", "share: 10%")]), "/components/0/need/accelerators/interconnect", "remove it"),
        (order(&[("count: 8", "mig: \"../x\"")]), "/components/0/need/accelerators/mig", "3g.40gb"),
        (order(&[("memory: 40GiB", "memory: 0B")]), "/components/0/need/accelerators/memory", "use more"),
        (order(&[("precision: fp16", "precision: fp17")]), "/components/0/need/accelerators/precision", "fp16"),
        (order(&[("interconnect: nvlink", "interconnect: site")]), "/components/0/place/spread", "remove one"),
        (order(&[("share: 25%", "share: 0%")]), "/components/1/need/accelerators/share", "0.1% to 100%"),
        (order(&[("share: 25%", "share: 0.25")]), "/components/1/need/accelerators/share", "such as 25%"),
        (order(&[("cpu: 16", "cpu: -1")]), "/components/0/need/cpu", "use 0 to"),
        (order(&[("cpu: 16", "cpu: 1e309")]), "/components/0/need/cpu", "decimal"),
        (order(&[("cpu: 16", "cpu: .inf")]), "/components/0/need/cpu", "plain decimal"),
        (order(&[("hours: 6, reference: H100", "hours: 6")]), "/components/0/work/reference", "add reference"),
        (order(&[("hours: 6", "duration: 1h")]), "/components/0/work/duration", "keep hours"),
        (order(&[("hours: 6, reference: H100", "")]), "/components/0/work/hours", "add hours"),
        (order(&[("hours: 6", "hours: 0")]), "/components/0/work/hours", "more than 0"),
        (order(&[("hours: 6", "hours: -6")]), "/components/0/work/hours", "more than 0"),
        (order(&[("hours: 6, reference: H100", "duration: 0s")]), "/components/0/work/duration", "use more"),
        (order(&[("    work: {hours: 6, reference: H100}\n", "")]), "/components/0/work", "add one"),
        (order(&[("work: {", "service: {serves: 1rps, port: 1}\n    work: {")]), "/components/0/service", "keep one"),
        (order(&[("serves: 10rps", "serves: 0rps")]), "/components/1/service/serves", "10rps"),
        (order(&[("port: 8000", "port: 0")]), "/components/1/service/port", "1 to 65535"),
        (order(&[("port: 8000", "port: 65536")]), "/components/1/service/port", "65535"),
        (
            order(&[
                ("name: web", "name: trainer"),
                ("colocate: [web]", "colocate: []"),
                (", to: web", ", to: trainer"),
            ]),
            "/components/1/name",
            "rename",
        ),
        (order(&[("name: sound", "name: \"so\\0und\"")]), "/name", "remove it"),
        (order(&[("name: trainer", "name: Trainer")]), "/components/0/name", "use 1 to 63"),
        (order(&[("colocate: [web]", "colocate: [trainer]")]), "/components/0/place/colocate", "remove it"),
        (order(&[("colocate: [web]", "colocate: [wbe]")]), "/components/0/place/colocate", "\"web\""),
        (order(&[("from: dataset/corpus", "from: dataset/")]), "/flows/0/from", "dataset/NAME"),
        (order(&[("from: dataset/corpus", "from: datasets/corpus")]), "/flows/0/from", "dataset/NAME"),
        (order(&[("to: trainer, volume", "to: tariner, volume")]), "/flows/0/to", "\"trainer\""),
        (order(&[("to: trainer, volume", "to: dataset/b, volume")]), "/flows/0", "name one"),
        (order(&[("to: web, demand", "to: dataset/b, demand")]), "/flows/2", "name one"),
        (order(&[("to: web, demand", "to: trainer, demand")]), "/flows/2/to", "service"),
        (order(&[("rate: 1Mbps", "volume: 1GB")]), "/flows/2/volume", "use demand or rate"),
        (order(&[("volume: 2TB", "demand: 1rps")]), "/flows/0/demand", "use rate"),
        (
            order(&[("from: trainer, to: trainer", "from: trainer, to: trainer, volume: 1GB")]),
            "/flows/1/volume",
            "use rate",
        ),
        (order(&[("rate: 10Gbps, ", "")]), "/flows/1/rate", "add it"),
        (
            order(&[("volume: 2TB", "volume: 2TB, split: true, protected: true")]),
            "/flows/0/split",
            "keep protected or split",
        ),
        (order(&[("volume: 2TB", "rate: 1Gbps, copy: true")]), "/flows/0/copy", "add volume"),
        (order(&[("max_sites: 2", "max_sites: 0")]), "/constraints/max_sites", "at least 1"),
        (
            order(&[("sites: [], not_sites: []", "sites: [a, b], not_sites: [b]")]),
            "/constraints/not_sites",
            "remove it",
        ),
        (order(&[("priority: 50", "priority: 101")]), "/terms/priority", "0 to 100"),
        (order(&[("priority: 50", "priority: 256")]), "/terms/priority", "0 to 255"),
        (order(&[("deadline: \"2026-12-01T08:00:00Z\"", "deadline: tomorrow")]), "/terms/deadline", "RFC 3339"),
        (order(&[("deadline: \"2026-12-01T08:00:00Z\", ", "")]), "/terms/late_per_hour", "add deadline"),
        (order(&[("budget: 5000 CNY", "budget: 5000")]), "/terms/budget", "4.2 CNY"),
        (order(&[("budget: 5000 CNY", "budget: -1 CNY")]), "/terms/budget", "not negative"),
        (order(&[("budget: 5000 CNY", "budget: 99999999999999 CNY")]), "/terms/budget", "use at most"),
        (order(&[("to: \"06:00\"", "to: \"22:00\"")]), "/terms/window/to", "another end"),
        (order(&[("tz: Asia/Shanghai", "tz: Mars/Olympus")]), "/terms/window/tz", "IANA"),
        (order(&[("from: \"22:00\"", "from: \"25:00\"")]), "/terms/window/from", "HH:MM"),
        (order(&[("horizon: 24h", "horizon: 0s")]), "/terms/horizon", "use more"),
        (order(&[("failover: none", "failover: {lease: 1s}")]), "/terms/failover/lease", "5s to 1h"),
        (order(&[("failover: none", "failover: {laese: 60s}")]), "/terms/failover/laese", "\"lease\""),
        (order(&[("failover: none", "failover: always")]), "/terms/failover", "none"),
        (order(&[("signal: SIGUSR1", "signal: SIGKILL")]), "/terms/checkpoint/signal", "SIGUSR1"),
        (order(&[("env: {A: b}", "env: {a-b: c}")]), "/components/0/run/env/a-b", "A-Z"),
        (order(&[("env: {A: b}", "env: {A: b, A: c}")]), "/components/0/run/env/A", "keep one"),
        (order(&[("\"train.py\"", "\"a\\0b\"")]), "/components/0/run/command/1", "remove it"),
        (
            order(&[("[\"python\", \"train.py\"]", &format!("[{}]", vec!["a"; 257].join(",")))]),
            "/components/0/run/command",
            "256",
        ),
        (order(&[("\"train.py\"", &format!("\"{}\"", "x".repeat(200_000)))]), "/components/0/run", "at most"),
        (order(&[("name: sound", "name: sound\nname: sound")]), "/name", "keep one"),
        (order(&[("class: training", "class: !x training")]), "/class", "remove it"),
        (
            order(&[("need: {cpu: 1, memory: 1GiB, accelerators: {share: 25%, memory: 10GiB}}", "need: {}")]),
            "/components/1/need",
            "add cpu",
        ),
        (order(&[("cpu: 16", &format!("cpu: {}1{}", "[".repeat(100), "]".repeat(100)))]), "", "deeper"),
        (format!("{}---\nname: x\n", order(&[])), "", "one at a time"),
        (components(0), "/components", "a list"),
        ("name: x\nclass: tuning\ncomponents: []".into(), "/components", "add one"),
        (components(65), "/components", "at most 64"),
        (String::new(), "", "empty"),
        ("[1, 2]".into(), "", "map"),
        ("just text".into(), "", "map"),
        ("x".repeat((1 << 20) + 1), "", "at most 1048576"),
    ];
    assert!(table.len() >= 40);
    for (text, pointer, word) in &table {
        let error = refused(text);
        let problem = &error.problems[0];
        let cut: String = text.chars().take(1500).collect();
        assert!(problem.reason.contains(word), "{problem}\n{cut}");
        if problem.reason.contains("deeper") {
            assert!(problem.pointer.starts_with("/components/0/need/cpu"), "{problem}");
        } else {
            assert_eq!(&problem.pointer, pointer, "{problem}\n{cut}");
        }
    }
}

#[test]
fn volumes_in_a_circle_are_refused_at_each_of_them() {
    let text = "name: x\nclass: processing\ncomponents:
  - {name: a, need: {cpu: 1}, work: {duration: 1h}}
  - {name: b, need: {cpu: 1}, work: {duration: 1h}}
flows:
  - {from: a, to: b, volume: 1GB}
  - {from: b, to: a, volume: 1GB}";
    let pointers: Vec<_> = refused(text).problems.into_iter().map(|p| p.pointer).collect();
    assert_eq!(pointers, ["/flows/0/volume", "/flows/1/volume"]);
    let rates = text.replace("volume: 1GB", "rate: 1Mbps");
    assert_eq!(Order::read(&rates).unwrap().flows.len(), 2);
}

#[test]
fn all_semantic_problems_are_told_at_once() {
    let text =
        order(&[("replicas: 2", "replicas: 0"), ("volume: 2TB", "volume: 0B"), ("priority: 50", "priority: 101")]);
    let error = refused(&text);
    assert_eq!(error.problems.len(), 3, "{error}");
    assert!(error.to_string().contains("/terms/priority: 101"), "{error}");
}

/// Shares that are no shares, as numbers and as texts; the sound order after them is read.
#[test]
fn a_share_that_is_not_a_number_passes_no_check() {
    let values = [
        "NaN",
        "nan",
        "Infinity",
        "-Infinity",
        "-0.25",
        "0",
        "1.0000001",
        "1e309",
        "1e-400",
        "0x1p-1",
        "٠.٥",
        ".nan",
        ".inf",
    ];
    for value in values {
        for share in [value.to_owned(), format!("\"{value}\""), format!("\"{value}%\"")] {
            if share == "\"1.0000001%\"" {
                continue; // finer than a thousandth, covered below
            }
            let error = refused(&order(&[("share: 25%", &format!("share: {share}"))]));
            assert_eq!(error.problems[0].pointer, "/components/1/need/accelerators/share", "{share}: {error}");
        }
    }
    assert!(refused(&order(&[("share: 25%", "share: 1.0000001%")])).to_string().contains("finer"));
    assert!(refused(&order(&[("share: 25%", "share: 100.1%")])).to_string().contains("out of range"));
    assert!(Order::read(&order(&[("share: 25%", "share: 50%")])).is_ok());
}

#[test]
fn a_body_that_says_json_is_read_as_json_alone() {
    assert!(Order::read_json("name: x").unwrap_err().to_string().contains("not valid JSON"));
    assert!(Order::read_json(r#"{"name": "x", "name": "y"}"#).unwrap_err().to_string().contains("twice"));
    assert!(Order::read_json(r#"{"name": NaN}"#).is_err());
    assert!(Order::read_json(r#"{"name": 1e309}"#).unwrap_err().to_string().contains("range"));
}
