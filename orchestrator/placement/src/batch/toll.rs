//! A better bound of a contended batch: devices at full sites at a toll, and each order's answer to it.
//!
//! The toll on a device of one model at one site raises its price by the hour so little that no plan of the order pays
//! more than the toll for each device it takes. What all orders then pay at the least, less the toll on all free devices,
//! is below the total of any batch (Lagrangian relaxation). Links have no toll.

use crate::{
    decision::decide,
    policy::{Policy, Request},
    stand,
};
use num_traits::CheckedAdd;
use rhumb_federation::{View, ViewSite};
use rhumb_model::{Amount, Decimal, ModelName, Plan, ratio::Ratio};
use std::{collections::BTreeMap, rc::Rc};

/// An order of the batch.
#[derive(Debug, Clone)]
pub(crate) struct Bidder<'a> {
    pub request: Request<'a>,
    /// What leaving it undone costs; `None`: the batches that are bounded place it.
    pub value: Option<i128>,
    /// What it takes on the view by itself, and what that costs at the least.
    pub alone: (Rc<Plan>, i128),
}

/// Devices of one model at one site, by its index.
type Stock<'a> = (usize, &'a ModelName);

/// Micro-units that every batch costs at the least: those orders that it places, and those with a value or not. `target`
/// is what one batch costs.
pub(crate) fn bound(view: &View, policy: &Policy, bidders: &[Bidder], target: i128, steps: u32) -> i128 {
    let least = |b: &Bidder, cost: i128| b.value.map_or(cost, |value| cost.min(value));
    let mut best: i128 = bidders.iter().map(|b| least(b, b.alone.1)).sum();
    let stocks = stocks(view);
    let longest: Vec<Option<Ratio>> = bidders.iter().map(|b| longest(view, &b.request)).collect();
    // micro-units for the whole stock
    let mut tolls: BTreeMap<Stock, i128> = BTreeMap::new();
    let mut kept = tolls.clone();
    let mut replies: Vec<Option<Rc<Plan>>> = bidders.iter().map(|b| Some(Rc::clone(&b.alone.0))).collect();
    let (mut value, mut pace, mut idle) = (best, 1024_i128, 0);
    for _ in 0..steps {
        if best >= target || pace == 0 {
            break;
        }
        // slopes in 1,024ths of a stock
        let used = used(view, &replies);
        let slope = |stock: &Stock, toll: i128| {
            let over = used.get(stock).copied().unwrap_or(0) - stocks[stock];
            if over < 0 && toll == 0 { 0 } else { i128::from(over) * 1024 / i128::from(stocks[stock]) }
        };
        let slopes: Vec<(Stock, i128)> = stocks
            .keys()
            .map(|s| (*s, slope(s, tolls.get(s).copied().unwrap_or(0))))
            .filter(|(_, s)| *s != 0)
            .collect();
        let norm: i128 = slopes.iter().map(|(_, s)| s * s).sum();
        if norm == 0 {
            break;
        }
        let way = (target - value).max(1).saturating_mul(pace) / 1024;
        for (stock, slope) in slopes {
            let toll = tolls.entry(stock).or_insert(0);
            *toll = (*toll + way.saturating_mul(slope * 1024) / norm).clamp(0, FAR);
        }
        value = -tolls.values().sum::<i128>();
        for ((bidder, longest), reply) in bidders.iter().zip(&longest).zip(&mut replies) {
            let mut order = bidder.request.order.clone();
            // tolls are not part of the bill
            order.terms.budget = None;
            let dearer = longest.map_or_else(|| view.clone(), |longest| raised(view, &tolls, &stocks, longest));
            let request = Request { order: &order, ..bidder.request };
            let plan = decide(&dearer, &request, policy).outcome.ok();
            // without the budget there are more plans: none here is none there
            let cost = plan.as_ref().map_or(bidder.alone.1, |p| i128::from(p.lower_bound_micros) - ROUNDING);
            value += least(bidder, cost);
            *reply = plan.filter(|_| bidder.value.is_none_or(|v| cost < v)).map(Rc::new);
        }
        if value > best {
            (best, idle) = (value, 0);
            kept.clone_from(&tolls);
        } else {
            idle += 1;
            if idle == 3 {
                (pace, idle) = (pace / 2, 0);
                tolls.clone_from(&kept);
            }
        }
    }
    best
}

/// Terms are rounded one by one: raised or not, they may differ by this from their exact difference.
const ROUNDING: i128 = 2;
/// No toll goes beyond, so that prices stay in range: a million units.
const FAR: i128 = 1_000_000_000_000;

/// Free devices, those partly taken as whole ones.
fn stocks(view: &View) -> BTreeMap<Stock<'_>, i64> {
    let mut stocks = BTreeMap::new();
    for (index, site) in view.sites.iter().enumerate() {
        for node in &site.nodes {
            for group in &node.shape.groups {
                let free = (i64::from(group.free) + group.partial.len() as i64) * i64::from(node.count);
                if free > 0 && site.site.prices.devices.contains_key(&group.model) {
                    *stocks.entry((index, &group.model)).or_insert(0) += free;
                }
            }
        }
    }
    stocks
}

fn used<'v>(view: &'v View, replies: &[Option<Rc<Plan>>]) -> BTreeMap<Stock<'v>, i64> {
    let mut used = BTreeMap::new();
    for assignment in replies.iter().flatten().flat_map(|p| &p.components).flat_map(|c| &c.assignments) {
        let site = view.site_index(&assignment.site);
        if let Some((site, (model, _))) =
            site.zip(assignment.model.as_ref().and_then(|m| view.devices.get_key_value(m)))
        {
            let devices = i64::from(assignment.replicas) * i64::from(assignment.devices_per_replica);
            *used.entry((site, model)).or_insert(0) += devices;
        }
    }
    used
}

/// Nanoseconds for which any of its components may pay for a device.
fn longest(view: &View, request: &Request) -> Option<Ratio> {
    let components = request.order.components.iter().filter(|c| c.need.accelerators.is_some());
    let hours = components.flat_map(|c| view.devices.keys().filter_map(|m| stand::hours(view, *request, c, Some(m))));
    hours.max().filter(|h| *h > Ratio::from_integer(0))
}

/// The view with tolls in its prices.
fn raised(view: &View, tolls: &BTreeMap<Stock, i128>, stocks: &BTreeMap<Stock, i64>, longest: Ratio) -> View {
    let mut dearer = view.clone();
    for ((index, model), toll) in tolls.iter().filter(|(_, toll)| **toll > 0) {
        let site = &mut dearer.sites[*index];
        let each = Ratio::new(*toll, i128::from(stocks[&(*index, *model)]));
        let hours = longest / Ratio::from_integer(HOUR) * factor(site);
        let more = (each / hours).to_integer();
        let Some(price) = site.site.prices.devices.get(*model) else { continue };
        // what cannot be written exactly is written a little lower
        let raised = view.micros(*price).ok().and_then(|p| p.checked_add(&Ratio::from_integer(more))).and_then(lower);
        if let Some(raised) = raised.and_then(|value| Amount::new(value, view.currency).ok()) {
            site.site.prices.devices.insert((*model).clone(), raised);
        }
    }
    dearer
}

const HOUR: i128 = 3_600_000_000_000;

/// The highest factor that a price at the site may have.
fn factor(site: &ViewSite) -> Ratio {
    let one = Ratio::from_integer(1);
    site.site.prices.windows.iter().map(|w| w.factor.ratio()).fold(one, Ord::max)
}

/// Micro-units as units, rounded down to nine places where more are needed.
fn lower(micros: Ratio) -> Option<Decimal> {
    let exact = Decimal::from_ratio(micros / Ratio::from_integer(1_000_000));
    exact.or_else(|| Decimal::from_ratio(Ratio::new((micros * Ratio::from_integer(1_000)).to_integer(), 1_000_000_000)))
}
