//! The one task that touches the kernel.

use super::{DriverConfig, LegState, LegStatus, Shared};
use crate::{
    Counters, Kernel, KernelError,
    echo::{Answer, Echo},
    health::{Health, Watch, stances},
    intent::{Intent, Place, Refusal, Stance},
    object::Object,
    owner::Owner,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

/// Echoes in flight to one far end; older ones are forgotten.
const IN_FLIGHT: usize = 16;

pub(super) struct Task {
    config: DriverConfig,
    shared: Arc<Shared>,
    kernel: Kernel,
    echo: Echo,
    legs: Arc<Vec<Intent>>,
    /// As they stand now, with lost ones' traffic given away.
    standing: Vec<Intent>,
    far: BTreeMap<Owner, Far>,
    by_address: BTreeMap<Ipv4Addr, Owner>,
    counters: BTreeMap<Owner, BTreeMap<u32, Counters>>,
    troubles: BTreeMap<Owner, String>,
    refused: BTreeMap<Owner, Refusal>,
    repaired: BTreeMap<Owner, u64>,
    /// The kernel did not do all that it was asked.
    unfinished: bool,
    closing: BTreeSet<Owner>,
    start: Instant,
    /// Time in which nobody listened: it counts as no silence.
    deaf: Duration,
}

/// The far end of a leg's tunnel.
struct Far {
    watch: Watch,
    address: Ipv4Addr,
    every: Duration,
    next: Duration,
    number: u16,
    in_flight: Vec<(u16, Instant)>,
}

pub(super) fn start(
    config: DriverConfig,
    wanted: watch::Receiver<Option<Arc<Vec<Intent>>>>,
    shared: Arc<Shared>,
) -> Result<JoinHandle<()>, KernelError> {
    let kernel = Kernel::open(config.pool)?;
    let echo = Echo::open().map_err(KernelError::Open)?;
    let task = Task {
        config,
        shared,
        kernel,
        echo,
        legs: Arc::default(),
        standing: Vec::new(),
        far: BTreeMap::new(),
        by_address: BTreeMap::new(),
        counters: BTreeMap::new(),
        troubles: BTreeMap::new(),
        refused: BTreeMap::new(),
        repaired: BTreeMap::new(),
        unfinished: false,
        closing: BTreeSet::new(),
        start: Instant::now(),
        deaf: Duration::ZERO,
    };
    Ok(tokio::spawn(task.run(wanted)))
}

impl Task {
    async fn run(mut self, mut wanted: watch::Receiver<Option<Arc<Vec<Intent>>>>) {
        self.recall().await;
        let mut tick = interval(self.config.probe / 2);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut look = interval(self.config.look);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                answer = self.echo.receive() => match answer {
                    Ok(answer) => self.heard(answer),
                    Err(error) => tracing::debug!(%error, "an echo cannot be read"),
                },
                news = wanted.changed() => {
                    if news.is_err() {
                        return;
                    }
                    let legs = wanted.borrow_and_update().clone();
                    if let Some(legs) = legs {
                        self.take(legs);
                        self.make().await;
                    }
                }
                _ = tick.tick() => self.tick().await,
                _ = look.tick(), if wanted.borrow().is_some() => self.look().await,
            }
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed().saturating_sub(self.deaf)
    }

    /// What an earlier driver left is here, and is said to be, until it is taken up or gone.
    async fn recall(&mut self) {
        let found = match self.kernel.observe().await {
            Ok(objects) => objects,
            Err(error) => {
                tracing::warn!(error = error.shown(), "the kernel's routes cannot be read");
                return;
            }
        };
        let owner = |object: &Object| match object {
            Object::Link(link) => link.owner,
            _ => None,
        };
        self.closing = found.iter().filter_map(owner).collect();
        let left = LegStatus {
            state: LegState::Closing,
            carries: false,
            round_trip: None,
            sent_bytes: 0,
            received_bytes: 0,
            dropped_packets: 0,
            repaired: 0,
            message: String::new(),
        };
        let mut legs = self.shared.legs.lock().unwrap_or_else(PoisonError::into_inner);
        legs.extend(self.closing.iter().map(|owner| (*owner, left.clone())));
    }

    /// Other legs than before.
    fn take(&mut self, legs: Arc<Vec<Intent>>) {
        let stays: BTreeSet<Owner> = legs.iter().map(|leg| leg.owner).collect();
        self.closing.extend(self.legs.iter().map(|leg| leg.owner));
        self.closing.retain(|owner| !stays.contains(owner));
        self.repaired.retain(|owner, _| stays.contains(owner));
        self.legs = legs;
        let now = self.now();
        let guarded: BTreeSet<Owner> = self.legs.iter().filter_map(|leg| leg.protects).collect();
        let mut far = BTreeMap::new();
        for leg in self.legs.iter() {
            let Some(tunnel) = leg.probed() else { continue };
            let quick = leg.protects.is_some() || guarded.contains(&leg.owner);
            let every = if quick { self.config.probe } else { self.config.idle_probe };
            let known = self.far.remove(&leg.owner).filter(|known| known.address == tunnel.peer);
            let mut known = known.unwrap_or_else(|| Far {
                watch: Watch::default(),
                address: tunnel.peer,
                every,
                next: now,
                number: 0,
                in_flight: Vec::new(),
            });
            known.watch.every = every;
            far.insert(leg.owner, Far { every, ..known });
        }
        self.by_address = far.iter().map(|(owner, far)| (far.address, *owner)).collect();
        self.far = far;
    }

    /// Makes the kernel what the legs say, as their far ends' health has it.
    async fn make(&mut self) {
        let began = Instant::now();
        self.standing = stances(&self.legs, |owner| self.health(owner));
        match self.kernel.apply(&self.standing).await {
            Ok(applied) => {
                self.unfinished = !applied.failed.is_empty() || !applied.stuck.is_empty();
                self.troubles = applied.failed;
                self.troubles.extend(applied.refused.iter().map(|(owner, refusal)| (*owner, refusal.to_string())));
                self.refused = applied.refused;
                if applied.stuck.is_empty() {
                    self.closing.clear();
                }
                for stuck in applied.stuck {
                    tracing::warn!(stuck, "something of a route that is over cannot be removed; trying on");
                }
            }
            Err(error) => {
                let error = error.shown();
                tracing::warn!(error, "the kernel's routes cannot be read");
                self.kernel.look_again();
                self.unfinished = true;
                self.troubles.extend(self.legs.iter().map(|leg| (leg.owner, error.clone())));
            }
        }
        self.deaf += began.elapsed();
        self.tell();
    }

    /// Reads everything anew: what others changed is put right.
    async fn look(&mut self) {
        let began = Instant::now();
        self.kernel.look_again();
        let (wanted, operations) = self.kernel.plan(&self.standing).await.unwrap_or_default();
        match self.kernel.counters().await {
            Ok(counters) => self.counters = counters,
            Err(error) => tracing::debug!(error = error.shown(), "no counters"),
        }
        self.deaf += began.elapsed();
        let as_left = !self.unfinished && wanted.refused == self.refused;
        if operations.is_empty() && as_left {
            self.tell();
            return;
        }
        // where the underlay has changed it is this driver that has something else to do
        if as_left {
            let objects = operations.len();
            tracing::warn!(objects, "routes were found other than they had been left; putting them right");
            let owners = operations.iter().filter_map(|operation| wanted.owners.get(operation.object()));
            for owner in owners.flatten() {
                *self.repaired.entry(*owner).or_default() += 1;
            }
        }
        self.make().await;
    }

    async fn tick(&mut self) {
        let now = self.now();
        let mut news = false;
        for (owner, far) in &mut self.far {
            let known = far.watch.health() != Health::Unknown;
            news |= far.watch.look(now, &self.config.patience);
            if now < far.next || self.troubles.contains_key(owner) {
                continue;
            }
            far.next = now + if known { far.every } else { self.config.probe };
            far.number = far.number.wrapping_add(1);
            far.in_flight.push((far.number, Instant::now()));
            if far.in_flight.len() > IN_FLIGHT {
                far.in_flight.remove(0);
            }
            if let Err(error) = self.echo.send(far.address, far.number) {
                tracing::trace!(%owner, %error, "an echo cannot be sent");
            }
        }
        if news {
            self.follow().await;
        }
    }

    /// Something was lost or has come back.
    async fn follow(&mut self) {
        if stances(&self.legs, |owner| self.health(owner)) == self.standing {
            self.tell();
        } else {
            tracing::info!("a route's traffic takes another way");
            self.make().await;
        }
    }

    fn heard(&mut self, answer: Answer) {
        let now = self.now();
        let Some(far) = self.by_address.get(&answer.from).and_then(|owner| self.far.get_mut(owner)) else { return };
        let Some(at) = far.in_flight.iter().position(|(number, _)| *number == answer.number) else { return };
        let (_, sent) = far.in_flight.remove(at);
        let before = far.watch.health();
        far.watch.answered(now, sent.elapsed(), &self.config.patience);
        if far.watch.health() != before {
            self.tell();
        }
    }

    fn health(&self, owner: &Owner) -> Health {
        self.far.get(owner).map(|far| far.watch.health()).unwrap_or_default()
    }

    fn tell(&self) {
        let mut all = BTreeMap::new();
        for leg in &self.standing {
            let trouble = self.troubles.get(&leg.owner);
            let state = match (trouble, self.health(&leg.owner)) {
                (Some(_), _) => LegState::Failed,
                (None, _) if matches!(leg.place, Place::Transit { .. }) => LegState::Active,
                (None, Health::Unknown) => LegState::Building,
                (None, Health::Up) => LegState::Active,
                (None, Health::Down) => LegState::Degraded,
            };
            all.insert(leg.owner, self.status(leg, state, trouble.cloned().unwrap_or_default()));
        }
        for owner in &self.closing {
            let before = self.shared.legs.lock().unwrap_or_else(PoisonError::into_inner).get(owner).cloned();
            if let Some(before) = before {
                all.insert(*owner, LegStatus { state: LegState::Closing, ..before });
            }
        }
        let mut legs = self.shared.legs.lock().unwrap_or_else(PoisonError::into_inner);
        let news = shape(&legs) != shape(&all);
        *legs = all;
        drop(legs);
        if news {
            self.shared.changed.send_modify(|count| *count += 1);
        }
    }

    fn status(&self, leg: &Intent, state: LegState, message: String) -> LegStatus {
        let vni = leg.probed().map(|tunnel| tunnel.vni.number());
        let counted = self.counters.get(&leg.owner).and_then(|all| all.get(&vni?)).copied().unwrap_or_default();
        LegStatus {
            state,
            carries: leg.stance == Stance::Carrying && state != LegState::Failed,
            round_trip: self.far.get(&leg.owner).and_then(|far| far.watch.round_trip),
            sent_bytes: counted.sent_bytes,
            received_bytes: counted.received_bytes,
            dropped_packets: counted.dropped_packets,
            repaired: self.repaired.get(&leg.owner).copied().unwrap_or(0),
            message,
        }
    }
}

/// What others wait for.
fn shape(all: &BTreeMap<Owner, LegStatus>) -> Vec<(Owner, LegState, bool, &str)> {
    all.iter().map(|(owner, leg)| (*owner, leg.state, leg.carries, leg.message.as_str())).collect()
}
