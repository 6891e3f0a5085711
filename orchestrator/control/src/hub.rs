//! What is known of the points right now: last reports, link figures, and the desired state each should have.

use crate::history::Windows;
use jiff::Timestamp;
use rhumb_federation::{BandwidthBook, FigureBook};
use rhumb_model::{Latency, LinkId, OrderId, PointName, Span, state::SiteState};
use rhumb_provision::{PointShare, Stamp};
use rhumb_wire::{Desired, Hearer, LinkFigures, PairTarget, PeerLink, ProbeTarget, Report, report::AssignmentKey};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use tokio::sync::{Notify, broadcast, watch};
use uuid::Uuid;

/// Shared by the API's handlers and the loops. No lock is held over an await.
#[derive(Debug)]
pub struct Hub {
    state: Mutex<State>,
    place: Notify,
    /// Something may fit now that did not before.
    room: AtomicBool,
    /// Something that the console shows has changed.
    pub pulse: broadcast::Sender<Pulse>,
    pub started: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pulse {
    Order(OrderId),
    Site(PointName),
}

#[derive(Debug)]
pub struct State {
    pub points: BTreeMap<PointName, Point>,
    pub figures: FigureBook,
    /// What was last told of each configured link.
    pub raw_figures: BTreeMap<LinkId, ToldFigures>,
    /// Of the whole way from one point to another, where its parts cannot be measured.
    pub pairs: BTreeMap<(PointName, PointName), PairFigure>,
    pub bandwidths: BandwidthBook,
    pub windows: Windows,
    pub shares: BTreeMap<OrderId, BTreeMap<PointName, PointShare>>,
    /// By which agents know each other's probes.
    pub probe_key_base64: String,
    /// The last stamp given out.
    pub stamp: Stamp,
}

#[derive(Debug)]
pub struct Point {
    pub desired: watch::Sender<Stamp>,
    pub probes: Vec<ProbeTarget>,
    pub pairs: Vec<PairTarget>,
    pub links: Vec<PeerLink>,
    pub peers: Vec<PointName>,
    pub last: Option<LastReport>,
    /// The nodes last reported are not stored yet.
    pub unsaved: bool,
}

/// What a prober said of a link.
#[derive(Debug, Clone)]
pub struct ToldFigures {
    pub figures: LinkFigures,
    pub boot: Uuid,
    pub heard: Instant,
}

/// What a point probes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Targets {
    pub probes: Vec<ProbeTarget>,
    pub pairs: Vec<PairTarget>,
}

/// Round trips of a whole way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairFigure {
    pub rtt_min: Latency,
    pub rtt_p50: Latency,
    pub rtt_p95: Latency,
    /// When the last reply came.
    pub received_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct LastReport {
    pub boot: Uuid,
    pub seq: u64,
    pub at: Timestamp,
    pub heard: Instant,
    /// Without its logs.
    pub report: Arc<Report>,
    /// What all reports together say of the nodes and of how their devices fare.
    pub devices: Hearer,
}

impl Hub {
    pub fn new(
        epoch: u64,
        figures: FigureBook,
        probe_key_base64: String,
        points: impl IntoIterator<Item = (PointName, Point)>,
    ) -> Self {
        let state = State {
            points: points.into_iter().collect(),
            figures,
            raw_figures: BTreeMap::new(),
            pairs: BTreeMap::new(),
            bandwidths: BandwidthBook::default(),
            windows: Windows::default(),
            shares: BTreeMap::new(),
            probe_key_base64,
            stamp: Stamp { epoch, generation: 1 },
        };
        Self {
            state: Mutex::new(state),
            place: Notify::new(),
            room: AtomicBool::new(false),
            pulse: broadcast::channel(1_024).0,
            started: Instant::now(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        // a panic while holding it leaves maps that are still whole: go on
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A new order waits.
    pub fn wake_placer(&self) {
        self.place.notify_one();
    }

    /// Capacity came free or a point changed: every order that waits is worth another look.
    pub fn wake_placer_for_all(&self) {
        self.room.store(true, Ordering::Release);
        self.place.notify_one();
    }

    /// Until the placer is woken; true: for all that waits.
    pub(crate) async fn woken(&self) -> bool {
        self.place.notified().await;
        self.room.swap(false, Ordering::AcqRel)
    }

    pub fn pulse(&self, pulse: Pulse) {
        // nobody listening is no fault
        let _ = self.pulse.send(pulse);
    }

    /// How long ago the point was heard of; `None`: never by this process.
    pub fn age(&self, point: &PointName) -> Option<std::time::Duration> {
        self.lock().points.get(point)?.last.as_ref().map(|l| l.heard.elapsed())
    }
}

impl State {
    pub fn next_stamp(&self) -> Stamp {
        Stamp { epoch: self.stamp.epoch, generation: self.stamp.generation + 1 }
    }

    /// Replaces what one order wants and tells every point concerned.
    pub fn set_share(
        &mut self,
        order: OrderId,
        shares: BTreeMap<PointName, PointShare>,
        stamp: Stamp,
        touch: impl IntoIterator<Item = PointName>,
    ) {
        self.stamp = self.stamp.max(stamp);
        let before = if shares.is_empty() { self.shares.remove(&order) } else { self.shares.insert(order, shares) };
        let old = before.into_iter().flat_map(BTreeMap::into_keys);
        for point in touch.into_iter().chain(old).collect::<std::collections::BTreeSet<_>>() {
            if let Some(p) = self.points.get(&point) {
                p.desired.send_replace(stamp);
            }
        }
    }

    /// Has points probe something else, and tells those whose targets change.
    pub fn set_targets(&mut self, targets: BTreeMap<PointName, Targets>) {
        let stamp = self.next_stamp();
        for (name, Targets { probes, pairs }) in targets {
            let Some(point) = self.points.get_mut(&name) else { continue };
            if point.probes == probes && point.pairs == pairs {
                continue;
            }
            (point.probes, point.pairs) = (probes, pairs);
            self.stamp = stamp;
            point.desired.send_replace(stamp);
        }
    }

    /// The whole desired state of a point.
    pub fn desired(&self, name: &PointName) -> Option<Desired> {
        let point = self.points.get(name)?;
        let stamp = *point.desired.borrow();
        let mine = || self.shares.values().filter_map(|s| s.get(name));
        Some(Desired {
            epoch: stamp.epoch,
            generation: stamp.generation,
            assignments: mine().flat_map(|s| s.assignments.iter().cloned()).collect(),
            routes: mine().flat_map(|s| s.routes.iter().cloned()).collect(),
            probes: point.probes.clone(),
            pairs: point.pairs.clone(),
            links: point.links.clone(),
            peers: point.peers.clone(),
            probe_key_base64: Some(self.probe_key_base64.clone()),
        })
    }

    /// Whether the point has been given work of this replica, and is not rid of it.
    pub(crate) fn has_work(&self, point: &PointName, key: &AssignmentKey) -> bool {
        let share = self.shares.get(&key.order).and_then(|s| s.get(point));
        share.is_some_and(|s| s.assignments.iter().any(|a| &a.key == key))
    }
}

impl LastReport {
    /// State of a point, from when its agent was last heard.
    pub fn state(last: Option<&Self>, lost_after: Span, draining: bool) -> SiteState {
        match last {
            None => SiteState::NeverSeen,
            Some(last) if last.heard.elapsed().as_micros() > u128::from(lost_after.micros()) => SiteState::Lost,
            Some(_) if draining => SiteState::Draining,
            Some(_) => SiteState::Ready,
        }
    }
}
