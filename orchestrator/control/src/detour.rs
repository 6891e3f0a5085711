//! Another path for a leg whose ends stand where they are.

use rhumb_federation::View;
use rhumb_model::{LinkId, Order, PointName, Reason, ReasonKind, quantity::Bandwidth};
use rhumb_placement::path_between;
use rhumb_provision::Want;
use std::collections::BTreeSet;

/// Paths looked at until one is none of those that will not do.
const LOOKS: usize = 24;

/// The cheapest path from end to end that keeps the order's terms and is none of those it is not to be: best one that
/// shares no link with them, as nobody knows which of a path's links is at fault.
pub(crate) fn detour(
    mut view: View,
    order: &Order,
    flow: u32,
    ends: &(PointName, PointName),
    want: &Want,
) -> Result<Vec<LinkId>, Reason> {
    restrict(&mut view, order, flow, want);
    let mut apart = view.clone();
    close(&mut apart, want.not.iter().flatten());
    let look = |view: &View| path_between(view, &ends.0, &ends.1, want.rate, want.bound, 0).map(|found| found.links);
    if let Ok(links) = look(&apart) {
        return Ok(links);
    }
    // one by one the links of what is found are closed, until what is found is something else
    let mut open: Vec<View> = vec![view];
    let mut why = None;
    let mut looks = 0;
    while let Some(view) = (!open.is_empty()).then(|| open.remove(0)) {
        looks += 1;
        if looks > LOOKS {
            break;
        }
        match look(&view) {
            Ok(links) if !want.not.contains(&links) => return Ok(links),
            Ok(links) => open.extend(links.iter().map(|link| {
                let mut without = view.clone();
                close(&mut without, [link]);
                without
            })),
            Err(reason) => {
                why.get_or_insert(reason);
            }
        }
    }
    Err(why.unwrap_or_else(|| Reason {
        reason: ReasonKind::NoPath,
        component: None,
        flow: Some(flow),
        site: None,
        needed: format!("another path from {} to {}", ends.0, ends.1),
        free: "those that will not do".to_owned(),
    }))
}

/// Leaves only what the order may use, with what the leg holds itself counted as free.
fn restrict(view: &mut View, order: &Order, flow: u32, want: &Want) {
    let jurisdictions = &order.constraints.jurisdictions;
    let sealed = order.constraints.encrypted || order.flows.get(flow as usize).is_some_and(|f| f.encrypted);
    let risks: BTreeSet<_> = want.apart.iter().filter_map(|id| view.link(id)).flat_map(|l| l.srlg.clone()).collect();
    for edge in view.graph.edge_indices().collect::<Vec<_>>() {
        let Some((from, to)) = view.graph.edge_endpoints(edge) else { continue };
        let foreign = [from, to].iter().any(|n| {
            let at = view.graph[*n].jurisdiction.as_ref();
            !jurisdictions.is_empty() && !at.is_some_and(|j| jurisdictions.contains(j))
        });
        let link = &mut view.graph[edge];
        let crosses = !jurisdictions.is_empty()
            && (link.jurisdictions.is_empty() || !link.jurisdictions.iter().all(|j| jurisdictions.contains(j)));
        let shared = want.apart.contains(&link.id) || link.srlg.iter().any(|r| risks.contains(r));
        link.stale |= foreign || crosses || shared || (sealed && !link.encrypted);
        let own = want.held.get(&link.id).copied().unwrap_or(Bandwidth::ZERO);
        link.free = link.free.checked_add(own).unwrap_or(link.free).min(link.capacity);
    }
}

fn close<'a>(view: &mut View, links: impl IntoIterator<Item = &'a LinkId>) {
    for id in links {
        if let Some(edge) = view.links.get(id).copied() {
            view.graph[edge].stale = true;
        }
    }
}
