//! Documents with a mistake are refused with the field named, and leave nothing behind.

use system_tests::{Demo, remains::items};

const SOUND: &str = "\
name: sound
class: inference
components:
  - name: worker
    replicas: 2
    need:
      accelerators: {count: 1, models: [L4], memory: 8GiB}
      cpu: 2
      memory: 4GiB
    work: {duration: 5s}
    run: {command: [/bin/true]}
  - name: web
    need: {cpu: 1, memory: 1GiB}
    service: {serves: 10rps, port: 8000}
flows:
  - {from: dataset/camera-footage, to: worker, volume: 1MB}
  - {from: region/tokyo-users, to: web, demand: 10rps, rate: 1Mbps, max_latency: 90ms}
  - {from: worker, to: web, rate: 1Mbps}
constraints: {jurisdictions: [FR], max_sites: 2}
terms: {budget: 5 CNY, priority: 50, deadline: \"2046-12-01T08:00:00Z\"}
";

/// What is replaced, by what, and the field that the answer must name.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("flows:", "flwos:", "/flwos"),
    ("count: 1,", "cuont: 1,", "/components/0/need/accelerators/cuont"),
    ("name: sound", "name: sound\ntenant_id: other", "/tenant_id"),
    ("name: sound", "name: sound\nstate: completed", "/state"),
    ("class: inference", "class: interference", "/class"),
    ("class: inference\n", "", "/class"),
    ("memory: 4GiB", "memory: 4", "/components/0/need/memory"),
    ("duration: 5s", "duration: 5", "/components/0/work/duration"),
    ("duration: 5s", "duration: -5s", "/components/0/work/duration"),
    ("duration: 5s", "duration: 1e309s", "/components/0/work/duration"),
    ("duration: 5s", "hours: .nan, reference: H100", "/components/0/work/hours"),
    ("duration: 5s", "hours: 1e309, reference: H100", "/components/0/work/hours"),
    ("volume: 1MB", "volume: 1", "/flows/0/volume"),
    ("volume: 1MB", "volume: 1Mb", "/flows/0/volume"),
    ("volume: 1MB", "volume: -1MB", "/flows/0/volume"),
    ("rate: 1Mbps, max", "rate: 1MB, max", "/flows/1/rate"),
    ("rate: 1Mbps, max", "rate: NaNMbps, max", "/flows/1/rate"),
    ("max_latency: 90ms", "max_latency: 90", "/flows/1/max_latency"),
    ("demand: 10rps", "demand: 10", "/flows/1/demand"),
    ("replicas: 2", "replicas: 0", "/components/0/replicas"),
    ("replicas: 2", "replicas: -2", "/components/0/replicas"),
    ("replicas: 2", "replicas: 1000000000", "/components/0/replicas"),
    ("replicas: 2", "replicas: 99999999999999999999999999", "/components/0/replicas"),
    ("replicas: 2", "replicas: {min: 4, max: 1}", "/components/0/replicas"),
    ("count: 1,", "count: 4294967297,", "/components/0/need/accelerators/count"),
    ("cpu: 2", "cpu: -2", "/components/0/need/cpu"),
    ("cpu: 2", "cpu: .inf", "/components/0/need/cpu"),
    ("dataset/camera-footage", "dataset/camera-fotage", "/flows/0/from"),
    ("region/tokyo-users", "region/atlantis", "/flows/1/from"),
    ("to: web, demand", "to: wbe, demand", "/flows/1/to"),
    ("to: web, rate", "to: web, volume", "/flows/2/volume"),
    ("{from: worker, to: web, rate: 1Mbps}", "{from: worker, to: worker}", "/flows/2"),
    ("name: sound", "name: \"so\\0und\"", "/name"),
    ("name: sound", "name: \"../sound\"", "/name"),
    ("name: web", "name: worker", "/components/1/name"),
    ("budget: 5 CNY", "budget: 5", "/terms/budget"),
    ("budget: 5 CNY", "budget: 5 XYZ", "/terms/budget"),
    ("budget: 5 CNY", "budget: -5 CNY", "/terms/budget"),
    ("2046-12-01T08:00:00Z", "tomorrow", "/terms/deadline"),
    ("priority: 50", "priority: 101", "/terms/priority"),
    ("jurisdictions: [FR]", "jurisdictions: [FR], sites: [atlantis]", "/constraints/sites"),
    ("models: [L4]", "models: [Z80]", "/components/0/need/accelerators/models"),
    ("command: [/bin/true]", "command: [\"/bin/true\", \"a\\0b\"]", "/components/0/run/command/1"),
];

#[test]
fn a_mistake_in_a_document_is_refused_and_its_field_named() {
    let demo = Demo::start();
    let cli = &demo.cli;
    let mut missed = Vec::new();
    for (old, new, field) in MISTAKES {
        assert!(SOUND.contains(old), "{old} is not in the sound order");
        let file = cli.document("mistaken.yaml", &SOUND.replacen(old, new, 1));
        let answer = cli.run(&["order", "create", "-f", &file]);
        if !matches!(answer.code, 1 | 2) || !answer.stderr.contains(field) {
            missed.push(format!("{new}: exit {}, {}{}", answer.code, answer.stderr, answer.stdout));
        }
    }
    for (text, what) in
        [("", "nothing"), ("- - -\n: :", "no mapping"), ("[[[[[[[", "not closed"), ("name: a\nname: b\n", "twice")]
    {
        let file = cli.document("mistaken.yaml", text);
        let answer = cli.run(&["quote", "-f", &file]);
        if !matches!(answer.code, 1 | 2) || answer.stderr.trim().is_empty() {
            missed.push(format!("{what}: exit {}, {}{}", answer.code, answer.stderr, answer.stdout));
        }
    }
    assert!(
        missed.is_empty(),
        "{} of {} mistakes were not named:\n{}",
        missed.len(),
        MISTAKES.len() + 4,
        missed.join("\n")
    );
    let orders = cli.ok(&["order", "list", "--all"]);
    assert!(items(&orders).is_empty(), "what is refused is not kept: {orders}");
    let sound = cli.document("sound.yaml", SOUND);
    let quoted = cli.run(&["quote", "-f", &sound, "--dry-run"]);
    assert!(quoted.json["outcome"].is_string(), "the document without a mistake is read: {}", quoted.stderr);
    demo.said_no_errors();
}
