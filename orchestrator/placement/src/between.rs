//! The path that placement would use between two points, by itself.

use crate::{
    network::{Direction, Network, Price},
    path::{self, Ask, Tree, Wanted},
};
use rhumb_federation::View;
use rhumb_model::{
    LinkId, PointName, Reason, ReasonKind,
    quantity::{Bandwidth, Latency},
    ratio::{Ratio, whole_micros},
};

/// The cheapest path under the bounds asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Between {
    /// In order; empty where both ends are the same point.
    pub links: Vec<LinkId>,
    /// One way.
    pub latency: Latency,
    /// What may still be reserved on the narrowest link; zero for the same point.
    pub free: Bandwidth,
    /// Micro-units for the volume asked.
    pub transfer_micros: i64,
    /// Micro-units for the rate asked, held for one hour.
    pub path_micros_per_hour: i64,
}

/// `rate` must be free on every link; `bound` is of the one-way delay; with a volume (10^9 bytes) the price of moving it
/// decides, otherwise that of holding the rate. An unknown point has no path.
pub fn path_between(
    view: &View,
    from: &PointName,
    to: &PointName,
    rate: Bandwidth,
    bound: Option<Latency>,
    gigabytes: u64,
) -> Result<Between, Reason> {
    let reason =
        |reason, needed: String, free: String| Reason { reason, component: None, flow: None, site: None, needed, free };
    let ends = view.points.get(from).zip(view.points.get(to));
    let Some((start, root)) = ends else {
        return Err(reason(ReasonKind::NoPath, format!("{from} to {to}"), "no such point".into()));
    };
    let net = Network::new(view);
    let fresh: Vec<bool> = net.edges.iter().map(|e| !e.stale).collect();
    let price = if gigabytes > 0 { Price::Volume } else { Price::Rate };
    let roots = [root.index() as u32];
    let search = |allowed: &[bool], kbps: u64, bound: Option<Latency>| {
        let ask = Ask { allowed, kbps, price, walk: Direction::Along, labels: None };
        let tree = Tree::new(&ask, &roots);
        let (best, _) =
            path::routes(&net, &ask, &tree, start.index() as u32, bound.map(Latency::micros), Wanted::Cheapest);
        (best.into_iter().next(), tree.quickest(&net, &ask, start.index() as u32))
    };
    let Some(route) = search(&fresh, rate.kbps(), bound).0 else {
        // the first of the bounds that, given up, lets a path through is the one that stands in the way
        let (any, quickest) = search(&fresh, rate.kbps(), None);
        if any.is_some() {
            let free = format!("{} at the least", Latency::from_micros(quickest.unwrap_or(0)));
            return Err(reason(ReasonKind::Latency, bound.map_or(String::new(), |b| b.to_string()), free));
        }
        if search(&fresh, 0, None).0.is_some() {
            return Err(reason(
                ReasonKind::Bandwidth,
                rate.to_string(),
                format!("{} at the most", widest(view, from, to)),
            ));
        }
        if search(&vec![true; net.edges.len()], 0, None).0.is_some() {
            return Err(reason(ReasonKind::Stale, "fresh figures".into(), "only links with figures too old".into()));
        }
        return Err(reason(ReasonKind::NoPath, format!("{from} to {to}"), "not connected".into()));
    };
    let links = route
        .edges
        .iter()
        .filter_map(|e| view.graph.raw_edges().get(net.edges[*e as usize].index as usize))
        .map(|e| &e.weight);
    let zero = Ratio::from_integer(0);
    let per_gb = links.clone().fold(zero, |sum, l| sum + l.per_gb_micros);
    let per_mbps_hour = links.clone().fold(zero, |sum, l| sum + l.per_mbps_hour_micros);
    Ok(Between {
        links: links.clone().map(|l| l.id.clone()).collect(),
        latency: Latency::from_micros(route.latency),
        free: links.map(|l| l.free).min().unwrap_or(Bandwidth::ZERO),
        transfer_micros: whole_micros(per_gb * Ratio::from_integer(i128::from(gigabytes))),
        path_micros_per_hour: whole_micros(per_mbps_hour * Ratio::new(i128::from(rate.kbps()), 1_000)),
    })
}

/// The most that one path could carry: the widest-path value, by halving over the distinct free capacities.
fn widest(view: &View, from: &PointName, to: &PointName) -> Bandwidth {
    let mut steps: Vec<Bandwidth> = view.graph.edge_weights().filter(|l| !l.stale).map(|l| l.free).collect();
    steps.sort_unstable();
    steps.dedup();
    let reach = |rate: Bandwidth| path_exists(view, from, to, rate);
    let carried = steps.partition_point(|rate| reach(*rate));
    carried.checked_sub(1).map_or(Bandwidth::ZERO, |i| steps[i])
}

fn path_exists(view: &View, from: &PointName, to: &PointName, rate: Bandwidth) -> bool {
    let Some((from, to)) = view.points.get(from).zip(view.points.get(to)) else { return false };
    let wide = petgraph::visit::EdgeFiltered::from_fn(&view.graph, |e| !e.weight().stale && e.weight().free >= rate);
    petgraph::algo::has_path_connecting(&wide, *from, *to, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::FederationFile;

    fn view() -> View {
        let file = FederationFile::read(
            "currency: CNY
sites: [{name: a}, {name: b}]
transit: [{name: t}]
links:
  - {id: fast, from: a, to: b, capacity: 10Mbps, latency: 5ms, per_gb: 9 CNY}
  - {id: at, from: a, to: t, capacity: 100Mbps, latency: 10ms, per_gb: 1 CNY}
  - {id: tb, from: t, to: b, capacity: 50Mbps, latency: 10ms, per_gb: 1 CNY, per_mbps_hour: 0.5 CNY}
",
        )
        .unwrap();
        View::from_file(&file).unwrap()
    }

    fn ask(mbps: u64, bound_ms: Option<u64>, gb: u64) -> Result<Between, Reason> {
        let point = |n: &str| PointName::new(n).unwrap();
        let bound = bound_ms.map(|ms| Latency::from_micros(ms * 1_000));
        path_between(&view(), &point("a"), &point("b"), Bandwidth::from_mbps(mbps), bound, gb)
    }

    #[test]
    fn a_volume_takes_the_cheaper_path_and_a_bound_the_quicker() {
        let cheap = ask(1, None, 3).unwrap();
        assert_eq!(cheap.links.iter().map(LinkId::as_str).collect::<Vec<_>>(), ["at", "tb"]);
        assert_eq!((cheap.latency.micros(), cheap.transfer_micros), (20_000, 6_000_000));
        assert_eq!(cheap.free, Bandwidth::from_mbps(50));
        let quick = ask(1, Some(8), 3).unwrap();
        assert_eq!(quick.links.iter().map(LinkId::as_str).collect::<Vec<_>>(), ["fast"]);
    }

    #[test]
    fn a_refusal_names_the_bound_that_stands_in_the_way() {
        let late = ask(20, Some(8), 0).unwrap_err();
        assert_eq!((late.reason, late.free.as_str()), (ReasonKind::Latency, "20ms at the least"));
        let wide = ask(80, None, 0).unwrap_err();
        assert_eq!((wide.reason, wide.free.as_str()), (ReasonKind::Bandwidth, "50Mbps at the most"));
        let back = path_between(
            &view(),
            &PointName::new("b").unwrap(),
            &PointName::new("a").unwrap(),
            Bandwidth::ZERO,
            None,
            0,
        );
        assert_eq!(back.unwrap_err().reason, ReasonKind::NoPath);
    }
}
