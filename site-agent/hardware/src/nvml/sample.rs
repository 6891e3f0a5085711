//! What changes all the time, asked with as few calls as there are values.

use super::{Driver, asking::Asking, percent};
use nvml_wrapper::{Device, enum_wrappers::device::TemperatureSensor};
use rhumb_devices::Value;
use std::collections::BTreeMap;

/// How one card fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    pub utilisation_pct: Value<u8>,
    pub memory_used_bytes: Value<u64>,
    pub temperature_mc: Value<i64>,
    pub power_mw: Value<u64>,
    /// Processes that compute on it.
    pub processes: Value<u32>,
    pub xid: Value<u32>,
    /// The driver says that the card is gone.
    pub is_lost: bool,
}

impl Driver {
    /// How these cards fare, by number.
    pub fn sample(&self, cards: &[u32]) -> BTreeMap<u32, Sample> {
        let mut asking = Asking::new(self.nvml, self.timeout, &self.hanging);
        cards.iter().map(|card| (*card, self.sample_of(*card, &mut asking))).collect()
    }

    fn sample_of(&self, index: u32, asking: &mut Asking<'_>) -> Sample {
        self.xids.listen(index, asking);
        let mut card = asking.card(index);
        let mut sample = Sample {
            utilisation_pct: percent(card.ask("utilisation", |d| d.utilization_rates().map(|u| u.gpu))),
            memory_used_bytes: card.ask("memory", |d| d.memory_info().map(|m| m.used)),
            temperature_mc: card
                .ask("temperature", |d| d.temperature(TemperatureSensor::Gpu))
                .map(|c| i64::from(c) * 1_000),
            power_mw: card.ask("power", Device::power_usage).map(u64::from),
            processes: card.ask("processes", Device::running_compute_processes_count),
            xid: Value::default(),
            is_lost: false,
        };
        sample.is_lost = card.is_lost();
        sample.xid = self.xids.last(index);
        sample
    }
}
