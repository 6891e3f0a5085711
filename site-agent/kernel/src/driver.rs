//! Keeps the legs as they were stated: builds and removes, repairs what somebody else changed, asks the far ends whether they
//! are there, and gives a lost leg's traffic to the one that protects it.

mod task;

use crate::{KernelError, health::Patience, intent::Intent, owner::Owner, vni::VniRange};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverConfig {
    /// Numbers that this point gives away; `None`: any.
    pub pool: Option<VniRange>,
    /// Between two echoes to a far end that protects or is protected, or has not answered yet.
    pub probe: Duration,
    /// Between two echoes to any other.
    pub idle_probe: Duration,
    /// How often all is read anew, and repaired.
    pub look: Duration,
    pub patience: Patience,
}

impl Default for DriverConfig {
    fn default() -> Self {
        Self {
            pool: None,
            probe: Duration::from_millis(100),
            idle_probe: Duration::from_secs(1),
            look: Duration::from_secs(5),
            patience: Patience::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LegState {
    /// Built here; the far end has not answered.
    Building,
    Active,
    /// Its far end answered once and does no more.
    Degraded,
    Failed,
    /// No longer wanted and not yet gone.
    Closing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegStatus {
    pub state: LegState,
    /// Whether the order's packets take it.
    pub carries: bool,
    /// To the next point, by the last echo.
    pub round_trip: Option<Duration>,
    /// Octets of frames inside the leg's tunnels: sent past the shaper, and received. At a relay, of the next point's tunnel.
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub dropped_packets: u64,
    /// Objects of it that somebody else had changed or taken away, and that were put right.
    pub repaired: u64,
    pub message: String,
}

/// The legs of one point. Dropped, it leaves what it built in place: a later one takes it over.
#[derive(Debug)]
pub struct Driver {
    wanted: watch::Sender<Option<Arc<Vec<Intent>>>>,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    legs: Mutex<BTreeMap<Owner, LegStatus>>,
    changed: watch::Sender<u64>,
}

impl Driver {
    /// Of the calling thread's network namespace. Needs a tokio runtime with I/O and time, CAP_NET_ADMIN and CAP_NET_RAW.
    /// Nothing is changed before the first [`Driver::apply`].
    pub fn start(config: DriverConfig) -> Result<Self, KernelError> {
        let (wanted, receiver) = watch::channel(None);
        let shared = Arc::new(Shared { legs: Mutex::default(), changed: watch::Sender::new(0) });
        let task = task::start(config, receiver, Arc::clone(&shared))?;
        Ok(Self { wanted, shared, task })
    }

    /// States the whole set of legs there should be here. The same again changes nothing.
    pub fn apply(&self, mut legs: Vec<Intent>) {
        legs.sort_by_key(|leg| leg.owner);
        self.wanted.send_if_modified(|now| {
            let news = now.as_ref().is_none_or(|now| **now != legs);
            if news {
                *now = Some(Arc::new(legs));
            }
            news
        });
    }

    /// Every leg here; what is no longer wanted is listed until it is gone.
    pub fn status(&self) -> BTreeMap<Owner, LegStatus> {
        self.shared.legs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes with the state of any leg, and when one is gone.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}
