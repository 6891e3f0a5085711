//! What is known of one route here: its state and how many bytes it has moved.

use super::{
    spec::{Place, RouteSpec},
    standby::GOOD_PERCENT,
};
use rhumb_wire::{RouteEndState, RouteFigures, RouteStatus};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::watch;

/// Counts state changes, so that whoever reports them can wait for one.
pub(crate) type Changed = Arc<watch::Sender<u64>>;

#[derive(Debug)]
pub(crate) struct RouteCell {
    pub(crate) spec: RouteSpec,
    state: Mutex<(RouteEndState, String)>,
    counters: Arc<Counters>,
    share: Mutex<Share>,
    figures: Mutex<Option<RouteFigures>>,
    /// Octets passed each way over this path since this process began, repeated ones included.
    passed: [AtomicU64; 2],
    changed: Changed,
}

/// How far a leg has come here, both ways. All paths of a leg share them at its ends.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    forward: Mutex<Counter>,
    back: Mutex<Counter>,
}

impl Counters {
    fn totals(&self) -> (u64, u64) {
        let total = |counter: &Mutex<Counter>| {
            let counter = *lock(counter);
            counter.before + counter.reached
        };
        (total(&self.forward), total(&self.back))
    }
}

/// What of the counters this path shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// As they are: this path moves them.
    Moving,
    /// As they were when another path took over: bytes there and back.
    Stood(u64, u64),
}

/// Payload of one direction. What passes a second time, because a connection was lost, is counted apart, so that the count
/// is how far the route has come, at every hop alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counter {
    /// Of sessions that ended.
    before: u64,
    /// Of this session: its highest offset.
    reached: u64,
    again: u64,
}

impl Counter {
    fn pass(&mut self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes);
        let new = end.saturating_sub(self.reached.max(offset));
        self.reached = self.reached.max(end);
        self.again += bytes - new;
    }
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    Back,
}

impl RouteCell {
    /// Of a relay, whose counters are its own.
    pub(crate) fn new(spec: RouteSpec, changed: Changed) -> Self {
        Self::sharing(spec, changed, Arc::default(), Share::Moving)
    }

    /// Of one path of a leg at its end: it shows nothing before it carries.
    pub(crate) fn at_end(spec: RouteSpec, changed: Changed, counters: Arc<Counters>) -> Self {
        Self::sharing(spec, changed, counters, Share::Stood(0, 0))
    }

    fn sharing(spec: RouteSpec, changed: Changed, counters: Arc<Counters>, share: Share) -> Self {
        let state = Mutex::new((RouteEndState::Building, String::new()));
        Self {
            spec,
            state,
            counters,
            share: Mutex::new(share),
            figures: Mutex::default(),
            passed: [AtomicU64::new(0), AtomicU64::new(0)],
            changed,
        }
    }

    /// From now on the leg's bytes take this path.
    pub(crate) fn take_over(&self) {
        let before = std::mem::replace(&mut *lock(&self.share), Share::Moving);
        if before != Share::Moving {
            self.changed.send_modify(|count| *count += 1);
        }
    }

    /// Another path of the leg takes its bytes.
    pub(crate) fn stand_down(&self) {
        let mut share = lock(&self.share);
        if *share == Share::Moving {
            let (forward, back) = self.counters.totals();
            *share = Share::Stood(forward, back);
        }
    }

    /// Whether a test of its rate went well.
    pub(crate) fn is_tested(&self) -> bool {
        let good = |t: rhumb_wire::TestedRate| t.arrived.kbps().saturating_mul(100) >= t.sent.kbps() * GOOD_PERCENT;
        lock(&self.figures).and_then(|f| f.tested).is_some_and(good)
    }

    /// Another test of its rate.
    pub(crate) fn tested(&self, tested: rhumb_wire::TestedRate) {
        if let Some(figures) = lock(&self.figures).as_mut() {
            figures.tested = Some(tested);
        }
    }

    /// What was measured over this path.
    pub(crate) fn measured(&self, rtt_us: u64, tested: Option<rhumb_wire::TestedRate>) {
        let mut figures = lock(&self.figures);
        let before = figures.and_then(|f| f.tested);
        *figures = Some(RouteFigures { rtt_us, tested: tested.or(before) });
    }

    pub(crate) fn status(&self) -> RouteStatus {
        let (state, message) = lock(&self.state).clone();
        let share = *lock(&self.share);
        let (bytes, bytes_back) = match share {
            Share::Moving => self.counters.totals(),
            Share::Stood(bytes, bytes_back) => (bytes, bytes_back),
        };
        let is_source = matches!(self.spec.place, Place::Source { .. });
        let carrying = is_source && share == Share::Moving;
        let figures = *lock(&self.figures);
        RouteStatus { key: self.spec.key.clone(), state, bytes, bytes_back, message, figures, carrying }
    }

    /// Payload bytes that passed here more than once, both ways.
    pub(crate) fn sent_again(&self) -> u64 {
        lock(&self.counters.forward).again + lock(&self.counters.back).again
    }

    /// Bytes `offset..offset + bytes` of this session passed here.
    pub(crate) fn pass(&self, way: Way, offset: u64, bytes: u64) {
        self.passed[usize::from(way == Way::Back)].fetch_add(bytes, Ordering::Relaxed);
        lock(self.counter(way)).pass(offset, bytes);
    }

    /// Octets sent on to the next hop, and back to the previous one.
    pub(crate) fn passed(&self, way: Way) -> u64 {
        self.passed[usize::from(way == Way::Back)].load(Ordering::Relaxed)
    }

    /// The far end has all bytes of this session before `offset`, so they passed here, be it before this process began.
    pub(crate) fn reached(&self, way: Way, offset: u64) {
        let mut counter = lock(self.counter(way));
        counter.reached = counter.reached.max(offset);
    }

    pub(crate) fn session_offset(&self, way: Way) -> u64 {
        lock(self.counter(way)).reached
    }

    /// The ends begin again at offset 0.
    pub(crate) fn new_session(&self) {
        for counter in [&self.counters.forward, &self.counters.back] {
            let mut counter = lock(counter);
            counter.before += std::mem::take(&mut counter.reached);
        }
    }

    pub(crate) fn active(&self) {
        self.change(|state| match state {
            RouteEndState::Done => None,
            _ => Some((RouteEndState::Active, String::new())),
        });
    }

    pub(crate) fn done(&self) {
        self.change(|_| Some((RouteEndState::Done, String::new())));
    }

    /// The circuit is gone; it will be tried again.
    pub(crate) fn lost(&self, why: String) {
        self.change(|state| match state {
            RouteEndState::Done => None,
            RouteEndState::Building => Some((RouteEndState::Building, why)),
            RouteEndState::Active | RouteEndState::Degraded | RouteEndState::Failed => {
                Some((RouteEndState::Degraded, why))
            }
        });
    }

    /// Trying again helps only when something else changes first.
    pub(crate) fn failed(&self, why: String) {
        self.change(|state| match state {
            RouteEndState::Done => None,
            _ => Some((RouteEndState::Failed, why)),
        });
    }

    fn change(&self, to: impl FnOnce(RouteEndState) -> Option<(RouteEndState, String)>) {
        let mut now = lock(&self.state);
        let Some(next) = to(now.0) else { return };
        let moved = now.0 != next.0;
        if moved {
            let key = &self.spec.key;
            tracing::debug!(order = %key.order, leg = key.leg, from = ?now.0, to = ?next.0, why = next.1, "route state");
        }
        *now = next;
        drop(now);
        if moved {
            self.changed.send_modify(|count| *count += 1);
        }
    }

    fn counter(&self, way: Way) -> &Mutex<Counter> {
        match way {
            Way::Forward => &self.counters.forward,
            Way::Back => &self.counters.back,
        }
    }
}

/// A panic elsewhere leaves every value here whole: each is written in one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_again_is_counted_apart() {
        let mut counter = Counter::default();
        counter.pass(0, 10);
        counter.pass(10, 10);
        counter.pass(5, 10);
        counter.pass(15, 10);
        assert_eq!((counter.reached, counter.again), (25, 15));
    }
}
