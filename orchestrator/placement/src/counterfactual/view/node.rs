//! More nodes at one site, or more devices on one of its nodes.

use super::{
    super::{Found, Trial, found, relative},
    SITES,
};
use crate::{problem::Relax, reach::Rules, room, sieve::Sieve, stand};
use rhumb_federation::{FreeNodes, ViewSite};
use rhumb_model::{
    ModelName,
    fit::{self, NodeShape, group_nodes},
    order::{Accelerators, Component, Interconnect},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

/// Nodes that are added to one site, at most.
const MORE: u32 = 4;

pub(super) fn changes(trial: &Trial, all: &mut Vec<Found>) {
    let short = short(trial);
    if short.is_empty() {
        return;
    }
    let reachable: Vec<Vec<bool>> = short.iter().map(|part| reachable(trial, *part)).collect();
    all.extend(nodes(trial, &short, &reachable));
    all.extend(devices(trial, &short, &reachable));
}

/// Components for which more room could help: those that have too little, or all where they get into each other's way.
fn short(trial: &Trial) -> Vec<usize> {
    let parts = &trial.base().parts;
    if parts.iter().any(|p| p.fewest > p.most) {
        return Vec::new();
    }
    let lacking = |part: &usize| parts[*part].all_room() < u64::from(parts[*part].fewest);
    let short: Vec<usize> = (0..parts.len()).filter(lacking).collect();
    if short.is_empty() { (0..parts.len()).collect() } else { short }
}

/// Sites that the order's rules and the component's flows with fixed points allow, whatever they hold.
fn reachable(trial: &Trial, part: usize) -> Vec<bool> {
    let base = trial.base();
    let sieve = Sieve { problem: base, reach: &trial.inquest.reach, rules: Rules::ALL };
    let tests = sieve.fixed_tests(part);
    let constraints = &trial.order().constraints;
    let open = |(index, site): (usize, &ViewSite)| {
        let point = base.site_point(index) as usize;
        stand::open(base.view, site, constraints, Relax::default())
            && tests.iter().all(|t| {
                let stream = &base.streams[t.stream];
                stream.demand.is_some() || sieve.passes(stream, t.table[point])
            })
    };
    base.view.sites.iter().enumerate().map(open).collect()
}

/// Fewest nodes more, at the site where that costs the least.
fn nodes(trial: &Trial, short: &[usize], reachable: &[Vec<bool>]) -> Option<Found> {
    let view = trial.view();
    let candidates: Vec<(usize, &NodeShape)> = view
        .sites
        .iter()
        .enumerate()
        .filter_map(|(index, site)| {
            let parts = short.iter().zip(reachable).filter(|(_, r)| r[index]).map(|(p, _)| *p);
            let parts: Vec<usize> = parts.collect();
            let helps = |shape: &&NodeShape| parts.iter().any(|part| takes(trial, *part, site, shape));
            let shapes = site.whole.iter().map(|n| &n.shape).filter(helps);
            Some((index, shapes.max_by_key(|s| (s.free_devices(), s.cpu, s.memory))?))
        })
        .take(SITES)
        .collect();
    // if that many at all of them do not help, fewer at one do not
    let grown = |(index, shape): &(usize, &NodeShape), n: u32| {
        let free = view.sites[*index].nodes.iter().map(|f| (f.shape.clone(), f.count));
        (*index, group_nodes(free.chain([((*shape).clone(), n)])))
    };
    let everywhere = candidates.iter().map(|c| grown(c, MORE)).collect();
    trial.solve(trial.with_nodes(everywhere), &trial.inquest.reach, true, |_, _| ())?;
    for n in 1..=MORE {
        let ways = candidates.iter().filter_map(|candidate| {
            let (index, shape) = candidate;
            let site = &view.sites[*index];
            let problem = trial.with_nodes([grown(candidate, n)].into());
            let total = trial.solve(problem, &trial.inquest.reach, false, |_, s| s.terms.total)?;
            let installed: u32 = site.whole.iter().map(|w| w.count).sum();
            let free: u32 = site.nodes.iter().map(|w| w.count).sum();
            let share = relative(installed.into(), u64::from(installed + n));
            let pointer = format!("/sites/{}/nodes", site.site.name);
            let to = format!("{n} more, each {}", describe(shape));
            Some(found(share, pointer, format!("{free} of {installed} with room"), to, total))
        });
        if let Some(best) = ways.min_by_key(|f| f.change.cost_micros) {
            return Some(best);
        }
    }
    None
}

/// Whether an empty node of the shape takes a replica.
fn takes(trial: &Trial, part: usize, site: &ViewSite, shape: &NodeShape) -> bool {
    let component = trial.base().parts[part].component;
    let node = [FreeNodes { shape: shape.clone(), count: 1 }];
    models(component, site).any(|model| room::most(component, model, &node, 1) > 0)
}

fn models<'m>(component: &'m Component, site: &'m ViewSite) -> Box<dyn Iterator<Item = Option<&'m ModelName>> + 'm> {
    match &component.need.accelerators {
        None => Box::new(std::iter::once(None)),
        Some(a) => {
            let named = |m: &&ModelName| a.models.is_empty() || a.models.contains(*m);
            Box::new(site.site.prices.devices.keys().filter(named).map(Some))
        }
    }
}

fn describe(shape: &NodeShape) -> String {
    let models: BTreeSet<_> = shape.groups.iter().map(|g| g.model.as_str()).collect();
    let models = models.into_iter().collect::<Vec<_>>().join(" or ");
    let devices = shape.free_devices();
    let devices = if devices == 0 { String::new() } else { format!("{devices} x {models}, ") };
    format!("{devices}{} cores, {}", shape.cpu, shape.memory)
}

/// A node to which devices are added: how many, at which site, the model, and the site's nodes then.
#[derive(Debug, Clone)]
struct Grown {
    more: u32,
    site: usize,
    model: ModelName,
    nodes: Rc<[FreeNodes]>,
    had: u32,
}

/// Fewest devices more on one node of one site.
fn devices(trial: &Trial, short: &[usize], reachable: &[Vec<bool>]) -> Option<Found> {
    let mut ways: Vec<Grown> = Vec::new();
    for (part, reachable) in short.iter().zip(reachable) {
        let component = trial.base().parts[*part].component;
        let Some(asked) = &component.need.accelerators else { continue };
        let Some(count) = asked.count.filter(|_| asked.mig.is_none()) else { continue };
        let open: BTreeSet<(usize, Option<&ModelName>)> =
            trial.base().parts[*part].open().map(|(stand, _)| (stand.site, stand.model)).collect();
        // sites that hold the same lack the same
        let mut known: BTreeMap<usize, Vec<Grown>> = BTreeMap::new();
        for index in (0..reachable.len()).filter(|index| reachable[*index]) {
            let here = known.entry(trial.inquest.alike().group[index]).or_insert_with(|| {
                let site = &trial.view().sites[index];
                // where a replica fits, no node lacks any
                let lacks = |m: &&ModelName| !open.contains(&(index, Some(*m)));
                models(component, site)
                    .flatten()
                    .filter(lacks)
                    .filter_map(|m| grown(component, asked, count, m, site))
                    .collect()
            });
            ways.extend(here.iter().map(|g| Grown { site: index, ..g.clone() }));
        }
    }
    ways.sort_by_key(|w| (w.more, w.site));
    let tried = ways.into_iter().take(SITES).filter_map(|w| {
        let problem = trial.with_nodes([(w.site, w.nodes.to_vec())].into());
        let total = trial.solve(problem, &trial.inquest.reach, false, |_, s| s.terms.total)?;
        let pointer = format!("/sites/{}/nodes", trial.view().sites[w.site].site.name);
        let from = format!("{} x {} on one node", w.had, w.model);
        let to = format!("{} more {} on one node", w.more, w.model);
        let share = relative(w.had.max(1).into(), (w.had.max(1) + w.more).into());
        Some((w.more, found(share, pointer, from, to, total)))
    });
    tried.min_by_key(|(more, f)| (*more, f.change.cost_micros)).map(|(_, f)| f)
}

/// The node that lacks the fewest devices for one more replica, with those.
fn grown(component: &Component, asked: &Accelerators, count: u32, model: &ModelName, site: &ViewSite) -> Option<Grown> {
    let need = &component.need;
    let best = site
        .nodes
        .iter()
        .filter(|n| n.shape.cpu >= need.cpu && n.shape.memory >= need.memory)
        .max_by_key(|n| fit::largest(need, model, std::slice::from_ref(n)))?;
    let had = fit::largest(need, model, std::slice::from_ref(best));
    let more = count.checked_sub(had).filter(|n| *n > 0)?;
    let joined = |g: &fit::DeviceGroup| match asked.interconnect {
        Interconnect::Nvlink => g.island.is_some(),
        Interconnect::Pcie => g.pcie.is_some(),
        Interconnect::Numa => g.numa.is_some(),
        _ => true,
    };
    let usable = |g: &fit::DeviceGroup| g.model == *model && asked.memory.is_none_or(|m| g.memory >= m) && joined(g);
    let mut shape = best.shape.clone();
    let group = shape.groups.iter_mut().filter(|g| usable(g)).max_by_key(|g| g.free)?;
    group.free += more;
    group.total += more;
    let shape = NodeShape {
        rack: shape.rack.take(),
        nvl_domain: shape.nvl_domain.take(),
        ..NodeShape::new(shape.groups, shape.cpu, shape.memory)
    };
    let rest = site.nodes.iter().map(|n| (n.shape.clone(), n.count - u32::from(std::ptr::eq(n, best))));
    let nodes = group_nodes(rest.chain([(shape, 1)])).into();
    Some(Grown { more, site: 0, model: model.clone(), nodes, had })
}
