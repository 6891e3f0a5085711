//! Which replicas stand on which nodes of one site. Capacity is node shapes, never a sum.

use rhumb_federation::FreeNodes;
use rhumb_model::{
    ModelName,
    fit::{self, NodeShape},
    name::Label,
    order::{Component, Interconnect, Need, Spread},
};
use std::collections::BTreeSet;

/// Replicas of one component at one site, by device model.
#[derive(Debug, Clone)]
pub(crate) struct Want<'a> {
    pub component: &'a Component,
    pub replicas: Vec<(Option<&'a ModelName>, u32)>,
}

/// The most replicas, up to `limit`, that fit the nodes when nothing else is placed.
pub(crate) fn most(component: &Component, model: Option<&ModelName>, nodes: &[FreeNodes], limit: u32) -> u32 {
    let spread = component.place.spread;
    let limit = if spread == Some(Spread::Site) { limit.min(1) } else { limit };
    let on_nodes = |within: &dyn Fn(&NodeShape) -> bool| -> u32 {
        let mut sum = 0_u32;
        let mut racks = BTreeSet::new();
        for free in nodes.iter().filter(|n| within(&n.shape)) {
            let each = if spread.is_some() { 1 } else { limit };
            let fit = on_one(component, model, &free.shape, each);
            match spread {
                Some(Spread::Rack) if fit > 0 => {
                    racks.insert(free.shape.rack.as_ref());
                }
                Some(Spread::Rack) => {}
                _ => sum = sum.saturating_add(fit.saturating_mul(free.count)).min(limit),
            }
        }
        sum.max(racks.len() as u32).min(limit)
    };
    match domain(component) {
        None => on_nodes(&|_| true),
        Some(domain) => domains(domain, nodes)
            .iter()
            .map(|d| match d {
                Domain::Named(label) => on_nodes(&|shape| domain(shape) == Some(label)),
                Domain::OneNode(shape) => on_one(component, model, shape, if spread.is_some() { 1 } else { limit }),
            })
            .max()
            .unwrap_or(0),
    }
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

/// The answer where counting is enough: work without devices, and whole devices of a model that the node has in one group,
/// however they are joined. `None`: the devices have to be picked.
fn by_sums(need: &Need, model: Option<&ModelName>, shape: &NodeShape, limit: u32) -> Option<u32> {
    let times = |have: u64, each: u64| have.checked_div(each).map_or(limit, |n| u32::try_from(n).unwrap_or(u32::MAX));
    let hosts =
        times(shape.cpu.milli(), need.cpu.milli()).min(times(shape.memory.bytes(), need.memory.bytes())).min(limit);
    let (Some(asked), Some(model)) = (&need.accelerators, model) else {
        return (need.accelerators.is_none() && model.is_none()).then_some(hosts);
    };
    let (Some(count), None, None) = (asked.count, asked.share, &asked.mig) else { return None };
    let mut groups = shape.groups.iter().filter(|g| g.model == *model && g.memory >= asked.memory.unwrap_or_default());
    let Some(group) = groups.next() else { return Some(0) };
    let joined = match asked.interconnect {
        Interconnect::Nvlink => group.island.is_some(),
        Interconnect::Pcie => group.pcie.is_some(),
        Interconnect::Numa => group.numa.is_some(),
        _ => true,
    };
    if groups.next().is_some() || !joined {
        return None;
    }
    Some(hosts.min(times(group.free.into(), count.into())))
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Domain<'a> {
    Named(&'a Label),
    /// A node whose domain is not known shares one with itself alone.
    OneNode(&'a NodeShape),
}

fn domains(domain: DomainOf, nodes: &[FreeNodes]) -> BTreeSet<Domain<'_>> {
    nodes.iter().map(|n| domain(&n.shape).map_or(Domain::OneNode(&n.shape), Domain::Named)).collect()
}

/// Equal nodes in equal use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    shape: NodeShape,
    /// The shape before anything was taken, by its place in the input.
    origin: usize,
    /// Bit per want that already stands on the node.
    used: u64,
    count: u32,
}

/// Steps after which a packing counts as impossible: enough for every site of a size that a person would check by hand.
const STEPS: u32 = 20_000;

/// Places every want, or says that it cannot be done; what is left free comes back in order of shape.
pub(crate) fn pack(nodes: &[FreeNodes], wants: &[Want]) -> Option<Vec<FreeNodes>> {
    let groups: Vec<Group> = nodes
        .iter()
        .enumerate()
        .map(|(origin, n)| Group { shape: n.shape.clone(), origin, used: 0, count: n.count })
        .collect();
    let mut steps = 0;
    let left = place(groups, wants, 0, &mut steps)?;
    let mut shapes: Vec<FreeNodes> = Vec::new();
    let mut left: Vec<(NodeShape, u32)> = left.into_iter().map(|g| (g.shape, g.count)).collect();
    left.sort();
    for (shape, count) in left {
        match shapes.last_mut() {
            Some(last) if last.shape == shape => last.count += count,
            _ => shapes.push(FreeNodes { shape, count }),
        }
    }
    Some(shapes)
}

fn place(groups: Vec<Group>, wants: &[Want], index: usize, steps: &mut u32) -> Option<Vec<Group>> {
    let Some(want) = wants.get(index) else { return Some(groups) };
    let queue: Vec<Option<&ModelName>> =
        want.replicas.iter().flat_map(|(model, n)| std::iter::repeat_n(*model, *n as usize)).collect();
    if want.component.place.spread == Some(Spread::Site) && queue.len() > 1 {
        return None;
    }
    let Some(domain) = domain(want.component) else {
        return Packing { wants, index, within: &|_| true }.next(groups, &queue, 0, steps);
    };
    let nodes: Vec<FreeNodes> = groups.iter().map(|g| FreeNodes { shape: g.shape.clone(), count: g.count }).collect();
    domains(domain, &nodes).iter().find_map(|d| match d {
        Domain::Named(label) => {
            let within = |g: &Group| domain(&g.shape) == Some(label);
            Packing { wants, index, within: &within }.next(groups.clone(), &queue, 0, steps)
        }
        Domain::OneNode(shape) => {
            // one node of that shape, split off so that all replicas share it
            let mut alone = groups.clone();
            let at = alone.iter().position(|g| &&g.shape == shape)?;
            alone[at].count -= 1;
            let mut one = alone[at].clone();
            one.count = 1;
            one.origin = usize::MAX;
            alone.push(one);
            alone.retain(|g| g.count > 0);
            let within = |g: &Group| g.origin == usize::MAX;
            let mut left = Packing { wants, index, within: &within }.next(alone, &queue, 0, steps)?;
            left.iter_mut().filter(|g| g.origin == usize::MAX).for_each(|g| g.origin = 0);
            Some(left)
        }
    })
}

struct Packing<'a> {
    wants: &'a [Want<'a>],
    index: usize,
    within: &'a dyn Fn(&Group) -> bool,
}

impl Packing<'_> {
    /// Places the rest of the queue, tightest node first, and goes back where that leads nowhere.
    fn next(
        &self,
        groups: Vec<Group>,
        queue: &[Option<&ModelName>],
        done: usize,
        steps: &mut u32,
    ) -> Option<Vec<Group>> {
        let Some(model) = queue.get(done) else { return place(groups, self.wants, self.index + 1, steps) };
        let component = self.wants[self.index].component;
        let bit = 1_u64 << (self.index % 64);
        let mut choices: Vec<(u64, usize, NodeShape)> = Vec::new();
        for (i, group) in groups.iter().enumerate().filter(|(_, g)| (self.within)(g)) {
            let taken = match component.place.spread {
                None | Some(Spread::Site) => false,
                Some(Spread::Node) => group.used & bit != 0,
                Some(Spread::Rack) => groups.iter().any(|g| g.used & bit != 0 && g.shape.rack == group.shape.rack),
            };
            let mut left = group.shape.clone();
            *steps += 1;
            if !taken && fit::take(&component.need, *model, &mut left).is_some() {
                choices.push((size(&left), i, left));
            }
        }
        choices.sort();
        for (_, i, left) in choices {
            if *steps > STEPS {
                return None;
            }
            let mut after = groups.clone();
            let mut one = after[i].clone();
            one.shape = left;
            one.count = 1;
            one.used |= bit;
            after[i].count -= 1;
            match after
                .iter_mut()
                .find(|g| g.shape == one.shape && g.used == one.used && g.origin == one.origin && g.count > 0)
            {
                Some(same) => same.count += 1,
                None => after.push(one),
            }
            after.retain(|g| g.count > 0);
            if let Some(found) = self.next(after, queue, done + 1, steps) {
                return Some(found);
            }
        }
        None
    }
}

/// How much is left on a node: devices first, then cores.
fn size(shape: &NodeShape) -> u64 {
    let devices: u64 = shape
        .groups
        .iter()
        .map(|g| u64::from(g.free) * 1000 + g.partial.iter().map(|p| u64::from(p.0)).sum::<u64>())
        .sum();
    devices.saturating_mul(1 << 20).saturating_add(shape.cpu.milli() >> 10)
}
