//! What can be wrong in a federation file, and what the answer says.
#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

use rhumb_model::{
    FederationFile, ModelName, Ratio,
    federation_file::NodeEntry,
    fit::{self, FreeNodes},
    money::Amount,
    name::LinkId,
    order::Need,
};

const SOUND: &str = r#"currency: CNY
rates: {USD: 7.1}
devices:
  H100: {memory: 80GiB, fp16: 1.0, int8: 1.0}
  A100: {memory: 80GiB, fp16: 0.42, int8: 0.32}
sites:
  - name: shanghai-1
    tier: core
    place: {lat: 31.23, lon: 121.47}
    jurisdiction: CN
    labels: [gov-cloud]
    prices: {H100: 28 CNY, A100: 12 CNY, cpu: 0.2 CNY, memory_gib: 0.02 CNY,
             windows: [{from: "22:00", to: "08:00", tz: Asia/Shanghai, factor: 0.6}]}
    nodes:
      - {count: 2, accelerators: {model: H100, count: 8, islands: [4, 3]}, cpu: 96, memory: 1TiB}
      - {accelerators: [{model: H100, count: 2, islands: [2]}, {model: A100, count: 2, islands: [2], numa: [2], pcie: [1, 1]}]}
transit:
  - {name: pop-wuhan, place: {lat: 30.59, lon: 114.30}, jurisdiction: CN, relay: true}
links:
  - {id: sh-wh, from: shanghai-1, to: pop-wuhan, both_ways: true, capacity: 10Gbps, latency: 6ms, jitter: 0.2ms, loss: 0.01%,
     per_gb: 0.02 CNY, per_mbps_hour: 0.01 CNY, provider: carrier-a, jurisdictions: [CN], encrypted: false, srlg: [yangtze-duct]}
datasets:
  - {name: corpus, size: 2TB, at: [shanghai-1]}
regions:
  - {name: wuhan-users, at: pop-wuhan, access: 2ms}
"#;

fn changed(old: &str, new: &str) -> String {
    assert!(SOUND.contains(old), "{old}");
    SOUND.replacen(old, new, 1)
}

#[test]
fn each_mistake_is_named_with_its_place_and_remedy() {
    let table = [
        (("currency: CNY\n", ""), "/currency", "add it"),
        (("currency: CNY", "currency: yuan"), "/currency", "capital"),
        (("USD: 7.1", "USD: 0"), "/rates/USD", "more than 0"),
        (("USD: 7.1", "usd: 7.1"), "/rates/usd", "capital"),
        (("USD: 7.1", "CNY: 1"), "/rates/CNY", "remove it"),
        (("int8: 1.0", "int9: 1.0"), "/devices/H100/int9", "\"int8\""),
        (("memory: 80GiB, fp16: 1.0", "fp16: 1.0"), "/devices/H100/memory", "missing"),
        (("memory: 80GiB, fp16: 1.0", "memory: 80, fp16: 1.0"), "/devices/H100/memory", "40GiB"),
        (("memory: 80GiB, fp16: 1.0", "memory: 0B, fp16: 1.0"), "/devices/H100/memory", "80GiB"),
        (("fp16: 1.0", "fp16: -1"), "/devices/H100/fp16", "more than 0"),
        (("fp16: 1.0", "fp16: .nan"), "/devices/H100/fp16", "plain decimal"),
        (("tier: core", "teir: core"), "/sites/0/teir", "\"tier\""),
        (("tier: core", "tier: cores"), "/sites/0/tier", "\"core\""),
        (("lat: 31.23", "lat: 91"), "/sites/0/place/lat", "-90 to 90"),
        (("lon: 114.30", "lon: -181"), "/transit/0/place/lon", "-180 to 180"),
        (("H100: 28 CNY", "H100: 28"), "/sites/0/prices/H100", "4.2 CNY"),
        (("H100: 28 CNY", "H200: 28 CNY"), "/sites/0/prices/H200", "\"H100\""),
        (("H100: 28 CNY", "H100: 28 EUR"), "/sites/0/prices/H100", "add it to rates"),
        (("per_gb: 0.02 CNY", "per_gb: 0.02 EUR"), "/links/0/per_gb", "add it to rates"),
        (("cpu: 0.2 CNY", "cpu: -0.2 CNY"), "/sites/0/prices/cpu", "not negative"),
        (("to: \"08:00\"", "to: \"22:00\""), "/sites/0/prices/windows/0/to", "another end"),
        (("factor: 0.6", "factor: -0.6"), "/sites/0/prices/windows/0/factor", "0 to 1000"),
        (("factor: 0.6", "fcator: 0.6"), "/sites/0/prices/windows/0/fcator", "\"factor\""),
        (("count: 2, accelerators", "count: 0, accelerators"), "/sites/0/nodes/0/count", "at least 1"),
        (("{model: H100, count: 8", "{model: H100, count: 0"), "/sites/0/nodes/0/accelerators/count", "at least 1"),
        (("{model: H100, count: 8", "{model: H100, cuont: 8"), "/sites/0/nodes/0/accelerators/cuont", "\"count\""),
        (
            ("{model: H100, count: 8", "{model: B200, count: 8"),
            "/sites/0/nodes/0/accelerators/model",
            "add it to devices",
        ),
        (("islands: [4, 3]", "islands: [4, 5]"), "/sites/0/nodes/0/accelerators/islands", "8 devices"),
        (("islands: [4, 3]", "islands: [4, 0]"), "/sites/0/nodes/0/accelerators/islands", "remove it"),
        (("pcie: [1, 1]", "pcie: [2, 1]"), "/sites/0/nodes/1/accelerators/1/pcie", "2 devices"),
        (("numa: [2]", "nmua: [2]"), "/sites/0/nodes/1/accelerators/1/nmua", "\"numa\""),
        (("name: pop-wuhan", "name: shanghai-1"), "/transit/0/name", "rename"),
        (("from: shanghai-1", "from: shanghai-2"), "/links/0/from", "\"shanghai-1\""),
        (("to: pop-wuhan", "to: shanghai-1"), "/links/0/to", "another end"),
        (("capacity: 10Gbps", "capacity: 0Gbps"), "/links/0/capacity", "use more"),
        (("capacity: 10Gbps", "capacity: 10GBps"), "/links/0/capacity", "10Gbps"),
        (("latency: 6ms, ", ""), "/links/0/latency", "add it"),
        (("latency: 6ms", "latency: 61s"), "/links/0/latency", "at most 60s"),
        (("loss: 0.01%", "loss: 101%"), "/links/0/loss", "out of range"),
        (("at: [shanghai-1]", "at: [pop-wuhan]"), "/datasets/0/at/0", "no site"),
        (("size: 2TB", "size: 0B"), "/datasets/0/size", "use more"),
        (("at: pop-wuhan, access", "at: nowhere, access"), "/regions/0/at", "neither"),
        (("currency: CNY", "currency: CNY\nsite: []"), "/site", "\"sites\""),
    ];
    FederationFile::read(SOUND).unwrap();
    for ((old, new), pointer, word) in table {
        let error = FederationFile::read(&changed(old, new)).map(|_| format!("{old} -> {new}")).unwrap_err();
        assert_eq!(error.problems[0].pointer, pointer, "{old} -> {new}: {error}");
        assert!(error.problems[0].reason.contains(word), "{old} -> {new}: {error}");
    }
}

/// F55: a topology beyond the limits is refused before anything is computed on it, with what is too many and the remedy.
#[test]
fn a_topology_that_is_too_large_is_refused_by_its_size() {
    let sites: Vec<_> = (0..10_001).map(|n| format!("  - {{name: s{n}, prices: {{}}}}\n")).collect();
    let text = format!("currency: CNY\ndevices: {{}}\nsites:\n{}", sites.concat());
    let error = FederationFile::read(&text).unwrap_err();
    let said = error.problems.iter().find(|p| p.pointer == "/sites").map(|p| p.reason.as_str());
    assert_eq!(said, Some("10001 entries are too many: use at most 10000"), "{error}");
    let error = FederationFile::read(&" ".repeat(rhumb_model::document::MAX_LARGE_BYTES + 1)).unwrap_err();
    assert!(error.to_string().contains("67108864"), "{error}");
}

#[test]
fn the_id_of_a_reverse_half_is_taken() {
    let twice = changed(
        "links:\n",
        "links:\n  - {id: sh-wh~, from: shanghai-1, to: pop-wuhan, capacity: 1Gbps, latency: 1ms}\n",
    );
    let error = FederationFile::read(&twice).unwrap_err();
    assert_eq!(error.problems[0].pointer, "/links/1/id");
    assert!(error.problems[0].reason.contains("sh-wh~"), "{error}");
}

#[test]
fn a_link_declared_both_ways_is_two_links_that_know_each_other() {
    let links = FederationFile::read(SOUND).unwrap().directed_links();
    let of = |id: &str| links.iter().find(|l| l.id.as_str() == id).unwrap();
    let (forth, back) = (of("sh-wh"), of("sh-wh~"));
    assert_eq!(links.len(), 2);
    assert_eq!((&forth.from, &forth.to), (&back.to, &back.from));
    assert_eq!(forth.reverse.as_ref().map(LinkId::as_str), Some("sh-wh~"));
    assert_eq!(back.reverse.as_ref().map(LinkId::as_str), Some("sh-wh"));
    assert_eq!((forth.latency, forth.capacity, forth.per_gb), (back.latency, back.capacity, back.per_gb));
}

#[test]
fn nodes_expand_to_devices_in_their_islands() {
    let file = FederationFile::read(SOUND).unwrap();
    let nodes = file.sites[0].expand(&file.devices);
    let names: Vec<_> = nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["n000", "n001", "n002"]);
    let islands: Vec<_> = nodes[1].devices.iter().map(|d| (d.index, d.island)).collect();
    let (a, b) = (Some(0), Some(1));
    assert_eq!(islands, [(0, a), (1, a), (2, a), (3, a), (4, b), (5, b), (6, b), (7, None)]);
    // islands of different models are different islands
    let mixed: Vec<_> = nodes[2].devices.iter().map(|d| (d.model.as_str(), d.island, d.pcie)).collect();
    assert_eq!(mixed, [("H100", a, None), ("H100", a, None), ("A100", b, Some(0)), ("A100", b, Some(1))]);
    let free = file.sites[0].free(&file.devices);
    assert_eq!(free.iter().map(|n| n.count).collect::<Vec<_>>().iter().sum::<u32>(), 3);
    assert_eq!(free, file.sites[0].whole(&file.devices));
}

#[test]
fn amounts_convert_to_the_files_currency() {
    let file = FederationFile::read(SOUND).unwrap();
    let micros = |text: &str| file.micros(text.parse::<Amount>().unwrap());
    assert_eq!(micros("0.5 USD"), Ok(Ratio::from_integer(3_550_000)));
    assert!(micros("1 EUR").is_err());
}

/// Shapes of the first site's nodes, and the file written again from them.
fn shapes(accelerators: &str) -> Vec<FreeNodes> {
    let text =
        changed("accelerators: {model: H100, count: 8, islands: [4, 3]}", &format!("accelerators: {accelerators}"));
    let file = FederationFile::read(&text).unwrap();
    let nodes = file.sites[0].free(&file.devices);
    for shape in &nodes {
        let again = NodeEntry::of_shape(shape, &file.devices);
        let read: NodeEntry = serde_json::from_value(serde_json::to_value(&again).unwrap()).unwrap();
        assert_eq!(read.shape(&file.devices), shape.shape.clone().settled());
    }
    nodes
}

#[test]
fn devices_in_slices_read_as_what_they_can_give() {
    let need = |profile: &str, count: u32| -> Need {
        serde_yaml_ng::from_str(&format!("accelerators: {{mig: {profile}, count: {count}, models: [H100]}}")).unwrap()
    };
    let h100 = ModelName::new("H100").unwrap();
    let most = |nodes: &[FreeNodes], profile: &str| fit::most(&need(profile, 1), Some(&h100), nodes);
    // two nodes, each with one device cut into two halves, of which one is gone already, and seven whole devices
    let cut = shapes("{model: H100, count: 8, islands: [8], mig: {3g.40gb: 2}}");
    assert_eq!((most(&cut, "3g.40gb"), most(&cut, "1g.10gb"), most(&cut, "4g.40gb")), (4, 0, 0));
    assert_eq!(cut.iter().map(|n| n.shape.free_devices()).max(), Some(7));
    let any = shapes("{model: H100, count: 1, mig: any}");
    assert_eq!((most(&any, "3g.40gb"), most(&any, "1g.10gb"), most(&any, "2g.20gb")), (4, 14, 6));
    let mut left = any.iter().find(|n| n.shape.free_devices() == 1).unwrap().shape.clone();
    assert!(fit::take(&need("2g.20gb", 2), Some(&h100), &mut left).is_some());
    // three halves of two slices leave room for the third and one more, not for a half
    assert_eq!(fit::replicas_on(&need("3g.40gb", 1), Some(&h100), &left), 1);
    assert_eq!(fit::replicas_on(&need("1g.10gb", 1), Some(&h100), &left), 3);
    let partly = shapes("{model: H100, count: 0, mig: any, slices: [{taken: [1, 5]}], at: {}}");
    assert_eq!((most(&partly, "3g.40gb"), most(&partly, "2g.20gb")), (0, 2));
    shapes("{model: H100, count: 2, mig: any, slices: [{taken: [6], media: true}], busy: 1, at: {island: 3}}");
}

#[test]
fn slices_that_stand_nowhere_are_a_mistake() {
    let of = |mig: &str| {
        let text = changed("count: 8, islands: [4, 3]", &format!("count: 2, mig: {mig}"));
        FederationFile::read(&text).unwrap_err().to_string()
    };
    assert!(
        of("{3g.40gb: 5}").contains("no arrangement of these slices stands on 2 of 80GiB"),
        "{}",
        of("{3g.40gb: 5}")
    );
    assert!(of("{3g.20gb: 1}").contains("no arrangement"));
    assert!(of("{half: 1}").contains("3g.40gb"), "{}", of("{half: 1}"));
    assert!(of("all").contains("any, or slices by profile"), "{}", of("all"));
    let text = changed("count: 8, islands: [4, 3]", "count: 1, slices: [{taken: [8]}]");
    assert!(FederationFile::read(&text).unwrap_err().to_string().contains("no such memory slice"));
}
