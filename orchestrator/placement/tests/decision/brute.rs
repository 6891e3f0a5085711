//! A placer that tries everything, written from the text of the cost model alone. Only for tiny federations.
#![allow(clippy::needless_pass_by_value)] // plain recursion is what makes it readable

use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{
    LinkId, ModelName, Order,
    fit::{self, NodeShape},
    order::{Component, End, Interconnect, Spread},
    ratio::Ratio,
    state::SiteState,
};
use std::{cell::Cell, collections::BTreeSet};

mod flows;
mod price;
pub mod pruned;

type R = Ratio;
const HOUR_US: i128 = 3_600_000_000;
const RUNGS_KBPS: [u64; 13] = [
    10_000_000, 5_000_000, 2_000_000, 1_000_000, 500_000, 200_000, 100_000, 50_000, 20_000, 10_000, 5_000, 2_000, 1_000,
];

fn int(n: impl Into<i128>) -> R {
    R::from_integer(n.into())
}

/// What rule 10 compares.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Best {
    pub total: i128,
    pub sites: usize,
    pub links: usize,
    pub names: Vec<Vec<String>>,
    pub models: Vec<Vec<Option<String>>>,
    pub paths: Vec<Vec<LinkId>>,
}

/// (site index, model, replicas)
type Placed<'a> = Vec<(usize, Option<&'a ModelName>, u32)>;

#[derive(Clone)]
struct Way {
    path: Vec<LinkId>,
    kbps: u64,
    /// Of a flow on several paths: a backup or further parts, and the rate on each.
    more: Vec<(Vec<LinkId>, u64)>,
    /// Micro-units, in all or per microsecond.
    path_cost: R,
    transfer: R,
    time: R,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    In,
    Run,
    Out,
}

struct Brute<'a> {
    view: &'a View,
    order: &'a Order,
    submit: R,
    at: Timestamp,
    staging_max: u64,
    /// A site that must be used.
    must: Option<usize>,
    /// Selections of legs, whole or begun, that may still be tried.
    left: Cell<u64>,
}

/// More selections than were allowed.
#[derive(Debug)]
pub struct TooMany;

/// The best plan with so many replicas that uses a site.
pub fn best_using(
    view: &View,
    order: &Order,
    submit: Timestamp,
    staging_max: u64,
    n: &[u32],
    site: usize,
) -> Option<Best> {
    let submitted = R::new(submit.as_nanosecond(), 1000);
    let left = Cell::new(u64::MAX);
    let brute = Brute { view, order, submit: submitted, at: submit, staging_max, must: Some(site), left };
    let mut best = None;
    brute.components(n, &mut Vec::new(), &mut best);
    best
}

/// The best plan there is.
pub fn best(view: &View, order: &Order, submit: Timestamp, staging_max: u64) -> Option<Best> {
    best_within(view, order, submit, staging_max, u64::MAX).unwrap()
}

/// The same, of instances in which it takes no more than so many selections of legs, whole or begun.
pub fn best_within(
    view: &View,
    order: &Order,
    submit: Timestamp,
    staging_max: u64,
    most: u64,
) -> Result<Option<Best>, TooMany> {
    let left = Cell::new(most);
    let submitted = R::new(submit.as_nanosecond(), 1000);
    let brute = Brute { view, order, submit: submitted, at: submit, staging_max, must: None, left };
    let ranges: Vec<(u32, u32)> = order
        .components
        .iter()
        .map(|c| {
            let demand: u64 = order
                .flows
                .iter()
                .filter(|f| f.to == End::Component(c.name.clone()))
                .filter_map(|f| f.demand)
                .map(rhumb_model::Demand::millirps)
                .sum();
            let fewest = c.service.as_ref().map_or(0, |s| demand.div_ceil(s.serves.millirps())) as u32;
            (c.replicas.min.max(fewest), c.replicas.max)
        })
        .collect();
    if ranges.iter().any(|(a, b)| a > b) {
        return Ok(None);
    }
    let most: u32 = ranges.iter().map(|(a, b)| b - a).sum();
    let best = (0..=most).find_map(|extra| {
        let mut best = None;
        counts(&ranges, extra, &mut Vec::new(), &mut |n| brute.components(n, &mut Vec::new(), &mut best));
        best
    });
    if brute.left.get() == 0 { Err(TooMany) } else { Ok(best) }
}

fn counts(ranges: &[(u32, u32)], extra: u32, now: &mut Vec<u32>, f: &mut dyn FnMut(&[u32])) {
    let Some((min, max)) = ranges.get(now.len()) else {
        if extra == 0 {
            f(now);
        }
        return;
    };
    for more in 0..=extra.min(max - min) {
        now.push(min + more);
        counts(ranges, extra - more, now, f);
        now.pop();
    }
}

impl<'a> Brute<'a> {
    fn money(&self, amount: Option<rhumb_model::Amount>) -> R {
        amount.map_or(int(0), |a| a.micros_in(self.view.currency, &self.view.rates).unwrap())
    }

    fn rate(&self, c: &Component, model: &ModelName) -> Option<R> {
        let precision = c.need.accelerators.as_ref()?.precision;
        Some(self.view.devices.get(model)?.rates.get(&precision)?.ratio())
    }

    fn components(&self, n: &[u32], placed: &mut Vec<Placed<'a>>, best: &mut Option<Best>) {
        let Some(c) = self.order.components.get(placed.len()) else {
            if self.admissible(placed) {
                self.flows(placed, best);
            }
            return;
        };
        let stands = self.stands(c);
        Self::split(&stands, n[placed.len()], &mut Vec::new(), &mut |list| {
            placed.push(list.clone());
            self.components(n, placed, best);
            placed.pop();
        });
    }

    /// Where a component may stand by the order's rules, with each model that it may use there.
    fn stands(&self, c: &Component) -> Vec<(usize, Option<&'a ModelName>)> {
        let mut stands: Vec<(usize, Option<&'a ModelName>)> = Vec::new();
        for (i, s) in self.view.sites.iter().enumerate() {
            let k = &self.order.constraints;
            let ok = s.site.state == SiteState::Ready
                && (k.sites.is_empty() || k.sites.contains(&s.site.name))
                && !k.not_sites.contains(&s.site.name)
                && k.labels.is_subset(&s.site.labels)
                && (k.jurisdictions.is_empty()
                    || s.site.jurisdiction.as_ref().is_some_and(|j| k.jurisdictions.contains(j)));
            if !ok {
                continue;
            }
            match &c.need.accelerators {
                None => stands.push((i, None)),
                Some(a) => {
                    for model in s.site.prices.devices.keys() {
                        if (a.models.is_empty() || a.models.contains(model)) && self.rate(c, model).is_some() {
                            stands.push((i, Some(model)));
                        }
                    }
                }
            }
        }
        stands
    }

    fn split(
        stands: &[(usize, Option<&'a ModelName>)],
        left: u32,
        now: &mut Placed<'a>,
        f: &mut dyn FnMut(&Placed<'a>),
    ) {
        if left == 0 {
            f(now);
            return;
        }
        let Some(((site, model), rest)) = stands.split_first() else { return };
        for n in 0..=left {
            if n > 0 {
                now.push((*site, *model, n));
            }
            Self::split(rest, left - n, now, f);
            if n > 0 {
                now.pop();
            }
        }
    }

    fn admissible(&self, placed: &[Placed]) -> bool {
        let sites = |p: &Placed| p.iter().map(|x| x.0).collect::<BTreeSet<_>>();
        let all: BTreeSet<usize> = placed.iter().flat_map(sites).collect();
        if self.must.is_some_and(|site| !all.contains(&site)) {
            return false;
        }
        if self.order.constraints.max_sites.is_some_and(|m| all.len() > m as usize) {
            return false;
        }
        for (c, p) in self.order.components.iter().zip(placed) {
            let one = c.need.accelerators.as_ref().is_some_and(|a| a.interconnect == Interconnect::Site);
            if one && sites(p).len() > 1 {
                return false;
            }
            if c.place.spread == Some(Spread::Site) && p.iter().map(|x| x.2).sum::<u32>() as usize != sites(p).len() {
                return false;
            }
            for (o, q) in self.order.components.iter().zip(placed) {
                if c.place.colocate.contains(&o.name) && sites(p) != sites(q) {
                    return false;
                }
            }
        }
        all.iter().all(|site| {
            let mut queue: Vec<(usize, Option<&ModelName>)> = Vec::new();
            for (i, p) in placed.iter().enumerate() {
                for (_, model, n) in p.iter().filter(|x| x.0 == *site) {
                    queue.extend(std::iter::repeat_n((i, *model), *n as usize));
                }
            }
            let nodes: Vec<(NodeShape, Vec<usize>)> = self.view.sites[*site]
                .nodes
                .iter()
                .flat_map(|n| std::iter::repeat_n((n.shape.clone(), Vec::new()), n.count as usize))
                .collect();
            self.pack(&queue, nodes)
        })
    }

    fn pack(&self, queue: &[(usize, Option<&ModelName>)], nodes: Vec<(NodeShape, Vec<usize>)>) -> bool {
        let Some(((part, model), rest)) = queue.split_first() else { return true };
        let c = &self.order.components[*part];
        (0..nodes.len()).any(|i| {
            let mut nodes = nodes.clone();
            if c.place.spread == Some(Spread::Node) && nodes[i].1.contains(part) {
                return false;
            }
            nodes[i].1.push(*part);
            fit::take(&c.need, *model, &mut nodes[i].0).is_some() && self.pack(rest, nodes)
        })
    }

    fn index(&self, end: &End) -> Option<usize> {
        self.order.components.iter().position(|c| *end == End::Component(c.name.clone()))
    }
}
