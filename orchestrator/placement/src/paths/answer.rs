//! What two points of a view can have of each other: the path that placement would use, a backup that does not fail with
//! it, how much all paths together carry, and what limits that.

use super::{
    disjoint::{Apart, NoPair, Pair, inevitable_risk, pair},
    flow::max_flow,
    graph::{Bounds, Edge, Graph, Path, Weight},
};
use crate::between::{Between, path_between};
use num_traits::CheckedMul;
use rhumb_federation::View;
use rhumb_federation::view::ViewLink;
use rhumb_model::{
    LinkId, PointName, Reason, ReasonKind,
    name::SrlgName,
    quantity::{Bandwidth, Latency},
    ratio::{Ratio, whole_micros},
};
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    None,
    /// A second path that keeps apart from the first.
    Pair(Apart),
}

/// What is asked of the path, or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Free on every link.
    pub rate: Bandwidth,
    /// Of the one-way delay.
    pub bound: Option<Latency>,
    /// In 10^9 bytes: the price of moving it decides; with 0 that of holding the rate.
    pub gigabytes: u64,
    pub protection: Protection,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub path: Between,
    pub backup: Option<Between>,
    /// No path, or no such pair of paths, is cheaper for certain.
    pub proven: bool,
    /// Free over all paths together, whatever their delay; zero for the same point.
    pub carries: Bandwidth,
    /// Links that every path crosses one of; what they have free sums to `carries`.
    pub limited_by: Vec<LinkId>,
}

/// Paths tried as the cheaper one of a pair where risks or delays make the question hard.
const BUDGET: usize = 200;

pub fn answer(view: &View, from: &PointName, to: &PointName, wish: Wish) -> Result<Answer, Reason> {
    let whole = || Whole::new(view, wish.gigabytes);
    let ends = view.points.get(from).zip(view.points.get(to)).map(|(a, b)| (a.index(), b.index()));
    let path = path_between(view, from, to, wish.rate, wish.bound, wish.gigabytes);
    let (path, (from, to)) = match (path, ends) {
        (Ok(path), Some(ends)) => (path, ends),
        (Err(reason), Some((from, to))) if reason.reason == ReasonKind::Bandwidth => {
            let whole = whole();
            let (carries, limits) = whole.carries(from, to);
            let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
            let free = format!("{}; all paths together carry {carries}, limited by {}", reason.free, limits.join(", "));
            return Err(Reason { free, ..reason });
        }
        (path, _) => return path.and_then(|_| Err(unknown(from, to))),
    };
    let whole = whole();
    let (carries, limited_by) = whole.carries(from, to);
    let alone = Answer { path, backup: None, proven: true, carries, limited_by };
    let Protection::Pair(apart) = wish.protection else { return Ok(alone) };
    let pair = whole.pair(from, to, wish, apart)?;
    let proven = pair.proven();
    let [path, backup] = [&pair.first, &pair.second].map(|path| whole.between(path, wish));
    Ok(Answer { path, backup: Some(backup), proven, ..alone })
}

fn unknown(from: &PointName, to: &PointName) -> Reason {
    refused(ReasonKind::NoPath, format!("{from} to {to}"), "no such point".into())
}

fn refused(reason: ReasonKind, needed: String, free: String) -> Reason {
    Reason { reason, component: None, flow: None, site: None, needed, free }
}

/// The view's fresh links as a graph, in the order of their ids.
struct Whole<'a> {
    graph: Graph,
    links: Vec<&'a ViewLink>,
    /// Shared-risk groups by their numbers in the graph.
    risks: Vec<&'a SrlgName>,
}

impl<'a> Whole<'a> {
    fn new(view: &'a View, gigabytes: u64) -> Self {
        let fresh = || {
            let known = view.links.values();
            let known = known.filter_map(|i| view.graph.edge_weight(*i).zip(view.graph.edge_endpoints(*i)));
            known.filter(|(link, _)| !link.stale)
        };
        let price = |link: &ViewLink| {
            // a gigabyte is 8000 Mbit: held for 8000/3600 Mbps-hours at whatever rate
            let volume = link.per_gb_micros + link.per_mbps_hour_micros * Ratio::new(20, 9);
            if gigabytes > 0 { volume } else { link.per_mbps_hour_micros }
        };
        let scale = fresh().try_fold(1_i128, |scale, (link, _)| common(scale, *price(link).denom())).unwrap_or(1);
        let groups: BTreeSet<&SrlgName> = fresh().flat_map(|(link, _)| &link.srlg).collect();
        let risks: Vec<&SrlgName> = groups.into_iter().collect();
        let (mut edges, mut links) = (Vec::new(), Vec::new());
        for (link, (from, to)) in fresh() {
            // a price that does not fit is never ranked
            let scaled = price(link).checked_mul(&Ratio::from_integer(scale)).filter(Ratio::is_integer);
            let Some(cost) = scaled.and_then(|s| u64::try_from(s.to_integer()).ok()) else { continue };
            edges.push(Edge {
                from: from.index(),
                to: to.index(),
                cost: Weight(cost),
                latency: link.latency,
                capacity: link.free,
                risks: link.srlg.iter().filter_map(|group| risks.binary_search(&group).ok()).collect(),
            });
            links.push(link);
        }
        let graph = Graph::new(view.graph.node_count(), edges).expect("a view's links end at its points");
        Self { graph, links, risks }
    }

    fn carries(&self, from: usize, to: usize) -> (Bandwidth, Vec<LinkId>) {
        let flow = max_flow(&self.graph, from, to, |_| true);
        (flow.value, flow.cut.iter().map(|i| self.links[*i].id.clone()).collect())
    }

    /// The pair, or the first of the bounds that, given up, lets one through.
    fn pair(&self, from: usize, to: usize, wish: Wish, apart: Apart) -> Result<Pair, Reason> {
        let search = |rate, latency, apart, budget| {
            let found = pair(&self.graph, (from, to), Bounds { latency, rate }, apart, budget);
            (found.is_ok(), found)
        };
        let found = search(wish.rate, wish.bound, apart, BUDGET).1;
        let needed = || format!("two paths that share no {}", word(apart));
        match found {
            Ok(pair) => return Ok(pair),
            Err(limit @ NoPair::Limit { .. }) => {
                return Err(refused(ReasonKind::SearchLimit, needed(), limit.to_string()));
            }
            Err(NoPair::None) => {}
        }
        // feasibility is enough here: a small budget
        let some = |rate, latency, apart| search(rate, latency, apart, BUDGET / 10).0;
        if let Some(bound) = wish.bound
            && some(wish.rate, None, apart)
        {
            return Err(refused(ReasonKind::Latency, bound.to_string(), format!("{} are slower", needed())));
        }
        if some(Bandwidth::ZERO, None, apart) {
            return Err(refused(ReasonKind::Bandwidth, wish.rate.to_string(), format!("{} carry less", needed())));
        }
        let risk = || inevitable_risk(&self.graph, (from, to), Bounds::default()).filter(|_| apart == Apart::Risks);
        let free = match (self.bridge(from, to), risk()) {
            (Some(link), _) => format!("every path crosses link {link}"),
            (None, Some(risk)) => format!("every path shares the risk of {}", self.risks[risk]),
            (None, None) => format!("any two such paths share a {}", word(apart)),
        };
        Err(refused(ReasonKind::NoPath, needed(), free))
    }

    /// A link without which there is no path at all.
    fn bridge(&self, from: usize, to: usize) -> Option<&LinkId> {
        let one = self.graph.edges().iter().cloned().map(|e| Edge { capacity: Bandwidth::from_kbps(1), ..e });
        let flow = max_flow(&Graph::new(self.graph.points(), one.collect()).ok()?, from, to, |_| true);
        if let [bridge] = flow.cut[..] { Some(&self.links[bridge].id) } else { None }
    }

    fn between(&self, path: &Path, wish: Wish) -> Between {
        let links = || path.edges.iter().map(|i| self.links[*i]);
        let sum = |figure: fn(&ViewLink) -> Ratio| links().fold(Ratio::from_integer(0), |sum, l| sum + figure(l));
        let gigabytes = Ratio::from_integer(i128::from(wish.gigabytes));
        Between {
            links: links().map(|l| l.id.clone()).collect(),
            latency: path.latency,
            free: links().map(|l| l.free).min().unwrap_or(Bandwidth::ZERO),
            transfer_micros: whole_micros(sum(|l| l.per_gb_micros) * gigabytes),
            path_micros_per_hour: whole_micros(
                sum(|l| l.per_mbps_hour_micros) * Ratio::new(i128::from(wish.rate.kbps()), 1_000),
            ),
        }
    }
}

fn word(apart: Apart) -> &'static str {
    match apart {
        Apart::Links => "link",
        Apart::Points => "point",
        Apart::Risks => "link or risk group",
    }
}

/// The least common multiple, where it fits.
fn common(a: i128, b: i128) -> Option<i128> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).checked_mul(b).filter(|m| *m < 1 << 62)
}

#[cfg(test)]
mod tests;
