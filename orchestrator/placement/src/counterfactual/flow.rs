//! Changes of a flow: how late, how wide, how much, how secret.

use super::{Found, Scope, Trial, found, relative, threshold, whole};
use crate::{
    network::Direction,
    problem::{Place, Problem},
    reach::FAR,
    sieve::Sieve,
};
use rhumb_model::{Bandwidth, Bytes, Latency, Order, quantity::Demand};

pub(super) fn changes(trial: &Trial, index: usize, all: &mut Vec<Found>) {
    let f = &trial.order().flows[index];
    let at = format!("/flows/{index}");
    let scope = Scope::Flows;
    if let (Some(bound), Some(to)) = (f.max_latency, trial.latency(index))
        && let Some(total) = trial.total(scope, |o| o.flows[index].max_latency = Some(to))
    {
        all.push(found(relative(bound.micros(), to.micros()), format!("{at}/max_latency"), bound, to, total));
    }
    if let Some(now) = f.rate
        && let Some(kbps) = rate(trial, index, now.kbps())
        && let Some(total) = trial.total(scope, |o| o.flows[index].rate = Some(Bandwidth::from_kbps(kbps)))
    {
        all.push(found(relative(now.kbps(), kbps), format!("{at}/rate"), now, Bandwidth::from_kbps(kbps), total));
    }
    let amount = |now: u64, step: u64, set: &dyn Fn(&mut Order, u64)| -> Option<(u64, i64)> {
        let fits = |v: u64| trial.fits(scope, |o| set(o, v));
        let value = threshold::nearest((now, 1), None, false, step, fits)?;
        Some((value, trial.total(scope, |o| set(o, value))?))
    };
    // how much moves matters only where time or money does
    let terms = &trial.order().terms;
    let counts = terms.budget.is_some() || terms.deadline.is_some() || terms.window.is_some();
    if let Some(volume) = f.volume.filter(|_| counts) {
        let now = volume.bytes();
        let set = |order: &mut Order, bytes: u64| order.flows[index].volume = Some(Bytes::from_bytes(bytes));
        if let Some((bytes, total)) = amount(now, now / 1024, &set) {
            all.push(found(relative(now, bytes), format!("{at}/volume"), volume, Bytes::from_bytes(bytes), total));
        }
    }
    if let Some(demand) = f.demand {
        let now = demand.millirps();
        let set = |order: &mut Order, mrps: u64| order.flows[index].demand = Some(Demand::from_millirps(mrps));
        if let Some((mrps, total)) = amount(now, 1, &set) {
            all.push(found(relative(now, mrps), format!("{at}/demand"), demand, Demand::from_millirps(mrps), total));
        }
    }
    if f.encrypted
        && let Some(total) = trial.total(scope, |o| o.flows[index].encrypted = false)
    {
        all.push(found(whole(), format!("{at}/encrypted"), true, false, total));
    }
    if f.copy
        && let Some(total) = trial.total(scope, |o| o.flows[index].copy = false)
    {
        all.push(found(whole(), format!("{at}/copy"), true, false, total));
    }
}

impl Trial<'_> {
    /// The least latency bound of a flow with which the order fits, where a larger one is enough.
    pub fn latency(&self, flow: usize) -> Option<Latency> {
        let bound = self.order().flows[flow].max_latency?;
        if let Some(known) = self.inquest.latencies.borrow().get(&flow) {
            return *known;
        }
        let least = self.latency_within(flow, bound.micros()).map(Latency::from_micros);
        self.inquest.latencies.borrow_mut().insert(flow, least);
        least
    }

    fn latency_within(&self, flow: usize, bound: u64) -> Option<u64> {
        let loose = self.edited(|o| o.flows[flow].max_latency = None);
        let problem = self.variant(&loose, Scope::Flows);
        let (mut values, near) = quickest(self, &problem, flow)?;
        values.retain(|us| *us > bound);
        values.sort_unstable();
        values.dedup();
        let set = |order: &mut Order, us: u64| order.flows[flow].max_latency = Some(Latency::from_micros(us));
        let enough = |us: u64| self.fits(Scope::Flows, |o| set(o, us));
        // where no site is near enough, none is before the nearest
        if let Some(us) = threshold::first_of(&values, bound, !near, enough) {
            return Some(us);
        }
        // legs that share a link, or sites that must be near to several
        let taken = self.read(&loose, Scope::Flows, true, |problem, solution| {
            let legs = solution.legs.iter().filter(|(leg, _)| problem.streams[leg.stream].flow == flow);
            legs.map(|(_, choice)| choice.latency).max().unwrap_or(0)
        })?;
        let from = values.last().copied().unwrap_or(bound);
        threshold::nearest((from, taken), None, false, 1, enough)
    }
}

/// Microseconds of a flow's quickest path from each site that is left, with the region's access; and whether a site is
/// within the bound already. `None`: no bound is loose enough.
fn quickest(trial: &Trial, problem: &Problem, flow: usize) -> Option<(Vec<u64>, bool)> {
    let sieve = Sieve::new(problem, &trial.inquest.reach);
    let kept = sieve.kept()?;
    let (index, stream) = problem.streams.iter().enumerate().find(|(_, s)| s.flow == flow)?;
    let at = |table: &[u64], sites: &[bool]| -> Vec<u64> {
        let left = (0..sites.len()).filter(|s| sites[*s]);
        left.map(|s| table[problem.site_point(s) as usize]).filter(|us| *us != FAR).collect()
    };
    let values = match (&stream.from, &stream.to) {
        (Place::Part(a), Place::Part(b)) if a == b => {
            let near = sieve.nearest_others(stream, &kept[*a]);
            near.into_iter().filter(|us| *us != FAR).collect()
        }
        (Place::Part(a), Place::Part(b)) => {
            at(&sieve.pair_table(stream, *a, *b, &kept[*b], Direction::Along), &kept[*a])
        }
        (Place::Part(part), _) | (_, Place::Part(part)) => {
            let test = sieve.fixed_tests(*part).into_iter().find(|t| t.stream == index)?;
            at(&test.table, &kept[*part])
        }
        _ => return None,
    };
    let bound = trial.order().flows[flow].max_latency?.micros();
    let values: Vec<u64> = values.into_iter().map(|us| us.saturating_add(stream.access)).collect();
    let near = values.iter().any(|us| *us <= bound);
    Some((values, near))
}

/// The largest rate of a flow with which the order fits, in kbit/s, where a smaller one is enough.
fn rate(trial: &Trial, index: usize, now: u64) -> Option<u64> {
    let enough = |kbps: u64| trial.fits(Scope::Flows, |o| o.flows[index].rate = Some(Bandwidth::from_kbps(kbps)));
    // a rate that one link more carries: from the widest down
    let mut steps: Vec<u64> = trial.base().net.steps_below(now).filter(|s| *s > 0).collect();
    steps.push(1);
    steps.sort_unstable_by(|a, b| b.cmp(a));
    steps.dedup();
    steps.retain(|s| *s < now);
    if steps.is_empty() || !enough(1) {
        return None;
    }
    let place = steps.partition_point(|s| *s > 1 && !enough(*s));
    let good = steps.get(place).copied().unwrap_or(1);
    let bad = if place == 0 { now } else { steps[place - 1] };
    threshold::nearest((bad, good), Some(good), false, 1, |v| v == good || enough(v))
}
