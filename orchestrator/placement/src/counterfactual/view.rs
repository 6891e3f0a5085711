//! Changes of the federation: a node more at a site, a wider link, a site or a figure that counts again.

use super::{Found, Trial, found, relative, whole};
use crate::{network::Network, problem::Relax, telling};
use rhumb_federation::{FreeNodes, View};
use rhumb_model::{Bandwidth, LinkId, fit::NodeShape, state::SiteState};
use std::collections::BTreeSet;

pub(super) fn changes(trial: &Trial, all: &mut Vec<Found>) {
    all.extend(node(trial));
    all.extend(link(trial));
    state(trial, all);
    stale(trial, all);
}

/// The cheapest site that would do with one node more of those it has; with more nodes where one is not enough.
fn node(trial: &Trial) -> Option<Found> {
    let relax = Relax { capacity: true, ..Relax::default() };
    // sites that a plan with everything empty would use come first, and without such a plan no node of a kind helps
    let used = trial.solve(trial.view, trial.net, trial.order(), relax, |problem, solution| {
        let stands = problem.parts.iter().zip(&solution.placed);
        stands.flat_map(|(p, list)| list.iter().map(|(s, _)| p.stands[*s].site)).collect::<BTreeSet<_>>()
    });
    let most = trial.order().components.iter().map(|c| c.replicas.min).max().unwrap_or(1).min(MORE);
    let mut sites: Vec<usize> = used.iter().flatten().copied().collect();
    let others: Vec<usize> = (0..trial.view.sites.len()).filter(|s| !sites.contains(s)).take(SITES).collect();
    sites.extend(others);
    let mut best: Option<(u32, i64, Found)> = None;
    for index in sites {
        let site = &trial.view.sites[index];
        let Some(shape) = site.whole.iter().map(|n| &n.shape).max_by_key(|s| (s.free_devices(), s.cpu, s.memory))
        else {
            continue;
        };
        for n in 1..=most {
            if best.as_ref().is_some_and(|(b, ..)| *b < n) {
                break;
            }
            let mut view = trial.view.clone();
            add(&mut view, index, shape, n);
            let Some(total) = trial.of_view(&view) else { continue };
            let installed: u32 = site.whole.iter().map(|w| w.count).sum();
            let free: u32 = site.nodes.iter().map(|w| w.count).sum();
            let pointer = format!("/sites/{}/nodes", site.site.name);
            let to = format!("{n} more, each {}", describe(shape));
            let change = found(
                relative(installed.into(), u64::from(installed + n)),
                pointer,
                format!("{free} of {installed} with room"),
                to,
                total,
            );
            if best.as_ref().is_none_or(|(b, t, _)| (n, total) < (*b, *t)) {
                best = Some((n, total, change));
            }
            break;
        }
    }
    best.map(|(.., f)| f)
}

/// Nodes that are added to one site, at most, and sites that are tried.
const MORE: u32 = 4;
const SITES: usize = 12;

fn add(view: &mut View, index: usize, shape: &NodeShape, count: u32) {
    let site = &mut view.sites[index];
    for nodes in [&mut site.nodes, &mut site.whole] {
        match nodes.iter_mut().find(|n| n.shape == *shape) {
            Some(same) => same.count += count,
            None => nodes.push(FreeNodes { shape: shape.clone(), count }),
        }
        nodes.sort_by(|a, b| a.shape.cmp(&b.shape));
    }
}

fn describe(shape: &NodeShape) -> String {
    let models: BTreeSet<_> = shape.groups.iter().map(|g| g.model.as_str()).collect();
    let models = models.into_iter().collect::<Vec<_>>().join(" or ");
    let devices = shape.free_devices();
    let devices = if devices == 0 { String::new() } else { format!("{devices} x {models}, ") };
    format!("{devices}{} cores, {}", shape.cpu, shape.memory)
}

/// The link that is overfull in the plan that there would be if links had no limit, where one wider link is enough.
fn link(trial: &Trial) -> Option<Found> {
    let relax = Relax { bandwidth: true, ..Relax::default() };
    let (id, needed, free) = trial.solve(trial.view, trial.net, trial.order(), relax, |problem, solution| {
        telling::overfull(problem, solution).map(|(_, id, needed, free)| (id, needed, free))
    })??;
    let index = *trial.view.links.get(&id)?;
    let mut more = needed - free;
    // several legs may need it one after the other
    for _ in 0..4 {
        let mut view = trial.view.clone();
        let now = view.graph.edge_weight_mut(index)?;
        let capacity = now.capacity;
        let to = Bandwidth::from_kbps(capacity.kbps() + more);
        now.free = Bandwidth::from_kbps(now.free.kbps() + more);
        now.capacity = to;
        if let Some(total) = trial.of_view(&view) {
            let share = relative(capacity.kbps(), to.kbps());
            return Some(found(share, format!("/links/{id}/capacity"), capacity, to, total));
        }
        let net = Network::new(&view);
        let still: Option<(LinkId, u64, u64)> = trial
            .solve(&view, &net, trial.order(), relax, |problem, solution| {
                telling::overfull(problem, solution).map(|(_, id, needed, free)| (id, needed, free))
            })
            .flatten();
        match still {
            Some((same, needed, free)) if same == id => more += needed - free,
            _ => return None,
        }
    }
    None
}

fn state(trial: &Trial, all: &mut Vec<Found>) {
    let away = |s: &SiteState| *s != SiteState::Ready;
    let ways =
        trial.view.sites.iter().enumerate().filter(|(_, s)| away(&s.site.state)).take(SITES).filter_map(|(i, s)| {
            let mut view = trial.view.clone();
            view.sites[i].site.state = SiteState::Ready;
            let total = trial.of_view(&view)?;
            Some(found(whole(), format!("/sites/{}/state", s.site.name), s.site.state, SiteState::Ready, total))
        });
    all.extend(ways.min_by_key(|f| f.change.cost_micros));
}

fn stale(trial: &Trial, all: &mut Vec<Found>) {
    let old = trial.view.links.values().filter(|e| trial.view.graph.edge_weight(**e).is_some_and(|l| l.stale));
    let ways = old.take(SITES).filter_map(|e| {
        let mut view = trial.view.clone();
        let link = view.graph.edge_weight_mut(*e)?;
        link.stale = false;
        let pointer = format!("/links/{}/stale", link.id);
        Some(found(whole(), pointer, true, false, trial.of_view(&view)?))
    });
    all.extend(ways.min_by_key(|f| f.change.cost_micros));
}
