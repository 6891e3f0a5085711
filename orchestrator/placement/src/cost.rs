//! The cost of a placement whose legs are chosen: exact terms, each rounded once, and when it starts and ends.

use crate::{
    field::{GRAINS, Value},
    lost,
    option::{Choice, Matter},
    problem::{HOUR, Problem, Span},
    window::{Meter, OUTLOOK},
};
use num_traits::{CheckedAdd, CheckedDiv, CheckedMul, CheckedSub};
use rhumb_model::ratio::{Ratio, round_half_up};

/// Micro-units by term, each rounded half up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub total: i64,
    pub compute: i64,
    pub path: i64,
    pub transfer: i64,
    pub time: i64,
    pub lateness: i64,
    pub fragmentation: i64,
}

/// When all components start and when the last byte is out, in nanoseconds since submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub start: Ratio,
    pub finish: Ratio,
}

/// Price edges that a start may wait for, at most: more than a year of a few windows a day.
const EDGES: usize = 4_096;

/// What the replicas of a component at one site cost.
pub(crate) struct Bill<'p> {
    site: usize,
    meter: Meter<'p>,
    /// Micro-units per hour at factor 1.
    price: Ratio,
    /// Nanoseconds.
    hours: Ratio,
}

/// A placement's compute, priced for any start.
pub(crate) struct Compute<'p, 'a> {
    problem: &'p Problem<'a>,
    bills: Vec<Bill<'p>>,
    /// Hours of the longest component, in nanoseconds.
    pub longest: Ratio,
    /// No window changes the price at any site used.
    flat: bool,
    sites: Vec<usize>,
    /// Micro-units for the capacity that the placement makes unusable.
    lost: i64,
}

/// What the chosen legs cost, whatever the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried {
    /// Of volume legs, micro-units.
    pub path: Ratio,
    pub transfer: Ratio,
    /// Of other legs, micro-units per nanosecond.
    pub held: Ratio,
    /// The longest inbound and outbound transfer, in nanoseconds.
    pub inbound: Ratio,
    pub outbound: Ratio,
}

impl Carried {
    pub const fn nothing() -> Self {
        let zero = Ratio::new_raw(0, 1);
        Self { path: zero, transfer: zero, held: zero, inbound: zero, outbound: zero }
    }

    pub fn with(&self, choice: &Choice, span: Span) -> Option<Self> {
        let mut sum = *self;
        if span == Span::Run {
            sum.held = sum.held.checked_add(&choice.path)?;
            return Some(sum);
        }
        sum.path = sum.path.checked_add(&choice.path)?;
        sum.transfer = sum.transfer.checked_add(&choice.transfer)?;
        match span {
            Span::Inbound => sum.inbound = sum.inbound.max(choice.time),
            _ => sum.outbound = sum.outbound.max(choice.time),
        }
        Some(sum)
    }
}

impl<'p, 'a> Compute<'p, 'a> {
    /// `placed`: by component, (stand, replicas). Of several models the slowest counts, and all are paid for that long.
    pub fn new(problem: &'p Problem<'a>, placed: &[Vec<(usize, u32)>]) -> Option<Self> {
        let zero = Ratio::from_integer(0);
        let mut compute = Self { problem, bills: Vec::new(), longest: zero, flat: true, sites: Vec::new(), lost: 0 };
        for (part, list) in problem.parts.iter().zip(placed) {
            let hours = list.iter().map(|(s, _)| part.hours(*s)).max()?;
            compute.longest = compute.longest.max(hours);
            for (stand, replicas) in list {
                let price = part.price(*stand)?.checked_mul(&Ratio::from_integer(i128::from(*replicas)))?;
                let site = part.stands[*stand].site;
                let meter = problem.meter(site);
                compute.flat &= meter.is_flat();
                compute.sites.push(site);
                compute.bills.push(Bill { site, meter, price, hours });
            }
        }
        compute.sites.sort_unstable();
        compute.sites.dedup();
        if let Some(price) = &problem.fragmentation {
            compute.lost = lost::cost(problem, placed, price, &compute.longest)?;
        }
        Some(compute)
    }

    pub fn sites(&self) -> usize {
        self.sites.len()
    }

    /// Whether and how the time of transfers into components matters. `held`: some leg pays by the hour until `finish`,
    /// and some leg goes out after the run.
    pub fn matter(&self, span: Span, held: bool) -> Matter {
        let p = self.problem;
        if p.window.is_some() || (span == Span::Inbound && !self.flat) {
            return Matter::Any;
        }
        let timeless = p.value == Ratio::from_integer(0) && p.deadline.is_none();
        let held = span == Span::Outbound && held;
        if timeless && !held { Matter::None } else { Matter::Sooner }
    }

    pub fn may_wait(&self) -> bool {
        let p = self.problem;
        let valued = p.request.order.terms.value_per_hour.is_some();
        p.deadline.is_some() && !valued && p.window.is_none() && !self.flat
    }

    /// Of choices of the only leg that stages in, cheapest first: which may give a cheaper plan than those before them.
    /// A slower one only adds its own instant to the starts, of no use where an earlier start pays less.
    pub fn worth_waiting(&self, choices: &[Choice]) -> Vec<bool> {
        let all = vec![true; choices.len()];
        let Some(quickest) = choices.iter().map(|c| c.time).min().filter(|_| self.may_wait()) else { return all };
        let slowest = choices.iter().map(|c| c.time).max().unwrap_or(quickest);
        let mut edges: Vec<i128> =
            self.sites.iter().flat_map(|s| self.problem.meter(*s).edges(&quickest, &slowest)).collect();
        edges.sort_unstable();
        edges.dedup();
        let edges: Vec<(i128, i128)> =
            edges.into_iter().take(EDGES).filter_map(|e| Some((e, self.paid_from(e)?))).collect();
        // what whole numbers leave out of the price of an hour
        let margin = self.bills.iter().map(|b| 4 + 2 * (b.hours.to_integer() / HOUR + 1)).sum::<i128>();
        let mut first: Option<(i128, i128)> = None;
        let of = |choice: &Choice| {
            let time = choice.time.ceil().to_integer();
            let Some(paid) = self.paid_from(time) else { return true };
            let sooner = first.filter(|(start, _)| *start < time);
            let cheaper = sooner.is_some_and(|(start, known)| {
                let waits = edges.iter().filter(|(e, _)| (start + 1..time).contains(e)).map(|(_, paid)| *paid);
                waits.chain([known]).any(|other| other + margin < paid)
            });
            if first.is_none_or(|(start, _)| time < start) {
                first = Some((time, paid));
            }
            !cheaper
        };
        choices.iter().map(of).collect()
    }

    fn paid_from(&self, start: i128) -> Option<i128> {
        self.quick(&Ratio::from_integer(start))
    }

    /// The cheapest start that `carried` allows, the earliest of equals. `None`: no start meets the terms.
    pub fn best(&self, carried: &Carried) -> Option<(Terms, Times)> {
        let p = self.problem;
        let length = self.longest.checked_add(&carried.outbound)?;
        if let Some(window) = &p.window {
            let all = length.checked_add(&carried.inbound)?;
            let begin = Meter::new(window, p.request.submit).first_opening(&all, OUTLOOK)?;
            return self.at(&Ratio::from_integer(begin).checked_add(&carried.inbound)?, carried);
        }
        let mut best = self.at(&carried.inbound, carried);
        if let (true, Some(deadline)) = (self.may_wait(), p.deadline) {
            let mut last = deadline.checked_sub(&length)?;
            // where every day is like the one before, a later edge has an earlier twin that costs the same
            let end = deadline.ceil().to_integer();
            if self.sites.iter().all(|s| p.meter(*s).daily_until(end)) {
                last = last.min(carried.inbound.checked_add(&Ratio::from_integer(24 * HOUR))?);
            }
            let mut edges: Vec<i128> =
                self.sites.iter().flat_map(|s| p.meter(*s).edges(&carried.inbound, &last)).collect();
            edges.sort_unstable();
            edges.dedup();
            for edge in edges.into_iter().take(EDGES) {
                // what else the plan costs grows with the start, so compute alone tells that an edge cannot be better
                let compute = self.quick(&Ratio::from_integer(edge));
                if let (Some(least), Some((terms, _))) = (compute, &best)
                    && least > i128::from(terms.compute) + 1
                {
                    continue;
                }
                let other = self.at(&Ratio::from_integer(edge), carried);
                if let Some((terms, _)) = &other
                    && best.as_ref().is_none_or(|(b, _)| terms.total < b.total)
                {
                    best = other;
                }
            }
        }
        best
    }

    /// The terms of a start, if it keeps deadline and budget.
    fn at(&self, start: &Ratio, carried: &Carried) -> Option<(Terms, Times)> {
        let p = self.problem;
        let zero = Ratio::from_integer(0);
        let held = self.longest.checked_add(&carried.outbound)?;
        let finish = start.checked_add(&held)?;
        let past = match p.deadline {
            Some(deadline) => finish.checked_sub(&deadline)?.max(zero),
            None => zero,
        };
        if past > zero && p.late.is_none() {
            return None;
        }
        let mut compute = zero;
        for bill in &self.bills {
            let factored = bill.meter.integral(start, &bill.hours)?;
            compute = compute.checked_add(&bill.price.checked_mul(&factored)?)?;
        }
        compute = compute.checked_div(&Ratio::from_integer(HOUR))?;
        let path = carried.path.checked_add(&carried.held.checked_mul(&held)?)?;
        if let Some(budget) = &p.budget
            && compute.checked_add(&path)?.checked_add(&carried.transfer)? > *budget
        {
            return None;
        }
        let time = p.value.checked_mul(&finish)?;
        let lateness = p.late.unwrap_or(zero).checked_mul(&past)?;
        let [compute, path, transfer, time, lateness] = [compute, path, carried.transfer, time, lateness].map(rounded);
        let (compute, path, transfer, time, lateness) = (compute?, path?, transfer?, time?, lateness?);
        let fragmentation = self.lost;
        let total = [path, transfer, time, lateness, fragmentation].into_iter().try_fold(compute, i64::checked_add)?;
        Some((Terms { total, compute, path, transfer, time, lateness, fragmentation }, Times { start: *start, finish }))
    }

    /// No start costs less, whatever the legs: each replica's least, rounded down.
    pub fn least(&self) -> Option<i128> {
        let mut sum = Ratio::from_integer(0);
        for bill in &self.bills {
            sum = sum.checked_add(&bill.price.checked_mul(&self.problem.least(bill.site, &bill.hours)?)?)?;
        }
        let least = sum.checked_div(&Ratio::from_integer(HOUR))?.floor().to_integer();
        least.checked_add(i128::from(self.lost))
    }

    /// The least that compute costs from this start on, rounded down, by whole numbers alone.
    fn quick(&self, start: &Ratio) -> Option<i128> {
        let mut sum = 0_i128;
        let begin = start.to_integer();
        for bill in &self.bills {
            let (paid, scale) = bill.meter.whole(begin, bill.hours.to_integer())?;
            // either end is off by less than a nanosecond, which costs less than a micro-unit at any price below
            let price = Some(bill.price.to_integer()).filter(|p| *p < 1 << 40)?;
            sum += paid.checked_mul(price)? / scale / HOUR - 1;
        }
        Some(sum)
    }

    /// No plan with just these legs costs less.
    pub fn bound_at(&self, least: i128, carried: &Carried) -> Option<i128> {
        Some(self.bound(least, carried)? + self.late_start(least, &carried.inbound))
    }

    /// What compute costs more than at the least when it starts after staging of that length.
    fn late_start(&self, least: i128, inbound: &Ratio) -> i128 {
        if self.flat || self.may_wait() || self.problem.window.is_some() {
            return 0;
        }
        // without a choice of starts compute is known
        (self.quick(inbound).unwrap_or(least) - least).max(0)
    }

    /// `bound_at` in parts whose sum is never above it, where legs of `held` run: what is the same for all other legs.
    pub fn at_base(&self, least: i128, held: &Ratio) -> i128 {
        let value = self.problem.starts().value();
        least.saturating_add(timed(held, &self.longest)).saturating_add(paid(value, &self.longest))
    }

    /// What a choice of legs that stage in adds to the base.
    pub fn staging_in(&self, least: i128, legs: &Carried) -> i128 {
        self.moved(legs, &legs.inbound).saturating_add(self.late_start(least, &legs.inbound))
    }

    /// What a choice of legs that move results out adds.
    pub fn moving_out(&self, legs: &Carried, held: Value) -> i128 {
        self.moved(legs, &legs.outbound).saturating_add(paid(held, &legs.outbound))
    }

    fn moved(&self, legs: &Carried, time: &Ratio) -> i128 {
        let sums = legs.path.floor().to_integer().saturating_add(legs.transfer.floor().to_integer());
        sums.saturating_add(paid(self.problem.starts().value(), time))
    }

    /// The total of any plan whose path and transfer cost no less than these, each for itself, and that starts no sooner;
    /// with every term rounded as a plan rounds it.
    pub fn rounded_bound(&self, carried: &Carried) -> Option<i64> {
        let p = self.problem;
        let held = self.longest.checked_add(&carried.outbound)?;
        let path = rounded(carried.path.checked_add(&carried.held.checked_mul(&held)?)?)?;
        let time = p.value.checked_mul(&held.checked_add(&carried.inbound)?)?;
        let compute = if self.flat {
            let exact = self.bills.iter().try_fold(Ratio::from_integer(0), |sum, bill| {
                sum.checked_add(&bill.price.checked_mul(&bill.meter.integral(&Ratio::from_integer(0), &bill.hours)?)?)
            })?;
            rounded(exact.checked_div(&Ratio::from_integer(HOUR))?)?
        } else {
            i64::try_from(self.least()?).ok()?
        };
        compute.checked_add(path)?.checked_add(rounded(carried.transfer)?)?.checked_add(rounded(time)?)
    }

    /// Micro-units that a plan can save by a nanosecond less of staging, or of moving results out while legs of `held`
    /// micro-units a nanosecond are paid for; at the most.
    pub fn slope(&self, span: Span, held: &Ratio) -> Option<Ratio> {
        let p = self.problem;
        let time = p.value.checked_add(&p.late.unwrap_or(Ratio::from_integer(0)))?;
        if span != Span::Inbound {
            return time.checked_add(held);
        }
        self.bills.iter().try_fold(time, |sum, bill| {
            let (lowest, highest) = bill.meter.factors();
            let swing = bill.price.checked_mul(&(highest - lowest))?.checked_div(&Ratio::from_integer(HOUR))?;
            sum.checked_add(&swing)
        })
    }

    /// No plan whose legs cost and take at least so much costs less, start by start. `None`: it would cost more than any.
    /// `until`: what is staged is staged by then, in nanoseconds.
    pub fn bound_of_all(&self, least: i128, floors: &Carried, until: Option<i128>) -> Option<i128> {
        let p = self.problem;
        let Some(bound) = self.bound(least, floors) else { return Some(0) };
        let held = self.longest.to_integer().saturating_add(floors.outbound.to_integer());
        let bills = self.bills.iter().map(|b| (b.meter, b.hours.to_integer(), b.price.to_integer()));
        let inbound = floors.inbound.to_integer();
        let Some(mut compute) = p.starts().least_of_all(bills, (inbound, until), held) else { return Some(bound) };
        if let (true, Some(deadline)) = (self.may_wait(), p.deadline) {
            let last = deadline.to_integer() - held;
            if !self.sites.iter().all(|s| p.meter(*s).daily_until(last + self.longest.to_integer())) {
                return Some(bound);
            }
            // a later edge has an earlier twin that costs the same
            let (after, last) = (inbound - 1, last.min(inbound + 24 * HOUR));
            let edges = |s: &usize| p.meter(*s).edges(&Ratio::from_integer(after), &Ratio::from_integer(last));
            for edge in self.sites.iter().flat_map(edges) {
                let Some(paid) = self.paid_from(edge) else { return Some(bound) };
                compute = compute.min(paid);
            }
        }
        let timeless = Carried { inbound: Ratio::from_integer(0), ..*floors };
        // compute and the time until the start are counted together
        let legs = self.bound(i128::from(self.lost), &timeless)?;
        (compute < i128::MAX).then(|| bound.max(compute.saturating_add(legs)))
    }

    /// Whether legs that take at least so long keep no hard deadline.
    pub fn too_late(&self, carried: &Carried) -> bool {
        let (Some(deadline), None) = (self.problem.deadline, self.problem.late) else { return false };
        let both = carried.inbound.checked_add(&carried.outbound);
        both.and_then(|both| both.checked_add(&self.longest)).is_some_and(|all| all > deadline)
    }

    /// How long a leg of this span may take, in nanoseconds, where all legs take at least what `floors` says and the plan
    /// may cost `extra` micro-units more than with these. `None`: there is no telling.
    pub fn latest(&self, span: Span, floors: &Carried, extra: Option<i128>) -> Option<Ratio> {
        let p = self.problem;
        let (own, other) = match span {
            Span::Run => return None,
            Span::Inbound => (floors.inbound, floors.outbound),
            Span::Outbound => (floors.outbound, floors.inbound),
        };
        let end = p.deadline.filter(|_| p.late.is_none());
        let end = end.and_then(|end| end.checked_sub(&self.longest)?.checked_sub(&other));
        let paid = if span == Span::Outbound { p.value.checked_add(&floors.held)? } else { p.value };
        let dear = extra.filter(|_| paid > Ratio::from_integer(0)).and_then(|extra| {
            // rounded up, so that what remains to be reckoned with stays small
            let more = Ratio::from_integer(extra).checked_div(&paid)?.ceil();
            own.checked_add(&more)
        });
        [end, dear].into_iter().flatten().min()
    }

    /// No plan with these legs and at least these transfer times costs less.
    pub fn bound(&self, least: i128, carried: &Carried) -> Option<i128> {
        let p = self.problem;
        let held = self.longest.checked_add(&carried.outbound)?;
        let path = carried.path.checked_add(&carried.held.checked_mul(&held)?)?;
        let time = p.value.checked_mul(&held.checked_add(&carried.inbound)?)?;
        least.checked_add(path.floor().to_integer() + carried.transfer.floor().to_integer() + time.floor().to_integer())
    }
}

/// Micro-units that a value of time comes to, rounded down.
fn paid(value: Value, time: &Ratio) -> i128 {
    i128::from(value.of(time.to_integer()) / GRAINS)
}

/// Micro-units that a rate comes to, rounded down; out of range it counts as nothing.
fn timed(rate: &Ratio, time: &Ratio) -> i128 {
    rate.checked_mul(time).map_or(0, |r| r.floor().to_integer())
}

pub(crate) fn rounded(value: Ratio) -> Option<i64> {
    // beyond this the rounding itself would overflow
    (value.numer().unsigned_abs().leading_zeros() > 2 && value.denom().unsigned_abs().leading_zeros() > 2)
        .then(|| i64::try_from(round_half_up(value)).ok())
        .flatten()
}
