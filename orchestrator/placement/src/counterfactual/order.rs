//! Changes of the order.

use super::{Found, Trial, found, relative, whole};
use crate::{problem::Relax, stand::list};
use rhumb_model::{
    Amount, Bandwidth, Bytes, Jurisdiction, Latency, ModelName, Order,
    money::Currency,
    order::{Accelerators, Interconnect, Replicas},
    quantity::{Cores, Demand},
    ratio::{Decimal, Ratio, round_half_up},
};
use std::collections::BTreeSet;

pub(super) fn changes(trial: &Trial, all: &mut Vec<Found>) {
    for index in 0..trial.order().components.len() {
        component(trial, index, all);
    }
    for index in 0..trial.order().flows.len() {
        flow(trial, index, all);
    }
    constraints(trial, all);
    terms(trial, all);
}

/// The cheapest of several ways to make the same kind of change.
fn cheapest(ways: impl Iterator<Item = Option<Found>>) -> Option<Found> {
    ways.flatten().min_by_key(|f| (f.relative, f.change.cost_micros))
}

fn component(trial: &Trial, index: usize, all: &mut Vec<Found>) {
    let c = &trial.order().components[index];
    let at = format!("/components/{index}");
    let Replicas { min, max } = c.replicas;
    let range = min != max;
    let set = |order: &mut Order, n: u64| {
        let r = &mut order.components[index].replicas;
        r.min = n as u32;
        if !range {
            r.max = r.min;
        }
    };
    let pointer = |end: &str| if range { format!("{at}/replicas/{end}") } else { format!("{at}/replicas") };
    if min > 1
        && let Some((n, total)) = trial.nearest(min.into(), 1, 1, set)
    {
        all.push(found(relative(min.into(), n), pointer("min"), min, n, total));
    }
    if c.service.is_some() {
        // replicas that serve more of the demand
        let more = |order: &mut Order, n: u64| order.components[index].replicas.max = n as u32;
        if let Some((n, total)) = trial.nearest(max.into(), u64::from(max) * 2 + 8, 1, more) {
            all.push(found(relative(max.into(), n), pointer("max"), max, n, total));
        }
    }
    if let Some(a) = &c.need.accelerators {
        accelerators(trial, index, a, &format!("{at}/need/accelerators"), all);
    }
    let nodes = || trial.view.sites.iter().flat_map(|s| s.nodes.iter().chain(&s.whole));
    let below = |now: u64, of: &dyn Fn(&rhumb_federation::FreeNodes) -> u64| -> Vec<u64> {
        let smaller: BTreeSet<u64> = nodes().map(of).filter(|v| *v < now && *v > 0).collect();
        smaller.into_iter().rev().take(6).collect()
    };
    let cpu = c.need.cpu.milli();
    let fewer = below(cpu, &|n| n.shape.cpu.milli()).into_iter().find_map(|v| {
        let total = trial.edit(|o| o.components[index].need.cpu = Cores::from_milli(v))?;
        Some(found(relative(cpu, v), format!("{at}/need/cpu"), c.need.cpu, Cores::from_milli(v), total))
    });
    all.extend(fewer);
    let memory = c.need.memory.bytes();
    let less = below(memory, &|n| n.shape.memory.bytes()).into_iter().find_map(|v| {
        let total = trial.edit(|o| o.components[index].need.memory = Bytes::from_bytes(v))?;
        Some(found(relative(memory, v), format!("{at}/need/memory"), c.need.memory, Bytes::from_bytes(v), total))
    });
    all.extend(less);
    if let Some(spread) = c.place.spread
        && let Some(total) = trial.edit(|o| o.components[index].place.spread = None)
    {
        all.push(found(whole(), format!("{at}/place/spread"), spread, "none", total));
    }
    if !c.place.colocate.is_empty()
        && let Some(total) = trial.edit(|o| o.components[index].place.colocate.clear())
    {
        all.push(found(whole(), format!("{at}/place/colocate"), list(&c.place.colocate), "none", total));
    }
}

fn accelerators(trial: &Trial, index: usize, a: &Accelerators, at: &str, all: &mut Vec<Found>) {
    fn of(order: &mut Order, index: usize) -> Option<&mut Accelerators> {
        order.components[index].need.accelerators.as_mut()
    }
    if let Some(count) = a.count.filter(|n| *n > 1) {
        let set = |order: &mut Order, n: u64| {
            if let Some(a) = of(order, index) {
                a.count = Some(n as u32);
            }
        };
        if let Some((n, total)) = trial.nearest(count.into(), 1, 1, set) {
            all.push(found(relative(count.into(), n), format!("{at}/count"), count, n, total));
        }
    }
    if !a.models.is_empty() {
        let sold: BTreeSet<&ModelName> = trial.view.sites.iter().flat_map(|s| s.site.prices.devices.keys()).collect();
        let share = Ratio::new(1, a.models.len() as i128);
        let added = sold.into_iter().filter(|m| !a.models.contains(*m)).map(|model| {
            let mut models = a.models.clone();
            models.insert(model.clone());
            let shown = list(&models);
            let total = trial.edit(|o| {
                if let Some(a) = of(o, index) {
                    a.models = models;
                }
            })?;
            Some(found(share, format!("{at}/models"), list(&a.models), shown, total))
        });
        all.extend(cheapest(added));
    }
    if let Some(memory) = a.memory {
        let groups = trial.view.sites.iter().flat_map(|s| s.whole.iter().chain(&s.nodes)).flat_map(|n| &n.shape.groups);
        let smaller: BTreeSet<Bytes> = groups.map(|g| g.memory).filter(|m| *m < memory).collect();
        let less = smaller.into_iter().rev().take(6).find_map(|m| {
            let total = trial.edit(|o| of(o, index).into_iter().for_each(|a| a.memory = Some(m)))?;
            Some(found(relative(memory.bytes(), m.bytes()), format!("{at}/memory"), memory, m, total))
        });
        all.extend(less);
    }
    if a.interconnect != Interconnect::Node
        && let Some(total) = trial.edit(|o| of(o, index).into_iter().for_each(|a| a.interconnect = Interconnect::Node))
    {
        all.push(found(whole(), format!("{at}/interconnect"), a.interconnect, Interconnect::Node, total));
    }
}

fn flow(trial: &Trial, index: usize, all: &mut Vec<Found>) {
    let f = &trial.order().flows[index];
    let at = format!("/flows/{index}");
    if let Some(bound) = f.max_latency {
        // the loosest that could matter is what the flow takes when it may take anything
        let mut loose = trial.order().clone();
        loose.flows[index].max_latency = None;
        let taken = trial.solve(trial.view, trial.net, &loose, Relax::default(), |problem, solution| {
            let legs = solution.legs.iter().filter(|(leg, _)| problem.streams[leg.stream].flow == index);
            legs.map(|(_, choice)| choice.latency).max().unwrap_or(0)
        });
        let set = |order: &mut Order, us: u64| order.flows[index].max_latency = Some(Latency::from_micros(us));
        if let Some(taken) = taken.filter(|t| *t > bound.micros())
            && let Some((us, total)) = trial.nearest(bound.micros(), taken, 1, set)
        {
            let to = Latency::from_micros(us);
            all.push(found(relative(bound.micros(), us), format!("{at}/max_latency"), bound, to, total));
        }
    }
    if let Some(rate) = f.rate {
        let set = |order: &mut Order, kbps: u64| order.flows[index].rate = Some(Bandwidth::from_kbps(kbps));
        if let Some((kbps, total)) = trial.nearest(rate.kbps(), 1, 1, set) {
            let to = Bandwidth::from_kbps(kbps);
            all.push(found(relative(rate.kbps(), kbps), format!("{at}/rate"), rate, to, total));
        }
    }
    if let Some(volume) = f.volume {
        let set = |order: &mut Order, bytes: u64| order.flows[index].volume = Some(Bytes::from_bytes(bytes));
        if let Some((bytes, total)) = trial.nearest(volume.bytes(), 1, volume.bytes() / 1024, set) {
            let to = Bytes::from_bytes(bytes);
            all.push(found(relative(volume.bytes(), bytes), format!("{at}/volume"), volume, to, total));
        }
    }
    if let Some(demand) = f.demand {
        let set = |order: &mut Order, mrps: u64| order.flows[index].demand = Some(Demand::from_millirps(mrps));
        if let Some((mrps, total)) = trial.nearest(demand.millirps(), 1, 1, set) {
            let to = Demand::from_millirps(mrps);
            all.push(found(relative(demand.millirps(), mrps), format!("{at}/demand"), demand, to, total));
        }
    }
    if f.encrypted
        && let Some(total) = trial.edit(|o| o.flows[index].encrypted = false)
    {
        all.push(found(whole(), format!("{at}/encrypted"), true, false, total));
    }
    if f.copy
        && let Some(total) = trial.edit(|o| o.flows[index].copy = false)
    {
        all.push(found(whole(), format!("{at}/copy"), true, false, total));
    }
}

fn constraints(trial: &Trial, all: &mut Vec<Found>) {
    let c = &trial.order().constraints;
    if !c.jurisdictions.is_empty() {
        let points = trial.view.graph.node_weights().filter_map(|p| p.jurisdiction.as_ref());
        let links = trial.view.graph.edge_weights().flat_map(|l| &l.jurisdictions);
        let others: BTreeSet<&Jurisdiction> = points.chain(links).filter(|j| !c.jurisdictions.contains(*j)).collect();
        let share = Ratio::new(1, c.jurisdictions.len() as i128);
        let pointer = || "/constraints/jurisdictions".to_owned();
        let added = others.into_iter().map(|j| {
            let mut within = c.jurisdictions.clone();
            within.insert(j.clone());
            let shown = list(&within);
            let total = trial.edit(|o| o.constraints.jurisdictions = within)?;
            Some(found(share, pointer(), list(&c.jurisdictions), shown, total))
        });
        let any = || {
            let total = trial.edit(|o| o.constraints.jurisdictions.clear())?;
            Some(found(whole(), pointer(), list(&c.jurisdictions), "any", total))
        };
        all.extend(cheapest(added).or_else(any));
    }
    let dropped = c.labels.iter().map(|label| {
        let mut labels = c.labels.clone();
        labels.remove(label);
        let shown = if labels.is_empty() { "none".to_owned() } else { list(&labels) };
        let total = trial.edit(|o| o.constraints.labels = labels)?;
        Some(found(Ratio::new(1, c.labels.len() as i128), "/constraints/labels".into(), list(&c.labels), shown, total))
    });
    all.extend(cheapest(dropped));
    let lifted = c.not_sites.iter().map(|site| {
        let mut sites = c.not_sites.clone();
        sites.remove(site);
        let shown = if sites.is_empty() { "none".to_owned() } else { list(&sites) };
        let total = trial.edit(|o| o.constraints.not_sites = sites)?;
        let share = Ratio::new(1, c.not_sites.len() as i128);
        Some(found(share, "/constraints/not_sites".into(), list(&c.not_sites), shown, total))
    });
    all.extend(cheapest(lifted));
    if !c.sites.is_empty()
        && let Some(total) = trial.edit(|o| o.constraints.sites.clear())
    {
        all.push(found(whole(), "/constraints/sites".into(), list(&c.sites), "any", total));
    }
    if let Some(most) = c.max_sites {
        let set = |order: &mut Order, n: u64| order.constraints.max_sites = Some(n as u32);
        let far = trial.view.sites.len() as u64;
        if far > u64::from(most)
            && let Some((n, total)) = trial.nearest(most.into(), far, 1, set)
        {
            all.push(found(relative(most.into(), n), "/constraints/max_sites".into(), most, n, total));
        }
    }
    if c.encrypted
        && let Some(total) = trial.edit(|o| o.constraints.encrypted = false)
    {
        all.push(found(whole(), "/constraints/encrypted".into(), true, false, total));
    }
}

/// Lateness at this price per hour outweighs anything that an order costs otherwise.
const DEAR: i64 = 1_000_000;

fn amount(value: i64, currency: Currency) -> Option<Amount> {
    Amount::new(Decimal::from_integer(value), currency).ok()
}

fn terms(trial: &Trial, all: &mut Vec<Found>) {
    let t = &trial.order().terms;
    let currency = trial.view.currency;
    if let Some(deadline) = t.deadline {
        // the earliest finish there is: late, but as little as can be
        let mut order = trial.order().clone();
        order.terms.late_per_hour = amount(DEAR, currency);
        let finish = trial.solve(trial.view, trial.net, &order, Relax::default(), |problem, solution| {
            crate::answer::instant(problem, &solution.times.finish)
        });
        if let Some(finish) = finish.flatten() {
            // whole seconds, as people write them
            let second = finish.as_microsecond().div_euclid(1_000_000) + i64::from(finish.subsec_microsecond() > 0);
            let to = jiff::Timestamp::from_second(second).unwrap_or(finish);
            if let Some(total) = trial.edit(|o| o.terms.deadline = Some(to)) {
                let given = deadline.as_second().saturating_sub(trial.request.submit.as_second());
                let more = to.as_second().saturating_sub(deadline.as_second());
                let share = Ratio::new(i128::from(more), i128::from(given.max(1)));
                all.push(found(share, "/terms/deadline".into(), deadline, to, total));
            }
        }
    }
    if let Some(budget) = t.budget {
        // the smallest bill there is, whatever the time
        let mut order = trial.order().clone();
        order.terms.budget = None;
        order.terms.value_per_hour = t.value_per_hour.and_then(|_| amount(0, currency));
        order.terms.late_per_hour = t.late_per_hour.and_then(|_| amount(0, currency));
        let bill = trial.solve(trial.view, trial.net, &order, Relax::default(), |_, s| {
            i128::from(s.terms.compute) + i128::from(s.terms.path) + i128::from(s.terms.transfer)
        });
        // hundredths, as people write them; two micro-units cover what rounding hid
        let to = bill.and_then(|b| i64::try_from((b + 2).div_euclid(10_000) + 1).ok());
        if let Some(to) = to.and_then(|h| Amount::new(Decimal::from_micros(h.checked_mul(10_000)?), currency).ok())
            && let Some(total) = trial.edit(|o| o.terms.budget = Some(to))
        {
            let had = budget.micros_in(currency, &trial.view.rates).map_or(0, round_half_up);
            let more = round_half_up(to.micros()) - had;
            all.push(found(Ratio::new(more, had.max(1)), "/terms/budget".into(), budget, to, total));
        }
    }
    if let Some(w) = &t.window
        && let Some(total) = trial.edit(|o| o.terms.window = None)
    {
        all.push(found(whole(), "/terms/window".into(), format!("{} to {} {}", w.from, w.to, w.tz), "none", total));
    }
}
