//! Sites that no plan can use: told from one pass over the network for each flow, without a search.
//!
//! What the sieve drops is proved to be in no plan; what it keeps may still be in none. A search on what is left has the
//! same answer as one on all.

mod terms;

pub(crate) use terms::{bills, longest_opening, replicas};

use crate::{
    network::Direction,
    part::Part,
    problem::{Place, Problem, Span, Stream},
    reach::{FAR, Reach, Rules},
};
use std::rc::Rc;

/// By part, by site: whether the part may stand there.
pub(crate) type Kept = Vec<Vec<bool>>;

pub(crate) struct Sieve<'s, 'a> {
    pub problem: &'s Problem<'a>,
    pub reach: &'s Reach<'s>,
    pub rules: Rules,
}

/// A table of a flow, and what a site must have in it.
pub(crate) struct Test {
    pub stream: usize,
    /// Microseconds by point.
    pub table: Rc<[u64]>,
}

impl<'s, 'a> Sieve<'s, 'a> {
    pub fn new(problem: &'s Problem<'a>, reach: &'s Reach<'s>) -> Self {
        Self { problem, reach, rules: Rules::of(problem.relax) }
    }

    /// `None`: there is no plan at all.
    pub fn kept(&self) -> Option<Kept> {
        let problem = self.problem;
        if problem.parts.iter().any(|p| p.fewest > p.most) {
            return None;
        }
        let mut kept: Kept = problem.parts.iter().map(|part| standing(problem, part)).collect();
        self.together(&mut kept)?;
        self.terms(&mut kept);
        for (part, sites) in kept.iter_mut().enumerate() {
            self.fixed(part, sites)?;
        }
        self.together(&mut kept)?;
        for stream in &problem.streams {
            if let (Place::Part(a), Place::Part(b)) = (&stream.from, &stream.to) {
                if a == b {
                    self.own(stream, *a, &mut kept[*a]);
                } else {
                    self.pair(stream, *a, *b, &mut kept);
                }
                self.together(&mut kept)?;
            }
        }
        Some(kept)
    }

    /// What else must hold of the sites of all parts: common ones where they have to be, and room for everything.
    fn together(&self, kept: &mut Kept) -> Option<()> {
        let problem = self.problem;
        let one = problem.request.order.constraints.max_sites == Some(1);
        for (part, of) in problem.parts.iter().enumerate() {
            let alone = one || of.one_site;
            if alone {
                let mut room = vec![0_u32; kept[part].len()];
                of.open().for_each(|(s, n)| room[s.site] = room[s.site].saturating_add(n));
                kept[part].iter_mut().zip(room).for_each(|(k, room)| *k &= room >= of.fewest);
            }
            for other in 0..part {
                let names = (&of.component.name, &problem.parts[other].component.name);
                let tied = of.component.place.colocate.contains(names.1)
                    || problem.parts[other].component.place.colocate.contains(names.0);
                if one || tied {
                    for site in 0..kept[part].len() {
                        let both = kept[part][site] && kept[other][site];
                        (kept[part][site], kept[other][site]) = (both, both);
                    }
                }
            }
        }
        let enough = problem.parts.iter().zip(kept.iter()).all(|(part, sites)| {
            let room: u64 = part.open().filter(|(s, _)| sites[s.site]).map(|(_, n)| u64::from(n)).sum();
            room >= u64::from(part.fewest.max(1))
        });
        enough.then_some(())
    }

    /// Drops sites at which a flow to or from fixed points cannot be had.
    fn fixed(&self, part: usize, sites: &mut [bool]) -> Option<()> {
        let problem = self.problem;
        for Test { stream, table } in self.fixed_tests(part) {
            let of = &problem.streams[stream];
            if of.demand == Some(0) {
                continue;
            }
            let passes = |site: usize| self.passes(of, table[problem.site_point(site) as usize]);
            if of.demand.is_some() && !self.every_site_serves(part) {
                // some site must, not each
                if !(0..sites.len()).any(|s| sites[s] && passes(s)) {
                    return None;
                }
                continue;
            }
            (0..sites.len()).for_each(|s| sites[s] = sites[s] && passes(s));
        }
        Some(())
    }

    /// Whether no site can be used without serving some of the only region's demand.
    fn every_site_serves(&self, part: usize) -> bool {
        let of = &self.problem.parts[part];
        let this = Place::Part(part);
        let regions = self.problem.streams.iter().filter(|s| s.demand.is_some() && s.to == this).count();
        let others = of.serves.saturating_mul(u64::from(of.most.saturating_sub(1)));
        of.most == 1 || (regions == 1 && of.demand > others)
    }

    /// The flows between a part and fixed points, with a table each.
    pub fn fixed_tests(&self, part: usize) -> Vec<Test> {
        let this = Place::Part(part);
        let of = &self.problem.parts[part];
        let touching = self.problem.streams.iter().enumerate().filter_map(|(i, s)| match (&s.from, &s.to) {
            (Place::Points(points), to) if *to == this => Some((i, s, points, Direction::Against)),
            (from, Place::Points(points)) if *from == this => Some((i, s, points, Direction::Along)),
            _ => None,
        });
        touching
            .map(|(stream, s, roots, walk)| {
                let kbps = least_kbps(self.problem, s, of, None);
                Test { stream, table: self.reach.quickest(s, self.rules, kbps, roots, walk) }
            })
            .collect()
    }

    /// Drops sites of either part from which no site of the other is near enough.
    fn pair(&self, stream: &Stream, a: usize, b: usize, kept: &mut Kept) {
        for (this, other, walk) in [(a, b, Direction::Along), (b, a, Direction::Against)] {
            let table = self.pair_table(stream, a, b, &kept[other], walk);
            let point = |site: usize| self.problem.site_point(site) as usize;
            let sites = &mut kept[this];
            (0..sites.len()).for_each(|s| sites[s] = sites[s] && self.passes(stream, table[point(s)]));
        }
    }

    /// Microseconds from every point to the nearest of `sites`, for a flow from part `a` to part `b`.
    pub fn pair_table(&self, stream: &Stream, a: usize, b: usize, sites: &[bool], walk: Direction) -> Rc<[u64]> {
        let parts = &self.problem.parts;
        let kbps = least_kbps(self.problem, stream, &parts[a], Some(&parts[b]));
        let roots: Rc<[u32]> = points(self.problem, sites).into();
        self.reach.quickest(stream, self.rules, kbps, &roots, walk)
    }

    /// Drops sites that cannot hold all replicas and have no other near enough.
    fn own(&self, stream: &Stream, part: usize, sites: &mut [bool]) {
        let needs = self.needs_others(part, sites);
        if !needs.contains(&true) {
            return;
        }
        let near = self.nearest_others(stream, sites);
        for site in 0..sites.len() {
            sites[site] = sites[site] && (!needs[site] || self.passes(stream, near[site]));
        }
    }

    /// By site: whether the part needs others beside it.
    pub fn needs_others(&self, part: usize, sites: &[bool]) -> Vec<bool> {
        let of = &self.problem.parts[part];
        let mut room = vec![0_u32; sites.len()];
        of.open().for_each(|(s, n)| room[s.site] = room[s.site].saturating_add(n));
        let spread = of.spread_site && of.fewest > 1;
        (0..sites.len()).map(|s| sites[s] && (spread || room[s] < of.fewest)).collect()
    }

    /// By site: microseconds to the nearest other of `sites` or from it, whichever is more.
    pub fn nearest_others(&self, stream: &Stream, sites: &[bool]) -> Vec<u64> {
        let list = points(self.problem, sites);
        let kbps = if stream.split { 1 } else { stream.kbps.unwrap_or(0) };
        let [on, back] = [Direction::Along, Direction::Against]
            .map(|walk| self.reach.nearest_other(stream, self.rules, kbps, &list, walk));
        let mut near = vec![FAR; sites.len()];
        let indices = (0..sites.len()).filter(|s| sites[*s]);
        indices.zip(on.into_iter().zip(back)).for_each(|(s, (on, back))| near[s] = on.max(back));
        near
    }

    pub fn passes(&self, stream: &Stream, us: u64) -> bool {
        us != FAR && (!self.rules.latency || (!stream.hopeless && stream.bound.is_none_or(|b| us <= b)))
    }
}

/// By site: whether the part has a stand there.
pub(crate) fn standing(problem: &Problem, part: &Part) -> Vec<bool> {
    let mut sites = vec![false; problem.view.sites.len()];
    part.open().for_each(|(s, _)| sites[s.site] = true);
    sites
}

fn points(problem: &Problem, sites: &[bool]) -> Vec<u32> {
    (0..sites.len()).filter(|s| sites[*s]).map(|s| problem.site_point(s)).collect()
}

/// No leg of the stream asks less of a link.
pub(crate) fn least_kbps(problem: &Problem, stream: &Stream, part: &Part, other: Option<&Part>) -> u64 {
    // one of several paths may carry next to nothing
    let most = if stream.split { 1 } else { u64::MAX };
    undivided_kbps(problem, stream, part, other).min(most)
}

fn undivided_kbps(problem: &Problem, stream: &Stream, part: &Part, other: Option<&Part>) -> u64 {
    let Some(kbps) = stream.kbps else {
        return if stream.span == Span::Run { 0 } else { problem.rungs.last().copied().unwrap_or(FAR) };
    };
    let most = u64::from(part.most.max(1));
    match (other, stream.demand) {
        (Some(other), _) => kbps / most / u64::from(other.most.max(1)),
        (None, _) if stream.copy || most == 1 => kbps,
        (None, Some(demand)) => kbps / demand.max(1),
        (None, None) => kbps / most,
    }
}
