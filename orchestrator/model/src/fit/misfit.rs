//! Why a need does not fit, in the terms of its refusal.

use super::{DeviceGroup, FreeNodes, NodeShape, most, pick, replicas_on, slice};
use crate::{
    name::ModelName,
    order::{Accelerators, Interconnect, Need},
    quantity::{Bytes, Cores},
    refusal::ReasonKind,
    slice::SliceProfile,
};
use std::collections::BTreeSet;

/// A reason of the kinds `model`, `memory`, `interconnect`, `shape` or `capacity`, with texts for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    pub reason: ReasonKind,
    pub needed: String,
    pub free: String,
}

/// Models on the nodes that the need names (or any, where it names none) and whose memory is enough.
pub fn candidate_models(need: &Need, nodes: &[FreeNodes]) -> BTreeSet<ModelName> {
    let Some(a) = &need.accelerators else { return BTreeSet::new() };
    let named = |g: &&DeviceGroup| a.models.is_empty() || a.models.contains(&g.model);
    let devices = groups(nodes).filter(named).filter(|g| g.memory >= a.memory.unwrap_or_default());
    devices.map(|g| g.model.clone()).collect()
}

/// The most devices of `model` that one replica could have on one of the nodes, by the need's interconnect.
pub fn largest(need: &Need, model: &ModelName, nodes: &[FreeNodes]) -> u32 {
    let Some(a) = &need.accelerators else { return 0 };
    nodes.iter().map(|n| pick::largest(a, model, &n.shape.groups)).max().unwrap_or(0)
}

/// Why `replicas` of a need that was found not to fit do not: `models` are those that it may use, `free` the nodes as they
/// are, `whole` the same nodes with nothing taken. The earliest kind in order of precedence that applies.
pub fn misfit(
    need: &Need,
    models: &BTreeSet<ModelName>,
    free: &[FreeNodes],
    whole: &[FreeNodes],
    replicas: u32,
) -> Misfit {
    let installed_memory = whole.iter().map(|n| n.shape.memory).max().unwrap_or_default();
    let node_memory = need.memory > installed_memory;
    if let Some(a) = &need.accelerators
        && let Some(found) = of_devices(need, a, models, whole, node_memory)
    {
        return found;
    }
    if node_memory {
        let needed = format!("{} on one node", need.memory);
        return Misfit { reason: ReasonKind::Memory, needed, free: format!("{installed_memory} on the largest node") };
    }
    let fits = fitting(need, models, free);
    let reason = if enough_in_sum(need, models, free, replicas) { ReasonKind::Shape } else { ReasonKind::Capacity };
    Misfit {
        reason,
        needed: wanted(need, models, replicas),
        free: format!("{}, room for {fits}", at_most(need, models, free)),
    }
}

/// What no amount of waiting changes: model, device memory, interconnect.
fn of_devices(
    need: &Need,
    a: &Accelerators,
    models: &BTreeSet<ModelName>,
    whole: &[FreeNodes],
    node_memory: bool,
) -> Option<Misfit> {
    let of_models: Vec<&DeviceGroup> = groups(whole).filter(|g| models.contains(&g.model)).collect();
    if of_models.is_empty() {
        let here: BTreeSet<&ModelName> = groups(whole).map(|g| &g.model).collect();
        let wanted = if models.is_empty() { &a.models } else { models };
        let needed = if wanted.is_empty() { "an accelerator".to_owned() } else { list(wanted) };
        let free = if here.is_empty() { "no accelerators".to_owned() } else { list(here) };
        return Some(Misfit { reason: ReasonKind::Model, needed, free });
    }
    let memory = a.memory.unwrap_or_default();
    let most_memory = of_models.iter().map(|g| g.memory).max().unwrap_or_default();
    if memory > most_memory {
        let needed = format!("{memory} on each device");
        return Some(Misfit { reason: ReasonKind::Memory, needed, free: format!("{most_memory} on the largest") });
    }
    if let Some(profile) = a.mig
        && most_slices(profile, models, whole) == 0
    {
        return Some(Misfit {
            reason: ReasonKind::Shape,
            needed: format!("slices {profile}"),
            free: "no such slices".to_owned(),
        });
    }
    let bound = matches!(a.interconnect, Interconnect::Nvlink | Interconnect::Pcie | Interconnect::Numa);
    if node_memory || !bound || one_fits(need, models, whole) {
        return None;
    }
    let mut loose = need.clone();
    if let Some(a) = &mut loose.accelerators {
        a.interconnect = Interconnect::Node;
    }
    if !one_fits(&loose, models, whole) {
        return None;
    }
    let best = models.iter().map(|m| largest(need, m, whole)).max().unwrap_or(0);
    let needed = format!("{} devices joined by {}", a.count.unwrap_or(1), a.interconnect);
    Some(Misfit { reason: ReasonKind::Interconnect, needed, free: format!("{best} on the best node") })
}

fn groups(nodes: &[FreeNodes]) -> impl Iterator<Item = &DeviceGroup> {
    nodes.iter().flat_map(|n| &n.shape.groups)
}

fn options<'a>(need: &Need, models: &'a BTreeSet<ModelName>) -> Vec<Option<&'a ModelName>> {
    if need.accelerators.is_some() { models.iter().map(Some).collect() } else { vec![None] }
}

fn one_fits(need: &Need, models: &BTreeSet<ModelName>, nodes: &[FreeNodes]) -> bool {
    options(need, models).iter().any(|m| nodes.iter().any(|n| replicas_on(need, *m, &n.shape) > 0))
}

fn fitting(need: &Need, models: &BTreeSet<ModelName>, nodes: &[FreeNodes]) -> u32 {
    options(need, models).iter().map(|m| most(need, *m, nodes)).max().unwrap_or(0)
}

/// Whether what is free, added up over nodes, would do: then it is only spread badly.
fn enough_in_sum(need: &Need, models: &BTreeSet<ModelName>, nodes: &[FreeNodes], replicas: u32) -> bool {
    let total = |each: &dyn Fn(&FreeNodes) -> u64| -> u128 {
        nodes.iter().map(|n| u128::from(each(n)) * u128::from(n.count)).sum()
    };
    let n = u128::from(replicas);
    if total(&|f| f.shape.cpu.milli()) < n * u128::from(need.cpu.milli())
        || total(&|f| f.shape.memory.bytes()) < n * u128::from(need.memory.bytes())
    {
        return false;
    }
    let Some(a) = &need.accelerators else { return true };
    let usable = |g: &&DeviceGroup| models.contains(&g.model) && g.memory >= a.memory.unwrap_or_default();
    if let Some(share) = a.share {
        let of = |g: &DeviceGroup| u64::from(g.free) * 1_000 + g.partial.iter().map(|p| u64::from(p.0)).sum::<u64>();
        let free = |f: &FreeNodes| f.shape.groups.iter().filter(usable).map(of).sum();
        return total(&free) >= n * u128::from(share.thousandths());
    }
    if let Some(profile) = a.mig {
        let eighths = |g: &DeviceGroup| {
            let whole = if g.cut { g.free * u32::from(slice::memory_slices(g.memory)) } else { 0 };
            let slices = g.slices.iter().map(|s| u32::from(s.free(g.memory))).sum::<u32>();
            let each = slice::size(profile, g.memory).map_or(0, u32::from);
            (whole + slices).checked_div(each).map_or(0, u64::from)
        };
        let free = |f: &FreeNodes| f.shape.groups.iter().filter(usable).map(eighths).sum();
        return total(&free) >= n * u128::from(a.count.unwrap_or(1));
    }
    let free = |f: &FreeNodes| f.shape.groups.iter().filter(usable).map(|g| u64::from(g.free)).sum();
    total(&free) >= n * u128::from(a.count.unwrap_or(1))
}

fn wanted(need: &Need, models: &BTreeSet<ModelName>, replicas: u32) -> String {
    let mut parts = Vec::new();
    if let Some(a) = &need.accelerators {
        let models = if models.is_empty() { &a.models } else { models };
        parts.push(match (a.share, a.count, a.mig) {
            (Some(share), ..) => format!("{share} of one {}", list(models)),
            (None, count, Some(profile)) => format!("{} x {profile} of {}", count.unwrap_or(1), list(models)),
            (None, count, None) => format!("{} x {}{}", count.unwrap_or(1), list(models), joined(a.interconnect)),
        });
    }
    if need.cpu > Cores::ZERO {
        parts.push(format!("{} cores", need.cpu));
    }
    if need.memory > Bytes::ZERO {
        parts.push(need.memory.to_string());
    }
    format!("{replicas} x ({})", parts.join(", "))
}

fn joined(interconnect: Interconnect) -> String {
    match interconnect {
        Interconnect::Node => " on one node".to_owned(),
        other => format!(" by {other}"),
    }
}

/// The largest that one replica could have now.
fn at_most(need: &Need, models: &BTreeSet<ModelName>, nodes: &[FreeNodes]) -> String {
    let cpu = nodes.iter().map(|n| n.shape.cpu).max().unwrap_or_default();
    let memory = nodes.iter().map(|n| n.shape.memory).max().unwrap_or_default();
    let node = format!("at most {cpu} cores and {memory} on a node");
    let Some(a) = &need.accelerators else { return node };
    let devices = if a.share.is_some() {
        let of = |g: &DeviceGroup| if g.free > 0 { 1_000 } else { g.partial.iter().map(|p| p.0).max().unwrap_or(0) };
        let best = groups(nodes).filter(|g| models.contains(&g.model)).map(of).max().unwrap_or(0);
        format!("at most {}.{}% of a device", best / 10, best % 10)
    } else if let Some(profile) = a.mig {
        format!("at most {} x {profile} on one node", most_slices(profile, models, nodes))
    } else {
        let best = models.iter().map(|m| (largest(need, m, nodes), m)).max_by_key(|(n, _)| *n);
        best.map_or("no devices".to_owned(), |(n, m)| format!("at most {n} x {m}{}", joined(a.interconnect)))
    };
    if need.cpu > Cores::ZERO || need.memory > Bytes::ZERO { format!("{devices}, {node}") } else { devices }
}

/// The most slices of a profile that one node has to give.
fn most_slices(profile: SliceProfile, models: &BTreeSet<ModelName>, nodes: &[FreeNodes]) -> u32 {
    let each = |model: &ModelName, shape: &NodeShape| {
        let mut groups = shape.groups.clone();
        let mut n = 0;
        while let Some(part) = pick::slice(model, profile, &groups) {
            groups[part.group].give_slice(part);
            n += 1;
        }
        n
    };
    models.iter().flat_map(|m| nodes.iter().map(move |n| each(m, &n.shape))).max().unwrap_or(0)
}

fn list<'a>(names: impl IntoIterator<Item = &'a ModelName>) -> String {
    names.into_iter().map(ModelName::as_str).collect::<Vec<_>>().join(" or ")
}
