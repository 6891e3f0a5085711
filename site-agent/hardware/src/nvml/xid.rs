//! Errors that the driver reports by number ("Xid"), listened to card by card.

use super::asking::Asking;
use nvml_wrapper::{EventSet, Nvml, bitmasks::event::EventTypes, enums::event::XidError, error::NvmlError};
use rhumb_devices::{Condition, Value, Why, inventory::is_grave};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// Most errors of one card that are taken at once.
const MOST: usize = 16;

/// The card has fallen off the bus.
const OFF_THE_BUS: u32 = 79;

#[derive(Debug, Default)]
pub(super) struct Xids(Mutex<BTreeMap<u32, Heard>>);

#[derive(Debug, Default)]
struct Heard {
    /// Where they arrive; none while a call has it, for ever if that hangs.
    set: Option<EventSet<'static>>,
    /// Nobody can listen.
    refused: Option<Why>,
    last: u32,
    grave: Option<u32>,
}

type Taken = (EventSet<'static>, Vec<u32>, Option<NvmlError>);

impl Xids {
    /// Takes what has arrived. Errors that came before the first call are not heard of.
    pub(super) fn listen(&self, card: u32, asking: &mut Asking<'_>) {
        let heard = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let set = {
            let mut heard = heard();
            let here = heard.entry(card).or_default();
            if here.refused.is_some() {
                return;
            }
            here.set.take()
        };
        let set = match set.map_or_else(|| asking.of(card, "events", move |nvml| register(nvml, card)), Value::Known) {
            Value::Known(set) => set,
            Value::Unknown(why) => {
                heard().entry(card).or_default().refused = Some(why);
                return;
            }
        };
        match asking.of(card, "events", move |_| Ok(take(set))) {
            Value::Known((set, numbers, error)) => {
                let mut heard = heard();
                let here = heard.entry(card).or_default();
                here.refused = error.map(|e| Why::Failed { call: "events".into(), error: e.to_string() });
                here.set = Some(set);
                for number in numbers {
                    here.last = number;
                    here.grave = here.grave.or(is_grave(number).then_some(number));
                }
            }
            // the set is gone with the call
            Value::Unknown(why) => heard().entry(card).or_default().refused = Some(why),
        }
    }

    /// The last error, the grave one where there was any; 0: none since somebody listens.
    pub(super) fn last(&self, card: u32) -> Value<u32> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(here) = heard.get(&card) else { return Value::default() };
        match (here.grave, here.last, &here.refused) {
            (None, 0, Some(why)) => Value::Unknown(why.clone()),
            (grave, last, _) => Value::Known(grave.unwrap_or(last)),
        }
    }

    /// What they say of the card; `None`: nothing against it.
    pub(super) fn condition(&self, card: u32) -> Option<Condition> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let grave = heard.get(&card)?.grave?;
        Some(if grave == OFF_THE_BUS { Condition::Failed } else { Condition::Degraded })
    }
}

fn register(nvml: &'static Nvml, card: u32) -> Result<EventSet<'static>, NvmlError> {
    let set = nvml.create_event_set()?;
    let device = nvml.device_by_index(card)?;
    device.register_events(EventTypes::CRITICAL_XID_ERROR, set).map_err(|e| e.error)
}

/// Does not wait: what is not there yet is taken the next time.
fn take(set: EventSet<'static>) -> Taken {
    let mut numbers = Vec::new();
    while numbers.len() < MOST {
        match set.wait(0) {
            Ok(event) => {
                if let Some(XidError::Value(number)) = event.event_data {
                    numbers.extend(u32::try_from(number));
                }
            }
            Err(NvmlError::Timeout) => return (set, numbers, None),
            Err(error) => return (set, numbers, Some(error)),
        }
    }
    (set, numbers, None)
}
