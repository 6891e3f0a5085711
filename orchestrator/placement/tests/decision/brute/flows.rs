//! Every way of serving demands, and every path and rung of every leg.

use super::{Best, Brute, HOUR_US, Phase, Placed, R, RUNGS_KBPS, Way, int};
use petgraph::{graph::NodeIndex, visit::EdgeRef};
use rhumb_model::{LinkId, order::End};
use std::collections::BTreeMap;

impl Brute<'_> {
    pub(super) fn flows(&self, placed: &[Placed], best: &mut Option<Best>) {
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
        Self::divide(&sites, demand.millirps(), &room[part], &mut BTreeMap::new(), &mut |given| {
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
            Self::divide(rest, left - given, room, now, f);
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
        // a cheap plan that is found early leaves less to try
        for (_, list) in &mut ways {
            list.sort_by_key(|way| way.path_cost + way.transfer);
        }
        let floors: Vec<Way> = ways.iter().map(|(_, list)| Way::floor(list)).collect();
        self.choose(placed, &ways, &floors, &mut Vec::new(), best);
    }

    pub(super) fn ways(
        &self,
        index: usize,
        from: &[NodeIndex],
        to: &[NodeIndex],
        share: R,
        access: u64,
    ) -> (Phase, Vec<Way>) {
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
            let way = Way { path: vec![], kbps: 0, more: vec![], path_cost: int(0), transfer: int(0), time: int(0) };
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
        let legal: Vec<Legal> = paths.into_iter().filter_map(|path| self.legal(index, path, access)).collect();
        let mut ways = Vec::new();
        for kbps in rates {
            let volume = volume.map(|v| int(v) * share);
            let fits = |l: &&Legal| l.links.iter().all(|l| l.free.kbps() >= kbps);
            if f.split && kbps > 0 {
                for (from, to) in from.iter().flat_map(|a| to.iter().map(move |b| (*a, *b))) {
                    let here: Vec<&Legal> = legal.iter().filter(|l| l.ends == (from, to)).collect();
                    parts(&here, kbps, &mut Vec::new(), &mut |given| {
                        ways.extend(Way::of(given.iter().map(|(l, k)| (*l, *k)).collect(), volume));
                    });
                }
                continue;
            }
            for way in legal.iter().filter(fits) {
                if !f.protected {
                    ways.extend(Way::of(vec![(way, kbps)], volume));
                    continue;
                }
                for backup in legal.iter().filter(fits).filter(|b| b.ends == way.ends && apart(way, b)) {
                    let mut both = Way::of(vec![(way, kbps)], volume).unwrap();
                    let hold = Way::of(vec![(backup, kbps)], volume).unwrap();
                    both.path_cost += hold.path_cost;
                    both.more.push((backup.path.clone(), kbps));
                    ways.push(both);
                }
            }
        }
        (phase, ways)
    }

    /// A path that keeps the flow's rules, whatever its capacity.
    fn legal(&self, index: usize, path: Vec<LinkId>, access: u64) -> Option<Legal<'_>> {
        let f = &self.order.flows[index];
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
        let ends = |id: &LinkId| self.view.graph.edge_endpoints(self.view.links[id]).unwrap();
        let ends = (ends(&path[0]).0, ends(path.last().unwrap()).1);
        (inside && secret && quick && links.iter().all(|l| !l.stale)).then_some(Legal { path, links, latency, ends })
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
        floors: &[Way],
        now: &mut Vec<&'w Way>,
        best: &mut Option<Best>,
    ) {
        if !self.goes_on(placed, ways, floors, now, best.as_ref()) {
            return;
        }
        if now.len() == ways.len() {
            self.price(placed, ways, now, best);
            return;
        }
        for way in &ways[now.len()].1 {
            now.push(way);
            self.choose(placed, ways, floors, now, best);
            now.pop();
        }
    }

    /// Whether the legs chosen so far may be part of the best plan: no link gets emptier by further legs; and unless prices
    /// change with the hour, a plan costs no less than with the least that each of them costs and takes. Without this a
    /// few legs have millions of selections.
    fn goes_on(
        &self,
        placed: &[Placed],
        ways: &[(Phase, Vec<Way>)],
        floors: &[Way],
        now: &[&Way],
        best: Option<&Best>,
    ) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        if left == 0 || !self.carries(ways, now) {
            return false;
        }
        if self.view.sites.iter().any(|s| !s.site.prices.windows.is_empty()) {
            return true;
        }
        let rest = &floors[now.len()..];
        let mut least = None;
        self.price(placed, ways, &now.iter().copied().chain(rest).collect::<Vec<_>>(), &mut least);
        least.is_some_and(|least| best.is_none_or(|best| least.total <= best.total))
    }
}

/// Whether two paths share no link, in either direction, and no risk group.
fn apart(a: &Legal, b: &Legal) -> bool {
    let cable = |id: &LinkId| id.as_str().trim_end_matches('~').to_owned();
    a.links.iter().all(|x| b.links.iter().all(|y| cable(&x.id) != cable(&y.id) && x.srlg.is_disjoint(&y.srlg)))
}

/// A path that a flow may take.
struct Legal<'a> {
    path: Vec<LinkId>,
    links: Vec<&'a rhumb_federation::ViewLink>,
    latency: u64,
    ends: (NodeIndex, NodeIndex),
}

impl Way {
    /// The least that any of them costs and takes.
    pub(super) fn floor(ways: &[Self]) -> Self {
        let least = |of: fn(&Self) -> R| ways.iter().map(of).min().unwrap_or(int(0));
        let (path_cost, transfer, time) = (least(|w| w.path_cost), least(|w| w.transfer), least(|w| w.time));
        Self { path: vec![], kbps: 0, more: vec![], path_cost, transfer, time }
    }

    /// A flow on these paths, its volume divided as the rates are.
    fn of(parts: Vec<(&Legal, u64)>, volume: Option<R>) -> Option<Self> {
        let all: u64 = parts.iter().map(|(_, kbps)| kbps).sum();
        let (mut path_cost, mut transfer, mut time) = (int(0), int(0), int(0));
        for (legal, kbps) in &parts {
            let per_hour: R =
                legal.links.iter().map(|l| l.per_mbps_hour_micros).sum::<R>() * R::new((*kbps).into(), 1000);
            match volume {
                None => path_cost += per_hour / int(HOUR_US),
                Some(v) => {
                    let part = v * R::new((*kbps).into(), all.into());
                    let moving = part * int(8000) / int(*kbps);
                    path_cost += per_hour * moving / int(HOUR_US);
                    transfer += legal.links.iter().map(|l| l.per_gb_micros).sum::<R>() * part / int(1_000_000_000);
                    time = time.max(moving + int(legal.latency));
                }
            }
        }
        let mut paths = parts.into_iter().map(|(legal, kbps)| (legal.path.clone(), kbps));
        let (path, kbps) = paths.next()?;
        Some(Self { path, kbps, more: paths.collect(), path_cost, transfer, time })
    }
}

/// A path and its rate.
type Given<'l> = (&'l Legal<'l>, u64);

/// Every way to give a rate to paths in whole Mbit/s.
fn parts<'l>(legal: &[&'l Legal<'l>], left: u64, given: &mut Vec<Given<'l>>, f: &mut dyn FnMut(&[Given<'l>])) {
    if left == 0 {
        f(given);
        return;
    }
    let Some((first, rest)) = legal.split_first() else { return };
    let free = first.links.iter().map(|l| l.free.kbps()).min().unwrap();
    let mut rate = 0;
    while rate <= left.min(free) {
        if rate > 0 {
            given.push((first, rate));
        }
        parts(rest, left - rate, given, f);
        if rate > 0 {
            given.pop();
        }
        rate += 1_000;
    }
}
