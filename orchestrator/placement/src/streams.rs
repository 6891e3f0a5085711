//! The flows of an order as streams between components and fixed points, and the links that they may take.

use crate::{
    policy::Request,
    problem::{Place, Problem, Relax, Span, Stream, not_allowed},
};
use rhumb_federation::View;
use rhumb_model::{Reason, order::End, state::SiteState};

/// Whether each link may be taken, by edge ordinal.
pub(crate) fn allowed(problem: &Problem, encrypted: bool) -> Vec<bool> {
    let Problem { view, net, relax, .. } = *problem;
    let constraints = &problem.request.order.constraints;
    let within = &constraints.jurisdictions;
    let bound = !within.is_empty() && !relax.path_jurisdiction;
    let point_in = |p: &rhumb_federation::view::ViewPoint| p.jurisdiction.as_ref().is_some_and(|j| within.contains(j));
    let points: Vec<bool> = view.graph.node_weights().map(|p| !bound || point_in(p)).collect();
    let encrypted = encrypted && !relax.encryption;
    (0_u32..)
        .zip(&net.edges)
        .map(|(ordinal, edge)| {
            let link = problem.link(ordinal);
            let inside = !bound || (!link.jurisdictions.is_empty() && link.jurisdictions.is_subset(within));
            let fresh = relax.stale || !problem.is_stale(ordinal);
            let sealed = !encrypted || problem.is_encrypted(ordinal);
            points[edge.from as usize] && points[edge.to as usize] && inside && fresh && sealed
        })
        .collect()
}

/// Sites whose copies can be read or written: an agent is there.
fn reachable(view: &View, name: &rhumb_model::SiteName) -> Option<u32> {
    let point = view.points.get(name)?;
    let site = view.graph[*point].site.map(|s| &view.sites[s].site.state);
    (!matches!(site, Some(SiteState::Lost))).then_some(point.index() as u32)
}

pub(crate) fn streams(view: &View, request: Request, relax: Relax, wrong: &mut Vec<Reason>) -> Vec<Stream> {
    let order = request.order;
    let mut streams = Vec::with_capacity(order.flows.len());
    for (index, flow) in order.flows.iter().enumerate() {
        let mut access = 0;
        let mut size = None;
        let mut end = |end: &End| -> Option<Place> {
            match end {
                End::Component(name) => order.components.iter().position(|c| &c.name == name).map(Place::Part),
                End::Dataset(name) => {
                    let dataset = view.datasets.get(name)?;
                    size = Some(dataset.size.bytes());
                    let points: Vec<u32> = dataset.at.iter().filter_map(|s| reachable(view, s)).collect();
                    Some(Place::Points(points.into()))
                }
                End::Region(name) => {
                    let region = view.regions.get(name)?;
                    access = region.access.micros();
                    let point = view.points.get(&region.at)?;
                    Some(Place::Points([point.index() as u32].into()))
                }
            }
        };
        let (from, to) = (end(&flow.from), end(&flow.to));
        for (known, name) in [(&from, &flow.from), (&to, &flow.to)] {
            if known.is_none() {
                let mut reason = not_allowed(&name.to_string(), "unknown in this federation");
                reason.flow = Some(index as u32);
                wrong.push(reason);
            }
        }
        let (Some(from), Some(to)) = (from, to) else { continue };
        let whole = if flow.volume.is_none() && flow.rate.is_none() { size } else { None };
        let volume = flow.volume.map(rhumb_model::Bytes::bytes).or(whole);
        let span = match (&from, &to, volume) {
            (_, Place::Part(_), Some(_)) => Span::Inbound,
            (Place::Part(_), _, Some(_)) => Span::Outbound,
            _ => Span::Run,
        };
        let max = flow.max_latency.filter(|_| !relax.latency).map(rhumb_model::Latency::micros);
        streams.push(Stream {
            flow: index,
            from,
            to,
            span,
            volume: volume.unwrap_or(0),
            kbps: flow.rate.map(rhumb_model::Bandwidth::kbps),
            demand: flow.demand.map(rhumb_model::Demand::millirps),
            bound: max.map(|m| m.saturating_sub(access)),
            access,
            copy: flow.copy,
            encrypted: flow.encrypted || order.constraints.encrypted,
            hopeless: max.is_some_and(|m| m < access),
        });
    }
    streams
}
