//! A placer that tries everything, written from the text of the cost model alone. Only for tiny federations.

use jiff::Timestamp;
use petgraph::{graph::NodeIndex, visit::EdgeRef};
use rhumb_federation::View;
use rhumb_model::{
    LinkId, ModelName, Order,
    fit::{self, NodeShape},
    order::{Component, End, Interconnect, Spread},
    price,
    ratio::{Ratio, round_half_up},
    state::SiteState,
};
use std::collections::{BTreeMap, BTreeSet};

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
}

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
    let brute = Brute { view, order, submit: submitted, at: submit, staging_max, must: Some(site) };
    let mut best = None;
    brute.components(n, &mut Vec::new(), &mut best);
    best
}

/// The best plan there is.
pub fn best(view: &View, order: &Order, submit: Timestamp, staging_max: u64) -> Option<Best> {
    let brute =
        Brute { view, order, submit: R::new(submit.as_nanosecond(), 1000), at: submit, staging_max, must: None };
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
        return None;
    }
    let most: u32 = ranges.iter().map(|(a, b)| b - a).sum();
    (0..=most).find_map(|extra| {
        let mut best = None;
        counts(&ranges, extra, &mut Vec::new(), &mut |n| brute.components(n, &mut Vec::new(), &mut best));
        best
    })
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
        self.split(&stands, n[placed.len()], &mut Vec::new(), &mut |list| {
            placed.push(list.clone());
            self.components(n, placed, best);
            placed.pop();
        });
    }

    fn split(
        &self,
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
            self.split(rest, left - n, now, f);
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

    fn flows(&self, placed: &[Placed], best: &mut Option<Best>) {
        let mut room: Vec<BTreeMap<usize, u64>> = Vec::new();
        for (c, p) in self.order.components.iter().zip(placed) {
            let mut sites = BTreeMap::new();
            for (s, _, n) in p {
                *sites.entry(*s).or_insert(0) += u64::from(*n) * c.service.as_ref().map_or(0, |s| s.serves.millirps());
            }
            room.push(sites);
        }
        self.serve(placed, 0, room, &mut Vec::new(), best);
    }

    /// All ways of serving demands, in whole requests per second.
    fn serve(
        &self,
        placed: &[Placed],
        flow: usize,
        room: Vec<BTreeMap<usize, u64>>,
        served: &mut Vec<BTreeMap<usize, u64>>,
        best: &mut Option<Best>,
    ) {
        let Some(f) = self.order.flows.get(flow) else {
            self.legs(placed, served, best);
            return;
        };
        let (Some(demand), Some(part)) = (f.demand, self.index(&f.to)) else {
            served.push(BTreeMap::new());
            self.serve(placed, flow + 1, room, served, best);
            served.pop();
            return;
        };
        let sites: Vec<usize> = room[part].keys().copied().collect();
        self.divide(&sites, demand.millirps(), &room[part], &mut BTreeMap::new(), &mut |given| {
            let mut left = room.clone();
            for (s, d) in given {
                *left[part].get_mut(s).unwrap() -= d;
            }
            served.push(given.clone());
            self.serve(placed, flow + 1, left, served, best);
            served.pop();
        });
    }

    fn divide(
        &self,
        sites: &[usize],
        left: u64,
        room: &BTreeMap<usize, u64>,
        now: &mut BTreeMap<usize, u64>,
        f: &mut dyn FnMut(&BTreeMap<usize, u64>),
    ) {
        let Some((site, rest)) = sites.split_first() else {
            if left == 0 {
                f(now);
            }
            return;
        };
        let mut given = 0;
        while given <= left.min(room[site]) {
            if given > 0 {
                now.insert(*site, given);
            }
            self.divide(rest, left - given, room, now, f);
            now.remove(site);
            given += 1000;
        }
    }

    fn legs(&self, placed: &[Placed], served: &[BTreeMap<usize, u64>], best: &mut Option<Best>) {
        let counts = |part: usize| {
            let mut sites = BTreeMap::new();
            for (s, _, n) in &placed[part] {
                *sites.entry(*s).or_insert(0) += *n;
            }
            let all: u32 = sites.values().sum();
            sites.into_iter().map(|(s, n)| (s, R::new(n.into(), all.into()))).collect::<Vec<_>>()
        };
        let mut ways: Vec<(Phase, Vec<Way>)> = Vec::new();
        for (i, f) in self.order.flows.iter().enumerate() {
            let points = |end: &End| -> (Vec<NodeIndex>, u64) {
                match end {
                    End::Dataset(d) => (self.view.datasets[d].at.iter().map(|s| self.view.points[s]).collect(), 0),
                    End::Region(r) => {
                        let r = &self.view.regions[r];
                        (vec![self.view.points[&r.at]], r.access.micros())
                    }
                    End::Component(_) => unreachable!(),
                }
            };
            let at = |s: usize| vec![self.view.sites[s].point];
            let mut add = |from: Vec<NodeIndex>, to: Vec<NodeIndex>, share: R, access: u64| {
                ways.push(self.ways(i, &from, &to, share, access));
            };
            match (self.index(&f.from), self.index(&f.to)) {
                (Some(a), Some(b)) if a == b => {
                    for (s, _) in counts(a) {
                        for (t, _) in counts(a) {
                            if s != t {
                                add(at(s), at(t), int(1), 0);
                            }
                        }
                    }
                }
                (Some(a), Some(b)) => {
                    for (s, x) in counts(a) {
                        for (t, y) in counts(b) {
                            add(at(s), at(t), x * y, 0);
                        }
                    }
                }
                (Some(a), None) => {
                    let (to, access) = points(&f.to);
                    for (s, x) in counts(a) {
                        add(at(s), to.clone(), x, access);
                    }
                }
                (None, Some(b)) => {
                    let (from, access) = points(&f.from);
                    if let Some(demand) = f.demand {
                        for (s, d) in &served[i] {
                            add(from.clone(), at(*s), R::new((*d).into(), demand.millirps().into()), access);
                        }
                    } else {
                        for (s, x) in counts(b) {
                            add(from.clone(), at(s), if f.copy { int(1) } else { x }, access);
                        }
                    }
                }
                (None, None) => unreachable!(),
            }
        }
        if ways.iter().any(|(_, w)| w.is_empty()) {
            return;
        }
        self.choose(placed, &ways, &mut Vec::new(), best);
    }

    fn ways(&self, index: usize, from: &[NodeIndex], to: &[NodeIndex], share: R, access: u64) -> (Phase, Vec<Way>) {
        let f = &self.order.flows[index];
        let size = [&f.from, &f.to].into_iter().find_map(|e| match e {
            End::Dataset(d) => Some(self.view.datasets[d].size.bytes()),
            _ => None,
        });
        let volume = f.volume.map(rhumb_model::Bytes::bytes).or(if f.rate.is_none() { size } else { None });
        let phase = match (volume, self.index(&f.to)) {
            (None, _) => Phase::Run,
            (_, Some(_)) => Phase::In,
            _ => Phase::Out,
        };
        let local = from.iter().any(|a| to.contains(a));
        if local {
            let fits = f.max_latency.is_none_or(|m| access <= m.micros());
            let way = Way { path: vec![], kbps: 0, path_cost: int(0), transfer: int(0), time: int(0) };
            return (phase, if fits { vec![way] } else { vec![] });
        }
        let rates: Vec<u64> = match f.rate {
            Some(r) => vec![(int(r.kbps()) * share).ceil().to_integer() as u64],
            None if phase == Phase::Run => vec![0],
            None => RUNGS_KBPS.into_iter().filter(|r| *r <= self.staging_max).collect(),
        };
        let mut paths = Vec::new();
        for a in from {
            for b in to {
                self.paths(*a, *b, &mut vec![*a], &mut Vec::new(), &mut paths);
            }
        }
        let mut ways = Vec::new();
        for path in &paths {
            let links: Vec<_> = path.iter().map(|id| self.view.link(id).unwrap()).collect();
            let latency = links.iter().map(|l| l.latency.micros()).sum::<u64>();
            let within = &self.order.constraints.jurisdictions;
            let point_ok = |n: NodeIndex| self.view.graph[n].jurisdiction.as_ref().is_some_and(|j| within.contains(j));
            let inside = within.is_empty()
                || path.iter().all(|id| {
                    let (a, b) = self.view.graph.edge_endpoints(self.view.links[id]).unwrap();
                    let l = self.view.link(id).unwrap();
                    point_ok(a) && point_ok(b) && !l.jurisdictions.is_empty() && l.jurisdictions.is_subset(within)
                });
            let secret = !(f.encrypted || self.order.constraints.encrypted) || links.iter().all(|l| l.encrypted);
            let quick = f.max_latency.is_none_or(|m| latency + access <= m.micros());
            if !inside || !secret || !quick || links.iter().any(|l| l.stale) {
                continue;
            }
            for kbps in &rates {
                if links.iter().any(|l| l.free.kbps() < *kbps) {
                    continue;
                }
                let per_hour: R =
                    links.iter().map(|l| l.per_mbps_hour_micros).sum::<R>() * R::new((*kbps).into(), 1000);
                let (path_cost, transfer, time) = match volume {
                    None => (per_hour / int(HOUR_US), int(0), int(0)),
                    Some(v) => {
                        let v = int(v) * share;
                        let moving = v * int(8000) / int(*kbps);
                        let per_gb: R = links.iter().map(|l| l.per_gb_micros).sum();
                        (per_hour * moving / int(HOUR_US), per_gb * v / int(1_000_000_000), moving + int(latency))
                    }
                };
                ways.push(Way { path: path.clone(), kbps: *kbps, path_cost, transfer, time });
            }
        }
        (phase, ways)
    }

    fn paths(
        &self,
        at: NodeIndex,
        to: NodeIndex,
        seen: &mut Vec<NodeIndex>,
        now: &mut Vec<LinkId>,
        found: &mut Vec<Vec<LinkId>>,
    ) {
        if at == to {
            found.push(now.clone());
            return;
        }
        for e in self.view.graph.edges(at) {
            if seen.contains(&e.target()) {
                continue;
            }
            seen.push(e.target());
            now.push(e.weight().id.clone());
            self.paths(e.target(), to, seen, now, found);
            now.pop();
            seen.pop();
        }
    }

    fn choose<'w>(
        &self,
        placed: &[Placed],
        ways: &'w [(Phase, Vec<Way>)],
        now: &mut Vec<&'w Way>,
        best: &mut Option<Best>,
    ) {
        if now.len() == ways.len() {
            self.price(placed, ways, now, best);
            return;
        }
        for way in &ways[now.len()].1 {
            now.push(way);
            self.choose(placed, ways, now, best);
            now.pop();
        }
    }

    fn price(&self, placed: &[Placed], ways: &[(Phase, Vec<Way>)], chosen: &[&Way], best: &mut Option<Best>) {
        for phase in [Phase::In, Phase::Run, Phase::Out] {
            let mut load: BTreeMap<&LinkId, u64> = BTreeMap::new();
            for ((p, _), way) in ways.iter().zip(chosen) {
                if *p == phase || (phase == Phase::Out && *p == Phase::Run) {
                    for id in &way.path {
                        *load.entry(id).or_insert(0) += way.kbps;
                    }
                }
            }
            if load.iter().any(|(id, sum)| *sum > self.view.link(id).unwrap().free.kbps()) {
                return;
            }
        }
        let longest = |phase: Phase| {
            ways.iter().zip(chosen).filter(|((p, _), _)| *p == phase).map(|(_, w)| w.time).max().unwrap_or(int(0))
        };
        let (staging, out) = (longest(Phase::In), longest(Phase::Out));
        let hours: Vec<R> = self
            .order
            .components
            .iter()
            .zip(placed)
            .map(|(c, p)| match (&c.work, &c.service) {
                (Some(w), _) => match (w.duration, w.hours) {
                    (Some(d), _) => int(d.micros()),
                    (_, Some(h)) => {
                        let h = h.ratio() * int(HOUR_US);
                        let scaled = p.iter().filter_map(|(_, m, _)| {
                            Some(h * self.rate(c, w.reference.as_ref()?)? / self.rate(c, (*m)?)?)
                        });
                        scaled.max().unwrap_or(h)
                    }
                    _ => unreachable!(),
                },
                _ => int(self.order.terms.horizon.map_or(24 * HOUR_US, |h| h.micros().into())),
            })
            .collect();
        let run = hours.iter().max().copied().unwrap();
        let terms = &self.order.terms;
        let late_rate = terms.late_per_hour;
        let deadline = terms.deadline.map(|d| R::new(d.as_nanosecond(), 1000));
        let mut starts = vec![self.submit + staging];
        if let Some(w) = &terms.window {
            starts.clear();
            let mut t = self.at;
            for _ in 0..400 {
                let end = price::window_edge_after(t, w.from, w.to, &w.tz);
                let from = R::new(t.as_nanosecond(), 1000);
                let fits = end.is_none_or(|e| from + staging + run + out <= R::new(e.as_nanosecond(), 1000));
                if price::inside(w.from, w.to, &w.tz, t) && fits {
                    starts.push(from + staging);
                    break;
                }
                let Some(e) = end else { break };
                t = e;
            }
        } else if let (Some(deadline), None) = (deadline, terms.value_per_hour) {
            for s in placed.iter().flatten().map(|p| &self.view.sites[p.0].site.prices) {
                let mut t = self.at;
                while let Some(e) = s.next_edge(t) {
                    let edge = R::new(e.as_nanosecond(), 1000);
                    if edge + run + out > deadline {
                        break;
                    }
                    if edge > self.submit + staging {
                        starts.push(edge);
                    }
                    t = e;
                }
            }
        }
        for start in starts {
            let finish = start + run + out;
            let past = deadline.map_or(int(0), |d| (finish - d).max(int(0)));
            if past > int(0) && late_rate.is_none() {
                continue;
            }
            let mut compute = int(0);
            for ((c, p), h) in self.order.components.iter().zip(placed).zip(&hours) {
                for (site, model, n) in p {
                    let prices = &self.view.sites[*site].site.prices;
                    let mut per_hour = self.money(prices.cpu) * R::new(c.need.cpu.milli().into(), 1000)
                        + self.money(prices.memory_gib) * R::new(c.need.memory.bytes().into(), 1 << 30);
                    if let (Some(a), Some(m)) = (&c.need.accelerators, model) {
                        let units = a.share.map_or(int(a.count.unwrap_or(1)), |s| R::new(s.thousandths().into(), 1000));
                        per_hour += self.money(prices.devices.get(*m).copied()) * units;
                    }
                    let mut t = start;
                    let mut factored = int(0);
                    while t < start + h {
                        let now = Timestamp::from_nanosecond((t * int(1000)).floor().to_integer()).unwrap();
                        let next =
                            prices.next_edge(now).map_or(start + h, |e| R::new(e.as_nanosecond(), 1000).min(start + h));
                        factored += prices.factor_at(now) * (next - t);
                        t = next;
                    }
                    compute += per_hour * int(*n) * factored / int(HOUR_US);
                }
            }
            let mut path = int(0);
            let mut transfer = int(0);
            for ((phase, _), w) in ways.iter().zip(chosen) {
                path += if *phase == Phase::Run { w.path_cost * (finish - start) } else { w.path_cost };
                transfer += w.transfer;
            }
            if terms.budget.is_some_and(|b| compute + path + transfer > self.money(Some(b))) {
                continue;
            }
            let time = self.money(terms.value_per_hour) * (finish - self.submit) / int(HOUR_US);
            let late = self.money(late_rate) * past / int(HOUR_US);
            let total = [compute, path, transfer, time, late].into_iter().map(round_half_up).sum();
            if best.as_ref().is_some_and(|b| b.total < total) {
                continue;
            }
            let name = |s: usize| self.view.sites[s].site.name.to_string();
            let found = Best {
                total,
                sites: placed.iter().flatten().map(|p| p.0).collect::<BTreeSet<_>>().len(),
                links: chosen.iter().map(|w| w.path.len()).sum(),
                names: placed.iter().map(|p| p.iter().map(|x| name(x.0)).collect()).collect(),
                models: placed.iter().map(|p| p.iter().map(|x| x.1.map(ToString::to_string)).collect()).collect(),
                paths: chosen.iter().map(|w| w.path.clone()).collect(),
            };
            if best.as_ref().is_none_or(|b| found < *b) {
                *best = Some(found);
            }
        }
    }
}
