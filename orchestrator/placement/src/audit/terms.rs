//! Start, finish and every cost term again, from the text of the cost model.

use super::{
    Found,
    legs::{Carried, Phase},
    lost, site,
};
use crate::policy::{Policy, Request};
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{
    Amount, Plan,
    order::Component,
    plan::SiteAssignment,
    price::{self, PriceBook},
    ratio::{Ratio, round_half_up},
};

const HOUR_US: i128 = 3_600_000_000;

fn whole(n: i128) -> Ratio {
    Ratio::from_integer(n)
}

/// Microseconds since the epoch, exact.
fn micros(at: Timestamp) -> Ratio {
    Ratio::new(at.as_nanosecond(), 1000)
}

pub(super) fn check(
    found: &mut Found,
    plan: &Plan,
    request: &Request,
    view: &View,
    policy: &Policy,
    carried: &[Carried],
) {
    let order = request.order;
    let terms = &order.terms;
    let money = |amount: Amount| amount.micros_in(view.currency, &view.rates).unwrap_or_default();
    let moving = |phase: Phase| {
        carried.iter().filter(|c| c.phase == phase).map(|c| transfer_time(view, c)).max().unwrap_or_default()
    };
    let (inbound, outbound) = (moving(Phase::Inbound), moving(Phase::Outbound));
    let hours: Vec<Ratio> =
        order.components.iter().enumerate().map(|(i, c)| length(view, request, plan, i, c)).collect();
    let longest = hours.iter().max().copied().unwrap_or_default();
    let submit = micros(request.submit);
    let Some(start) = start(plan, request, view, inbound, longest + outbound) else {
        found.add("start", format!("{} is no start that the terms allow", plan.start));
        return;
    };
    let finish = start + longest + outbound;
    found.check(round_half_up(finish) == i128::from(plan.finish.as_microsecond()), "finish", || {
        format!("{}", plan.finish)
    });

    let mut compute = Ratio::default();
    for (placed, (component, hours)) in plan.components.iter().zip(order.components.iter().zip(&hours)) {
        for a in &placed.assignments {
            let Some(s) = site(view, &a.site) else { continue };
            let factored = integral(&s.site.prices, start, start + hours);
            compute += price_per_hour(view, &s.site.prices, component, a) * whole(i128::from(a.replicas)) * factored
                / whole(HOUR_US);
        }
    }
    let (mut path, mut transfer) = (Ratio::default(), Ratio::default());
    for c in carried {
        for id in &c.leg.path {
            let Some(link) = view.links.get(id).map(|e| &view.graph[*e]) else { continue };
            let mbps = Ratio::new(i128::from(c.leg.rate_kbps), 1000);
            let held = if c.phase == Phase::Run { finish - start } else { c.volume * whole(8) / mbps };
            path += link.per_mbps_hour_micros * mbps * held / whole(HOUR_US);
            transfer += link.per_gb_micros * c.volume / whole(1_000_000_000);
        }
        // a backup holds its rate as long, and carries nothing
        for link in c.leg.backup.iter().filter_map(|id| view.link(id)) {
            let mbps = Ratio::new(i128::from(c.leg.rate_kbps), 1000);
            let held = match c.phase {
                Phase::Run => finish - start,
                _ if c.leg.rate_kbps == 0 => Ratio::default(),
                _ => c.volume * whole(8) / mbps,
            };
            path += link.per_mbps_hour_micros * mbps * held / whole(HOUR_US);
        }
    }
    let time = terms.value_per_hour.map(money).unwrap_or_default() * (finish - submit) / whole(HOUR_US);
    let past = terms.deadline.map(|d| (finish - micros(d)).max(Ratio::default())).unwrap_or_default();
    found.check(past == Ratio::default() || terms.late_per_hour.is_some(), "deadline", || {
        format!("finish {}", plan.finish)
    });
    let late = terms.late_per_hour.map(money).unwrap_or_default() * past / whole(HOUR_US);
    if let Some(budget) = terms.budget {
        found.check(compute + path + transfer <= money(budget), "budget", || format!("over {budget}"));
    }
    let cost = &plan.cost;
    let of = [
        ("compute", cost.compute_micros, compute),
        ("path", cost.path_micros, path),
        ("transfer", cost.transfer_micros, transfer),
        ("time", cost.time_micros, time),
        ("lateness", cost.lateness_micros, late),
        ("fragmentation", cost.fragmentation_micros, lost::cost(plan, request, view, policy, longest / whole(HOUR_US))),
    ];
    for (name, said, exact) in &of {
        let expected = round_half_up(*exact);
        found.check(i128::from(*said) == expected, "cost", || format!("{name}: {said}, not {expected}"));
    }
    let sum: i64 = of.iter().map(|(_, said, _)| said).sum();
    found.check(sum == cost.total_micros, "cost", || format!("total {}, not {sum}", cost.total_micros));
    found.check(cost.currency == view.currency, "cost", || format!("in {}", cost.currency));
}

/// Path latency + volume / rate, in microseconds; nothing on the spot.
fn transfer_time(view: &View, c: &Carried) -> Ratio {
    if c.leg.path.is_empty() {
        return Ratio::default();
    }
    let latency: u64 =
        c.leg.path.iter().filter_map(|id| view.links.get(id)).map(|e| view.graph[*e].latency.micros()).sum();
    whole(i128::from(latency)) + c.volume * Ratio::new(8000, i128::from(c.leg.rate_kbps))
}

/// How long the component runs, in microseconds: as long as its slowest model takes.
fn length(view: &View, request: &Request, plan: &Plan, index: usize, component: &Component) -> Ratio {
    let Some(work) = &component.work else {
        return whole(request.order.terms.horizon.map_or(24 * HOUR_US, |h| i128::from(h.micros())));
    };
    if let Some(duration) = work.duration {
        return whole(i128::from(duration.micros()));
    }
    let hours = work.hours.map(|h| h.ratio() * whole(HOUR_US)).unwrap_or_default();
    let (Some(asked), Some(reference)) = (&component.need.accelerators, &work.reference) else { return hours };
    let rate = |model| view.devices.get(model).and_then(|d| d.rates.get(&asked.precision)).map(|r| r.ratio());
    let models = plan.components[index].assignments.iter().filter_map(|a| a.model.as_ref());
    models.filter_map(|m| Some(hours * rate(reference)? / rate(m)?)).max().unwrap_or_default()
}

fn price_per_hour(view: &View, prices: &PriceBook, component: &Component, a: &SiteAssignment) -> Ratio {
    let money =
        |amount: Option<&Amount>| amount.and_then(|a| a.micros_in(view.currency, &view.rates).ok()).unwrap_or_default();
    let need = &component.need;
    let mut sum = money(prices.cpu.as_ref()) * Ratio::new(i128::from(need.cpu.milli()), 1000)
        + money(prices.memory_gib.as_ref()) * Ratio::new(i128::from(need.memory.bytes()), 1 << 30);
    if let (Some(asked), Some(model)) = (&need.accelerators, &a.model) {
        let each = whole(i128::from(a.devices_per_replica));
        let device = view.devices.get(model).map_or(1, |d| i128::from(d.memory.bytes()));
        let devices = match (asked.share, asked.mig) {
            (Some(share), _) => Ratio::new(i128::from(share.thousandths()), 1000),
            (None, Some(slice)) => each * Ratio::new(i128::from(slice.gigabytes) << 30, device),
            (None, None) => each,
        };
        sum += money(prices.devices.get(model)) * devices;
    }
    sum
}

/// The price factor over [from, to), integrated, in microseconds.
fn integral(prices: &PriceBook, from: Ratio, to: Ratio) -> Ratio {
    let mut sum = Ratio::default();
    let mut at = from;
    while at < to {
        let nanos = (at * whole(1000)).floor().to_integer();
        let Ok(now) = Timestamp::from_nanosecond(nanos) else { break };
        let until = prices.next_edge(now).map_or(to, |e| micros(e).min(to));
        sum += prices.factor_at(now) * (until - at);
        at = until;
    }
    sum
}

/// The exact start that the plan's rounded one stands for, if the terms allow it; microseconds since the epoch.
fn start(plan: &Plan, request: &Request, view: &View, inbound: Ratio, rest: Ratio) -> Option<Ratio> {
    let terms = &request.order.terms;
    let said = i128::from(plan.start.as_microsecond());
    let submit = micros(request.submit);
    let soonest = submit + inbound;
    if let Some(w) = &terms.window {
        let mut at = request.submit;
        // an opening either has begun when the order comes, or begins at an edge
        for _ in 0..1_000 {
            let end = price::window_edge_after(at, w.from, w.to, &w.tz);
            if price::inside(w.from, w.to, &w.tz, at) && end.is_none_or(|e| micros(at) + inbound + rest <= micros(e)) {
                let start = micros(at) + inbound;
                return (round_half_up(start) == said).then_some(start);
            }
            at = end?;
        }
        return None;
    }
    if round_half_up(soonest) == said {
        return Some(soonest);
    }
    let may_wait = terms.deadline.is_some() && terms.value_per_hour.is_none();
    let edge = whole(said);
    let used = plan.components.iter().flat_map(|c| &c.assignments).filter_map(|a| site(view, &a.site));
    let before = Timestamp::from_microsecond(i64::try_from(said - 1).ok()?).ok()?;
    let at_edge = used.into_iter().any(|s| s.site.prices.next_edge(before) == Some(plan.start));
    let in_time = terms.deadline.is_some_and(|d| edge + rest <= micros(d));
    (may_wait && edge > soonest && at_edge && in_time).then_some(edge)
}
