//! What all explanations of one question share: the question itself, tables of its network, sites that hold the same.
//!
//! Of each site it tells a fact that shuts it out of every plan, where there is one: its rules, its hardware, its price,
//! the way to it, its state, its time. Each is read off one pass over the network for all sites, not searched for.

use crate::{
    alike::Alike,
    counterfactual::Bonds,
    network::Direction,
    part::Part,
    problem::{Place, Problem, Relax},
    reach::{Reach, Rules},
    room,
    sieve::{self, Kept, Sieve, Test},
    stand::{self, Told},
    telling,
};
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{
    Amount, Bandwidth, Latency, Reason, ReasonKind,
    quantity::Span as Length,
    ratio::{Ratio, round_half_up},
    state::SiteState,
};
use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

pub(crate) struct Inquest<'q, 'a> {
    /// What is free at any time; the base may look at what is free in the order's own time.
    pub whole: &'a View,
    /// Nothing is left aside here.
    pub base: &'q Problem<'a>,
    pub reach: Reach<'a>,
    alike: OnceCell<Alike>,
    /// By part and group of sites: why its hardware does not do.
    misfits: RefCell<HashMap<(usize, usize), Option<Told>>>,
    tests: RefCell<HashMap<Rules, Rc<Vec<Tests>>>>,
    standing: OnceCell<Vec<Vec<bool>>>,
    bills: OnceCell<Vec<Vec<Option<i128>>>>,
    finish: OnceCell<Vec<Vec<Option<Ratio>>>>,
    bonds: OnceCell<Bonds>,
    /// Thresholds that a reason and a change both speak of, once they are known.
    pub latencies: RefCell<BTreeMap<usize, Option<Latency>>>,
    pub budget: OnceCell<Option<Amount>>,
    pub deadline: OnceCell<Option<Timestamp>>,
}

/// What the flows of one part ask of a site, under some rules.
struct Tests {
    fixed: Vec<Test>,
    /// With the flow: tables of the nearest site of the part at its other end.
    pairs: Vec<Test>,
    /// Of flows of the part to itself: (stream, by site: microseconds to the nearest other).
    own: Vec<(usize, Vec<u64>)>,
    needs_others: Vec<bool>,
}

/// Rules on paths and the reasons they stand for, in precedence, each with all others in force.
const SINGLES: [(ReasonKind, Rules); 5] = [
    (ReasonKind::Jurisdiction, Rules { jurisdiction: false, ..Rules::ALL }),
    (ReasonKind::Latency, Rules { latency: false, ..Rules::ALL }),
    (ReasonKind::Bandwidth, Rules { bandwidth: false, ..Rules::ALL }),
    (ReasonKind::Encryption, Rules { encryption: false, ..Rules::ALL }),
    (ReasonKind::Stale, Rules { fresh: false, ..Rules::ALL }),
];

/// The same rules as they come into force one after the other.
const STEPS: [(ReasonKind, Rules); 5] = [
    (ReasonKind::NoPath, Rules::NONE),
    (ReasonKind::Jurisdiction, Rules { jurisdiction: true, ..Rules::NONE }),
    (ReasonKind::Latency, Rules { jurisdiction: true, latency: true, ..Rules::NONE }),
    (ReasonKind::Bandwidth, Rules { encryption: false, fresh: false, ..Rules::ALL }),
    (ReasonKind::Encryption, Rules { fresh: false, ..Rules::ALL }),
];

impl<'q, 'a> Inquest<'q, 'a> {
    pub fn new(base: &'q Problem<'a>) -> Self {
        Self::of(base, base.view)
    }

    pub fn of(base: &'q Problem<'a>, whole: &'a View) -> Self {
        Self {
            whole,
            base,
            reach: Reach::new(base),
            alike: OnceCell::new(),
            misfits: RefCell::default(),
            tests: RefCell::default(),
            standing: OnceCell::new(),
            bills: OnceCell::new(),
            finish: OnceCell::new(),
            bonds: OnceCell::new(),
            latencies: RefCell::default(),
            budget: OnceCell::new(),
            deadline: OnceCell::new(),
        }
    }

    /// By part and site: whether the part has room there.
    pub fn standing(&self) -> &[Vec<bool>] {
        let of = |part| sieve::standing(self.base, part);
        self.standing.get_or_init(|| self.base.parts.iter().map(of).collect())
    }

    pub fn bonds(&self) -> &Bonds {
        self.bonds.get_or_init(|| Bonds::new(self))
    }

    pub fn alike(&self) -> &Alike {
        self.alike.get_or_init(|| Alike::new(self.base.view, &self.base.net.index))
    }

    /// A fact that shuts the site out, of the component that comes nearest to standing there.
    pub fn fact(&self, site: usize) -> Option<Reason> {
        if let Some(told) =
            stand::rule(self.base.view, &self.base.view.sites[site], &self.base.request.order.constraints)
        {
            let component = self.base.parts.first().map(|p| p.component.name.clone());
            return Some(self.reason(told, site, component, None));
        }
        let mut nearest: Option<(u8, Reason)> = None;
        for part in 0..self.base.parts.len() {
            let (stage, fact) = self.staged(part, site)?;
            let further = |(s, r): &(u8, Reason)| (stage, &r.reason) > (*s, &fact.reason);
            if nearest.as_ref().is_none_or(further) {
                nearest = Some((stage, fact));
            }
        }
        nearest.map(|(_, fact)| fact)
    }

    /// A fact for which the component cannot stand at the site. `None`: none is known.
    pub fn fact_of(&self, part: usize, site: usize) -> Option<Reason> {
        self.staged(part, site).map(|(_, fact)| fact)
    }

    /// The fact, and how near the component comes to standing there.
    fn staged(&self, part: usize, site: usize) -> Option<(u8, Reason)> {
        let at = &self.base.view.sites[site];
        let of = |told: Told, flow| {
            let name = Some(self.base.parts[part].component.name.clone());
            self.reason(told, site, name, flow)
        };
        let by_kind = |told: Told| (stage(told.0), of(told, None));
        if let Some(told) = stand::rule(self.base.view, at, &self.base.request.order.constraints) {
            return Some(by_kind(told));
        }
        if at.whole.is_empty() && at.site.state == SiteState::NeverSeen {
            return stand::away(at).map(by_kind);
        }
        if let Some(told) = self.hardware(part, site) {
            return Some(by_kind(told));
        }
        let mut facts: Vec<(Told, Option<u32>)> = Vec::new();
        let plain = |told: Option<Told>| told.map(|told| (told, None));
        facts.extend(plain(self.dear(part, site)));
        facts.extend(plain(self.long(part, site)));
        let (path, alone) = match self.path(part, site) {
            Some((flow, told, alone)) => (Some((told, Some(flow))), alone),
            None => (None, true),
        };
        facts.extend(path);
        facts.extend(plain(stand::away(at)));
        facts.extend(plain(self.late(part, site)));
        let rank = if alone && facts.len() == 1 { LAST } else { FARTHEST };
        facts.into_iter().next().map(|(told, flow)| (rank, of(told, flow)))
    }

    fn reason(
        &self,
        (reason, needed, free): Told,
        site: usize,
        component: Option<rhumb_model::ComponentName>,
        flow: Option<u32>,
    ) -> Reason {
        let site = Some(self.base.view.sites[site].site.name.clone());
        Reason { reason, component, flow, site, needed, free }
    }

    /// What the site holds does not do for one replica, or for all of those that must share it.
    pub fn hardware(&self, part: usize, site: usize) -> Option<Told> {
        let alike = self.alike();
        let group = alike.group[site];
        if let Some(known) = self.misfits.borrow().get(&(part, group)) {
            return known.clone();
        }
        let first = alike.first[group];
        let of = &self.base.parts[part];
        let at = &self.base.view.sites[first];
        let told =
            stand::misfit(self.base.view, self.base.request, of.component, at).or_else(|| self.all_here(of, first));
        self.misfits.borrow_mut().insert((part, group), told.clone());
        told
    }

    /// A component whose replicas must share a site, of which this one holds some but not all.
    fn all_here(&self, of: &Part, site: usize) -> Option<Told> {
        let one = of.one_site || self.base.request.order.constraints.max_sites == Some(1);
        if !one || of.fewest < 2 {
            return None;
        }
        let at = &self.base.view.sites[site];
        let models: Vec<_> = match &of.component.need.accelerators {
            None => vec![None],
            Some(_) => at.site.prices.devices.keys().map(Some).collect(),
        };
        let room = |nodes: &[rhumb_federation::FreeNodes]| -> u32 {
            models.iter().map(|m| room::most(of.component, *m, nodes, of.fewest)).fold(0, u32::saturating_add)
        };
        let free = room(&at.nodes);
        let joined = of.component.need.accelerators.as_ref().map(|a| a.interconnect);
        let bound = joined.filter(|_| of.one_site && room(&at.whole) < of.fewest);
        (free < of.fewest).then(|| match bound {
            Some(joined) => (
                ReasonKind::Interconnect,
                format!("{} replicas on one {joined}", of.fewest),
                format!("room for {free}"),
            ),
            None => (ReasonKind::Capacity, format!("{} replicas at one site", of.fewest), format!("room for {free}")),
        })
    }

    /// The compute alone of any plan with the component here is beyond the budget.
    fn dear(&self, part: usize, site: usize) -> Option<Told> {
        let budget = self.base.budget?;
        let bill = self.bills.get_or_init(|| sieve::bills(self.base))[part][site]?;
        let given = self.base.request.order.terms.budget?;
        let needed = || format!("{} at the least", telling::money(bill, self.base.view));
        (Ratio::from_integer(bill) > budget).then(|| (ReasonKind::Budget, needed(), given.to_string()))
    }

    /// The work takes longer here than the order's window is ever open.
    fn long(&self, part: usize, site: usize) -> Option<Told> {
        let open = sieve::longest_opening(self.base)?;
        let window = self.base.request.order.terms.window.as_ref()?;
        let hours = self.hours(part, site)?;
        (hours > open).then(|| {
            let length =
                Length::from_micros(u64::try_from(round_half_up(hours / Ratio::from_integer(1000))).unwrap_or(0));
            (ReasonKind::PriceWindow, length.to_string(), format!("{} to {} {}", window.from, window.to, window.tz))
        })
    }

    /// Nanoseconds that the work of the longest component takes at the least.
    pub fn longest_work(&self) -> Option<Ratio> {
        let least = |part: &Part| part.open().map(|(s, _)| part.hours_of(s)).min();
        self.base.parts.iter().filter_map(least).max()
    }

    fn hours(&self, part: usize, site: usize) -> Option<Ratio> {
        let of = &self.base.parts[part];
        of.open().filter(|(s, _)| s.site == site).map(|(s, _)| of.hours_of(s)).min()
    }

    /// No plan with the component here is done by the deadline.
    fn late(&self, part: usize, site: usize) -> Option<Told> {
        let deadline = self.base.deadline.filter(|_| self.base.late.is_none())?;
        let all = self.finish.get_or_init(|| {
            // as early as with any path at all: where a rule on paths makes it late, that rule is the reason
            let sieve = Sieve { problem: self.base, reach: &self.reach, rules: Rules::NONE };
            (0..self.base.parts.len()).map(|part| sieve.finish(part)).collect()
        });
        let finish = all[part][site]?;
        let given = self.base.request.order.terms.deadline?;
        (finish > deadline).then(|| {
            let at = crate::answer::instant(self.base, &finish).map_or(String::new(), |t| t.to_string());
            (ReasonKind::Deadline, format!("finish at {at} at the earliest"), format!("deadline {given}"))
        })
    }

    fn tests(&self, rules: Rules) -> Rc<Vec<Tests>> {
        if let Some(known) = self.tests.borrow().get(&rules) {
            return Rc::clone(known);
        }
        let sieve = Sieve { problem: self.base, reach: &self.reach, rules };
        let base = self.base;
        let mut tests: Vec<Tests> = (0..base.parts.len())
            .map(|part| Tests {
                fixed: sieve.fixed_tests(part),
                pairs: Vec::new(),
                own: Vec::new(),
                needs_others: Vec::new(),
            })
            .collect();
        // where each part could stand as far as its flows with fixed points go
        let could: Kept = (0..base.parts.len())
            .map(|part| {
                let mut sites = self.standing()[part].clone();
                (0..sites.len())
                    .for_each(|s| sites[s] = sites[s] && self.fixed_fails(&sieve, &tests[part], s).is_none());
                sites
            })
            .collect();
        for (index, stream) in base.streams.iter().enumerate() {
            let (Place::Part(a), Place::Part(b)) = (&stream.from, &stream.to) else { continue };
            if a == b {
                let needs = sieve.needs_others(*a, &could[*a]);
                if needs.contains(&true) {
                    let near = sieve.nearest_others(stream, &could[*a]);
                    tests[*a].own.push((index, near));
                }
                tests[*a].needs_others = needs;
                continue;
            }
            for (this, other, walk) in [(*a, *b, Direction::Along), (*b, *a, Direction::Against)] {
                if could[other].contains(&true) {
                    let table = sieve.pair_table(stream, *a, *b, &could[other], walk);
                    tests[this].pairs.push(Test { stream: index, table });
                }
            }
        }
        let tests = Rc::new(tests);
        self.tests.borrow_mut().insert(rules, Rc::clone(&tests));
        tests
    }

    /// The first flow with a fixed point that fails at the site, with its microseconds.
    fn fixed_fails(&self, sieve: &Sieve, tests: &Tests, site: usize) -> Option<(usize, u64)> {
        let point = self.base.site_point(site) as usize;
        let streams = &self.base.streams;
        let regions = tests.fixed.iter().filter(|t| streams[t.stream].demand.is_some()).count();
        let fails = |t: &&Test| !sieve.passes(&streams[t.stream], t.table[point]);
        // of several regions it is enough to serve one
        let served = regions > 1 && tests.fixed.iter().any(|t| streams[t.stream].demand.is_some() && !fails(&t));
        let counts = |t: &&Test| streams[t.stream].demand.is_none() || !served;
        tests.fixed.iter().filter(counts).find(fails).map(|t| (t.stream, t.table[point]))
    }

    /// The first flow that fails at the site under the rules, with its microseconds.
    fn fails(&self, part: usize, site: usize, rules: Rules) -> Option<(usize, u64)> {
        let sieve = Sieve { problem: self.base, reach: &self.reach, rules };
        let tests = self.tests(rules);
        let tests = &tests[part];
        let point = self.base.site_point(site) as usize;
        let streams = &self.base.streams;
        let pair = || tests.pairs.iter().map(|t| (t.stream, t.table[point]));
        let lonely = tests.needs_others.get(site).copied().unwrap_or(false);
        let own = || tests.own.iter().filter(|_| lonely).map(|(stream, near)| (*stream, near[site]));
        self.fixed_fails(&sieve, tests, site)
            .or_else(|| pair().chain(own()).find(|(stream, us)| !sieve.passes(&streams[*stream], *us)))
    }

    /// Whether leaving the rule aside can change anything.
    fn asked(&self, kind: ReasonKind) -> bool {
        let order = self.base.request.order;
        match kind {
            ReasonKind::Jurisdiction => !order.constraints.jurisdictions.is_empty(),
            ReasonKind::Latency => order.flows.iter().any(|f| f.max_latency.is_some()),
            ReasonKind::Encryption => self.base.streams.iter().any(|s| s.encrypted),
            ReasonKind::Stale => self.reach.any_old(),
            _ => true,
        }
    }

    /// The flow that cannot be had with the component at the site, the rule on paths that stands in the way, and whether
    /// it is the only one.
    fn path(&self, part: usize, site: usize) -> Option<(u32, Told, bool)> {
        let failing = self.fails(part, site, Rules::ALL)?;
        let single = self.singles(part, site).next();
        let alone = single.is_some();
        let (kind, rules, fails) = match single {
            Some(kind) => (kind, Rules::ALL, failing),
            None => STEPS
                .iter()
                .find_map(|(kind, rules)| Some((*kind, *rules, self.fails(part, site, *rules)?)))
                .unwrap_or((ReasonKind::Stale, Rules::ALL, failing)),
        };
        let (flow, told) = self.tell(part, site, kind, rules, fails);
        Some((flow, told, alone))
    }

    /// Rules on paths without any one of which each flow of the component at the site has a path, in precedence. Flows are
    /// seen one by one: where two need the same link, a rule may be named that is not enough.
    fn singles(&self, part: usize, site: usize) -> impl Iterator<Item = ReasonKind> {
        let asked = SINGLES.iter().filter(|(kind, _)| self.asked(*kind));
        asked.filter(move |(_, rules)| self.fails(part, site, *rules).is_none()).map(|(kind, _)| *kind)
    }

    /// The other rules on paths that may be the one which keeps the fact's component from the site, in precedence, each as
    /// a fact. None where flows cannot be in each other's way.
    pub fn others<'f>(&'f self, fact: &'f Reason, site: usize) -> impl Iterator<Item = Reason> + use<'f, 'q, 'a> {
        let named = |part: &Part| Some(&part.component.name) == fact.component.as_ref();
        let part = self.base.parts.iter().position(named).filter(|_| self.base.streams.len() > 1);
        let is_path = SINGLES.iter().any(|(kind, _)| *kind == fact.reason) && fact.flow.is_some();
        let found = part.filter(|_| is_path).and_then(|part| Some((part, self.fails(part, site, Rules::ALL)?)));
        found.into_iter().flat_map(move |(part, failing)| {
            let others = self.singles(part, site).filter(|kind| *kind > fact.reason);
            others.map(move |kind| {
                let (flow, told) = self.tell(part, site, kind, Rules::ALL, failing);
                let name = Some(self.base.parts[part].component.name.clone());
                self.reason(told, site, name, Some(flow))
            })
        })
    }

    /// The flow that a rule keeps from a path, with what is needed and what there is.
    fn tell(
        &self,
        part: usize,
        site: usize,
        kind: ReasonKind,
        rules: Rules,
        (stream, us): (usize, u64),
    ) -> (u32, Told) {
        let of = &self.base.streams[stream];
        let order = self.base.request.order;
        let flow = &order.flows[of.flow];
        let within = flow.max_latency.filter(|_| rules.latency).map_or(String::new(), |b| format!(" within {b}"));
        let told = match kind {
            ReasonKind::Jurisdiction => {
                (kind, stand::list(&order.constraints.jurisdictions), format!("no path inside{within}"))
            }
            ReasonKind::Latency => {
                let least = Latency::from_micros(us.saturating_add(of.access));
                (kind, flow.max_latency.unwrap_or_default().to_string(), format!("{least} at the least"))
            }
            ReasonKind::Bandwidth => {
                let kbps = of.kbps.unwrap_or_else(|| self.base.rungs.last().copied().unwrap_or(0));
                let wide = self.wide(part, site, stream, rules);
                let free = match wide {
                    Some(wide) if wide < kbps => format!("{} on the widest path", Bandwidth::from_kbps(wide)),
                    _ => format!("no path as wide{within}"),
                };
                (kind, Bandwidth::from_kbps(kbps).to_string(), free)
            }
            ReasonKind::Encryption => (kind, "encrypted links".to_owned(), format!("no path of them{within}")),
            ReasonKind::Stale => (kind, "fresh figures".to_owned(), format!("no path of links that have them{within}")),
            kind => (kind, format!("a path from {} to {}", flow.from, flow.to), "none".to_owned()),
        };
        (of.flow as u32, told)
    }

    /// What the widest path of a flow with fixed points carries to the site.
    fn wide(&self, part: usize, site: usize, stream: usize, rules: Rules) -> Option<u64> {
        let of = &self.base.streams[stream];
        let this = Place::Part(part);
        let (roots, walk) = match (&of.from, &of.to) {
            (Place::Points(points), to) if *to == this => (points, Direction::Against),
            (from, Place::Points(points)) if *from == this => (points, Direction::Along),
            _ => return None,
        };
        Some(self.reach.widest(of, rules, roots, walk)[self.base.site_point(site) as usize])
    }

    /// Whether a component has no site that its own needs and its flows with fixed points leave it.
    pub fn nowhere(&self, part: usize) -> bool {
        let sieve = Sieve { problem: self.base, reach: &self.reach, rules: Rules::ALL };
        let tests = self.tests(Rules::ALL);
        let standing = &self.standing()[part];
        !(0..standing.len()).any(|s| standing[s] && self.fixed_fails(&sieve, &tests[part], s).is_none())
    }

    /// Whether the flow is the part's own with a fixed point, and fails at the site.
    pub fn misses(&self, part: usize, stream: usize, site: usize) -> bool {
        let sieve = Sieve { problem: self.base, reach: &self.reach, rules: Rules::ALL };
        let tests = self.tests(Rules::ALL);
        let point = self.base.site_point(site) as usize;
        let of = |t: &&Test| t.stream == stream;
        tests[part].fixed.iter().find(of).is_some_and(|t| !sieve.passes(&self.base.streams[stream], t.table[point]))
    }

    /// The question with constraints left aside, on the sites that the sieve keeps. `None`: it has no plan.
    pub fn relaxed(&self, relax: Relax) -> Option<Problem<'_>> {
        sieved(self.base.relaxed(relax), &self.reach)
    }
}

/// The problem on the sites that the sieve keeps. `None`: it has no plan.
pub(crate) fn sieved<'b>(problem: Problem<'b>, reach: &Reach) -> Option<Problem<'b>> {
    let kept = Sieve::new(&problem, reach).kept()?;
    Some(problem.at(&kept))
}

/// How near to a fit a site's refusal is: its rules, its hardware, its room.
pub(crate) fn stage(kind: ReasonKind) -> u8 {
    match kind {
        ReasonKind::NotAllowed | ReasonKind::Jurisdiction | ReasonKind::Label => 0,
        ReasonKind::Model => 1,
        ReasonKind::Precision | ReasonKind::Memory | ReasonKind::Interconnect => 2,
        ReasonKind::Shape | ReasonKind::Capacity | ReasonKind::Quota => 3,
        _ => FARTHEST,
    }
}

/// Everything that the site itself says is passed, and more than one thing stands in the way, or but one.
const FARTHEST: u8 = 4;
const LAST: u8 = 5;
