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

/// Replicas at one site up to which other ways are tried where tightest-first fails; each goes one call deeper.
const DEEP: u32 = 256;

/// Places every want, or says that it cannot be done; what is left free comes back in order of shape.
pub(crate) fn pack(nodes: &[FreeNodes], wants: &[Want]) -> Option<Vec<FreeNodes>> {
    let groups: Vec<Group> = nodes
        .iter()
        .enumerate()
        .map(|(origin, n)| Group { shape: n.shape.clone(), origin, used: 0, count: n.count })
        .collect();
    let replicas: u32 = wants.iter().flat_map(|w| &w.replicas).map(|(_, n)| n).sum();
    let left = match tightest_first(groups.clone(), wants) {
        Some(left) => left,
        None if replicas <= DEEP => place(groups, wants, 0, &mut 0)?,
        None => return None,
    };
    Some(fit::group_nodes(left.into_iter().map(|g| (g.shape, g.count))))
}

/// Each replica on the tightest node that takes it, without going back.
fn tightest_first(mut groups: Vec<Group>, wants: &[Want]) -> Option<Vec<Group>> {
    for (index, want) in wants.iter().enumerate() {
        if want.component.place.spread == Some(Spread::Site) && want.replicas.iter().map(|(_, n)| n).sum::<u32>() > 1 {
            return None;
        }
        let Some(domain) = domain(want.component) else {
            groups = Packing { wants, index, within: &|_| true }.all(groups)?;
            continue;
        };
        let nodes: Vec<FreeNodes> =
            groups.iter().map(|g| FreeNodes { shape: g.shape.clone(), count: g.count }).collect();
        groups = domains(domain, &nodes).iter().find_map(|d| match d {
            Domain::Named(label) => {
                let within = |g: &Group| domain(&g.shape) == Some(label);
                Packing { wants, index, within: &within }.all(groups.clone())
            }
            Domain::OneNode(shape) => {
                let mut left = (*shape).clone();
                let spread =
                    want.component.place.spread.is_some() && want.replicas.iter().map(|(_, n)| n).sum::<u32>() > 1;
                let mut queue = want.replicas.iter().flat_map(|(m, n)| std::iter::repeat_n(*m, *n as usize));
                let fit = !spread && queue.all(|m| fit::take(&want.component.need, m, &mut left).is_some());
                let at = groups.iter().position(|g| &&g.shape == shape).filter(|_| fit)?;
                let mut after = groups.clone();
                Packing { wants, index, within: &|_| true }.put(&mut after, at, left);
                Some(after)
            }
        })?;
    }
    Some(groups)
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
    /// Places all replicas of the want, each on the tightest node, without going back.
    fn all(&self, mut groups: Vec<Group>) -> Option<Vec<Group>> {
        for (model, n) in &self.wants[self.index].replicas {
            for _ in 0..*n {
                let (_, at, left) = self.choices(&groups, *model, &mut 0).into_iter().next()?;
                self.put(&mut groups, at, left);
            }
        }
        Some(groups)
    }

    /// Places the rest of the queue, tightest node first, and goes back where that leads nowhere.
    fn next(
        &self,
        groups: Vec<Group>,
        queue: &[Option<&ModelName>],
        done: usize,
        steps: &mut u32,
    ) -> Option<Vec<Group>> {
        let Some(model) = queue.get(done) else { return place(groups, self.wants, self.index + 1, steps) };
        for (_, at, left) in self.choices(&groups, *model, steps) {
            if *steps > STEPS {
                return None;
            }
            let mut after = groups.clone();
            self.put(&mut after, at, left);
            if let Some(found) = self.next(after, queue, done + 1, steps) {
                return Some(found);
            }
        }
        None
    }

    /// Nodes that take one replica: how much they have left then, their group, and the shape that is left; tightest first.
    fn choices(&self, groups: &[Group], model: Option<&ModelName>, steps: &mut u32) -> Vec<(u64, usize, NodeShape)> {
        let component = self.wants[self.index].component;
        let bit = self.bit();
        let mut choices = Vec::new();
        for (i, group) in groups.iter().enumerate().filter(|(_, g)| (self.within)(g)) {
            let taken = match component.place.spread {
                None | Some(Spread::Site) => false,
                Some(Spread::Node) => group.used & bit != 0,
                Some(Spread::Rack) => groups.iter().any(|g| g.used & bit != 0 && g.shape.rack == group.shape.rack),
            };
            let mut left = group.shape.clone();
            *steps += 1;
            if !taken && fit::take(&component.need, model, &mut left).is_some() {
                choices.push((size(&left), i, left));
            }
        }
        choices.sort();
        choices
    }

    fn bit(&self) -> u64 {
        1 << (self.index % 64)
    }

    /// Turns one node of a group into what is left of it.
    fn put(&self, groups: &mut Vec<Group>, at: usize, left: NodeShape) {
        let mut one = groups[at].clone();
        one.shape = left;
        one.count = 1;
        one.used |= self.bit();
        groups[at].count -= 1;
        let same = |g: &&mut Group| g.shape == one.shape && g.used == one.used && g.origin == one.origin && g.count > 0;
        match groups.iter_mut().find(same) {
            Some(same) => same.count += 1,
            None => groups.push(one),
        }
        groups.retain(|g| g.count > 0);
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
