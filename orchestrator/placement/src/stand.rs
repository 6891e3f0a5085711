//! Where a component can stand: sites and device models that pass every filter, with room, hours and price of a replica.

use crate::{
    index::{Index, Stall},
    policy::Request,
    problem::{HOUR, Relax},
    room,
};
use num_traits::{CheckedAdd, CheckedDiv, CheckedMul};
use rhumb_federation::{FreeNodes, View, ViewSite};
use rhumb_model::{
    ModelName, ReasonKind, fit,
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

/// Stands that pass every filter but the one of their nodes: `room` tells how many replicas they take, if any. `None`: how
/// long the work takes is not known.
pub(crate) fn stands<'a>(
    view: &'a View,
    index: &'a Index,
    request: Request<'a>,
    relax: Relax,
    component: &'a Component,
) -> Option<(Vec<Kind>, Vec<Stand<'a>>)> {
    let constraints = &request.order.constraints;
    let bound = !(view.avoid.is_empty()
        && constraints.sites.is_empty()
        && constraints.not_sites.is_empty()
        && constraints.jurisdictions.is_empty()
        && constraints.labels.is_empty());
    let asked = Asked::new(view, index, request, component)?;
    let mut stands = Vec::new();
    for (site, lot) in index.sites.iter().enumerate() {
        let most = if relax.capacity { lot.whole } else { lot.free };
        if absent(lot.state, relax)
            || most.cpu_milli < asked.cpu
            || most.memory < asked.memory
            || (bound && forbidden(view, &view.sites[site], constraints).is_some())
        {
            continue;
        }
        let may = |stall: &Stall, a: &Accelerators| {
            let free = if relax.capacity { stall.whole } else { stall.free };
            match a.count {
                // slices stand beside others on a device: how many fit is looked at later
                _ if a.mig.is_some() => true,
                Some(count) if a.share.is_none() => free >= count,
                _ => free > 0 || (stall.shared && !relax.capacity),
            }
        };
        asked.at(site, may, &mut stands);
    }
    Some((asked.kinds, stands))
}

/// Stands at one site, whatever it has free and whatever the order forbids.
pub(crate) fn at<'a>(
    view: &'a View,
    index: &'a Index,
    request: Request<'a>,
    component: &'a Component,
    site: usize,
) -> Vec<Stand<'a>> {
    let mut stands = Vec::new();
    if let Some(asked) = Asked::new(view, index, request, component) {
        asked.at(site, |_, _| true, &mut stands);
    }
    stands
}

/// Whether the site takes work of the order at all.
pub(crate) fn open(view: &View, site: &ViewSite, constraints: &Constraints, relax: Relax) -> bool {
    forbidden(view, site, constraints).is_none() && !absent(site.site.state, relax)
}

/// What a component asks of every site.
struct Asked<'a> {
    index: &'a Index,
    accelerators: Option<&'a Accelerators>,
    cpu: u64,
    memory: u64,
    kinds: Vec<Kind>,
    /// By model of the index: its kind, and the devices that one replica pays for.
    models: Vec<Option<(u16, &'a ModelName, i128, i128)>>,
}

impl<'a> Asked<'a> {
    fn new(view: &'a View, index: &'a Index, request: Request<'a>, component: &'a Component) -> Option<Self> {
        let need = &component.need;
        let (mut kinds, mut models) = (Vec::new(), Vec::new());
        match &need.accelerators {
            None => {
                let hours = hours(view, request, component, None)?;
                kinds.push(Kind { hours, devices: Ratio::from_integer(0) });
            }
            Some(asked) => {
                for model in &index.models {
                    let known = (accepts(asked, model) && rate(view, model, asked).is_some())
                        .then(|| hours(view, request, component, Some(model)).zip(devices(view, asked, model)))
                        .flatten();
                    models.push(known.map(|(hours, devices)| {
                        kinds.push(Kind { hours, devices });
                        ((kinds.len() - 1) as u16, model, *devices.numer(), *devices.denom())
                    }));
                }
            }
        }
        let accelerators = need.accelerators.as_ref();
        Some(Self { index, accelerators, cpu: need.cpu.milli(), memory: need.memory.bytes(), kinds, models })
    }

    /// Adds the stands at a site, of models for sale that `may` do.
    fn at(&self, site: usize, may: impl Fn(&Stall, &Accelerators) -> bool, stands: &mut Vec<Stand<'a>>) {
        let Some((per_core, per_gib)) = self.index.sites[site].prices else { return };
        let of = |price: i64, quantity: u64| i128::from(price) * i128::from(quantity);
        let host = of(per_core, self.cpu) / 1000 + (of(per_gib, self.memory) >> 30);
        let Some(asked) = self.accelerators else {
            stands.extend(i64::try_from(host).ok().map(|least| Stand { site, model: None, kind: 0, least }));
            return;
        };
        for stall in self.index.stalls(site) {
            let Some((kind, model, numer, denom)) = self.models[usize::from(stall.model)] else { continue };
            let least = i128::from(stall.price).checked_mul(numer).map(|p| host + p / denom);
            if may(stall, asked)
                && let Some(least) = least.and_then(|l| i64::try_from(l).ok())
            {
                stands.push(Stand { site, model: Some(model), kind, least });
            }
        }
    }
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

/// The first constraint of the order that the site itself breaks.
fn forbidden(view: &View, site: &ViewSite, constraints: &Constraints) -> Option<ReasonKind> {
    let name = &site.site.name;
    if view.avoid.contains(name) {
        return Some(ReasonKind::NotAllowed);
    }
    if constraints.not_sites.contains(name) || (!constraints.sites.is_empty() && !constraints.sites.contains(name)) {
        return Some(ReasonKind::NotAllowed);
    }
    let within = &constraints.jurisdictions;
    if !within.is_empty() && !site.site.jurisdiction.as_ref().is_some_and(|j| within.contains(j)) {
        return Some(ReasonKind::Jurisdiction);
    }
    (!constraints.labels.is_subset(site.labels())).then_some(ReasonKind::Label)
}

/// What a reason says: its kind, what was needed and what was free.
pub(crate) type Told = (ReasonKind, String, String);

/// The first constraint of the order that the site itself breaks, in words.
pub(crate) fn rule(view: &View, site: &ViewSite, constraints: &Constraints) -> Option<Told> {
    let kind = forbidden(view, site, constraints)?;
    let name = &site.site.name;
    if view.avoid.contains(name) {
        return Some((kind, "another site".to_owned(), format!("{name}, where the order failed a short while ago")));
    }
    if kind == ReasonKind::NotAllowed {
        let needed = if constraints.not_sites.contains(name) {
            format!("not {}", list(&constraints.not_sites))
        } else {
            list(&constraints.sites)
        };
        return Some((ReasonKind::NotAllowed, needed, name.to_string()));
    }
    if kind == ReasonKind::Jurisdiction {
        let found = site.site.jurisdiction.as_ref().map_or("none stated".to_owned(), ToString::to_string);
        return Some((kind, list(&constraints.jurisdictions), found));
    }
    let found = if site.labels().is_empty() { "none".to_owned() } else { list(site.labels()) };
    Some((kind, list(&constraints.labels), found))
}

pub(crate) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|i| i.to_string()).collect::<Vec<_>>().join(", ")
}

/// Why the site takes no work of anybody, in words.
pub(crate) fn away(site: &ViewSite) -> Option<Told> {
    match site.site.state {
        SiteState::Ready => None,
        SiteState::Draining => Some((ReasonKind::Draining, "a site that takes work".to_owned(), "draining".to_owned())),
        state => {
            let age = site.age.map_or(String::new(), |age| format!(", last heard of {age} ago"));
            Some((ReasonKind::Stale, "a site that reports".to_owned(), format!("{state}{age}")))
        }
    }
}

/// The site's hardware can never do it, or its free nodes cannot now.
pub(crate) fn misfit(view: &View, request: Request, component: &Component, site: &ViewSite) -> Option<Told> {
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
