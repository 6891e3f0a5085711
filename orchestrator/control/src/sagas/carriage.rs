//! How the paths of live orders are carried: by the points' kernels where all of them offer it, else by their agents' relays.

use super::Sagas;
use crate::{config::Provider, hub::State};
use rhumb_model::{OrderId, PointName};
use rhumb_naas::{KernelPoint, Layout};
use rhumb_provision::{Carriage, Event, Step};
use rhumb_store::{Intent, Outcome, Store, StoreError, TunnelHold, TunnelWant};
use rhumb_wire::Report;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// How often numbers are looked at whose orders have ended.
const LOOK: Duration = Duration::from_secs(2);

/// Numbers that were not given back with their orders, as something of them may be left at a point that was silent.
#[derive(Debug)]
pub(super) struct Stray {
    /// There may be some.
    pub(super) any: bool,
    looked: Option<Instant>,
    /// Of which nothing was left at the last look: what an agent has only begun to look for shows at the next.
    gone: BTreeSet<u32>,
}

impl Default for Stray {
    /// As it is before the first look.
    fn default() -> Self {
        Self { any: true, looked: None, gone: BTreeSet::new() }
    }
}

/// A path to be decided on.
struct Choice {
    leg: u32,
    path: u32,
    points: Vec<PointName>,
}

impl<S: Store> Sagas<S> {
    /// Settles how every path is carried that the steps have built from now on, before anything of it is stored or told.
    pub(super) async fn decide(&self, steps: &mut [(OrderId, &mut Step)]) -> Result<(), StoreError> {
        let mut wants = Vec::new();
        for (at, (order, step)) in steps.iter_mut().enumerate() {
            for choice in choices(step) {
                match self.want(*order, step.saga.generation, &choice) {
                    Ok(want) => wants.push((at, choice, want)),
                    Err(why) => step.carry(choice.leg, choice.path, Carriage::Relays, why),
                }
            }
        }
        if wants.is_empty() {
            return Ok(());
        }
        let intents = wants.iter().map(|(_, _, want)| Intent::TakeTunnels(want.clone())).collect();
        let outcomes = self.desk.inner.store.commit(intents).await?;
        for ((at, choice, _), outcome) in wants.into_iter().zip(outcomes) {
            let (carriage, why) = match outcome {
                Outcome::Numbered(numbers) => self.tunnels(&choice, &numbers),
                Outcome::Refused(why) => (Carriage::Relays, Some(why.to_string())),
                other => (Carriage::Relays, Some(format!("the store answered with {other:?}"))),
            };
            steps[at].1.carry(choice.leg, choice.path, carriage, why);
        }
        Ok(())
    }

    /// The numbers that it takes; or why no kernel carries it, where somebody may wonder.
    fn want(&self, order: OrderId, generation: u64, choice: &Choice) -> Result<TunnelWant, Option<String>> {
        if self.desk.inner.config.provider == Provider::Overlay {
            return Err(None);
        }
        let offers = offers(&self.desk.inner.hub.lock(), &choice.points);
        // with no kernel at either end nobody expects one between
        let ends = [choice.points.first(), choice.points.last()];
        if ends.into_iter().flatten().all(|end| !offers.contains_key(end)) {
            return Err(None);
        }
        let layout = Layout::of(&offers, &choice.points).map_err(|why| Some(why.to_string()))?;
        let (range, count) = (layout.numbers(), u32::try_from(layout.count()).unwrap_or(u32::MAX));
        let points = choice.points.clone();
        let (leg, path) = (choice.leg, choice.path);
        Ok(TunnelWant { order, generation, leg, path, count, from: range.from, to: range.to, points })
    }

    fn tunnels(&self, choice: &Choice, numbers: &[u32]) -> (Carriage, Option<String>) {
        let offers = offers(&self.desk.inner.hub.lock(), &choice.points);
        match Layout::of(&offers, &choice.points).and_then(|layout| layout.carried_by(numbers)) {
            Ok(routes) => (Carriage::Tunnels(routes), None),
            Err(why) => (Carriage::Relays, Some(why.to_string())),
        }
    }

    /// Orders with tunnels to the point whose agent is reached at another port by now.
    pub(super) fn moved_by(&self, report: &Report) -> Vec<(OrderId, Event)> {
        let Some(port) = report.overlay_port else { return Vec::new() };
        let other = |carriage: &Carriage| match carriage {
            Carriage::Tunnels(routes) => routes.iter().any(|r| r.overlay_port != port),
            Carriage::Relays | Carriage::Open => false,
        };
        let moved = self.at_point(&report.point).filter(|order| {
            let paths = order.saga.iter().flat_map(|s| &s.legs).flat_map(|l| &l.paths);
            paths.into_iter().any(|p| p.is_wanted() && p.sink() == &report.point && other(&p.carriage))
        });
        moved.map(|order| (order.id, Event::Moved { point: report.point.clone(), port })).collect()
    }

    /// Gives back numbers of ended generations once all their points have said that nothing is left.
    pub(super) async fn sweep_tunnels(&mut self) {
        if !self.stray.any || self.stray.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return;
        }
        self.stray.looked = Some(Instant::now());
        let held = match self.desk.inner.store.holdings().await {
            Ok(held) => held.tunnels,
            Err(error) => {
                tracing::warn!(%error, "numbers of tunnels could not be looked at: it is tried again");
                return;
            }
        };
        let ended: Vec<TunnelHold> = held.into_iter().filter(|hold| self.has_ended(hold)).collect();
        self.stray.any = !ended.is_empty();
        let gone: Vec<TunnelHold> = {
            let state = self.desk.inner.hub.lock();
            ended.into_iter().filter(|hold| is_gone(&state, hold)).collect()
        };
        let before = std::mem::replace(&mut self.stray.gone, gone.iter().map(|hold| hold.number).collect());
        let mut over: BTreeMap<(OrderId, u64), Vec<u32>> = BTreeMap::new();
        for hold in gone.into_iter().filter(|hold| before.contains(&hold.number)) {
            over.entry((hold.order, hold.generation)).or_default().push(hold.number);
        }
        let free = |((order, generation), numbers)| Intent::FreeTunnels { order, generation, numbers };
        let intents: Vec<Intent> = over.into_iter().map(free).collect();
        if intents.is_empty() {
            return;
        }
        if let Err(error) = self.desk.inner.store.commit(intents).await {
            tracing::warn!(%error, "numbers of tunnels could not be given back: it is tried again");
        }
    }

    fn has_ended(&self, hold: &TunnelHold) -> bool {
        let saga = self.live.get(&hold.order).and_then(|o| o.saga.as_ref());
        saga.is_none_or(|s| s.generation > hold.generation)
    }
}

fn choices(step: &Step) -> Vec<Choice> {
    let open: BTreeSet<(u32, u32)> = step.saga.open_paths().into_iter().collect();
    let paths = step.saga.legs.iter().flat_map(|l| l.paths.iter().map(move |p| (l.leg, p)));
    let chosen = paths.filter(|(leg, p)| open.contains(&(*leg, p.path)));
    chosen.map(|(leg, p)| Choice { leg, path: p.path, points: p.points.clone() }).collect()
}

/// What the points' agents said last of their kernels.
fn offers(state: &State, points: &[PointName]) -> BTreeMap<PointName, KernelPoint> {
    let offer = |name: &PointName| {
        let report = &state.points.get(name)?.last.as_ref()?.report;
        let (offer, overlay_port) = (report.kernel.clone()?, report.overlay_port.unwrap_or_default());
        Some((name.clone(), KernelPoint { offer, overlay_port }))
    };
    points.iter().filter_map(offer).collect()
}

/// Every point has been heard of under this leadership, and has nothing of it.
fn is_gone(state: &State, hold: &TunnelHold) -> bool {
    let has = |route: &rhumb_wire::RouteStatus| {
        let key = &route.key;
        (key.order, key.generation, key.leg, key.path) == (hold.order, hold.generation, hold.leg, hold.path)
    };
    hold.points.iter().all(|name| {
        let last = state.points.get(name).and_then(|p| p.last.as_ref());
        last.is_some_and(|l| l.report.epoch == state.stamp.epoch && !l.report.routes.iter().any(has))
    })
}
