//! `rhumb audit`: what must hold at every moment, checked on the live system.

use crate::{desk::Desk, error::DeskError};
use rhumb_model::{OrderState, Phase};
use rhumb_store::{Holder, Store};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

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
        for hold in &holdings.links {
            *sums.entry(&hold.link).or_default() += hold.rate.kbps();
        }
        for (link, reserved, capacity) in &holdings.reserved {
            let sum = sums.get(link).copied().unwrap_or(0);
            if sum != reserved.kbps() {
                bad("I2", format!("link {link} says {reserved} reserved, its holds sum to {sum}kbps"));
            }
            if reserved > capacity {
                bad("I2", format!("link {link} has {reserved} reserved of {capacity}"));
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

        // I4: each replica of a live generation is held once, where the saga has it
        let mut seen = BTreeSet::new();
        for hold in &holdings.replicas {
            if !seen.insert((hold.holder, &hold.component, hold.replica)) {
                bad("I4", format!("{} replica {} of {:?} is held twice", hold.component, hold.replica, hold.holder));
            }
        }
        for order in &live {
            let Some(saga) = &order.saga else { continue };
            for r in saga.replicas.iter().filter(|_| saga.phase < Phase::Settling) {
                let held = holdings.replicas.iter().any(|h| {
                    h.holder == Holder::Order(order.id)
                        && (&h.component, h.replica, &h.site, &h.node) == (&r.component, r.replica, &r.site, &r.node)
                });
                if !held {
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

        // I6 and I7 are refused by the store and the agents; here it is seen that no agent runs what is not live
        let state = self.inner.hub.lock();
        for (name, point) in &state.points {
            let Some(last) = &point.last else { continue };
            for a in &last.report.assignments {
                let running = matches!(a.state, rhumb_wire::AssignmentState::Running);
                let wanted = generations.get(&a.key.order).is_some_and(|g| *g >= a.key.generation);
                if running && !wanted && last.heard.elapsed() < std::time::Duration::from_secs(2) {
                    bad("I3", format!("{name} runs {} of order {}, which is not live", a.key.component, a.key.order));
                }
            }
        }
        drop(state);
        Ok(Audit { clean: found.is_empty(), violations: found })
    }
}
