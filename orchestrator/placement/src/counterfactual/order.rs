//! Changes of the order's components and constraints.

use super::{Found, Scope, Trial, flow, found, relative, threshold::nearest, whole};
use crate::{problem::Place, stand::list};
use rhumb_federation::FreeNodes;
use rhumb_model::{
    Bytes, Jurisdiction, ModelName, Order, fit,
    order::{Accelerators, Interconnect, Precision, Replicas, Spread},
    quantity::{Cores, Share},
    ratio::Ratio,
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn changes(trial: &Trial, all: &mut Vec<Found>) {
    let bonds = trial.bonds();
    for index in (0..trial.order().components.len()).filter(|index| !bonds.beside(*index)) {
        replicas(trial, index, all);
        need(trial, index, all);
        place(trial, index, all);
    }
    let flows = &trial.order().flows;
    for index in (0..flows.len()).filter(|index| !bonds.beside_flow(*index, flows[*index].demand.is_some())) {
        flow::changes(trial, index, all);
    }
    sites(trial, all);
    paths(trial, all);
}

/// The cheapest of several ways to make the same kind of change.
fn cheapest(ways: impl Iterator<Item = Option<Found>>) -> Option<Found> {
    ways.flatten().min_by_key(|f| (f.relative, f.change.cost_micros))
}

/// Of several changes, ever larger, the first with which the order fits.
fn first(ways: impl Iterator<Item = Option<Found>>) -> Option<Found> {
    ways.flatten().next()
}

/// Changes a number of the order to the nearest that is enough.
fn number(
    trial: &Trial,
    scope: Scope,
    (now, far, step): (u64, u64, u64),
    guess: Option<u64>,
    set: impl Fn(&mut Order, u64),
) -> Option<(u64, i64)> {
    if now == far {
        return None;
    }
    let value = nearest((now, far), guess, false, step, |v| trial.fits(scope, |o| set(o, v)))?;
    Some((value, trial.total(scope, |o| set(o, value))?))
}

fn replicas(trial: &Trial, index: usize, all: &mut Vec<Found>) {
    let c = &trial.order().components[index];
    let at = format!("/components/{index}/replicas");
    let Replicas { min, max } = c.replicas;
    let range = min != max;
    let fewer = |order: &mut Order, n: u64| {
        let r = &mut order.components[index].replicas;
        r.min = n as u32;
        if !range {
            r.max = r.min;
        }
    };
    let pointer = |end: &str| if range { format!("{at}/{end}") } else { at.clone() };
    let scope = Scope::Component(index);
    // all sites together hold no more, and the largest alone needs no flows to others
    let part = &trial.base().parts[index];
    let mut here: BTreeMap<usize, u64> = BTreeMap::new();
    part.open().for_each(|(s, n)| *here.entry(s.site).or_default() += u64::from(n));
    let largest = here.into_values().max().unwrap_or(0);
    let room = if part.one_site { largest } else { part.all_room() };
    let this = Place::Part(index);
    let own = trial.base().streams.iter().any(|s| s.from == this && s.to == this);
    let from = u64::from(min).min(room.saturating_add(1));
    let guess = Some(if own { largest } else { room }).filter(|n| *n < from);
    if let Some((n, total)) = number(trial, scope, (from, 1, 1), guess, fewer) {
        all.push(found(relative(min.into(), n), pointer("min"), min, n, total));
    }
    if c.service.is_some() {
        // replicas that serve more of the demand
        let more = |order: &mut Order, n: u64| order.components[index].replicas.max = n as u32;
        let fewest = u64::from(trial.base().parts[index].fewest);
        let guess = (fewest > u64::from(max)).then_some(fewest);
        let far = guess.unwrap_or(0).max(u64::from(max) * 2 + 8);
        if let Some((n, total)) = number(trial, scope, (max.into(), far, 1), guess, more) {
            all.push(found(relative(max.into(), n), format!("{at}/max"), max, n, total));
        }
    }
}

/// The nodes of every kind of site.
fn nodes<'t>(trial: &Trial<'t>) -> impl Iterator<Item = &'t FreeNodes> + use<'t> {
    let view = trial.view();
    trial.inquest.alike().first.iter().flat_map(move |s| &view.sites[*s].nodes)
}

fn need(trial: &Trial, index: usize, all: &mut Vec<Found>) {
    let c = &trial.order().components[index];
    let at = format!("/components/{index}/need");
    let scope = Scope::Component(index);
    if let Some(a) = &c.need.accelerators {
        devices(trial, index, a, &format!("{at}/accelerators"), all);
    }
    let best = |now: u64, of: &dyn Fn(&FreeNodes) -> u64| nodes(trial).map(of).filter(|v| *v < now && *v > 0).max();
    let cpu = c.need.cpu.milli();
    let set = |order: &mut Order, v: u64| order.components[index].need.cpu = Cores::from_milli(v);
    let guess = best(cpu, &|n| n.shape.cpu.milli());
    if let Some((v, total)) = number(trial, scope, (cpu, cpu.min(1), 100), guess, set) {
        all.push(found(relative(cpu, v), format!("{at}/cpu"), c.need.cpu, Cores::from_milli(v), total));
    }
    let memory = c.need.memory.bytes();
    let set = |order: &mut Order, v: u64| order.components[index].need.memory = Bytes::from_bytes(v);
    let guess = best(memory, &|n| n.shape.memory.bytes());
    if let Some((v, total)) = number(trial, scope, (memory, memory.min(1), 1 << 30), guess, set) {
        all.push(found(relative(memory, v), format!("{at}/memory"), c.need.memory, Bytes::from_bytes(v), total));
    }
}

fn devices(trial: &Trial, index: usize, a: &Accelerators, at: &str, all: &mut Vec<Found>) {
    fn of(order: &mut Order, index: usize) -> Option<&mut Accelerators> {
        order.components[index].need.accelerators.as_mut()
    }
    let scope = Scope::Component(index);
    let edit = |change: &dyn Fn(&mut Accelerators)| trial.total(scope, |o| of(o, index).into_iter().for_each(change));
    let need = &trial.order().components[index].need;
    if let Some(count) = a.count.filter(|n| *n > 1) {
        let set = |order: &mut Order, n: u64| {
            if let Some(a) = of(order, index) {
                a.count = Some(n as u32);
            }
        };
        let models: BTreeSet<&ModelName> = trial.view().devices.keys().collect();
        let models = models.into_iter().filter(|m| a.models.is_empty() || a.models.contains(*m));
        let largest =
            models.flat_map(|m| nodes(trial).map(move |n| fit::largest(need, m, std::slice::from_ref(n)))).max();
        let guess = largest.map(u64::from).filter(|n| *n < u64::from(count));
        if let Some((n, total)) = number(trial, scope, (count.into(), 1, 1), guess, set) {
            all.push(found(relative(count.into(), n), format!("{at}/count"), count, n, total));
        }
    }
    if let Some(share) = a.share {
        let set = |order: &mut Order, n: u64| {
            if let Some(a) = of(order, index) {
                a.share = Some(Share::from_thousandths(n));
            }
        };
        let now = share.thousandths();
        if let Some((n, total)) = number(trial, scope, (now, 1, 1), None, set) {
            all.push(found(relative(now, n), format!("{at}/share"), share, Share::from_thousandths(n), total));
        }
    }
    if let Some(memory) = a.memory {
        let set = |order: &mut Order, v: u64| {
            if let Some(a) = of(order, index) {
                a.memory = Some(Bytes::from_bytes(v));
            }
        };
        let now = memory.bytes();
        let groups = nodes(trial).flat_map(|n| &n.shape.groups).map(|g| g.memory.bytes());
        let guess = groups.filter(|m| *m < now && *m > 0).max();
        if let Some((v, total)) = number(trial, scope, (now, 1 << 20, 1 << 30), guess, set) {
            all.push(found(relative(now, v), format!("{at}/memory"), memory, Bytes::from_bytes(v), total));
        }
    }
    if !a.models.is_empty() {
        let prices = trial.inquest.alike().first.iter().map(|s| &trial.view().sites[*s].site.prices);
        let sold: BTreeSet<&ModelName> = prices.flat_map(|p| p.devices.keys()).collect();
        let share = Ratio::new(1, a.models.len() as i128);
        let added = sold.into_iter().filter(|m| !a.models.contains(*m)).map(|model| {
            let mut models = a.models.clone();
            models.insert(model.clone());
            let total = edit(&|a| a.models.clone_from(&models))?;
            Some(found(share, format!("{at}/models"), list(&a.models), list(&models), total))
        });
        all.extend(cheapest(added));
    }
    let rates = trial.view().devices.values().flat_map(|d| d.rates.keys());
    let others: BTreeSet<Precision> = rates.copied().filter(|p| *p != a.precision).collect();
    let rated = others
        .into_iter()
        .map(|p| Some(found(whole(), format!("{at}/precision"), a.precision, p, edit(&|a| a.precision = p)?)));
    all.extend(cheapest(rated));
    let looser: &[Interconnect] = match a.interconnect {
        Interconnect::Nvlink => &[Interconnect::Pcie, Interconnect::Numa, Interconnect::Node],
        Interconnect::Pcie => &[Interconnect::Numa, Interconnect::Node],
        Interconnect::Numa | Interconnect::Site => &[Interconnect::Node],
        Interconnect::NvlDomain => &[Interconnect::Rack, Interconnect::Site, Interconnect::Node],
        Interconnect::Rack => &[Interconnect::Site, Interconnect::Node],
        Interconnect::Node => &[],
    };
    let loosened = looser.iter().enumerate().map(|(i, joined)| {
        let total = edit(&|a| a.interconnect = *joined)?;
        let share = Ratio::new(i as i128 + 1, looser.len() as i128);
        Some(found(share, format!("{at}/interconnect"), a.interconnect, joined, total))
    });
    all.extend(first(loosened));
}

fn place(trial: &Trial, index: usize, all: &mut Vec<Found>) {
    let c = &trial.order().components[index];
    let at = format!("/components/{index}/place");
    let scope = Scope::Component(index);
    if let Some(spread) = c.place.spread {
        let looser: &[Option<Spread>] = match spread {
            Spread::Site => &[Some(Spread::Rack), Some(Spread::Node), None],
            Spread::Rack => &[Some(Spread::Node), None],
            Spread::Node => &[None],
        };
        let loosened = looser.iter().enumerate().map(|(i, to)| {
            let total = trial.total(scope, |o| o.components[index].place.spread = *to)?;
            let share = Ratio::new(i as i128 + 1, looser.len() as i128);
            let shown = to.map_or("none".to_owned(), |s| s.to_string());
            Some(found(share, format!("{at}/spread"), spread, shown, total))
        });
        all.extend(first(loosened));
    }
    let parted = c.place.colocate.iter().map(|other| {
        let mut colocate = c.place.colocate.clone();
        colocate.remove(other);
        let shown = or_none(&colocate);
        let total = trial.total(Scope::Flows, |o| o.components[index].place.colocate = colocate)?;
        let share = Ratio::new(1, c.place.colocate.len() as i128);
        Some(found(share, format!("{at}/colocate"), list(&c.place.colocate), shown, total))
    });
    all.extend(cheapest(parted));
}

fn or_none<T: std::fmt::Display>(items: &BTreeSet<T>) -> String {
    if items.is_empty() { "none".to_owned() } else { list(items) }
}

/// Which sites may be used.
fn sites(trial: &Trial, all: &mut Vec<Found>) {
    let c = &trial.order().constraints;
    let dropped = c.labels.iter().map(|label| {
        let mut labels = c.labels.clone();
        labels.remove(label);
        let shown = or_none(&labels);
        let total = trial.total(Scope::Sites, |o| o.constraints.labels = labels)?;
        Some(found(Ratio::new(1, c.labels.len() as i128), "/constraints/labels".into(), list(&c.labels), shown, total))
    });
    all.extend(cheapest(dropped));
    let lifted = c.not_sites.iter().map(|site| {
        let mut sites = c.not_sites.clone();
        sites.remove(site);
        let shown = or_none(&sites);
        let total = trial.total(Scope::Sites, |o| o.constraints.not_sites = sites)?;
        let share = Ratio::new(1, c.not_sites.len() as i128);
        Some(found(share, "/constraints/not_sites".into(), list(&c.not_sites), shown, total))
    });
    all.extend(cheapest(lifted));
    if !c.sites.is_empty() {
        all.extend(one_site_more(trial));
    }
    if let Some(most) = c.max_sites.filter(|_| !trial.bonds().any()) {
        let set = |order: &mut Order, n: u64| order.constraints.max_sites = Some(n as u32);
        // more than one site for each replica is never used
        let replicas: u64 = trial.base().parts.iter().map(|p| u64::from(p.most)).sum();
        let far = replicas.min(trial.view().sites.len() as u64);
        if far > u64::from(most)
            && let Some((n, total)) = number(trial, Scope::Flows, (most.into(), far, 1), Some(u64::from(most) + 1), set)
        {
            all.push(found(relative(most.into(), n), "/constraints/max_sites".into(), most, n, total));
        }
    }
}

/// The allowed sites and the one that helps at the least cost; any site where one is not enough.
fn one_site_more(trial: &Trial) -> Option<Found> {
    let c = &trial.order().constraints;
    let pointer = || "/constraints/sites".to_owned();
    let any = trial.read(&trial.edited(|o| o.constraints.sites.clear()), Scope::Sites, false, |problem, solution| {
        let stands = problem.parts.iter().zip(&solution.placed);
        let used: BTreeSet<usize> = stands.flat_map(|(p, l)| l.iter().map(|(s, _)| p.stands[*s].site)).collect();
        (solution.terms.total, used)
    });
    let (total, used) = any?;
    let names = used.into_iter().map(|s| trial.view().sites[s].site.name.clone());
    let new: Vec<_> = names.filter(|n| !c.sites.contains(n)).collect();
    let share = Ratio::new(1, c.sites.len() as i128);
    if let [site] = new.as_slice() {
        let mut sites = c.sites.clone();
        sites.insert(site.clone());
        return Some(found(share, pointer(), list(&c.sites), list(&sites), total));
    }
    let added = new.into_iter().map(|site| {
        let mut sites = c.sites.clone();
        sites.insert(site);
        let shown = list(&sites);
        let total = trial.total(Scope::Sites, |o| o.constraints.sites = sites)?;
        Some(found(share, pointer(), list(&c.sites), shown, total))
    });
    cheapest(added).or_else(|| Some(found(whole(), pointer(), list(&c.sites), "any", total)))
}

/// Which links may be used.
fn paths(trial: &Trial, all: &mut Vec<Found>) {
    let c = &trial.order().constraints;
    if !c.jurisdictions.is_empty() {
        let graph = &trial.view().graph;
        let points = graph.node_weights().filter_map(|p| p.jurisdiction.as_ref());
        let links = graph.edge_weights().flat_map(|l| &l.jurisdictions);
        let others: BTreeSet<&Jurisdiction> = points.chain(links).filter(|j| !c.jurisdictions.contains(*j)).collect();
        let share = Ratio::new(1, c.jurisdictions.len() as i128);
        let pointer = || "/constraints/jurisdictions".to_owned();
        let added = others.into_iter().map(|j| {
            let mut within = c.jurisdictions.clone();
            within.insert(j.clone());
            let shown = list(&within);
            let total = trial.total(Scope::Jurisdictions, |o| o.constraints.jurisdictions = within)?;
            Some(found(share, pointer(), list(&c.jurisdictions), shown, total))
        });
        let any = || {
            let total = trial.total(Scope::Jurisdictions, |o| o.constraints.jurisdictions.clear())?;
            Some(found(whole(), pointer(), list(&c.jurisdictions), "any", total))
        };
        all.extend(cheapest(added).or_else(any));
    }
    if c.encrypted
        && !trial.bonds().beside_flows()
        && let Some(total) = trial.total(Scope::Flows, |o| o.constraints.encrypted = false)
    {
        all.push(found(whole(), "/constraints/encrypted".into(), true, false, total));
    }
}
