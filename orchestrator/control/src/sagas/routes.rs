//! Legs of live orders: what the links say of their paths, other paths where they need them, and what they hold.

use super::Sagas;
use crate::{detour, error::DeskError};
use rhumb_model::{Latency, LinkId, OrderId, Phase, Plan};
use rhumb_placement::booking::{self, Booking, LegPhase};
use rhumb_provision::{Event, LegState, NewPath, Saga, Sight, Want};
use rhumb_store::{LinkWant, OrderRecord, Store};
use std::collections::{BTreeMap, BTreeSet};

impl<S: Store> Sagas<S> {
    /// Once a tick: judges every path, then looks for those that are missing.
    pub(super) async fn mind_routes(&mut self) {
        let latencies = self.latencies();
        let events = self.live.iter().filter_map(|(id, record)| {
            let saga = record.saga.as_ref().filter(|s| !s.legs.is_empty())?;
            Some((*id, Event::Watch { sights: sights(saga, &latencies) }))
        });
        let events = events.collect();
        self.run(events).await;
        let now = self.desk.now();
        let wants: Vec<(OrderId, Vec<Want>)> = self
            .live
            .iter()
            .filter_map(|(id, record)| Some((*id, record.saga.as_ref()?.wants(now))))
            .filter(|(_, wants)| !wants.is_empty())
            .collect();
        for (id, wants) in wants {
            for want in wants {
                if let Err(error) = self.find_path(id, &want).await {
                    tracing::warn!(order = %id, error = &error as &dyn std::error::Error, "no path could be looked for");
                }
            }
        }
    }

    /// Looks for what a leg wants, holds it, and has it built; or tells the saga that there is none.
    async fn find_path(&mut self, id: OrderId, want: &Want) -> Result<(), DeskError> {
        let Some(record) = self.live.get(&id).cloned() else { return Ok(()) };
        let none = |reason| Event::NoPath { leg: want.leg, role: want.role, reason };
        let event = match self.detour(&record, want).await? {
            Ok(path) => Event::Reroute(path),
            Err(reason) => none(reason),
        };
        let moves = matches!(event, Event::Reroute(_));
        if !self.run(vec![(id, event)]).await && moves {
            self.run(vec![(id, none("others were quicker to book its links".to_owned()))]).await;
        }
        Ok(())
    }

    /// The cheapest path that will do, on a view of this moment; or why there is none.
    pub(super) async fn detour(&self, record: &OrderRecord, want: &Want) -> Result<Result<NewPath, String>, DeskError> {
        let Some(leg) = record.saga.as_ref().and_then(|s| s.legs.iter().find(|l| l.leg == want.leg)) else {
            return Ok(Err("the leg is gone".to_owned()));
        };
        let (from, to) = (leg.source().clone(), leg.sink().clone());
        let view = self.desk.view_on(&self.desk.sight().await?, self.desk.now(), &BTreeSet::new());
        let (order, wanted) = (record.document.clone(), want.clone());
        let (flow, ends) = (leg.flow, (from.clone(), to.clone()));
        let search = move || detour::detour(view, &order, flow, &ends, &wanted);
        let found = tokio::task::spawn_blocking(search).await;
        let found = found.map_err(|_| DeskError::Internal("the search for a path failed".into()))?;
        Ok(found.map_err(|r| format!("{} (needed {}, free {})", r.reason, r.needed, r.free)).and_then(|links| {
            let points = rhumb_provision::leg::points(&from, &to, &links, |link| self.desk.inner.base.ends(link));
            let points = points.ok_or_else(|| "its links do not join".to_owned())?;
            Ok(NewPath { leg: want.leg, links, points, role: want.role })
        }))
    }

    /// One-way delay of every link that somebody measures: half of the round trip's median.
    pub(super) fn latencies(&self) -> BTreeMap<LinkId, Option<Latency>> {
        let now = self.desk.now();
        let state = self.desk.inner.hub.lock();
        let agents: BTreeSet<_> = self.desk.inner.base.agents().collect();
        let links = self.desk.inner.base.links.values();
        let latency = |link: &rhumb_model::Link| {
            let measurable = agents.contains(&link.from) && agents.contains(&link.to);
            match state.figures.fresh(&link.id, now) {
                Some(figure) => Some(Latency::from_micros(figure.rtt_p50.micros() / 2)),
                None => (!measurable).then_some(link.latency),
            }
        };
        links.map(|link| (link.id.clone(), latency(link))).collect()
    }
}

/// What the links say of a path that all of them say something of.
fn sights(saga: &Saga, latencies: &BTreeMap<LinkId, Option<Latency>>) -> Vec<Sight> {
    let paths = saga.legs.iter().flat_map(|leg| leg.paths.iter().filter(|p| p.is_wanted()).map(move |p| (leg, p)));
    paths
        .filter_map(|(leg, path)| {
            let latency = delay(&path.links, latencies)?;
            Some(Sight { leg: leg.leg, path: path.path, latency })
        })
        .collect()
}

pub(super) fn delay(links: &[LinkId], latencies: &BTreeMap<LinkId, Option<Latency>>) -> Option<Latency> {
    let sum = links.iter().try_fold(0_u64, |sum, link| {
        let latency = latencies.get(link).copied().flatten()?;
        Some(sum.saturating_add(latency.micros()))
    })?;
    Some(Latency::from_micros(sum))
}

/// What the order's generation is to hold on links now: the plan's bookings, over whichever paths its legs have or are to
/// leave; work that is late holds this slot and the next beside them.
pub(crate) fn link_wants(record: &OrderRecord, plan: &Plan, saga: &Saga, now: jiff::Timestamp) -> Vec<LinkWant> {
    let held = held_plan(plan, saga);
    let mut bookings = booking::bookings(&held, &record.document);
    let phase = match saga.phase {
        Phase::Reserving | Phase::Holding | Phase::Routing | Phase::Staging => Some(LegPhase::Inbound),
        Phase::Starting | Phase::Running => Some(LegPhase::Run),
        Phase::Stopping => Some(LegPhase::Outbound),
        Phase::Unrouting | Phase::Releasing | Phase::Settling => None,
    };
    let overdue = phase.map(|phase| booking::overdue(&held, &record.document, phase, now)).unwrap_or_default();
    for want in overdue {
        let missing = missing(&want, &bookings);
        bookings.extend(missing);
    }
    bookings.into_iter().map(crate::reserve::link_want).collect()
}

fn missing(want: &Booking, bookings: &[Booking]) -> Vec<Booking> {
    let Some(slots) = want.slots else { return Vec::new() };
    let held = |slot: u32| -> u64 {
        let covers = |b: &&Booking| b.slots.is_none_or(|s| (s.first()..s.end()).contains(&slot));
        bookings.iter().filter(|b| b.link == want.link).filter(covers).map(|b| b.rate.kbps()).sum()
    };
    let one = |slot| {
        let rate = rhumb_model::Bandwidth::from_kbps(want.rate.kbps().saturating_sub(held(slot)));
        Some(Booking { slots: rhumb_model::Slots::new(slot, slot + 1), rate, ..want.clone() })
    };
    (slots.first()..slots.end()).filter_map(one).collect()
}

/// The plan with every leg on all links that it holds, one entry for each rate.
pub(super) fn held_plan(plan: &Plan, saga: &Saga) -> Plan {
    let mut held = plan.clone();
    held.flows.clear();
    for (index, leg) in plan.flows.iter().enumerate() {
        let Some(state) = saga.legs.iter().find(|l| l.leg as usize == index) else {
            held.flows.push(leg.clone());
            continue;
        };
        let mut by_rate: BTreeMap<u64, Vec<LinkId>> = BTreeMap::new();
        for (link, rate) in state.held_links() {
            by_rate.entry(rate.kbps()).or_default().push(link);
        }
        for (rate_kbps, path) in by_rate {
            held.flows.push(rhumb_model::Leg { path, backup: Vec::new(), rate_kbps, ..leg.clone() });
        }
    }
    held
}

/// The plan as it is carried out, where a leg takes another path or has another rate than was planned.
pub(crate) fn carried_plan(
    plan: &Plan,
    saga: &Saga,
    latencies: &BTreeMap<LinkId, Option<Latency>>,
    prices: &impl rhumb_provision::Prices,
) -> Option<Plan> {
    let mut next = plan.clone();
    for state in &saga.legs {
        let leg = next.flows.get_mut(state.leg as usize)?;
        let backup = state.with_role(rhumb_provision::PathRole::Backup).map(|p| p.links.clone()).unwrap_or_default();
        let links = &state.carry().links;
        let access = |leg: &rhumb_model::Leg| {
            let own = delay(&leg.path, latencies).map_or(leg.latency_us, Latency::micros);
            leg.latency_us.saturating_sub(own)
        };
        if &leg.path != links {
            let access = if state.bound.is_some() { access(leg) } else { 0 };
            leg.latency_us = delay(links, latencies).map_or(leg.latency_us, |d| d.micros().saturating_add(access));
            leg.path.clone_from(links);
        }
        (leg.backup, leg.rate_kbps) = (backup, state.rate.kbps());
    }
    if next == *plan {
        return None;
    }
    let change = |plan: &Plan| path_micros(plan, saga, prices);
    let more = change(&next)?.checked_sub(change(plan)?)?;
    next.cost.path_micros = next.cost.path_micros.checked_add(more)?;
    next.cost.total_micros = next.cost.total_micros.checked_add(more)?;
    // what is carried out now was not chosen among all plans
    let total = next.cost.total_micros.max(1).unsigned_abs();
    let over = u128::from(total.saturating_sub(next.lower_bound_micros.max(0).unsigned_abs()));
    next.gap_ppm = u32::try_from((over * 1_000_000).div_ceil(u128::from(total))).unwrap_or(u32::MAX);
    next.proven_optimal = next.gap_ppm == 0;
    Some(next)
}

/// What the streams' paths cost from start to finish.
fn path_micros(plan: &Plan, saga: &Saga, prices: &impl rhumb_provision::Prices) -> Option<i64> {
    use rhumb_model::ratio::{Ratio, round_half_up};
    let hours = Ratio::new(plan.finish.duration_since(plan.start).as_micros().max(0), 3_600_000_000);
    let streams = |leg: &&LegState| matches!(leg.purpose, rhumb_provision::LegPurpose::Stream);
    let mut sum = Ratio::from_integer(0);
    for state in saga.legs.iter().filter(streams) {
        let leg = plan.flows.get(state.leg as usize)?;
        let rate = Ratio::new(i128::from(leg.rate_kbps), 1_000);
        for link in leg.path.iter().chain(&leg.backup) {
            sum += prices.per_mbps_hour(link) * rate * hours;
        }
    }
    i64::try_from(round_half_up(sum)).ok()
}
