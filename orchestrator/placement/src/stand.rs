//! Where a component can stand: sites and device models that pass every filter, with room, hours and price of a replica.

use crate::{
    index::Index,
    policy::Request,
    problem::{HOUR, Relax},
    room,
};
use num_traits::{CheckedAdd, CheckedDiv, CheckedMul};
use rhumb_federation::{FreeNodes, View, ViewSite};
use rhumb_model::{
    ModelName, Reason, ReasonKind, fit,
    order::{Accelerators, Component, Constraints, Need},
    ratio::Ratio,
    state::SiteState,
};
use std::collections::BTreeSet;

/// A component on devices of one model at one site, for all that a glance can tell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stand<'a> {
    /// Index in the view.
    pub site: usize,
    pub model: Option<&'a ModelName>,
    /// Index into the part's kinds.
    pub kind: u16,
    /// Of one replica, in micro-units per hour at factor 1 times `PRICE_FINE`, rounded down.
    pub least: i64,
}

/// What holds of a component on one model wherever it stands.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    /// Nanoseconds that the work takes.
    pub hours: Ratio,
    /// Devices that one replica pays for.
    devices: Ratio,
}

/// A day: what a service is planned for when its order does not say.
const HORIZON: i128 = 24 * HOUR;

/// Stands that pass every filter but the one of their nodes: `room` tells how many replicas they take, if any.
pub(crate) fn stands<'a>(
    view: &'a View,
    index: &'a Index,
    request: Request<'a>,
    relax: Relax,
    component: &'a Component,
) -> (Vec<Kind>, Vec<Stand<'a>>) {
    let constraints = &request.order.constraints;
    let bound = !(constraints.sites.is_empty()
        && constraints.not_sites.is_empty()
        && constraints.jurisdictions.is_empty()
        && constraints.labels.is_empty());
    let need = &component.need;
    let (mut kinds, mut stands) = (Vec::new(), Vec::new());
    let mut of_model: Vec<Option<(u16, &'a ModelName, i128, i128)>> = Vec::new();
    match &need.accelerators {
        None => {
            let Some(hours) = hours(view, request, component, None) else { return (kinds, stands) };
            kinds.push(Kind { hours, devices: Ratio::from_integer(0) });
        }
        Some(asked) => {
            for model in &index.models {
                let known = (accepts(asked, model) && rate(view, model, asked).is_some())
                    .then(|| hours(view, request, component, Some(model)).zip(devices(view, asked, model)))
                    .flatten();
                of_model.push(known.map(|(hours, devices)| {
                    kinds.push(Kind { hours, devices });
                    ((kinds.len() - 1) as u16, model, *devices.numer(), *devices.denom())
                }));
            }
        }
    }
    let (cpu, memory) = (need.cpu.milli(), need.memory.bytes());
    for (site, lot) in index.sites.iter().enumerate() {
        let most = if relax.capacity { lot.whole } else { lot.free };
        let Some((per_core, per_gib)) = lot.prices else { continue };
        if absent(lot.state, relax)
            || most.cpu_milli < cpu
            || most.memory < memory
            || (bound && forbidden(&view.sites[site], constraints).is_some())
        {
            continue;
        }
        let host = i128::from(per_core) * i128::from(cpu) / 1000 + ((i128::from(per_gib) * i128::from(memory)) >> 30);
        let Some(asked) = &need.accelerators else {
            stands.extend(i64::try_from(host).ok().map(|least| Stand { site, model: None, kind: 0, least }));
            continue;
        };
        for stall in index.stalls(site) {
            let Some((kind, model, numer, denom)) = of_model[usize::from(stall.model)] else { continue };
            let free = if relax.capacity { stall.whole } else { stall.free };
            let may = match asked.count {
                // slices stand beside others on a device: how many fit is looked at later
                _ if asked.mig.is_some() => true,
                Some(count) if asked.share.is_none() => free >= count,
                _ => free > 0 || (stall.shared && !relax.capacity),
            };
            let least = i128::from(stall.price).checked_mul(numer).map(|p| host + p / denom);
            if may && let Some(least) = least.and_then(|l| i64::try_from(l).ok()) {
                stands.push(Stand { site, model: Some(model), kind, least });
            }
        }
    }
    (kinds, stands)
}

fn accepts(asked: &Accelerators, model: &ModelName) -> bool {
    asked.models.is_empty() || asked.models.contains(model)
}

fn rate(view: &View, model: &ModelName, asked: &Accelerators) -> Option<Ratio> {
    let rate = view.devices.get(model)?.rates.get(&asked.precision)?.ratio();
    (rate > Ratio::from_integer(0)).then_some(rate)
}

/// How long the work takes on `model`, in nanoseconds; the horizon of a service.
pub(crate) fn hours(view: &View, request: Request, component: &Component, model: Option<&ModelName>) -> Option<Ratio> {
    let Some(work) = &component.work else {
        let horizon = request.order.terms.horizon.map_or(HORIZON, |h| i128::from(h.micros()) * 1000);
        return Some(Ratio::from_integer(horizon));
    };
    if let Some(duration) = work.duration {
        return Some(Ratio::from_integer(i128::from(duration.micros()) * 1000));
    }
    let hours = work.hours?.ratio().checked_mul(&Ratio::from_integer(HOUR))?;
    match (&component.need.accelerators, model, &work.reference) {
        (Some(asked), Some(model), Some(reference)) => {
            hours.checked_mul(&rate(view, reference, asked)?)?.checked_div(&rate(view, model, asked)?)
        }
        _ => Some(hours),
    }
}

/// Of one replica, in micro-units per hour at factor 1. `None`: not for sale, or out of range.
pub(crate) fn price(view: &View, site: &ViewSite, need: &Need, model: Option<(&ModelName, &Kind)>) -> Option<Ratio> {
    let prices = &site.site.prices;
    let zero = Ratio::from_integer(0);
    let micros = |amount: &rhumb_model::Amount| amount.micros_in(view.currency, &view.rates).ok();
    let part = |amount: &Option<rhumb_model::Amount>, quantity: Ratio| match amount {
        None => Some(zero),
        Some(a) => micros(a)?.checked_mul(&quantity),
    };
    let mut sum = part(&prices.cpu, Ratio::new(i128::from(need.cpu.milli()), 1000))?
        .checked_add(&part(&prices.memory_gib, Ratio::new(i128::from(need.memory.bytes()), 1 << 30))?)?;
    if let Some((model, kind)) = model {
        sum = sum.checked_add(&micros(prices.devices.get(model)?)?.checked_mul(&kind.devices)?)?;
    }
    Some(sum)
}

/// How many devices a replica pays for: whole ones, a share of one, or a slice's part of the memory.
fn devices(view: &View, asked: &Accelerators, model: &ModelName) -> Option<Ratio> {
    let count = Ratio::from_integer(i128::from(asked.count.unwrap_or(1)));
    if let Some(share) = asked.share {
        return Some(Ratio::new(i128::from(share.thousandths()), 1000));
    }
    if let Some(profile) = asked.mig {
        let memory = view.devices.get(model)?.memory.bytes();
        if memory == 0 {
            return None;
        }
        return Ratio::new(i128::from(profile.memory().bytes()), i128::from(memory)).checked_mul(&count);
    }
    Some(count)
}

/// Devices that a plan names for each replica.
pub(crate) fn devices_per_replica(need: &Need) -> u32 {
    need.accelerators.as_ref().map_or(0, |a| if a.share.is_some() { 1 } else { a.count.unwrap_or(1) })
}

/// The nodes that count: what is free, or all of them.
pub(crate) fn nodes(site: &ViewSite, relax: Relax) -> &[FreeNodes] {
    if relax.capacity { &site.whole } else { &site.nodes }
}

fn absent(state: SiteState, relax: Relax) -> bool {
    match state {
        SiteState::Ready => false,
        SiteState::Draining => !relax.draining,
        SiteState::Lost | SiteState::NeverSeen => !relax.stale,
    }
}

/// Constraints of the order that the site itself breaks.
fn forbidden(site: &ViewSite, constraints: &Constraints) -> Option<(ReasonKind, String, String)> {
    let name = &site.site.name;
    if constraints.not_sites.contains(name) || (!constraints.sites.is_empty() && !constraints.sites.contains(name)) {
        let needed = if constraints.not_sites.contains(name) {
            format!("not {}", list(&constraints.not_sites))
        } else {
            list(&constraints.sites)
        };
        return Some((ReasonKind::NotAllowed, needed, name.to_string()));
    }
    let within = &constraints.jurisdictions;
    if !within.is_empty() && !site.site.jurisdiction.as_ref().is_some_and(|j| within.contains(j)) {
        let found = site.site.jurisdiction.as_ref().map_or("none stated".to_owned(), ToString::to_string);
        return Some((ReasonKind::Jurisdiction, list(within), found));
    }
    if !constraints.labels.is_subset(site.labels()) {
        let found = if site.labels().is_empty() { "none".to_owned() } else { list(site.labels()) };
        return Some((ReasonKind::Label, list(&constraints.labels), found));
    }
    None
}

pub(crate) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|i| i.to_string()).collect::<Vec<_>>().join(", ")
}

/// Why not one replica of the component can stand at the site: the first reason in precedence. `None`: it can.
pub(crate) fn why_not(view: &View, request: Request, component: &Component, index: usize) -> Option<Reason> {
    let site = &view.sites[index];
    let (reason, needed, free) = forbidden(site, &request.order.constraints)
        .or_else(|| misfit(view, request, component, site))
        .or_else(|| match site.site.state {
            SiteState::Ready => None,
            SiteState::Draining => {
                Some((ReasonKind::Draining, "a site that takes work".to_owned(), "draining".to_owned()))
            }
            state => {
                let age = site.age.map_or(String::new(), |age| format!(", last heard of {age} ago"));
                Some((ReasonKind::Stale, "a site that reports".to_owned(), format!("{state}{age}")))
            }
        })?;
    Some(Reason {
        reason,
        component: Some(component.name.clone()),
        flow: None,
        site: Some(site.site.name.clone()),
        needed,
        free,
    })
}

/// The site's hardware can never do it, or its free nodes cannot now.
fn misfit(
    view: &View,
    request: Request,
    component: &Component,
    site: &ViewSite,
) -> Option<(ReasonKind, String, String)> {
    let (free, whole) = (&site.nodes, &site.whole);
    let need = &component.need;
    let Some(asked) = &need.accelerators else {
        if room::most(component, None, &site.nodes, 1) > 0 {
            return None;
        }
        let m = fit::misfit(need, &BTreeSet::new(), free, whole, 1);
        return Some((m.reason, m.needed, m.free));
    };
    let here: BTreeSet<&ModelName> = whole.iter().chain(free).flat_map(|n| &n.shape.groups).map(|g| &g.model).collect();
    let for_sale: Vec<&ModelName> =
        here.iter().copied().filter(|m| accepts(asked, m) && site.site.prices.devices.contains_key(*m)).collect();
    if for_sale.is_empty() {
        let needed = if asked.models.is_empty() { "an accelerator for sale".to_owned() } else { list(&asked.models) };
        let found = if here.is_empty() { "no accelerators".to_owned() } else { list(&here) };
        return Some((ReasonKind::Model, needed, found));
    }
    let rated: BTreeSet<ModelName> = for_sale
        .iter()
        .copied()
        .filter(|m| rate(view, m, asked).is_some() && hours(view, request, component, Some(m)).is_some())
        .cloned()
        .collect();
    if rated.is_empty() {
        let found = format!("no {} rate of {}", asked.precision, list(&for_sale));
        return Some((ReasonKind::Precision, asked.precision.to_string(), found));
    }
    if rated.iter().any(|m| room::most(component, Some(m), &site.nodes, 1) > 0) {
        return None;
    }
    let m = fit::misfit(need, &rated, free, whole, 1);
    Some((m.reason, m.needed, m.free))
}
