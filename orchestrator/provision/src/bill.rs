//! The bill of one generation, from what was measured: accelerator-seconds, CPU-seconds, GB moved and Mbps-hours.

use crate::{
    leg::{LegPurpose, LegState},
    path::PathState,
    saga::{ReplicaState, Saga},
};
use jiff::{SignedDuration, Timestamp};
use num_traits::{CheckedAdd, CheckedMul};
use rhumb_model::{
    Bytes, LinkId, ModelName, Order, SiteName,
    order::Accelerators,
    price::PriceBook,
    ratio::{Ratio, round_half_up},
};

/// Prices in exact micro-units of the federation's currency.
pub trait Prices {
    fn book(&self, site: &SiteName) -> Option<&PriceBook>;
    /// Per device-hour, core-hour and GiB-hour.
    fn device(&self, site: &SiteName, model: &ModelName) -> Ratio;
    /// Of one device.
    fn memory(&self, model: &ModelName) -> Option<Bytes>;
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
/// Ten years: no order's time may be longer, so that what an agent claims beyond it is not believed.
const MOST_US: u64 = 315_360_000_000_000;

/// Every item of the saga's generation. The same saga gives the same bill.
pub fn bill(order: &Order, saga: &Saga, prices: &impl Prices) -> Vec<BillItem> {
    let mut items = Vec::new();
    for replica in &saga.replicas {
        items.extend(compute(order, saga, replica, prices));
    }
    let held = Held { from: saga.ran_from, us: held_us(saga) };
    for leg in &saga.legs {
        items.extend(network(leg, held, prices));
    }
    items.retain(|i| i.quantity_micro != 0 || i.cost_micros != 0);
    items
}

/// How long streams are held: from the start until the last byte is out, which is the longest run and after it the
/// longest of the results' transfers at their rates.
fn held_us(saga: &Saga) -> u64 {
    let run = saga.replicas.iter().map(|r| r.ran_us.min(MOST_US)).max().unwrap_or(0);
    let moved = |l: &LegState| l.time_us(l.bytes_arrived()).min(MOST_US);
    run + saga.legs.iter().filter(|l| l.is_outbound()).map(moved).max().unwrap_or(0)
}

fn compute(order: &Order, saga: &Saga, replica: &ReplicaState, prices: &impl Prices) -> Vec<BillItem> {
    let (Some(start), Some(component)) = (saga.ran_from, order.component(&replica.component)) else {
        return Vec::new();
    };
    let Some(book) = prices.book(&replica.site) else { return Vec::new() };
    let ran_us = replica.ran_us.min(MOST_US);
    let hours = weighted_us(book, start, ran_us) / Ratio::from_integer(MICROS_PER_HOUR);
    let ran = Ratio::from_integer(i128::from(ran_us));
    let asked = component.need.accelerators.as_ref();
    let part = asked.map_or_else(|| Ratio::from_integer(1), |a| part(a, replica, prices));
    let devices = part * Ratio::from_integer(replica.devices.len() as i128);
    let device_price =
        replica.model.as_ref().map_or_else(|| Ratio::from_integer(0), |m| prices.device(&replica.site, m));
    let cores = Ratio::new(i128::from(component.need.cpu.milli()), 1_000);
    let gib = Ratio::new(i128::from(component.need.memory.bytes()), 1 << 30);
    let item = format!("replica/{}/{}", replica.component, replica.replica);
    let line = |kind, quantity: Option<Ratio>, cost: Option<Ratio>| BillItem {
        kind,
        subject: replica.site.to_string(),
        quantity_micro: rounded(quantity),
        cost_micros: rounded(cost),
        item: item.clone(),
    };
    let host = product([cores, prices.core(&replica.site), hours]);
    let memory = product([gib, prices.gib(&replica.site), hours]);
    vec![
        line("accelerator_seconds", product([devices, ran]), product([devices, device_price, hours])),
        // memory has no line of its own: it goes with the processor's
        line("cpu_seconds", product([cores, ran]), host.zip(memory).and_then(|(h, m)| h.checked_add(&m))),
    ]
}

/// What of a device each of its pieces is: all of it, its share, or its memory's part.
fn part(asked: &Accelerators, replica: &ReplicaState, prices: &impl Prices) -> Ratio {
    let memory = || prices.memory(replica.model.as_ref()?).filter(|m| !m.is_zero());
    match (asked.share, asked.mig) {
        (Some(share), _) => Ratio::new(i128::from(share.thousandths()), 1_000),
        (None, Some(profile)) => memory().map_or_else(
            || Ratio::from_integer(1),
            |all| Ratio::new(i128::from(profile.memory().bytes()), i128::from(all.bytes())),
        ),
        (None, None) => Ratio::from_integer(1),
    }
}

/// Every path that was in service, for as long as it was.
fn network(leg: &LegState, held: Held, prices: &impl Prices) -> Vec<BillItem> {
    leg.paths.iter().filter(|p| p.served()).flat_map(|path| self::path(leg, path, held, prices)).collect()
}

fn path(leg: &LegState, path: &PathState, held: Held, prices: &impl Prices) -> Vec<BillItem> {
    let mut items = Vec::new();
    let millionth = Ratio::new(1, 1_000_000);
    let kbit_us = held.kbit_us(leg, path);
    for (i, link) in path.links.iter().enumerate() {
        // what left the point before the link and came out of the network at its far end
        let bytes = i128::from(path.bytes_after(i));
        let gb_micro = Ratio::new(bytes, 1_000);
        // a volume is charged for volume / rate, which at its rate is its bits; a stream for as long as it was held
        let (mbps_hours_micro, carried) = match leg.purpose {
            LegPurpose::Stream => (Ratio::new(kbit_us, 1_000 * 3_600), Some(Ratio::from_integer(0))),
            LegPurpose::Inbound { .. } | LegPurpose::Outbound { .. } => {
                (Ratio::new(bytes * 8, 3_600), product([gb_micro, millionth, prices.per_gb(link)]))
            }
        };
        let held = product([mbps_hours_micro, millionth, prices.per_mbps_hour(link)]);
        let item = match path.path {
            0 => format!("leg/{}/{i}", leg.leg),
            number => format!("leg/{}/path/{number}/{i}", leg.leg),
        };
        for (kind, quantity, cost) in [("gb_moved", gb_micro, carried), ("mbps_hours", mbps_hours_micro, held)] {
            items.push(BillItem {
                kind,
                subject: link.to_string(),
                quantity_micro: rounded(Some(quantity)),
                cost_micros: rounded(cost),
                item: item.clone(),
            });
        }
    }
    items
}

/// The time that streams are paid for.
#[derive(Debug, Clone, Copy)]
struct Held {
    from: Option<Timestamp>,
    us: u64,
}

impl Held {
    /// Microseconds from the start to `at`, within what is paid for.
    fn until(self, at: Timestamp) -> u64 {
        let us = self.from.map_or(0, |from| at.duration_since(from).as_micros());
        u64::try_from(us.max(0)).unwrap_or(u64::MAX).min(self.us)
    }

    /// The leg's rate over the time that the path was in service. One path ends where the next begins, so that together
    /// they come to the whole.
    fn kbit_us(self, leg: &LegState, path: &PathState) -> i128 {
        let begin = path.since.map_or(0, |at| self.until(at));
        let end = path.until.map_or(self.us, |at| self.until(at));
        let mut sum = 0;
        let mut from = begin;
        let rates = leg.former_rates.iter().map(|(to, rate)| (self.until(*to), *rate)).chain([(self.us, leg.rate)]);
        for (to, rate) in rates {
            let to = to.clamp(from, end.max(from));
            sum += i128::from(rate.kbps()) * i128::from(to - from);
            from = to;
        }
        sum
    }
}

/// `None`: it does not fit into the number, which the limits on prices and quantities in documents keep from happening.
fn product(factors: impl IntoIterator<Item = Ratio>) -> Option<Ratio> {
    factors.into_iter().try_fold(Ratio::from_integer(1), |all, factor| all.checked_mul(&factor))
}

/// Half up, never negative; what does not fit counts as the most there is.
fn rounded(value: Option<Ratio>) -> i64 {
    // beyond this the rounding itself would overflow
    let fits = |v: &Ratio| v.numer().unsigned_abs().leading_zeros() > 2 && v.denom().unsigned_abs().leading_zeros() > 2;
    let Some(value) = value.filter(fits) else { return i64::MAX };
    i64::try_from(round_half_up(value).max(0)).unwrap_or(i64::MAX)
}

/// Microseconds from `start`, each weighted with the price factor that holds then.
fn weighted_us(book: &PriceBook, start: Timestamp, length_us: u64) -> Ratio {
    let length = SignedDuration::from_micros(i64::try_from(length_us).unwrap_or(i64::MAX));
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
