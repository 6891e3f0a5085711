//! The bill of one generation, from what was measured: accelerator-seconds, CPU-seconds, GB moved and Mbps-hours.

use crate::saga::{LegPurpose, LegState, ReplicaState, Saga};
use jiff::{SignedDuration, Timestamp};
use rhumb_model::{
    LinkId, ModelName, Order, SiteName,
    price::PriceBook,
    ratio::{Ratio, round_half_up},
};

/// Prices in exact micro-units of the federation's currency.
pub trait Prices {
    fn book(&self, site: &SiteName) -> Option<&PriceBook>;
    /// Per device-hour, core-hour and GiB-hour.
    fn device(&self, site: &SiteName, model: &ModelName) -> Ratio;
    fn core(&self, site: &SiteName) -> Ratio;
    fn gib(&self, site: &SiteName) -> Ratio;
    /// Per 10^9 bytes, and per Mbit/s and hour.
    fn per_gb(&self, link: &LinkId) -> Ratio;
    fn per_mbps_hour(&self, link: &LinkId) -> Ratio;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BillItem {
    /// `accelerator_seconds`, `cpu_seconds`, `gb_moved` or `mbps_hours`.
    pub kind: &'static str,
    /// Site or link.
    pub subject: String,
    /// Millionths of the unit.
    pub quantity_micro: i64,
    pub cost_micros: i64,
    /// The fact that is billed, unique within the generation and kind.
    pub item: String,
}

const MICROS_PER_HOUR: i128 = 3_600_000_000;

/// Every item of the saga's generation. The same saga gives the same bill.
pub fn bill(order: &Order, saga: &Saga, prices: &impl Prices) -> Vec<BillItem> {
    let mut items = Vec::new();
    for replica in &saga.replicas {
        items.extend(compute(order, saga, replica, prices));
    }
    let longest_us = saga.replicas.iter().map(|r| r.ran_us).max().unwrap_or(0);
    for leg in &saga.legs {
        items.extend(network(leg, longest_us, prices));
    }
    items.retain(|i| i.quantity_micro != 0 || i.cost_micros != 0);
    items
}

fn compute(order: &Order, saga: &Saga, replica: &ReplicaState, prices: &impl Prices) -> Vec<BillItem> {
    let (Some(start), Some(component)) = (saga.ran_from, order.component(&replica.component)) else { return Vec::new() };
    let Some(book) = prices.book(&replica.site) else { return Vec::new() };
    let hours = weighted_us(book, start, replica.ran_us) / Ratio::from_integer(MICROS_PER_HOUR);
    let ran = i128::from(replica.ran_us);
    let devices = replica.devices.len() as i128;
    let share = component.need.accelerators.as_ref().and_then(|a| a.share).map_or(1_000, |s| s.thousandths());
    let share = Ratio::new(i128::from(share), 1_000);
    let device_price = replica.model.as_ref().map_or_else(|| Ratio::from_integer(0), |m| prices.device(&replica.site, m));
    let cores = Ratio::new(i128::from(component.need.cpu.milli()), 1_000);
    let gib = Ratio::new(i128::from(component.need.memory.bytes()), 1 << 30);
    let item = format!("replica/{}/{}", replica.component, replica.replica);
    let line = |kind, quantity: Ratio, cost: Ratio| BillItem {
        kind,
        subject: replica.site.to_string(),
        quantity_micro: clamp(round_half_up(quantity)),
        cost_micros: clamp(round_half_up(cost)),
        item: item.clone(),
    };
    let of_devices = share * Ratio::from_integer(devices);
    vec![
        line("accelerator_seconds", of_devices * Ratio::from_integer(ran), of_devices * device_price * hours),
        line(
            "cpu_seconds",
            cores * Ratio::from_integer(ran),
            (cores * prices.core(&replica.site) + gib * prices.gib(&replica.site)) * hours,
        ),
    ]
}

fn network(leg: &LegState, longest_us: u64, prices: &impl Prices) -> Vec<BillItem> {
    let mut items = Vec::new();
    for (i, link) in leg.links.iter().enumerate() {
        // what left the point before the link and came out of the network at its far end
        let bytes = leg.points.get(i + 1).and_then(|p| leg.bytes.get(p)).copied().unwrap_or(0);
        let gb_micro = Ratio::new(i128::from(bytes), 1_000);
        let stream = leg.purpose == LegPurpose::Stream;
        // a volume is charged for volume / rate, which at its rate is its bits; a stream for as long as the work ran
        let mbps_hours_micro = if stream {
            Ratio::new(i128::from(leg.rate.kbps()) * i128::from(longest_us), 1_000 * 3_600)
        } else {
            Ratio::new(i128::from(bytes) * 8, 3_600)
        };
        let million = Ratio::from_integer(1_000_000);
        let carried = if stream { Ratio::from_integer(0) } else { gb_micro * prices.per_gb(link) / million };
        let held = mbps_hours_micro * prices.per_mbps_hour(link) / million;
        for (kind, quantity, cost) in [("gb_moved", gb_micro, carried), ("mbps_hours", mbps_hours_micro, held)] {
            items.push(BillItem {
                kind,
                subject: link.to_string(),
                quantity_micro: clamp(round_half_up(quantity)),
                cost_micros: clamp(round_half_up(cost)),
                item: format!("leg/{}/{i}", leg.leg),
            });
        }
    }
    items
}

fn clamp(value: i128) -> i64 {
    value.clamp(0, i128::from(i64::MAX)) as i64
}

/// Microseconds from `start`, each weighted with the price factor that holds then.
fn weighted_us(book: &PriceBook, start: Timestamp, length_us: u64) -> Ratio {
    let length = SignedDuration::from_micros(length_us.min(i64::MAX as u64) as i64);
    let end = start.checked_add(length).unwrap_or(Timestamp::MAX);
    let mut at = start;
    let mut sum = Ratio::from_integer(0);
    while at < end {
        let until = book.next_edge(at).map_or(end, |edge| edge.min(end));
        let us = until.duration_since(at).as_micros();
        sum += book.factor_at(at) * Ratio::from_integer(us);
        at = until;
    }
    sum
}
