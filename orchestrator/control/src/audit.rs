//! `rhumb audit`: what must hold at every moment, checked on the live system.

use crate::{desk::Desk, error::DeskError};
use rhumb_model::{Bandwidth, Calendar, OrderState, Phase, PointName, Slots};
use rhumb_store::{Holder, Store};
use rhumb_wire::{
    AssignmentState,
    report::{AssignmentKey, RouteKey},
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// An older report says nothing of what runs now.
const RECENT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    pub clean: bool,
    pub violations: Vec<Violation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// `I1` to `I14`.
    pub invariant: &'static str,
    pub detail: String,
}

impl<S: Store> Desk<S> {
    pub async fn audit(&self) -> Result<Audit, DeskError> {
        // before the picture is taken: an order that begins meanwhile is no stray
        let (running, routed) = (self.running(), self.routed());
        let mut found = Vec::new();
        let mut bad = |invariant, detail: String| found.push(Violation { invariant, detail });
        let picture = self.inner.store.picture().await?;
        let (live, holdings, nodes) = (picture.orders, picture.holdings, picture.nodes);
        let quotes: BTreeSet<_> = picture.quotes.into_iter().map(|q| q.id).collect();

        // I1: no device twice, no node over-full
        let mut shares: BTreeMap<_, u32> = BTreeMap::new();
        let mut used: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for hold in &holdings.replicas {
            for device in &hold.devices {
                *shares.entry((&hold.site, &hold.node, *device)).or_default() += u32::from(hold.share);
            }
            let (cpu, memory) = used.entry((&hold.site, &hold.node)).or_default();
            *cpu += hold.cpu_milli;
            *memory += hold.memory_bytes;
        }
        for ((site, node, device), share) in shares.iter().filter(|(_, share)| **share > 1_000) {
            bad("I1", format!("device {device} of {node} at {site} is held {share} thousandths"));
        }
        for record in &nodes {
            if let Some((cpu, memory)) = used.get(&(&record.site, &record.node.name))
                && (*cpu > record.node.cpu.milli() || *memory > record.node.memory.bytes())
            {
                bad("I1", format!("node {} at {} holds more than it has", record.node.name, record.site));
            }
        }

        // I2: what is reserved on a link is the sum of what holds it, within its capacity
        let mut sums: BTreeMap<_, u64> = BTreeMap::new();
        let mut calendars: BTreeMap<_, Calendar> = BTreeMap::new();
        for hold in &holdings.links {
            match hold.slots {
                None => *sums.entry(&hold.link).or_default() += hold.rate.kbps(),
                Some(slots) => calendars.entry(&hold.link).or_default().book(slots, hold.rate),
            }
        }
        let to_come = Slots::from(self.now());
        // what is given back is given back from now on: a slot that is over says what it had
        for (link, slot, booked) in holdings.slots.iter().filter(|(_, slot, _)| slot.first() >= to_come.first()) {
            let sum = calendars.get(link).map_or(Bandwidth::ZERO, |c| c.peak(*slot));
            if sum != *booked {
                let (from, _) = slot.times();
                bad("I2", format!("link {link} says {booked} booked at {from}, its holds sum to {sum}"));
            }
        }
        for (link, reserved, capacity) in &holdings.reserved {
            let sum = sums.get(link).copied().unwrap_or(0);
            if sum != reserved.kbps() {
                bad("I2", format!("link {link} says {reserved} reserved, its holds sum to {sum}kbps"));
            }
            let peak = calendars.get(link).map_or(Bandwidth::ZERO, |c| c.peak(to_come));
            if reserved.kbps().saturating_add(peak.kbps()) > capacity.kbps() {
                bad("I2", format!("link {link} has {reserved} reserved and up to {peak} booked of {capacity}"));
            }
        }

        // I3: whatever is held belongs to a live order's generation or a live quote
        let generations: BTreeMap<_, _> = live.iter().map(|o| (o.id, o.generation)).collect();
        let holders = holdings.replicas.iter().map(|h| (h.holder, h.generation));
        let holders: BTreeSet<_> = holders.chain(holdings.links.iter().map(|h| (h.holder, h.generation))).collect();
        for (holder, generation) in holders {
            match holder {
                Holder::Order(id) => match generations.get(&id) {
                    None => bad("I3", format!("order {id} holds something and is not live")),
                    Some(now) if *now != generation => {
                        bad("I4", format!("order {id} holds generation {generation}, {now} is live"));
                    }
                    Some(_) => {}
                },
                Holder::Quote(id) if !quotes.contains(&id) => {
                    bad("I3", format!("quote {id} holds something and has ended"));
                }
                Holder::Quote(_) => {}
            }
        }

        // I3: a tunnel's number is the path's that uses it
        let numbers: BTreeMap<u32, _> = holdings.tunnels.iter().map(|t| (t.number, (t.order, t.generation))).collect();
        for (order, saga) in live.iter().filter_map(|o| Some((o, o.saga.as_ref()?))) {
            let paths = saga.legs.iter().flat_map(|l| &l.paths).filter(|p| p.is_held());
            for number in paths.flat_map(|p| p.carriage.numbers()) {
                if numbers.get(&number) != Some(&(order.id, saga.generation)) {
                    bad("I3", format!("order {} has tunnel {number} without holding the number", order.id));
                }
            }
        }

        // I4: each replica of a live generation is held once, where the saga has it
        let mut seen = BTreeSet::new();
        for hold in &holdings.replicas {
            if !seen.insert((hold.holder, &hold.component, hold.replica)) {
                bad("I4", format!("{} replica {} of {:?} is held twice", hold.component, hold.replica, hold.holder));
            }
        }
        let places: BTreeSet<_> =
            holdings.replicas.iter().map(|h| (h.holder, &h.component, h.replica, &h.site, &h.node)).collect();
        let mut counts: BTreeMap<Holder, u64> = BTreeMap::new();
        for hold in &holdings.replicas {
            *counts.entry(hold.holder).or_default() += 1;
        }
        for order in &live {
            let holder = Holder::Order(order.id);
            let held = counts.get(&holder).copied().unwrap_or(0);
            let planned: u64 = order
                .plan
                .iter()
                .flat_map(|p| &p.components)
                .flat_map(|c| &c.assignments)
                .map(|a| u64::from(a.replicas))
                .sum();
            match order.state {
                // I3: what waits holds nothing; I4: what was placed holds all of its plan
                OrderState::Acknowledged | OrderState::Pending if held > 0 => {
                    bad("I3", format!("order {} is {} and holds {held} replicas", order.id, order.state));
                }
                OrderState::Held | OrderState::InProgress | OrderState::Cancelling if held != planned => {
                    bad("I4", format!("order {} holds {held} replicas of {planned}", order.id));
                }
                _ => {}
            }
            for r in order.saga.iter().filter(|s| s.phase < Phase::Settling).flat_map(|s| &s.replicas) {
                if !places.contains(&(holder, &r.component, r.replica, &r.site, &r.node)) {
                    bad(
                        "I4",
                        format!("{} replica {} of order {} runs without a hold", r.component, r.replica, order.id),
                    );
                }
            }
            // I11: what waits says why
            if order.state == OrderState::Pending && order.reasons.is_empty() && order.generation == 0 {
                bad("I11", format!("order {} waits without a reason", order.id));
            }
            // I12: figures are in range
            if order.cost.is_some_and(|c| c.total_micros < 0) {
                bad("I12", format!("order {} has a negative cost", order.id));
            }
        }

        // I6 and I7 are refused by the store and the agents; here it is seen that no agent runs what is not live. What an
        // agent ran before the picture and still runs after it must be in the picture
        for (point, key) in self.running().intersection(&running) {
            if generations.get(&key.order).is_none_or(|g| *g < key.generation) {
                bad("I3", format!("{point} runs {} of order {}, which is not live", key.component, key.order));
            }
        }
        for (point, key) in self.routed().intersection(&routed) {
            if generations.get(&key.order).is_none_or(|g| *g < key.generation) {
                bad("I3", format!("{point} has a route of order {}, which is not live", key.order));
            }
        }
        Ok(Audit { clean: found.is_empty(), violations: found })
    }

    /// Routes that points said within the last seconds that they have, and had been told of.
    fn routed(&self) -> BTreeSet<(PointName, RouteKey)> {
        let state = self.inner.hub.lock();
        let fresh = state.points.iter().filter_map(|(name, p)| Some((name, p.last.as_ref()?)));
        fresh
            .filter(|(_, last)| last.heard.elapsed() < RECENT)
            .flat_map(|(name, last)| last.report.routes.iter().map(move |r| (name.clone(), r.key.clone())))
            .collect()
    }

    /// What points said within the last seconds that they run.
    fn running(&self) -> BTreeSet<(PointName, AssignmentKey)> {
        let state = self.inner.hub.lock();
        let fresh = state.points.iter().filter_map(|(name, p)| Some((name, p.last.as_ref()?)));
        fresh
            .filter(|(_, last)| last.heard.elapsed() < RECENT)
            .flat_map(|(name, last)| last.report.assignments.iter().map(move |a| (name, a)))
            .filter(|(_, a)| a.state == AssignmentState::Running)
            .map(|(name, a)| (name.clone(), a.key.clone()))
            .collect()
    }
}
