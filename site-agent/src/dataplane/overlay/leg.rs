//! One end of a leg, where its paths meet: which of them carries, and what they share.
//!
//! A leg may have several paths at once: one that carries, one that stands by, one that is being built to replace another.
//! Each is a circuit of its own. What comes and goes at the ends is one session whatever path it takes, so that a change of
//! path is to it what a lost connection is: it goes on from what the far end has.

use super::{
    cell::{Counters, RouteCell, lock},
    spec::{RouteSpec, Tuning},
    staging,
};
use rhumb_wire::Duty;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use tokio::sync::{MutexGuard, watch};
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(crate) struct LegEnd<E> {
    pub(crate) end: E,
    shared: Arc<Shared>,
}

/// What does not depend on what is carried.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) counters: Arc<Counters>,
    /// Of the path that is to carry.
    pub(crate) tuning: watch::Sender<Tuning>,
    pub(crate) stop: CancellationToken,
    /// At the sink of a transfer: its part of the file.
    pub(crate) staged: Option<Arc<staging::Leg>>,
    paths: Mutex<Paths>,
    /// The path whose turn it is.
    turn: watch::Sender<Option<u32>>,
    /// Held by the one that carries: whoever follows waits until it has let go.
    session: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Paths {
    members: BTreeMap<u32, Member>,
    /// Asked to carry and not yet seen to.
    asked: Option<u32>,
}

#[derive(Debug)]
struct Member {
    cell: Arc<RouteCell>,
    duty: Duty,
    /// It stands end to end.
    live: bool,
}

impl<E> LegEnd<E> {
    pub(crate) fn new(end: E, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { end, shared })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Shared {
    pub(crate) fn new(tuning: Tuning, stop: CancellationToken, staged: Option<Arc<staging::Leg>>) -> Arc<Self> {
        Arc::new(Self {
            counters: Arc::default(),
            tuning: watch::Sender::new(tuning),
            stop,
            staged,
            paths: Mutex::default(),
            turn: watch::Sender::new(None),
            session: tokio::sync::Mutex::new(()),
        })
    }

    /// Another path of the leg, or another duty of one that is there.
    pub(crate) fn put(&self, cell: &Arc<RouteCell>, tuning: &Tuning) {
        let path = cell.spec.key.path;
        let mut paths = lock(&self.paths);
        let new = || Member { cell: Arc::clone(cell), duty: Duty::Measure, live: false };
        let member = paths.members.entry(path).or_insert_with(new);
        let before = std::mem::replace(&mut member.duty, tuning.duty);
        if tuning.duty == Duty::Carry {
            self.tuning.send_replace(tuning.clone());
            if before != Duty::Carry {
                paths.asked = Some(path);
            }
        } else if paths.asked == Some(path) {
            paths.asked = None;
        }
        self.choose(&mut paths);
    }

    /// True: it was the last.
    pub(crate) fn leave(&self, path: u32) -> bool {
        let mut paths = lock(&self.paths);
        if let Some(member) = paths.members.remove(&path) {
            member.cell.stand_down();
        }
        self.choose(&mut paths);
        paths.members.is_empty()
    }

    /// The path stands end to end, or no more.
    pub(crate) fn is_live(&self, path: u32, live: bool) {
        let mut paths = lock(&self.paths);
        if let Some(member) = paths.members.get_mut(&path) {
            member.live = live;
            self.choose(&mut paths);
        }
    }

    /// At the source. What carries goes on while it stands, unless another is asked to; what is lost is replaced by one
    /// that stands.
    fn choose(&self, paths: &mut Paths) {
        let ready = |path: &u32| paths.members.get(path).is_some_and(|m| m.live && m.duty != Duty::Measure);
        let now = *self.turn.borrow();
        let asked = paths.asked.filter(ready);
        let first = || {
            let mut standing: Vec<_> = paths.members.iter().filter(|(path, _)| ready(path)).collect();
            standing.sort_by_key(|(path, m)| (m.duty, **path));
            standing.first().map(|(path, _)| **path)
        };
        let gone = now.is_some_and(|path| !paths.members.contains_key(&path));
        let next = asked.or_else(|| now.filter(ready)).or_else(first).or(now.filter(|_| !gone));
        if asked.is_some() {
            paths.asked = None;
        }
        self.give(paths, next);
    }

    fn give(&self, paths: &Paths, next: Option<u32>) {
        self.turn.send_if_modified(|now| {
            let changed = *now != next;
            if changed && let Some(member) = now.and_then(|path| paths.members.get(&path)) {
                member.cell.stand_down();
            }
            *now = next;
            changed
        });
    }

    /// At the sink, where the source has chosen.
    pub(crate) fn claim(&self, path: u32) {
        let paths = lock(&self.paths);
        self.give(&paths, Some(path));
    }

    /// Until it is the path's turn to carry.
    pub(crate) async fn its_turn(&self, path: u32) {
        let mut turn = self.turn.subscribe();
        if turn.wait_for(|now| *now == Some(path)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Until it is another's.
    pub(crate) async fn turn_of_another(&self, path: u32) {
        let mut turn = self.turn.subscribe();
        if turn.wait_for(|now| *now != Some(path)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The one session of the leg.
    pub(crate) async fn session(&self) -> MutexGuard<'_, ()> {
        self.session.lock().await
    }

    /// Whether paths of both belong to one leg: what is carried is the same.
    pub(crate) fn takes(own: &RouteSpec, spec: &RouteSpec) -> bool {
        let (a, b) = (&own.key, &spec.key);
        let end = |s: &RouteSpec| s.previous().is_some();
        (a.order, a.generation, a.leg) == (b.order, b.generation, b.leg)
            && own.job == spec.job
            && own.seal == spec.seal
            && end(own) == end(spec)
    }
}
