//! The search against an enumeration of all loop-free paths, which knows nothing of it.

use super::{Ask, Limits, Tree, Wanted, alternatives, routes};
use crate::network::{Direction, Network, Price};
use proptest::prelude::*;
use rhumb_federation::View;
use rhumb_model::FederationFile;
use serde_json::{Value, json};
use std::rc::Rc;

/// (from, to, free in Mbps, latency in ms, price)
type Link = (usize, usize, u64, u64, u64);

const POINTS: usize = 7;

fn view(links: &[Link]) -> View {
    let sites: Vec<Value> = (0..POINTS).map(|i| json!({"name": format!("p{i}")})).collect();
    let links: Vec<Value> = links
        .iter()
        .enumerate()
        .map(|(i, (from, to, free, latency, price))| {
            json!({"id": format!("l{i:02}"), "from": format!("p{from}"), "to": format!("p{to}"),
                "capacity": format!("{free}Mbps"), "latency": format!("{latency}ms"), "per_mbps_hour": format!("{price} CNY")})
        })
        .collect();
    let file = json!({"currency": "CNY", "sites": sites, "links": links});
    View::from_file(&FederationFile::read(&file.to_string()).unwrap()).unwrap()
}

/// All loop-free paths as (price, links, link numbers, latency), by depth-first enumeration.
fn all(links: &[Link], from: usize, to: &[usize], mbps: u64, bound: u64) -> Vec<(u64, usize, Vec<usize>, u64)> {
    fn walk(
        links: &[Link],
        to: &[usize],
        mbps: u64,
        seen: &mut Vec<usize>,
        path: &mut Vec<usize>,
        found: &mut Vec<Vec<usize>>,
    ) {
        let at = seen[seen.len() - 1];
        if to.contains(&at) {
            found.push(path.clone());
            return;
        }
        for (i, l) in links.iter().enumerate() {
            if l.0 == at && l.2 >= mbps && !seen.contains(&l.1) {
                seen.push(l.1);
                path.push(i);
                walk(links, to, mbps, seen, path, found);
                path.pop();
                seen.pop();
            }
        }
    }
    let mut found = Vec::new();
    walk(links, to, mbps, &mut vec![from], &mut Vec::new(), &mut found);
    let mut list: Vec<_> = found
        .into_iter()
        .map(|p| {
            let price = p.iter().map(|i| links[*i].4).sum();
            let latency = p.iter().map(|i| links[*i].3).sum();
            (price, p.len(), p, latency)
        })
        .filter(|(.., latency)| *latency <= bound)
        .collect();
    list.sort();
    list
}

fn link() -> impl Strategy<Value = Link> {
    (0..POINTS, 0..POINTS, 1_u64..4, 1_u64..9, 0_u64..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn paths_are_those_that_enumeration_finds(
        links in prop::collection::vec(link(), 1..16),
        mbps in 1_u64..4,
        bound in prop::option::of(3_u64..30),
        second in 1..POINTS,
    ) {
        let links: Vec<Link> = links.into_iter().filter(|l| l.0 != l.1).collect();
        let view = view(&links);
        let net = Network::new(&view);
        let allowed = vec![true; links.len()];
        let point = |i: usize| view.points[format!("p{i}").as_str()].index() as u32;
        let roots: Rc<[u32]> = [point(POINTS - 1), point(second)].into();
        // edges are numbered by link id, and so are the links here
        let number = |edges: &[u32]| edges.iter().map(|e| *e as usize).collect::<Vec<_>>();
        let expected = all(&links, 0, &[POINTS - 1, second], mbps, bound.unwrap_or(u64::MAX));
        let ask = Ask { allowed: &allowed, kbps: mbps * 1000, price: Price::Rate, walk: Direction::Along, labels: None };
        let tree = Tree::new(&ask, &roots);
        let limit = bound.map(|b| b * 1000);

        let (first, _) = routes(&net, &ask, &tree, point(0), limit, Wanted::Cheapest);
        prop_assert_eq!(first.first().map(|r| number(&r.edges)), expected.first().map(|e| e.2.clone()));

        let mut front = Vec::new();
        let mut quickest = u64::MAX;
        for (price, _, path, latency) in &expected {
            if *latency < quickest {
                quickest = *latency;
                front.push((*price, path.clone(), *latency));
            }
        }
        let found: Vec<_> = routes(&net, &ask, &tree, point(0), limit, Wanted::Front(Limits::default()))
            .0
            .into_iter()
            .map(|r| ((r.cost / 1_000_000) as u64, number(&r.edges), r.latency / 1000))
            .collect();
        prop_assert_eq!(found, front);

        let (every, complete) = alternatives(&net, &ask, &tree, point(0), limit, (10_000, 1_000_000, None));
        let mut every: Vec<_> = every.into_iter().map(|r| number(&r.edges)).collect();
        let mut wanted: Vec<_> = expected.into_iter().map(|e| e.2).collect();
        prop_assert!(complete);
        every.sort();
        wanted.sort();
        prop_assert_eq!(every, wanted);
    }
}

#[test]
fn a_walk_against_the_links_gives_the_same_path_in_its_own_order() {
    let links = [(0, 1, 1, 1, 1), (1, 2, 1, 1, 1), (0, 2, 1, 1, 3), (0, 2, 1, 1, 2)];
    let view = view(&links);
    let net = Network::new(&view);
    let allowed = vec![true; links.len()];
    let point = |i: usize| view.points[format!("p{i}").as_str()].index() as u32;
    let ask = Ask { allowed: &allowed, kbps: 1, price: Price::Rate, walk: Direction::Against, labels: None };
    let roots: Rc<[u32]> = [point(0)].into();
    let tree = Tree::new(&ask, &roots);
    let (found, _) = routes(&net, &ask, &tree, point(2), None, Wanted::Cheapest);
    // the parallel link costs as much as the two, and is one
    assert_eq!(found[0].edges, [3]);
    assert_eq!(found[0].root, point(0));
}

#[test]
fn what_cannot_be_summed_is_no_path_and_never_ranked() {
    let text = |price: &str| {
        format!(
            "{{currency: CNY, sites: [{{name: a}}, {{name: b}}, {{name: c}}], links: [{{id: ab, from: a, to: b, capacity: 1Gbps, latency: 1ms, per_gb: {price}}}]}}"
        )
    };
    for bad in ["-4 CNY", "NaN CNY", "1e308 CNY", "inf CNY"] {
        assert!(FederationFile::read(&text(bad)).is_err(), "{bad}");
    }
    let dear = View::from_file(&FederationFile::read(&text("100000000000 CNY")).unwrap()).unwrap();
    let net = Network::new(&dear);
    assert!(net.edges.is_empty());
    let free = View::from_file(&FederationFile::read(&text("0 CNY")).unwrap()).unwrap();
    let net = Network::new(&free);
    let ask = Ask { allowed: &[true], kbps: 1, price: Price::Volume, walk: Direction::Along, labels: None };
    let at = |n: &str| free.points[n].index() as u32;
    let to = |n: &str| -> Rc<[u32]> { [at(n)].into() };
    let found = |n: &str| routes(&net, &ask, &Tree::new(&ask, &to(n)), at("a"), None, Wanted::Cheapest).0.len();
    assert_eq!((found("b"), found("c")), (1, 0));
}
