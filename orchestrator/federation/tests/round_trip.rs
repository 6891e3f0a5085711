//! An exported view, read back, is the view that was decided on.
#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

use jiff::{SignedDuration, Timestamp};
use petgraph::visit::EdgeRef;
use proptest::prelude::*;
use rhumb_federation::{Base, FigureBook, LinkSample, Live, LiveNode, LiveSite, View, export::export};
use rhumb_model::{
    FederationFile, LinkId, ModelName, SiteName,
    fit::NodeUse,
    name::{Label, NodeName},
    quantity::{Bandwidth, Bytes, Cores, Latency, Ppm, Share, Span},
    site::{Device, Health, Node},
    state::SiteState,
};
use std::sync::Arc;

const FILE: &str = r#"
currency: CNY
rates: {USD: 7.1234567}
devices:
  H100: {memory: 80GiB, fp16: 1.0, int8: 1.0}
  A100: {memory: 80GiB, fp16: 0.42, int8: 0.32}
sites:
  - name: shanghai-1
    place: {lat: 31.23, lon: 121.47}
    jurisdiction: CN
    labels: [gov-cloud]
    prices: {H100: 28 CNY, A100: 1.23456789 USD, cpu: 0.2 CNY, memory_gib: 0.02 CNY,
             windows: [{from: "22:00", to: "08:00", tz: Asia/Shanghai, factor: 0.6}]}
    nodes:
      - {count: 4, accelerators: {model: H100, count: 8, islands: [4, 3], numa: [4, 4], pcie: [2, 2, 2, 2]}, cpu: 96, memory: 1TiB}
      - {cpu: 0.5, memory: 1GB, rack: r1}
  - {name: beijing-1, tier: edge}
transit:
  - {name: pop-wuhan, place: {lat: 30.59, lon: 114.30}, jurisdiction: CN, relay: true}
  - {name: pop-dark}
links:
  - {id: sh-wh, from: shanghai-1, to: pop-wuhan, both_ways: true, capacity: 10Gbps, latency: 6ms, jitter: 0.2ms, loss: 0.01%,
     per_gb: 0.0123456789 USD, per_mbps_hour: 0.01 CNY, provider: carrier-a, jurisdictions: [CN], srlg: [yangtze-duct]}
  - {id: wh-bj, from: pop-wuhan, to: beijing-1, both_ways: true, capacity: 1Gbps, latency: 11ms, encrypted: true}
  - {id: sh-dk, from: shanghai-1, to: pop-dark, capacity: 1Gbps, latency: 9ms}
datasets:
  - {name: corpus, size: 2TB, at: [shanghai-1]}
regions:
  - {name: wuhan-users, at: pop-wuhan, access: 2ms}
"#;

/// Read the way that `rhumb place` reads it, from text.
fn again(view: &View, at: Timestamp) -> View {
    let text = serde_json::to_string(&export(view, at)).unwrap();
    let file = FederationFile::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(file.at, Some(at));
    View::from_file(&file).unwrap()
}

fn same(a: &View, b: &View) {
    assert_eq!((a.currency, &a.rates, &a.devices), (b.currency, &b.rates, &b.devices));
    assert_eq!((&a.datasets, &a.regions), (&b.datasets, &b.regions));
    assert_eq!(a.sites.len(), b.sites.len());
    for (x, y) in a.sites.iter().zip(&b.sites) {
        assert_eq!(x.site, y.site);
        assert_eq!(x.nodes, y.nodes);
        assert_eq!(x.whole, y.whole);
        assert_eq!(x.point, y.point);
    }
    let points = |v: &View| v.graph.node_weights().cloned().collect::<Vec<_>>();
    assert_eq!(points(a), points(b));
    assert_eq!(a.links.keys().collect::<Vec<_>>(), b.links.keys().collect::<Vec<_>>());
    for (x, y) in a.graph.edge_references().zip(b.graph.edge_references()) {
        assert_eq!((x.source(), x.target()), (y.source(), y.target()));
        let (x, y) = (x.weight(), y.weight());
        assert_eq!((&x.id, x.capacity, x.free, x.latency, x.stale), (&y.id, y.capacity, y.free, y.latency, y.stale));
        assert_eq!((x.per_gb_micros, x.per_mbps_hour_micros), (y.per_gb_micros, y.per_mbps_hour_micros));
        assert_eq!((&x.jurisdictions, x.encrypted, &x.srlg), (&y.jurisdictions, y.encrypted, &y.srlg));
        assert_eq!((&x.link.provider, &x.link.reverse), (&y.link.provider, &y.link.reverse));
    }
}

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

fn figure(book: &mut FigureBook, link: &str, rtt_us: u64, age_s: i64) {
    let rtt = Latency::from_micros(rtt_us);
    let sample = LinkSample {
        link: LinkId::new(link).unwrap(),
        rtt_min: rtt,
        rtt_p50: rtt,
        rtt_p95: rtt,
        loss: Ppm::ZERO,
        jitter: Latency::ZERO,
        received_at: now() - SignedDuration::from_secs(age_s),
        length: Span::from_micros(5_000_000),
    };
    book.fold(sample).unwrap();
}

#[test]
fn a_file_becomes_a_view_in_which_all_is_free() {
    let view = View::from_file(&FederationFile::read(FILE).unwrap()).unwrap();
    let names: Vec<_> = view.sites.iter().map(|s| s.site.name.as_str()).collect();
    assert_eq!(names, ["beijing-1", "shanghai-1"]);
    let shanghai = view.site(&site("shanghai-1")).unwrap();
    assert_eq!(shanghai.nodes, shanghai.whole);
    let devices: u32 = shanghai.nodes.iter().map(|n| n.shape.free_devices() * n.count).sum();
    assert_eq!(devices, 32);
    let link = view.link(&LinkId::new("sh-wh~").unwrap()).unwrap();
    assert_eq!((link.latency.micros(), link.free, link.stale), (6_000, Bandwidth::from_mbps(10_000), false));
    assert_eq!(link.link.reverse.as_ref().unwrap().as_str(), "sh-wh");
    let (from, to) = view.ends(&link.id).unwrap();
    assert_eq!((from.as_str(), to.as_str()), ("pop-wuhan", "shanghai-1"));
    // 0.0123456789 USD at 7.1234567, in millionths, exactly
    assert_eq!(link.per_gb_micros, rhumb_model::Ratio::new(123_456_789 * 71_234_567, 100_000_000_000));
    same(&view, &again(&view, now()));
}

#[test]
fn a_live_view_uses_what_was_measured_and_says_where_nothing_was() {
    let base = Base::from_file(&FederationFile::read(FILE).unwrap()).unwrap();
    let mut book = FigureBook::new(Span::from_micros(60_000_000));
    figure(&mut book, "sh-wh", 24_000, 30);
    figure(&mut book, "sh-wh~", 24_000, 61);
    let mut live = Live::default();
    live.reserved.insert(LinkId::new("sh-wh").unwrap(), Bandwidth::from_mbps(10_000));
    live.sites.insert(site("beijing-1"), LiveSite { state: SiteState::Draining, age: None, nodes: Vec::new() });
    let view = View::assemble(7, &base, &live, &book, now());
    let link = |id: &str| view.link(&LinkId::new(id).unwrap()).unwrap();
    assert_eq!((link("sh-wh").latency.micros(), link("sh-wh").stale), (12_060, false));
    assert_eq!((link("sh-wh").free, link("sh-wh").capacity.kbps()), (Bandwidth::ZERO, 10_000_000));
    assert!(link("sh-wh~").stale && !link("sh-wh~").estimated);
    assert!(link("wh-bj").stale, "never measured");
    assert_eq!((link("sh-dk").latency.micros(), link("sh-dk").stale, link("sh-dk").estimated), (9_000, false, true));
    assert_eq!(view.site(&site("shanghai-1")).unwrap().site.state, SiteState::NeverSeen);
    assert_eq!(view.site(&site("beijing-1")).unwrap().site.state, SiteState::Draining);
    assert_eq!(view.generation, 7);
    same(&view, &again(&view, now()));
}

#[test]
fn a_link_cut_for_weeks_is_stale_and_still_exported() {
    let base = Base::from_file(&FederationFile::read(FILE).unwrap()).unwrap();
    let mut book = FigureBook::new(Span::from_micros(60_000_000));
    figure(&mut book, "sh-wh", 50_000_000, 3_000_000);
    let view = View::assemble(1, &base, &Live::default(), &book, now());
    assert!(view.link(&LinkId::new("sh-wh").unwrap()).unwrap().stale);
    same(&view, &again(&view, now()));
}

fn any_node() -> impl Strategy<Value = LiveNode> {
    let device = (
        prop::option::of(0..3_u16),
        prop::option::of(0..2_u16),
        prop::option::of(0..4_u16),
        0..12_u8,
        prop::bool::ANY,
        prop::option::of((1..=1000_u64, 1..90_u64)),
    );
    let devices = prop::collection::vec(device, 0..9);
    (devices, 1..200_000_u64, 1..=1_000_000_000_000_u64, prop::option::of(0..3_u8)).prop_map(
        |(devices, cpu, memory, rack)| {
            let mut used = NodeUse {
                cpu: Cores::from_milli(cpu / 3),
                memory: Bytes::from_bytes(memory / 7),
                ..NodeUse::default()
            };
            let mut all = Vec::new();
            for (i, (island, numa, pcie, odd, h100, taken)) in devices.into_iter().enumerate() {
                if let Some((share, gib)) = taken {
                    used.add(
                        Cores::ZERO,
                        Bytes::ZERO,
                        &[i as u32],
                        Share::from_thousandths(share),
                        Bytes::from_bytes(gib << 30),
                    );
                }
                all.push(Device {
                    index: i as u32,
                    model: ModelName::new(if h100 { "H100" } else { "A100" }).unwrap(),
                    memory: Bytes::from_bytes(if odd == 0 { 85_520_809_984 } else { 80 << 30 }),
                    island,
                    numa,
                    pcie,
                    health: if odd == 1 { Health::Unknown } else { Health::Ok },
                    mig: None,
                });
            }
            let node = Node {
                name: NodeName::new("n000").unwrap(),
                devices: all,
                cpu: Cores::from_milli(cpu),
                memory: Bytes::from_bytes(memory),
                rack: rack.map(|r| Label::new(&format!("r{r}")).unwrap()),
                nvl_domain: None,
            };
            LiveNode { node: Arc::new(node), used }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_export_reads_back_as_the_same_view(
        nodes in prop::collection::vec(any_node(), 0..6),
        draining in prop::bool::ANY,
        reserved in prop::collection::vec((0..4_usize, 0..12_000_000_u64), 0..4),
        figures in prop::collection::vec((0..4_usize, 0..60_000_000_u64, 0..200_i64), 0..6),
    ) {
        const LINKS: [&str; 4] = ["sh-wh", "sh-wh~", "wh-bj", "sh-dk"];
        let base = Base::from_file(&FederationFile::read(FILE).unwrap()).unwrap();
        let mut live = Live::default();
        let state = if draining { SiteState::Draining } else { SiteState::Ready };
        live.sites.insert(site("shanghai-1"), LiveSite { state, age: None, nodes });
        for (link, kbps) in reserved {
            live.reserved.insert(LinkId::new(LINKS[link]).unwrap(), Bandwidth::from_kbps(kbps));
        }
        let mut book = FigureBook::new(Span::from_micros(60_000_000));
        for (link, rtt, age) in figures {
            figure(&mut book, LINKS[link], rtt, age);
        }
        let view = View::assemble(3, &base, &live, &book, now());
        let read = again(&view, now());
        same(&view, &read);
        same(&read, &again(&read, now()));
    }
}

#[test]
fn a_site_whose_report_is_too_old_takes_no_work_live_and_when_read_back() {
    let base = Base::from_file(&FederationFile::read(FILE).unwrap()).unwrap();
    let stale_after = Span::from_micros(30_000_000);
    let of = |seconds: u64, state: SiteState| {
        let age = Some(Span::from_micros(seconds * 1_000_000));
        let mut live = Live::default();
        live.sites.insert(site("beijing-1"), LiveSite { state, age, nodes: Vec::new() });
        let view = View::assemble(1, &base, &live, &FigureBook::new(stale_after), now());
        let read = again(&view, now());
        for v in [&view, &read] {
            assert_eq!(v.site(&site("beijing-1")).unwrap().age, age);
        }
        assert_eq!(
            read.site(&site("beijing-1")).unwrap().site.state,
            view.site(&site("beijing-1")).unwrap().site.state
        );
        view.site(&site("beijing-1")).unwrap().site.state
    };
    assert_eq!(of(30, SiteState::Ready), SiteState::Ready);
    assert_eq!(of(31, SiteState::Ready), SiteState::Lost);
    assert_eq!(of(31, SiteState::Draining), SiteState::Lost);
    // a file alone trusts a minute
    let file = |age: &str| {
        let text =
            FILE.replace("{name: beijing-1, tier: edge}", &format!("{{name: beijing-1, tier: edge, age: {age}}}"));
        View::from_file(&FederationFile::read(&text).unwrap()).unwrap()
    };
    assert_eq!(file("60s").site(&site("beijing-1")).unwrap().site.state, SiteState::Ready);
    assert_eq!(file("61s").site(&site("beijing-1")).unwrap().site.state, SiteState::Lost);
}
