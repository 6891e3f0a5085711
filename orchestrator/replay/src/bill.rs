//! What a job really costs: the prices of the hours that it ran in, and of what it moved.

use crate::time::Micros;
use rhumb_federation::View;
use rhumb_model::{
    Amount, ModelName,
    order::Need,
    price::PriceBook,
    ratio::{Ratio, round_half_up},
};

const HOUR: i128 = 3_600_000_000;

/// One replica of `need` at a site from `start` to `end`, in micro-units of the view's currency, exactly.
pub(crate) fn compute(
    view: &View,
    site: usize,
    (need, model): (&Need, Option<&ModelName>),
    (start, end): (Micros, Micros),
) -> Ratio {
    let prices = &view.sites[site].site.prices;
    per_hour(view, prices, need, model) * weighed_hours(prices, start, end)
}

/// Per hour at factor 1.
fn per_hour(view: &View, prices: &PriceBook, need: &Need, model: Option<&ModelName>) -> Ratio {
    let zero = Ratio::from_integer(0);
    let micros = |amount: &Amount| view.micros(*amount).unwrap_or(zero);
    let part = |amount: &Option<Amount>, quantity: Ratio| amount.as_ref().map_or(zero, |a| micros(a) * quantity);
    let mut sum = part(&prices.cpu, Ratio::new(i128::from(need.cpu.milli()), 1_000))
        + part(&prices.memory_gib, Ratio::new(i128::from(need.memory.bytes()), 1 << 30));
    if let (Some(asked), Some(model)) = (&need.accelerators, model) {
        let count = Ratio::from_integer(i128::from(asked.count.unwrap_or(1)));
        let quantity = asked.share.map_or(count, |share| Ratio::new(i128::from(share.thousandths()), 1_000));
        sum += part(&prices.devices.get(model).copied(), quantity);
    }
    sum
}

/// Hours, each times the factor that holds then.
fn weighed_hours(prices: &PriceBook, start: Micros, end: Micros) -> Ratio {
    let hours = |from: Micros, to: Micros| Ratio::new(i128::from((to - from).0), HOUR);
    if prices.windows.is_empty() {
        return hours(start, end);
    }
    let mut sum = Ratio::from_integer(0);
    let mut from = start;
    while from < end {
        let next = prices.next_edge(from.instant()).map_or(end, |edge| Micros::from(edge).min(end));
        sum += prices.factor_at(from.instant()) * hours(from, next);
        from = next;
    }
    sum
}

/// To whole micro-units, half up.
pub(crate) fn rounded(value: Ratio) -> i64 {
    i64::try_from(round_half_up(value)).unwrap_or(i64::MAX)
}

/// Of a leg on one link: what moving `bytes` costs, and what holding `kbps` for so long does.
pub(crate) fn carried((per_gb, per_mbps_hour): (Ratio, Ratio), bytes: u64, kbps: u64, held: Ratio) -> (Ratio, Ratio) {
    let transfer = per_gb * Ratio::new(i128::from(bytes), 1_000_000_000);
    (transfer, per_mbps_hour * Ratio::new(i128::from(kbps), 1_000) * held / Ratio::from_integer(HOUR))
}

/// How long `bytes` take at `kbps`, in microseconds, exactly.
pub(crate) fn moving(bytes: u64, kbps: u64) -> Ratio {
    Ratio::new(i128::from(bytes) * 8_000, i128::from(kbps.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_weighed_by_the_windows_they_lie_in() {
        let text = "{currency: CNY, devices: {H100: {memory: 80GiB, fp16: 1}}, sites: [{name: a, prices: {H100: 10 CNY, windows: [{from: \"00:00\", to: \"06:00\", tz: UTC, factor: 0.5}]}, nodes: [{accelerators: {model: H100, count: 8}}]}]}";
        let view = View::from_file(&rhumb_model::FederationFile::read(text).unwrap()).unwrap();
        let need: Need = rhumb_model::Order::read(
            "name: t\nclass: training\ncomponents: [{name: c, need: {accelerators: {count: 2}}, work: {duration: 1h}}]",
        )
        .unwrap()
        .components
        .remove(0)
        .need;
        let model = ModelName::new("H100").unwrap();
        // two hours at half price, two at the whole
        let from = Micros::from("2026-01-01T04:00:00Z".parse::<jiff::Timestamp>().unwrap());
        let cost = compute(&view, 0, (&need, Some(&model)), (from, from + Micros(4 * 3_600_000_000)));
        assert_eq!(rounded(cost), 2 * 10 * 3_000_000);
    }
}
