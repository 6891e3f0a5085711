//! Calls of a driver that may hang: each in a thread of its own, waited for no longer than it has.

use nvml_wrapper::{Device, Nvml, error::NvmlError};
use rhumb_devices::{Value, Why};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Hung calls of one kind, or of one card, after which it is not asked again.
const HANGS: u32 = 2;

/// Hung calls after which the driver as a whole is not asked again; each holds a thread until it comes back.
const HANGS_IN_ALL: u32 = 12;

/// What `call` gives, unless it takes longer.
pub(super) fn within<T: Send + 'static>(limit: Duration, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, told) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("driver call".into()).spawn(move || _ = tell.send(call()));
    thread.ok()?;
    told.recv_timeout(limit).ok()
}

/// One look at a driver.
pub(super) struct Asking {
    nvml: &'static Nvml,
    limit: Duration,
    hung_calls: BTreeMap<&'static str, u32>,
    hung_cards: BTreeMap<u32, u32>,
    hung: u32,
    lost: BTreeSet<u32>,
}

impl Asking {
    pub(super) fn new(nvml: &'static Nvml, limit: Duration) -> Self {
        Self { nvml, limit, hung_calls: BTreeMap::new(), hung_cards: BTreeMap::new(), hung: 0, lost: BTreeSet::new() }
    }

    pub(super) fn node<T: Send + 'static>(
        &mut self,
        call: &'static str,
        ask: fn(&Nvml) -> Result<T, NvmlError>,
    ) -> Value<T> {
        let nvml = self.nvml;
        self.ask(call, None, move || ask(nvml))
    }

    pub(super) fn card(&mut self, index: u32) -> Card<'_> {
        Card { asking: self, index }
    }

    fn ask<T: Send + 'static>(
        &mut self,
        call: &'static str,
        card: Option<u32>,
        ask: impl FnOnce() -> Result<T, NvmlError> + Send + 'static,
    ) -> Value<T> {
        let hung = |n: Option<&u32>| n.is_some_and(|n| *n >= HANGS);
        if hung(self.hung_calls.get(call))
            || hung(card.and_then(|c| self.hung_cards.get(&c)))
            || self.hung >= HANGS_IN_ALL
        {
            return Value::Unknown(self.no_answer(call));
        }
        match within(self.limit, ask) {
            Some(Ok(value)) => Value::Known(value),
            Some(Err(error)) => {
                if let (NvmlError::GpuLost, Some(card)) = (&error, card) {
                    self.lost.insert(card);
                }
                Value::Unknown(Why::Failed { call: call.to_owned(), error: error.to_string() })
            }
            None => {
                self.hung += 1;
                *self.hung_calls.entry(call).or_default() += 1;
                if let Some(card) = card {
                    *self.hung_cards.entry(card).or_default() += 1;
                }
                Value::Unknown(self.no_answer(call))
            }
        }
    }

    fn no_answer(&self, call: &'static str) -> Why {
        Why::NoAnswer { call: call.to_owned(), after_ms: self.limit.as_millis() as u64 }
    }
}

/// One card of it.
pub(super) struct Card<'a> {
    asking: &'a mut Asking,
    index: u32,
}

impl Card<'_> {
    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        call: &'static str,
        ask: fn(&Device<'static>) -> Result<T, NvmlError>,
    ) -> Value<T> {
        let (nvml, index) = (self.asking.nvml, self.index);
        // the handle is asked for anew: it is of no use once the driver was loaded again
        self.asking.ask(call, Some(index), move || ask(&nvml.device_by_index(index)?))
    }

    /// The same of one of several things of a card.
    pub(super) fn ask_at<T: Send + 'static>(
        &mut self,
        call: &'static str,
        at: u32,
        ask: fn(&Device<'static>, u32) -> Result<T, NvmlError>,
    ) -> Value<T> {
        let (nvml, index) = (self.asking.nvml, self.index);
        self.asking.ask(call, Some(index), move || ask(&nvml.device_by_index(index)?, at))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.asking.lost.contains(&self.index)
    }

    /// Whether it let so many calls hang that it is not asked any more.
    pub(super) fn hung(&self) -> Option<Why> {
        let hung =
            self.asking.hung_cards.get(&self.index).is_some_and(|n| *n >= HANGS) || self.asking.hung >= HANGS_IN_ALL;
        hung.then(|| self.asking.no_answer("any call"))
    }
}
