//! Calls of a driver that may hang: each in a thread that nothing else waits for, and waited for no longer than it has.

use nvml_wrapper::{Device, Nvml, error::NvmlError};
use rhumb_devices::{Value, Why};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

/// Calls of one kind, or of one card, that have not come back, from which on it is not asked again.
const HANGS: u32 = 2;

/// Calls that have not come back, from which on the driver as a whole is not asked; each holds a thread.
const HANGS_IN_ALL: u32 = 12;

/// Calls that were given up and have not come back yet, over all looks.
#[derive(Debug, Default)]
pub(super) struct Hanging {
    calls: BTreeMap<&'static str, u32>,
    cards: BTreeMap<u32, u32>,
    all: u32,
    /// Threads that are free for the next call: none of them is in one.
    idle: Vec<Worker>,
}

/// A thread that makes one call after the other. One that hangs is not seen again until its call comes back.
#[derive(Debug)]
struct Worker(mpsc::Sender<(Job, Self)>);

/// A call, which puts the worker that made it back among the idle ones.
type Job = Box<dyn FnOnce(Worker) + Send>;

/// Has the call made by a thread that is free, or by a new one. `None`: there is no thread to be had.
fn hand(hanging: &Mutex<Hanging>, job: Job) -> Option<()> {
    let Some(worker) = locked(hanging).idle.pop() else { return start(job) };
    let give = worker.0.clone();
    match give.send((job, worker)) {
        Ok(()) => Some(()),
        Err(mpsc::SendError((job, _))) => start(job),
    }
}

fn start(job: Job) -> Option<()> {
    let (give, take) = mpsc::channel();
    let first = Worker(give);
    let thread = move || {
        job(first);
        // the end of all who could have another call is its end
        while let Ok((job, worker)) = take.recv() {
            job(worker);
        }
    };
    thread::Builder::new().name("driver call".into()).spawn(thread).ok().map(|_| ())
}

/// Whose call it is.
type Whose = (&'static str, Option<u32>);

impl Hanging {
    fn is_too_much(&self, (call, card): Whose) -> bool {
        let of_call = self.calls.get(call).copied().unwrap_or(0);
        of_call >= HANGS || card.is_some_and(|c| self.is_silent(c)) || self.all >= HANGS_IN_ALL
    }

    fn is_silent(&self, card: u32) -> bool {
        self.cards.get(&card).is_some_and(|n| *n >= HANGS) || self.all >= HANGS_IN_ALL
    }

    fn count(&mut self, (call, card): Whose, step: i32) {
        let add = |n: &mut u32| *n = n.saturating_add_signed(step);
        add(self.calls.entry(call).or_default());
        if let Some(card) = card {
            add(self.cards.entry(card).or_default());
        }
        add(&mut self.all);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn hanging(hanging: &Mutex<Hanging>) -> u32 {
    locked(hanging).all
}

#[derive(PartialEq, Eq)]
enum Stage {
    Waited,
    GivenUp,
    Back,
}

/// What `call` gives, unless it takes longer: then it counts as hanging until it comes back.
pub(super) fn within<T: Send + 'static>(
    limit: Duration,
    hanging: &Arc<Mutex<Hanging>>,
    whose: Whose,
    call: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = mpsc::sync_channel(1);
    let stage = Arc::new(Mutex::new(Stage::Waited));
    let (there, counted) = (Arc::clone(&stage), Arc::clone(hanging));
    let job = move |worker: Worker| {
        let answer = call();
        let mut stage = locked(&there);
        let mut counted = locked(&counted);
        if *stage == Stage::GivenUp {
            counted.count(whose, -1);
        }
        *stage = Stage::Back;
        counted.idle.push(worker);
        _ = tell.send(answer);
    };
    hand(hanging, Box::new(job))?;
    told.recv_timeout(limit).ok().or_else(|| {
        let mut stage = locked(&stage);
        if *stage == Stage::Back {
            return told.try_recv().ok();
        }
        *stage = Stage::GivenUp;
        locked(hanging).count(whose, 1);
        None
    })
}

/// One look at a driver.
pub(super) struct Asking<'a> {
    nvml: &'static Nvml,
    limit: Duration,
    hanging: &'a Arc<Mutex<Hanging>>,
    lost: BTreeSet<u32>,
}

impl<'a> Asking<'a> {
    pub(super) fn new(nvml: &'static Nvml, limit: Duration, hanging: &'a Arc<Mutex<Hanging>>) -> Self {
        Self { nvml, limit, hanging, lost: BTreeSet::new() }
    }

    pub(super) fn node<T: Send + 'static>(
        &mut self,
        call: &'static str,
        ask: fn(&Nvml) -> Result<T, NvmlError>,
    ) -> Value<T> {
        let nvml = self.nvml;
        self.ask((call, None), move || ask(nvml))
    }

    /// Of one card, where it is not its handle alone that is needed.
    pub(super) fn of<T: Send + 'static>(
        &mut self,
        card: u32,
        call: &'static str,
        ask: impl FnOnce(&'static Nvml) -> Result<T, NvmlError> + Send + 'static,
    ) -> Value<T> {
        let nvml = self.nvml;
        self.ask((call, Some(card)), move || ask(nvml))
    }

    pub(super) fn card(&mut self, index: u32) -> Card<'_, 'a> {
        Card { asking: self, index }
    }

    fn ask<T: Send + 'static>(
        &mut self,
        whose: Whose,
        ask: impl FnOnce() -> Result<T, NvmlError> + Send + 'static,
    ) -> Value<T> {
        let too_much = locked(self.hanging).is_too_much(whose);
        let answer = if too_much { None } else { within(self.limit, self.hanging, whose, ask) };
        match answer {
            Some(Ok(value)) => Value::Known(value),
            Some(Err(error)) => {
                if let (NvmlError::GpuLost, Some(card)) = (&error, whose.1) {
                    self.lost.insert(card);
                }
                Value::Unknown(Why::Failed { call: whose.0.to_owned(), error: error.to_string() })
            }
            None => Value::Unknown(self.no_answer(whose.0)),
        }
    }

    fn no_answer(&self, call: &'static str) -> Why {
        Why::NoAnswer { call: call.to_owned(), after_ms: self.limit.as_millis() as u64 }
    }
}

/// One card of it.
pub(super) struct Card<'a, 'b> {
    asking: &'a mut Asking<'b>,
    index: u32,
}

impl Card<'_, '_> {
    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        call: &'static str,
        ask: fn(&Device<'static>) -> Result<T, NvmlError>,
    ) -> Value<T> {
        let (nvml, index) = (self.asking.nvml, self.index);
        // the handle is asked for anew: it is of no use once the driver was loaded again
        self.asking.ask((call, Some(index)), move || ask(&nvml.device_by_index(index)?))
    }

    /// The same of one of several things of a card.
    pub(super) fn ask_at<T: Send + 'static>(
        &mut self,
        call: &'static str,
        at: u32,
        ask: fn(&Device<'static>, u32) -> Result<T, NvmlError>,
    ) -> Value<T> {
        let (nvml, index) = (self.asking.nvml, self.index);
        self.asking.ask((call, Some(index)), move || ask(&nvml.device_by_index(index)?, at))
    }

    /// The same of a slice of a card.
    pub(super) fn ask_slice<T: Send + 'static>(
        &mut self,
        call: &'static str,
        at: u32,
        ask: fn(&Nvml, &Device<'static>) -> Result<T, NvmlError>,
    ) -> Value<T> {
        let (nvml, index) = (self.asking.nvml, self.index);
        let slice = move || nvml.device_by_index(index)?.mig_device_by_index(at);
        self.asking.ask((call, Some(index)), move || ask(nvml, &slice()?))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.asking.lost.contains(&self.index)
    }

    /// Whether it let so many calls hang that it is not asked any more.
    pub(super) fn silent(&self) -> Option<Why> {
        locked(self.asking.hanging).is_silent(self.index).then(|| self.asking.no_answer("any call"))
    }
}
