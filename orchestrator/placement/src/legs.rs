//! Flows as legs: one per pair of sites (or point and site) that a flow joins, dividing by replicas at each end.

use crate::problem::{Place, Problem, Span, Stream};
use rhumb_model::ratio::Ratio;
use std::{collections::BTreeSet, rc::Rc};

/// Legs without a demand of which all sums of rates are told.
const FIXED: usize = 4;

/// Amounts that are looked at, at most, in the search for ways of sharing the demand of one component's regions: many
/// lead to the same ways, in another order of sites.
const LOOKS: u64 = 20_000;

/// Replicas by site, in order of site; one list per component.
pub(crate) type Sites = Vec<Vec<(usize, u32)>>;

/// What each site serves of each stream with a demand (thousandths of requests per second); empty for other streams.
pub(crate) type Served = Vec<Vec<(usize, u64)>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Index of a site in the view.
    Site(usize),
    /// A leg takes the best of these points.
    Points(Rc<[u32]>),
}

#[derive(Debug, Clone)]
pub(crate) struct Leg {
    /// Index into the problem's streams.
    pub stream: usize,
    pub from: End,
    pub to: End,
    /// Bytes, exact.
    pub volume: Ratio,
    /// The flow's own rate, divided and rounded up.
    pub kbps: Option<u64>,
    pub demand: u64,
}

/// All legs of a placement, by stream, then sites at its two ends.
pub(crate) fn legs(problem: &Problem, sites: &Sites, served: &Served) -> Vec<Leg> {
    let mut legs = Vec::new();
    for (index, stream) in problem.streams.iter().enumerate() {
        let mut add = |from: End, to: End, share: Ratio, demand: u64| {
            legs.push(Leg {
                stream: index,
                from,
                to,
                volume: share * Ratio::from_integer(i128::from(stream.volume)),
                kbps: stream.kbps.map(|rate| divided(rate, &share)),
                demand,
            });
        };
        let one = Ratio::from_integer(1);
        match (&stream.from, &stream.to) {
            (Place::Part(a), Place::Part(b)) if a == b => {
                for (from, _) in &sites[*a] {
                    for (to, _) in sites[*a].iter().filter(|(to, _)| to != from) {
                        add(End::Site(*from), End::Site(*to), one, 0);
                    }
                }
            }
            (Place::Part(a), Place::Part(b)) => {
                for (from, n) in &sites[*a] {
                    for (to, m) in &sites[*b] {
                        add(End::Site(*from), End::Site(*to), share(*n, &sites[*a]) * share(*m, &sites[*b]), 0);
                    }
                }
            }
            (Place::Points(points), Place::Part(b)) => match stream.demand {
                Some(all) => {
                    for (to, demand) in served[index].iter().filter(|(_, demand)| *demand > 0) {
                        let share = Ratio::new(i128::from(*demand), i128::from(all));
                        add(End::Points(Rc::clone(points)), End::Site(*to), share, *demand);
                    }
                }
                None => {
                    for (to, m) in &sites[*b] {
                        let share = if stream.copy { one } else { share(*m, &sites[*b]) };
                        add(End::Points(Rc::clone(points)), End::Site(*to), share, 0);
                    }
                }
            },
            (Place::Part(a), Place::Points(points)) => {
                for (from, n) in &sites[*a] {
                    add(End::Site(*from), End::Points(Rc::clone(points)), share(*n, &sites[*a]), 0);
                }
            }
            (Place::Points(_), Place::Points(_)) => {}
        }
    }
    legs
}

fn share(replicas: u32, sites: &[(usize, u32)]) -> Ratio {
    let all: u32 = sites.iter().map(|(_, n)| n).sum();
    Ratio::new(i128::from(replicas), i128::from(all.max(1)))
}

/// A rate divides and is rounded up to a kbit/s.
pub(crate) fn divided(kbps: u64, share: &Ratio) -> u64 {
    let whole = (share * Ratio::from_integer(i128::from(kbps))).ceil().to_integer();
    u64::try_from(whole).unwrap_or(u64::MAX)
}

/// Ways in which the sites of a service can share the demand of the regions: the corners of what their replicas allow.
/// With one site, or demand that takes all replicas of one region's flow, there is only one.
/// `steps`: also those at which some link is just full, which pay only where a link's room makes demand dearer. The
/// second of what comes back: there may be more. Where demand of several flows may fill links together, or more than three
/// sites share one, that is so with all steps tried. What is looked at counts as labels of the problem.
pub(crate) fn servings(problem: &Problem, sites: &Sites, most: usize, steps: bool) -> (Vec<Served>, bool) {
    let mut more = false;
    let nothing: Served = vec![Vec::new(); problem.streams.len()];
    let rated = problem.streams.iter().filter(|s| s.demand.is_some() && s.kbps.is_some_and(|r| r > 0)).count();
    let full = steps.then(|| Full::new(problem, sites, &nothing));
    let mut ways: BTreeSet<Served> = [nothing].into();
    for (part, list) in sites.iter().enumerate() {
        let streams: Vec<(usize, u64)> = problem
            .streams
            .iter()
            .enumerate()
            .filter(|(_, s)| s.to == Place::Part(part))
            .filter_map(|(i, s)| s.demand.map(|d| (i, d)))
            .collect();
        if streams.is_empty() {
            continue;
        }
        let serves = problem.parts[part].serves;
        let room: Vec<u64> = list.iter().map(|(_, n)| serves.saturating_mul(u64::from(*n))).collect();
        // one site serves everything
        let fine = steps && list.len() > 1;
        let steps = (0..problem.streams.len()).map(|s| full.as_ref().filter(|_| fine)?.of(problem, s, list)).collect();
        let mut fill = Fill { sites: list, steps, held: Vec::new(), found: BTreeSet::new(), most, looks: LOOKS };
        more |= fine
            && streams.iter().any(|(s, _)| fill.steps[*s].is_some())
            && (rated > 1 || list.len() > 3 || full.as_ref().is_some_and(|f| f.untold));
        for order in orders(streams.len()) {
            let streams: Vec<(usize, u64)> = order.iter().map(|i| streams[*i]).collect();
            fill.next(&streams, 0, room.clone(), vec![Vec::new(); problem.streams.len()]);
        }
        more |= fill.found.len() >= most || fill.looks == 0;
        problem.labels.set(problem.labels.get().saturating_add(LOOKS - fill.looks));
        let mut joined = BTreeSet::new();
        for way in &ways {
            for filled in &fill.found {
                if joined.len() < most {
                    let both = way.iter().zip(filled).map(|(a, b)| if a.is_empty() { b.clone() } else { a.clone() });
                    joined.insert(both.collect());
                }
            }
        }
        more |= joined.len() >= most;
        ways = joined;
    }
    (ways.into_iter().collect(), more)
}

/// When links are full, whichever flow fills them.
struct Full {
    /// What legs without a demand hold on a link, whichever of them are there, in kbit/s.
    fixed: BTreeSet<u64>,
    /// There are too many such legs to tell all that they hold.
    untold: bool,
    /// Distinct free capacities, in kbit/s, the widest first: a finer split is tried only while there is room for more ways.
    free: Vec<u64>,
}

impl Full {
    fn new(problem: &Problem, sites: &Sites, nothing: &Served) -> Self {
        let runs = |stream: &Stream| stream.span == Span::Run;
        let legs = legs(problem, sites, nothing);
        let held = legs.iter().filter(|l| runs(&problem.streams[l.stream])).filter_map(|l| l.kbps);
        let rates: Vec<u64> = held.filter(|r| *r > 0).collect();
        let untold = rates.len() > FIXED;
        let sums = |sums: BTreeSet<u64>, rate: &u64| sums.iter().flat_map(|sum| [*sum, sum + rate]).collect();
        let fixed = if untold { [0].into() } else { rates.iter().fold([0].into(), sums) };
        let all: u64 = problem.streams.iter().filter(|s| runs(s)).filter_map(|s| s.kbps).sum();
        let mut free: Vec<u64> =
            if problem.relax.bandwidth { Vec::new() } else { problem.net.steps_below(all).collect() };
        free.reverse();
        Self { fixed, untold, free }
    }

    /// Of a stream to these sites. `None`: nothing of it can fill a link.
    fn of(&self, problem: &Problem, index: usize, sites: &[(usize, u32)]) -> Option<Steps<'_>> {
        let stream = &problem.streams[index];
        let (rate, demand) = stream.kbps.filter(|r| *r > 0).zip(stream.demand)?;
        let Place::Points(points) = &stream.from else { return None };
        if self.free.is_empty() {
            return None;
        }
        let most = if stream.split {
            vec![demand; sites.len()]
        } else {
            let wide = problem.widest(index, points);
            sites.iter().map(|(site, _)| carried(wide[problem.site_point(*site) as usize], rate, demand)).collect()
        };
        Some(Steps { rate, demand, most, full: self })
    }
}

/// Amounts of a flow with a demand at which a link is just full.
struct Steps<'f> {
    rate: u64,
    demand: u64,
    /// By place in the list of sites: what the widest path there carries of it.
    most: Vec<u64>,
    full: &'f Full,
}

impl Steps<'_> {
    /// What a site may be given below `all`, so that a link is just full by it, by it and what is `held` already, or by all
    /// else of the flow.
    fn below(&self, all: u64, held: &[(usize, u64)], stream: usize, looks: &mut u64) -> Vec<u64> {
        let mut before: BTreeSet<u64> = held.iter().map(|(_, kbps)| *kbps).collect();
        before.insert(0);
        before.insert(held.iter().map(|(_, kbps)| kbps).sum());
        before.insert(held.iter().filter(|(of, _)| *of == stream).map(|(_, kbps)| kbps).sum());
        before.insert(held.iter().filter(|(of, _)| *of != stream).map(|(_, kbps)| kbps).sum());
        let mut seen = BTreeSet::new();
        let mut steps = Vec::new();
        for free in &self.full.free {
            if *looks == 0 {
                break;
            }
            let held = before.iter().flat_map(|held| self.full.fixed.iter().map(move |fixed| held + fixed));
            for left in held.filter_map(|held| free.checked_sub(held)) {
                *looks = looks.saturating_sub(1);
                let given = carried(left, self.rate, self.demand);
                for step in [given, self.demand - given] {
                    if step > 0 && step < all && seen.insert(step) {
                        steps.push(step);
                    }
                }
            }
        }
        steps
    }

    fn rate_of(&self, demand: u64) -> u64 {
        divided(self.rate, &Ratio::new(i128::from(demand), i128::from(self.demand)))
    }
}

/// How much of a demand that takes `rate` in all a path of `kbps` carries.
fn carried(kbps: u64, rate: u64, demand: u64) -> u64 {
    (u128::from(kbps.min(rate)) * u128::from(demand) / u128::from(rate)) as u64
}

/// The orders in which a few flows are served; of many only their own.
fn orders(n: usize) -> Vec<Vec<usize>> {
    match n {
        1 => vec![vec![0]],
        2 => vec![vec![0, 1], vec![1, 0]],
        3 => vec![vec![0, 1, 2], vec![0, 2, 1], vec![1, 0, 2], vec![1, 2, 0], vec![2, 0, 1], vec![2, 1, 0]],
        n => vec![(0..n).collect(), (0..n).rev().collect()],
    }
}

struct Fill<'a> {
    sites: &'a [(usize, u32)],
    /// By stream.
    steps: Vec<Option<Steps<'a>>>,
    /// Given so far: stream and kbit/s.
    held: Vec<(usize, u64)>,
    found: BTreeSet<Served>,
    most: usize,
    /// Amounts that may still be looked at.
    looks: u64,
}

impl Fill<'_> {
    fn next(&mut self, streams: &[(usize, u64)], used: u64, room: Vec<u64>, served: Served) {
        if self.found.len() >= self.most || self.looks == 0 {
            return;
        }
        let Some(((stream, left), rest)) = streams.split_first().map(|(f, r)| (*f, r)) else {
            let mut served = served;
            for sites in &mut served {
                sites.sort_unstable();
            }
            self.found.insert(served);
            return;
        };
        if left == 0 {
            self.next(rest, 0, room, served);
            return;
        }
        // what each site takes of it at the most
        let steps = self.steps[stream].as_ref();
        let most: Vec<u64> = (0..room.len()).map(|s| steps.map_or(room[s], |of| of.most[s].min(room[s]))).collect();
        let unused = |site: &usize| used & bit(*site) == 0;
        let open: u64 = (0..self.sites.len()).filter(unused).map(|site| most[site]).fold(0, u64::saturating_add);
        if open < left {
            return;
        }
        for site in (0..self.sites.len()).filter(|site| unused(site) && most[*site] > 0) {
            let all = left.min(most[site]);
            // what the other sites do not take
            let least = left.saturating_sub(open - most[site]);
            let steps = self.steps[stream].as_ref();
            let part = steps.map(|s| s.below(all, &self.held, stream, &mut self.looks)).unwrap_or_default();
            for given in [all].into_iter().chain(part.into_iter().filter(|given| *given >= least)) {
                self.looks = self.looks.saturating_sub(1);
                let mut room = room.clone();
                room[site] -= given;
                let mut served = served.clone();
                served[stream].push((self.sites[site].0, given));
                let mut streams = streams.to_vec();
                streams[0].1 = left - given;
                let held = self.steps[stream].as_ref().map(|s| s.rate_of(given));
                self.held.extend(held.map(|kbps| (stream, kbps)));
                self.next(&streams, used | bit(site), room, served);
                self.held.truncate(self.held.len() - usize::from(held.is_some()));
            }
        }
    }
}

fn bit(site: usize) -> u64 {
    1 << (site % 64)
}

impl Stream {
    /// Whether it leads from a component to one before it in the order.
    pub fn onto_earlier(&self) -> bool {
        matches!((&self.from, &self.to), (Place::Part(a), Place::Part(b)) if a > b)
    }

    /// Whether both ends are sites that only the placement decides.
    pub fn joins_parts(&self) -> bool {
        matches!((&self.from, &self.to), (Place::Part(_), Place::Part(_)))
    }
}
