//! When a plan holds its links, and when an order could: capacity in time.
//!
//! A plan holds a link in each of its three phases (inbound staging, run, outbound staging) at that phase's rate, in slots
//! of 15 minutes, with one slot more at each phase's end for work that is late. A service, or an order that takes longer
//! than two days, holds what it needs while it runs for good.

use crate::{
    policy::Request,
    stand,
    window::{Meter, OUTLOOK, Tariff},
};
use jiff::{SignedDuration, Timestamp};
use rhumb_federation::View;
use rhumb_model::{
    Bandwidth, Leg, LinkId, Order, Plan, Slots,
    order::{End, Flow},
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

/// Slots that a phase is held longer than planned.
const GRACE: u32 = 1;
/// Two days of slots: an order that takes longer is held for good.
const LONGEST: u32 = 192;

/// A rate on a link in some slots, or for good.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Booking {
    pub link: LinkId,
    pub slots: Option<Slots>,
    pub rate: Bandwidth,
}

/// The phase in which a leg holds its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LegPhase {
    Inbound,
    Run,
    Outbound,
}

impl LegPhase {
    /// A volume into a component moves before the run, any other volume after it.
    pub fn of(order: &Order, leg: &Leg) -> Self {
        let inbound = |f: &Flow| matches!(f.to, End::Component(_));
        match (leg.volume_bytes, order.flows.get(leg.flow as usize)) {
            (0, _) => Self::Run,
            (_, Some(flow)) if inbound(flow) => Self::Inbound,
            _ => Self::Outbound,
        }
    }
}

/// What a plan books, by link and time; bookings of one link do not overlap.
pub fn bookings(plan: &Plan, order: &Order) -> Vec<Booking> {
    let phases = Phases::new(plan, order);
    let mut out = Vec::new();
    for (link, sums) in &phases.sums {
        phases.bookings(link, *sums, &mut out);
    }
    out
}

/// What work that is in `phase` at `at` needs in this slot and the next, where the plan's bookings end before that.
pub fn overdue(plan: &Plan, order: &Order, phase: LegPhase, at: Timestamp) -> Vec<Booking> {
    let phases = Phases::new(plan, order);
    let now = Slots::from(at).first();
    let planned = match phase {
        LegPhase::Inbound => phases.staging,
        LegPhase::Run | LegPhase::Outbound => phases.run,
    };
    if planned.end() > now + 1 {
        return Vec::new();
    }
    let needs = |(link, sums): (&&LinkId, &Sums)| {
        let kbps = match phase {
            LegPhase::Inbound => sums.inbound,
            LegPhase::Run | LegPhase::Outbound => sums.run.saturating_add(sums.outbound),
        };
        let slots = Slots::new(now, now + 2);
        let for_good = phases.endless && sums.run > 0;
        (kbps > 0 && !for_good).then(|| Booking { link: (*link).clone(), slots, rate: Bandwidth::from_kbps(kbps) })
    };
    phases.sums.iter().filter_map(needs).collect()
}

/// How long a leg's volume moves, in microseconds, path latency included.
pub fn micros(leg: &Leg) -> i64 {
    let us = u128::from(leg.volume_bytes) * 8_000 / u128::from(leg.rate_kbps.max(1)) + u128::from(leg.latency_us);
    i64::try_from(us).unwrap_or(i64::MAX)
}

/// kbit/s on one link by phase.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    inbound: u64,
    run: u64,
    outbound: u64,
}

/// When a plan's phases hold their links, and what each holds.
struct Phases<'p> {
    sums: BTreeMap<&'p LinkId, Sums>,
    staging: Slots,
    run: Slots,
    outbound: Slots,
    endless: bool,
}

impl<'p> Phases<'p> {
    fn new(plan: &'p Plan, order: &Order) -> Self {
        let mut sums: BTreeMap<&LinkId, Sums> = BTreeMap::new();
        let (mut inbound, mut outbound) = (0, 0);
        for leg in &plan.flows {
            let phase = LegPhase::of(order, leg);
            match phase {
                LegPhase::Inbound => inbound = micros(leg).max(inbound),
                LegPhase::Outbound => outbound = micros(leg).max(outbound),
                LegPhase::Run => {}
            }
            for id in leg.path.iter().chain(&leg.backup) {
                let sums = sums.entry(id).or_default();
                let sum = match phase {
                    LegPhase::Inbound => &mut sums.inbound,
                    LegPhase::Run => &mut sums.run,
                    LegPhase::Outbound => &mut sums.outbound,
                };
                *sum = sum.saturating_add(leg.rate_kbps);
            }
        }
        let before = |at: Timestamp, us| at.checked_sub(SignedDuration::from_micros(us)).unwrap_or(Timestamp::MIN);
        let run = Slots::touched(plan.start, plan.finish).longer(GRACE);
        Self {
            sums,
            staging: Slots::touched(before(plan.start, inbound), plan.start).longer(GRACE),
            run,
            outbound: Slots::touched(before(plan.finish, outbound), plan.finish).longer(GRACE),
            endless: order.components.iter().any(|c| c.service.is_some()) || run.len() > LONGEST,
        }
    }

    /// Phases share slots at their edges, never an instant: there the larger counts, not the sum.
    fn bookings(&self, link: &LinkId, Sums { inbound, run, outbound }: Sums, out: &mut Vec<Booking>) {
        let booking = |slots, kbps| Booking { link: link.clone(), slots, rate: Bandwidth::from_kbps(kbps) };
        if self.endless && run > 0 {
            // the highest phase from the first byte on: what is for good is never more than that
            out.push(booking(None, inbound.max(run.saturating_add(outbound))));
            return;
        }
        let edges: BTreeSet<u32> =
            [self.staging, self.run, self.outbound].iter().flat_map(|s| [s.first(), s.end()]).collect();
        let edges: Vec<u32> = edges.into_iter().collect();
        let within =
            |slots: Slots, at: u32, kbps| if (slots.first()..slots.end()).contains(&at) { kbps } else { 0_u64 };
        let mut last: Option<(u32, u32, u64)> = None;
        for pair in edges.windows(2) {
            let at = pair[0];
            let kbps = within(self.staging, at, inbound).max(within(self.run, at, run).saturating_add(within(
                self.outbound,
                at,
                outbound,
            )));
            match &mut last {
                Some((_, end, same)) if *same == kbps => *end = pair[1],
                _ => {
                    flush(last.take(), &booking, out);
                    last = Some((at, pair[1], kbps));
                }
            }
        }
        flush(last, &booking, out);
    }
}

fn flush(stretch: Option<(u32, u32, u64)>, booking: &impl Fn(Option<Slots>, u64) -> Booking, out: &mut Vec<Booking>) {
    if let Some((first, end, kbps)) = stretch
        && kbps > 0
    {
        out.extend(Slots::new(first, end).map(|slots| booking(Some(slots), kbps)));
    }
}

/// The slots in which any plan for the order could hold a link: from submission, or the opening of its window, until its
/// hard deadline, or the end of its longest work where nothing has to be staged before. A service has no end.
pub(crate) fn slots(view: &View, order: &Order, submit: Timestamp) -> Slots {
    let from = order.terms.window.as_ref().map_or(submit, |window| {
        let openings = RefCell::new(Tariff::openings(window, submit));
        let at = Meter::new(&openings, submit).first_opening(&rhumb_model::Ratio::from_integer(0), OUTLOOK);
        at.and_then(|ns| Timestamp::from_nanosecond(submit.as_nanosecond().checked_add(ns)?).ok()).unwrap_or(submit)
    });
    match end(view, order, submit) {
        Some(until) => Slots::touched(from, until.max(from)).longer(GRACE),
        None => Slots::from(from),
    }
}

fn end(view: &View, order: &Order, submit: Timestamp) -> Option<Timestamp> {
    if order.components.iter().any(|c| c.service.is_some()) {
        return None;
    }
    if order.terms.late_per_hour.is_none()
        && let Some(deadline) = order.terms.deadline
    {
        return Some(deadline);
    }
    let staged = order.flows.iter().any(|f| f.volume.is_some() || [&f.from, &f.to].iter().any(|e| is_data(e)));
    if staged || order.terms.window.is_some() || order.terms.deadline.is_some() {
        return None;
    }
    let request = Request::new(order, submit);
    let models = || view.devices.keys().map(Some).chain([None]);
    let works = order.components.iter().flat_map(|c| models().filter_map(move |m| stand::hours(view, request, c, m)));
    let longest = works.max()?.ceil().to_integer();
    Timestamp::from_nanosecond(submit.as_nanosecond().checked_add(longest)?).ok()
}

fn is_data(end: &End) -> bool {
    matches!(end, End::Dataset(_))
}
