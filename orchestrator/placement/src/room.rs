//! Which replicas stand on which nodes of one site. Capacity is node shapes, never a sum.

mod mix;
mod pack;

pub(crate) use mix::{Mix, milli_devices};
pub(crate) use pack::{pack, pack_by};

use crate::problem::Problem;
use rhumb_federation::FreeNodes;
use rhumb_model::{
    ModelName,
    fit::{self, DeviceGroup, NodeShape},
    name::Label,
    order::{Component, Interconnect, Need, Spread},
};
use std::collections::{BTreeMap, BTreeSet};

/// Replicas of one component at one site, by device model.
#[derive(Debug, Clone)]
pub(crate) struct Want<'a> {
    pub component: &'a Component,
    pub replicas: Vec<(Option<&'a ModelName>, u32)>,
}

impl Want<'_> {
    fn total(&self) -> u32 {
        self.replicas.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }
}

/// What stands at one site, from (part, stand, replicas).
pub(crate) fn wants<'p>(problem: &'p Problem, here: &[(usize, usize, u32)]) -> Vec<Want<'p>> {
    let mut wants: BTreeMap<usize, Want<'p>> = BTreeMap::new();
    for (part, stand, n) in here {
        let part_of = &problem.parts[*part];
        wants
            .entry(*part)
            .or_insert_with(|| Want { component: part_of.component, replicas: Vec::new() })
            .replicas
            .push((part_of.stands[*stand].model, *n));
    }
    wants.into_values().collect()
}

/// The most replicas, up to `limit`, that fit the nodes when nothing else is placed. Counts by shape: equal nodes cost one
/// look, however many they are.
pub(crate) fn most(component: &Component, model: Option<&ModelName>, nodes: &[FreeNodes], limit: u32) -> u32 {
    let spread = component.place.spread;
    let limit = if spread == Some(Spread::Site) { limit.min(1) } else { limit };
    let each = if spread.is_some() { limit.min(1) } else { limit };
    let Some(domain) = domain(component) else {
        let mut count = Count::default();
        for free in nodes {
            count.add(spread, free, on_one(component, model, &free.shape, each), limit);
            if count.total(spread) >= limit {
                break;
            }
        }
        return count.total(spread).min(limit);
    };
    let mut named: BTreeMap<&Label, Count> = BTreeMap::new();
    let mut alone = 0;
    for free in nodes {
        let fit = on_one(component, model, &free.shape, each);
        match domain(&free.shape) {
            Some(label) => named.entry(label).or_default().add(spread, free, fit, limit),
            // a node whose domain is not known shares one with itself alone
            None => alone = alone.max(fit),
        }
    }
    named.values().map(|c| c.total(spread)).max().unwrap_or(0).max(alone).min(limit)
}

/// Whether every node of a site is used or not for itself: no two replicas must share something larger, or may not.
pub(crate) fn by_nodes(component: &Component) -> bool {
    domain(component).is_none() && !matches!(component.place.spread, Some(Spread::Rack | Spread::Site))
}

/// Whether no node has devices of two of the models, so that what one takes is not the other's.
pub(crate) fn apart(models: &[&ModelName], nodes: &[FreeNodes]) -> bool {
    let both = |n: &FreeNodes| {
        let mut here = n.shape.groups.iter().filter(|g| models.contains(&&g.model)).map(|g| &g.model);
        let first = here.next();
        here.any(|m| Some(m) != first)
    };
    !nodes.iter().any(both)
}

/// Whether the wants fit the nodes together, as `pack` would find, told from sums where these are enough.
pub(crate) fn fits(nodes: &[FreeNodes], wants: &[Want]) -> bool {
    let few = |want: &Want| want.replicas.iter().all(|(m, n)| most(want.component, *m, nodes, *n) >= *n);
    if !wants.iter().all(few) || !hosted(nodes, wants) {
        return false;
    }
    if let [want] = wants {
        let models: Vec<&ModelName> = want.replicas.iter().filter_map(|(m, _)| *m).collect();
        if want.replicas.len() == 1 {
            return true;
        }
        if apart(&models, nodes) && want.component.place.spread != Some(Spread::Site) {
            match domain(want.component) {
                None if by_nodes(want.component) => return true,
                Some(domain) if want.component.place.spread != Some(Spread::Rack) => {
                    return in_one(domain, nodes, want);
                }
                _ => {}
            }
        }
    }
    pack(nodes, wants).is_some()
}

/// Whether the cores, the memory and the devices of all nodes are as many as the wants ask for.
fn hosted(nodes: &[FreeNodes], wants: &[Want]) -> bool {
    let (mut cpu, mut memory) = (0_u128, 0_u128);
    let mut devices: BTreeMap<&ModelName, u128> = BTreeMap::new();
    for want in wants {
        let (need, n) = (&want.component.need, u128::from(want.total()));
        cpu += n * u128::from(need.cpu.milli());
        memory += n * u128::from(need.memory.bytes());
        let whole = need.accelerators.as_ref().filter(|a| a.share.is_none() && a.mig.is_none()).and_then(|a| a.count);
        for (model, n) in &want.replicas {
            if let (Some(model), Some(count)) = (*model, whole) {
                *devices.entry(model).or_default() += u128::from(*n) * u128::from(count);
            }
        }
    }
    let sum = |of: &dyn Fn(&NodeShape) -> u64| -> u128 {
        nodes.iter().map(|n| u128::from(of(&n.shape)) * u128::from(n.count)).sum()
    };
    let free =
        |model: &ModelName| sum(&|s| s.groups.iter().filter(|g| g.model == *model).map(|g| u64::from(g.free)).sum());
    cpu <= sum(&|s| s.cpu.milli())
        && memory <= sum(&|s| s.memory.bytes())
        && devices.iter().all(|(model, n)| *n <= free(model))
}

/// Whether one domain has room for the replicas of every model, where no node has devices of two.
fn in_one(domain: DomainOf, nodes: &[FreeNodes], want: &Want) -> bool {
    let labels: BTreeSet<&Label> = nodes.iter().filter_map(|n| domain(&n.shape)).collect();
    let each = if want.component.place.spread.is_some() { 1 } else { u32::MAX };
    let room = |model, limit: u32, label: &Label| -> u32 {
        let inside = nodes.iter().filter(|n| domain(&n.shape) == Some(label));
        let on = |n: &FreeNodes| on_one(want.component, model, &n.shape, limit.min(each)).saturating_mul(n.count);
        inside.map(on).fold(0, u32::saturating_add)
    };
    labels.iter().any(|label| want.replicas.iter().all(|(model, n)| room(*model, *n, label) >= *n))
}

/// Replicas counted so far.
#[derive(Debug, Default)]
struct Count<'a> {
    sum: u32,
    racks: BTreeSet<Option<&'a Label>>,
}

impl<'a> Count<'a> {
    fn add(&mut self, spread: Option<Spread>, free: &'a FreeNodes, fit: u32, limit: u32) {
        if spread == Some(Spread::Rack) {
            if fit > 0 {
                self.racks.insert(free.shape.rack.as_ref());
            }
        } else {
            self.sum = self.sum.saturating_add(fit.saturating_mul(free.count)).min(limit);
        }
    }

    fn total(&self, spread: Option<Spread>) -> u32 {
        if spread == Some(Spread::Rack) { self.racks.len() as u32 } else { self.sum }
    }
}

/// Whether the wants, in this order, fit the nodes wherever each goes: of every want there are nodes for all its replicas
/// beside those that the wants before it may spoil. `false`: it has to be tried.
pub(crate) fn surely_fit(nodes: &[FreeNodes], wants: &[Want]) -> bool {
    let mut needed = 0_u32;
    wants.iter().all(|want| {
        let component = want.component;
        matches!(component.place.spread, None | Some(Spread::Node))
            && domain(component).is_none()
            && want.replicas.iter().all(|(model, n)| {
                needed = needed.saturating_add(*n);
                let mut found = 0_u32;
                nodes.iter().any(|free| {
                    if free.count > 0 && on_one(component, *model, &free.shape, 1) > 0 {
                        found = found.saturating_add(free.count);
                    }
                    found >= needed
                })
            })
    })
}

/// Replicas on one node of this shape, up to `limit`.
fn on_one(component: &Component, model: Option<&ModelName>, shape: &NodeShape, limit: u32) -> u32 {
    let need = &component.need;
    let Some(most) = by_sums(need, model, shape, limit) else {
        let mut left = shape.clone();
        return (0..limit).take_while(|_| fit::take(need, model, &mut left).is_some()).count() as u32;
    };
    most
}

/// The answer where counting is enough: work without devices, and whole devices, however they are joined. `None`: the
/// devices have to be picked.
fn by_sums(need: &Need, model: Option<&ModelName>, shape: &NodeShape, limit: u32) -> Option<u32> {
    let times = |have: u64, each: u64| have.checked_div(each).map_or(limit, |n| u32::try_from(n).unwrap_or(u32::MAX));
    let hosts =
        times(shape.cpu.milli(), need.cpu.milli()).min(times(shape.memory.bytes(), need.memory.bytes())).min(limit);
    let (Some(asked), Some(model)) = (&need.accelerators, model) else {
        return (need.accelerators.is_none() && model.is_none()).then_some(hosts);
    };
    let (Some(count), None, None) = (asked.count, asked.share, asked.mig) else { return None };
    let level: fn(&DeviceGroup) -> Option<u16> = match asked.interconnect {
        Interconnect::Nvlink => |g| g.island,
        Interconnect::Pcie => |g| g.pcie,
        Interconnect::Numa => |g| g.numa,
        _ => |_| Some(0),
    };
    let memory = asked.memory.unwrap_or_default();
    let groups = || shape.groups.iter().filter(|g| g.model == *model && g.memory >= memory);
    // of each place the devices that share it; what is not known to share anything is of no use
    let mut replicas = 0_u32;
    for (index, group) in groups().enumerate() {
        let Some(at) = level(group) else { continue };
        if groups().take(index).any(|g| level(g) == Some(at)) {
            continue;
        }
        let free = groups().filter(|g| level(g) == Some(at)).fold(0_u32, |sum, g| sum.saturating_add(g.free));
        replicas = replicas.saturating_add(times(free.into(), count.into()));
    }
    Some(hosts.min(replicas))
}

type DomainOf = fn(&NodeShape) -> Option<&Label>;

/// What all replicas of the component must share, where it asks for that.
fn domain(component: &Component) -> Option<DomainOf> {
    match component.need.accelerators.as_ref()?.interconnect {
        Interconnect::NvlDomain => Some(|shape| shape.nvl_domain.as_ref()),
        Interconnect::Rack => Some(|shape| shape.rack.as_ref()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{self, Size};
    use rhumb_federation::View;
    use rhumb_model::{FederationFile, Order};

    fn components() -> Vec<Component> {
        let needs = [
            "{cpu: 3}",
            "{cpu: 0.5, memory: 40GiB}",
            "{accelerators: {count: 1}, cpu: 1}",
            "{accelerators: {count: 3, interconnect: nvlink}}",
            "{accelerators: {count: 8, memory: 60GiB}, cpu: 40}",
            "{accelerators: {share: 30%, memory: 20GiB}}",
            "{accelerators: {count: 2, interconnect: pcie}}",
            "{accelerators: {count: 2, interconnect: rack}}",
        ];
        let places = ["{}", "{spread: node}", "{spread: rack}", "{spread: site}"];
        let text = |n: &str, p: &str| {
            format!(
                "name: t\nclass: training\ncomponents: [{{name: c, need: {n}, work: {{duration: 1h}}, place: {p}}}]"
            )
        };
        let of = |n: &str, p: &str| Order::read(&text(n, p)).unwrap().components.remove(0);
        needs.iter().flat_map(|n| places.iter().map(|p| of(n, p))).collect()
    }

    fn views() -> [View; 2] {
        let mixed = "
currency: CNY
devices: {H100: {memory: 80GiB}, A100: {memory: 40GiB}}
sites:
  - name: a
    nodes:
      - {count: 2, accelerators: {model: H100, count: 8, islands: [4, 4], pcie: [2, 6]}, cpu: 20, memory: 100GiB, rack: r1}
      - {count: 1, accelerators: [{model: H100, count: 2}, {model: A100, count: 4, islands: [4]}], cpu: 9, memory: 1TiB, rack: r1}
      - {count: 3, accelerators: {model: A100, count: 5}, cpu: 64, memory: 64GiB}
";
        [generate::federation(Size::of(4), 1), FederationFile::read(mixed).unwrap()]
            .map(|f| View::from_file(&f).unwrap())
    }

    #[test]
    fn counting_agrees_with_taking_one_after_the_other_and_packing_takes_as_many() {
        for view in views() {
            for component in components() {
                let models: Vec<Option<&ModelName>> = match component.need.accelerators {
                    Some(_) => view.devices.keys().map(Some).collect(),
                    None => vec![None],
                };
                for (site, model) in view.sites.iter().flat_map(|s| models.iter().map(move |m| (s, *m))) {
                    let n = most(&component, model, &site.nodes, 1_000);
                    assert_eq!(n, fit::most_spread(&component.need, model, &site.nodes, component.place.spread));
                    let want = |n: u32| [Want { component: &component, replicas: vec![(model, n)] }];
                    assert!(pack(&site.nodes, &want(n)).is_some(), "{component:?} {n}");
                    assert!(pack(&site.nodes, &want(n + 1)).is_none(), "{component:?} {n}");
                }
            }
        }
    }

    #[test]
    fn ten_thousand_replicas_are_packed_without_going_deep() {
        let text = "name: t\nclass: processing\ncomponents: [{name: c, replicas: 10000, need: {cpu: 1}, work: {duration: 1h}}]";
        let order = Order::read(text).unwrap();
        let file = "{currency: CNY, sites: [{name: a, nodes: [{count: 500, cpu: 20}]}]}";
        let view = View::from_file(&FederationFile::read(file).unwrap()).unwrap();
        let want = [Want { component: &order.components[0], replicas: vec![(None, 10_000)] }];
        assert_eq!(pack(&view.sites[0].nodes, &want).unwrap()[0].shape.cpu.milli(), 0);
    }
}
