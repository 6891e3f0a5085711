//! Replicas onto nodes: each on the node where it spoils least, whole runs of equal nodes at once.

use super::{DomainOf, Mix, Want, domain};
use rhumb_federation::FreeNodes;
use rhumb_model::{
    ModelName,
    fit::{self, NodeShape},
    name::Label,
    order::{Interconnect, Spread},
};
use std::collections::{BTreeMap, BTreeSet};

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

/// Replicas at one site up to which other ways are tried where the first fails; each goes one call deeper.
const DEEP: u32 = 256;

/// Places every want on the tightest nodes, or says that it cannot be done; what is left comes back in order of shape.
pub(crate) fn pack(nodes: &[FreeNodes], wants: &[Want]) -> Option<Vec<FreeNodes>> {
    pack_by(nodes, wants, &Mix::default())
}

/// The same, each replica on the node where the least is lost for `mix`, then on the tightest.
pub(crate) fn pack_by(nodes: &[FreeNodes], wants: &[Want], mix: &Mix) -> Option<Vec<FreeNodes>> {
    let groups: Vec<Group> = nodes
        .iter()
        .enumerate()
        .map(|(origin, n)| Group { shape: n.shape.clone(), origin, used: 0, count: n.count })
        .collect();
    let replicas: u32 = wants.iter().fold(0, |sum, w| sum.saturating_add(w.total()));
    let left = match straight(groups.clone(), wants, mix) {
        Some(left) => left,
        None if replicas <= DEEP => place(groups, wants, 0, mix, &mut 0)?,
        None => return None,
    };
    Some(fit::group_nodes(left.into_iter().map(|g| (g.shape.settled(), g.count))))
}

fn impossible(want: &Want) -> bool {
    want.component.place.spread == Some(Spread::Site) && want.total() > 1
}

/// Every want in turn, without going back.
fn straight(mut groups: Vec<Group>, wants: &[Want], mix: &Mix) -> Option<Vec<Group>> {
    for (index, want) in wants.iter().enumerate() {
        if impossible(want) {
            return None;
        }
        let packing = Packing { wants, index, mix };
        groups = match domain(want.component) {
            None => packing.all(groups)?,
            Some(domain) => {
                // of the domains that hold all replicas, the one that loses least and is left with the least
                let domains = Domains::new(groups, domain);
                let lost = |groups: &[Group]| -> i128 {
                    groups.iter().map(|g| mix.lost(&g.shape) * i128::from(g.count)).sum()
                };
                let filled = (0..domains.len()).filter_map(|at| {
                    let inside = domains.inside(at);
                    let before = lost(&inside);
                    let left = packing.all(inside)?;
                    let each = |g: &Group| size(&g.shape).saturating_mul(g.count.into());
                    Some((lost(&left) - before, left.iter().map(each).fold(0, u64::saturating_add), at, left))
                });
                let (.., at, mut left) = filled.min()?;
                left.extend(domains.outside(at));
                merge(left)
            }
        };
    }
    Some(groups)
}

/// Nodes by what all replicas of a component must share.
struct Domains {
    /// By label; at the end the groups of nodes whose domain is not known: each node shares one with itself alone.
    parts: Vec<Vec<Group>>,
    named: usize,
}

impl Domains {
    fn new(groups: Vec<Group>, domain: DomainOf) -> Self {
        let mut named: BTreeMap<Label, Vec<Group>> = BTreeMap::new();
        let mut alone = Vec::new();
        for group in groups {
            match domain(&group.shape).cloned() {
                Some(label) => named.entry(label).or_default().push(group),
                None => alone.push(vec![group]),
            }
        }
        let named: Vec<Vec<Group>> = named.into_values().collect();
        Self { named: named.len(), parts: named.into_iter().chain(alone).collect() }
    }

    fn len(&self) -> usize {
        self.parts.len()
    }

    fn inside(&self, at: usize) -> Vec<Group> {
        let mut inside = self.parts[at].clone();
        if at >= self.named {
            for group in &mut inside {
                group.count = 1;
            }
        }
        inside
    }

    fn outside(&self, at: usize) -> Vec<Group> {
        let others = self.parts.iter().enumerate().filter(|(i, _)| *i != at).flat_map(|(_, p)| p.iter().cloned());
        let rest = self.parts[at].iter().filter(|g| at >= self.named && g.count > 1);
        others.chain(rest.map(|g| Group { count: g.count - 1, ..g.clone() })).collect()
    }
}

/// Equal groups once.
fn merge(groups: Vec<Group>) -> Vec<Group> {
    let mut merged: BTreeMap<(NodeShape, usize, u64), u32> = BTreeMap::new();
    for g in groups {
        *merged.entry((g.shape, g.origin, g.used)).or_default() += g.count;
    }
    merged.into_iter().map(|((shape, origin, used), count)| Group { shape, origin, used, count }).collect()
}

/// Every want in turn, going back where that leads nowhere.
fn place(groups: Vec<Group>, wants: &[Want], index: usize, mix: &Mix, steps: &mut u32) -> Option<Vec<Group>> {
    let Some(want) = wants.get(index) else { return Some(groups) };
    if impossible(want) {
        return None;
    }
    let queue: Vec<Option<&ModelName>> =
        want.replicas.iter().flat_map(|(model, n)| std::iter::repeat_n(*model, *n as usize)).collect();
    let packing = Packing { wants, index, mix };
    let Some(domain) = domain(want.component) else { return packing.next(groups, &[], &queue, steps) };
    let domains = Domains::new(groups, domain);
    (0..domains.len()).find_map(|at| packing.next(domains.inside(at), &domains.outside(at), &queue, steps))
}

struct Packing<'a> {
    wants: &'a [Want<'a>],
    index: usize,
    mix: &'a Mix<'a>,
}

/// How little one replica spoils on a node: what is lost for the demand mix, whether an NVLink island is broken that the
/// replica does not fill, and what is left at all (devices first, then cores).
type Key = (i128, bool, u64);

/// One replica on one node.
#[derive(Debug, Clone)]
struct Step {
    key: Key,
    left: NodeShape,
}

/// What is known of one replica on a node of a group.
#[derive(Debug, Clone)]
enum Looked {
    /// It spoils at least so much, if it fits at all.
    At(Key),
    /// `None`: it does not fit.
    Step(Option<Step>),
}

impl Looked {
    fn key(&self) -> Option<Key> {
        match self {
            Self::At(key) => Some(*key),
            Self::Step(step) => step.as_ref().map(|step| step.key),
        }
    }
}

impl Packing<'_> {
    /// Places all replicas of the want, each where it spoils least, without going back. Nodes that are equal go the same
    /// way, so that a run of them is filled at once.
    fn all(&self, groups: Vec<Group>) -> Option<Vec<Group>> {
        let want = &self.wants[self.index];
        let spread = want.component.place.spread;
        let mut racks: BTreeSet<Option<Label>> = BTreeSet::new();
        let mut groups = groups;
        for (model, n) in &want.replicas {
            let mut left = *n;
            let mut steps: Vec<Looked> = groups.iter().map(|g| Looked::At(self.least(g))).collect();
            while left > 0 {
                let open = |i: &usize| spread != Some(Spread::Rack) || !racks.contains(&groups[*i].shape.rack);
                let all: Vec<usize> = (0..groups.len()).filter(open).collect();
                let (_, at) = self.first(&all, &mut steps, &groups, *model)?;
                let count = groups[at].count;
                // what else there is to go to while one node is filled
                let siblings = count > 1;
                let others = if left > 1 && spread.is_none() {
                    let all: Vec<usize> = (0..groups.len()).filter(|i| siblings || *i != at).collect();
                    self.first(&all, &mut steps, &groups, *model).map(|(key, _)| key)
                } else {
                    None
                };
                let Looked::Step(Some(first)) = steps[at].clone() else { return None };
                let (shape, on_node) =
                    if spread.is_some() { (first.left, 1) } else { self.run(first.left, *model, left, others) };
                let nodes = match spread {
                    Some(Spread::Node) => count.min(left),
                    None if siblings => (count - 1).min(left / on_node),
                    _ => 1,
                };
                left -= nodes * on_node;
                racks.insert(shape.rack.clone());
                let to = self.put(&mut groups, at, shape, nodes);
                if to == steps.len() {
                    steps.push(Looked::Step(self.step(&groups[to], *model)));
                }
                if groups[at].count == 0 {
                    steps[at] = Looked::Step(None);
                }
            }
            groups.retain(|g| g.count > 0);
        }
        Some(groups)
    }

    /// The least key of these groups, of equals the first; no more of them are tried than that takes.
    fn first(
        &self,
        of: &[usize],
        steps: &mut [Looked],
        groups: &[Group],
        model: Option<&ModelName>,
    ) -> Option<(Key, usize)> {
        loop {
            let (_, at) = of.iter().filter_map(|i| Some((steps[*i].key()?, *i))).min()?;
            match &steps[at] {
                Looked::Step(step) => return step.as_ref().map(|step| (step.key, at)),
                Looked::At(_) => steps[at] = Looked::Step(self.step(&groups[at], model)),
            }
        }
    }

    /// No replica on a node of the group has a lower key.
    fn least(&self, group: &Group) -> Key {
        let need = &self.wants[self.index].component.need;
        // a share or a slice takes less than a device
        let devices = need.accelerators.as_ref().map_or(0, |a| a.count.unwrap_or(1).max(1));
        // of cores each end of a difference is rounded down
        let cores = if need.cpu.milli() > 0 { (need.cpu.milli() >> 10) + 1 } else { 0 };
        let taken = (u64::from(devices) * 1_000).saturating_mul(1 << 20).saturating_add(cores);
        let left = size(&group.shape).saturating_sub(taken);
        (if self.mix.is_empty() { 0 } else { i128::MIN }, false, left)
    }

    /// Fills one node with up to `most` replicas, of which it has one already, as long as no other node would be better.
    fn run(&self, shape: NodeShape, model: Option<&ModelName>, most: u32, others: Option<Key>) -> (NodeShape, u32) {
        let (mut shape, mut n) = (shape, 1);
        while n < most {
            match self.take(&shape, model) {
                Some(next) if others.is_none_or(|o| next.key <= o) => (shape, n) = (next.left, n + 1),
                _ => break,
            }
        }
        (shape, n)
    }

    /// One replica on a node of the group; `None`: not here.
    fn step(&self, group: &Group, model: Option<&ModelName>) -> Option<Step> {
        let once = self.wants[self.index].component.place.spread == Some(Spread::Node);
        if once && group.used & self.bit() != 0 { None } else { self.take(&group.shape, model) }
    }

    fn take(&self, shape: &NodeShape, model: Option<&ModelName>) -> Option<Step> {
        let need = &self.wants[self.index].component.need;
        let mut left = shape.clone();
        fit::take(need, model, &mut left)?;
        let lost = self.mix.lost(&left) - self.mix.lost(shape);
        let linked = need.accelerators.as_ref().is_some_and(|a| a.interconnect == Interconnect::Nvlink);
        let breaks = linked && islands(&left) == islands(shape);
        Some(Step { key: (lost, breaks, size(&left)), left })
    }

    /// Places the rest of the queue, the best node first, and goes back where that leads nowhere; `outside` stays.
    fn next(
        &self,
        groups: Vec<Group>,
        outside: &[Group],
        queue: &[Option<&ModelName>],
        steps: &mut u32,
    ) -> Option<Vec<Group>> {
        let Some((model, rest)) = queue.split_first() else {
            let all = groups.into_iter().chain(outside.iter().cloned()).collect();
            return place(merge(all), self.wants, self.index + 1, self.mix, steps);
        };
        let spread = self.wants[self.index].component.place.spread;
        let mut choices: Vec<(Key, usize, NodeShape)> = Vec::new();
        for (i, group) in groups.iter().enumerate() {
            let rack = |g: &Group| g.used & self.bit() != 0 && g.shape.rack == group.shape.rack;
            *steps += 1;
            if (spread != Some(Spread::Rack) || !groups.iter().any(rack))
                && let Some(step) = self.step(group, *model)
            {
                choices.push((step.key, i, step.left));
            }
        }
        choices.sort();
        for (_, at, left) in choices {
            if *steps > STEPS {
                return None;
            }
            let mut after = groups.clone();
            self.put(&mut after, at, left, 1);
            after.retain(|g| g.count > 0);
            if let Some(found) = self.next(after, outside, rest, steps) {
                return Some(found);
            }
        }
        None
    }

    fn bit(&self) -> u64 {
        1 << (self.index % 64)
    }

    /// Turns nodes of a group into what is left of them, and says which group they are in then.
    fn put(&self, groups: &mut Vec<Group>, at: usize, left: NodeShape, nodes: u32) -> usize {
        let (used, origin) = (groups[at].used | self.bit(), groups[at].origin);
        groups[at].count -= nodes;
        let same = |g: &Group| g.used == used && g.origin == origin && g.count > 0 && g.shape == left;
        if let Some(same) = groups.iter().position(same) {
            groups[same].count += nodes;
            return same;
        }
        groups.push(Group { shape: left, origin, used, count: nodes });
        groups.len() - 1
    }
}

/// NVLink islands that have a free device.
fn islands(shape: &NodeShape) -> usize {
    shape.groups.iter().filter(|g| g.free > 0).filter_map(|g| g.island).collect::<BTreeSet<_>>().len()
}

/// How much is left on a node: devices first, then cores.
fn size(shape: &NodeShape) -> u64 {
    super::milli_devices(shape).saturating_mul(1 << 20).saturating_add(shape.cpu.milli() >> 10)
}
