//! Later, when other orders have ended.

use super::super::{Found, Trial, found};
use crate::{network::Network, reach::Reach};
use rhumb_federation::FreeNodes;
use rhumb_model::{Bandwidth, ratio::Ratio};
use std::collections::BTreeMap;

/// The earliest end of an order after which placing again succeeds.
pub(super) fn change(trial: &Trial) -> Option<Found> {
    let (view, submit) = (trial.view(), trial.base().request.submit);
    let ends: Vec<usize> = (0..view.releases.len()).filter(|r| view.releases[*r].at > submit).collect();
    let last = *ends.last()?;
    // what is free only grows: terms that name a time are left to the proof
    if !fits_after(trial, last) {
        return None;
    }
    let first = ends.partition_point(|r| *r < last && !fits_after(trial, *r));
    let release = &view.releases[ends[first]];
    let total = trial.on(&trial.inquest.whole.clone().after(release.at), release.at)?;
    let wait = release.at.as_nanosecond() - submit.as_nanosecond();
    let longest = view.releases[last].at.as_nanosecond() - submit.as_nanosecond();
    let mut change = found(Ratio::new(wait, longest.max(1)), "/at".into(), submit, release.at, total);
    change.change.when = Some(format!("order {} ends", release.order));
    Some(change)
}

/// Whether there is a plan on what is free after a release and those before it.
fn fits_after(trial: &Trial, last: usize) -> bool {
    let (view, base) = (trial.view(), trial.base());
    let mut sites: BTreeMap<usize, Vec<FreeNodes>> = BTreeMap::new();
    let mut links = BTreeMap::new();
    for release in &view.releases[..=last] {
        for (name, nodes) in &release.sites {
            sites.extend(view.site_index(name).map(|index| (index, nodes.clone())));
        }
        links.extend(&release.links);
    }
    sites.retain(|site, _| crate::stand::away(&view.sites[*site]).is_none());
    let mut problem = trial.with_nodes(sites);
    (problem.deadline, problem.window) = (None, None);
    if links.is_empty() {
        return trial.solve(problem, &trial.inquest.reach, true, |_, _| ()).is_some();
    }
    let net: Network = base.net.with(|edges| {
        for (ordinal, edge) in (0_u32..).zip(edges) {
            let link = base.link(ordinal);
            let free = |open: &Bandwidth| open.min(&link.capacity).saturating_sub(link.calendar.highest()).kbps();
            edge.free = links.get(&link.id).map_or(edge.free, |open| free(open));
        }
    });
    problem.net = &net;
    let reach = Reach::new(&problem);
    trial.solve(problem, &reach, true, |_, _| ()).is_some()
}
