//! Which nodes of a reservation's sites take its replicas: pure, on current rows.
//!
//! Best fit on the replicas from the largest down; where that fails, in the order they were asked for.

use crate::intent::{Conflict, ReplicaWant};
use rhumb_model::{
    ComponentName, Node, NodeName, Share, SiteName,
    fit::{self, NodeUse},
    name::Label,
    order::Interconnect,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// One node with what is held on it.
#[derive(Debug, Clone)]
pub struct NodeRoom {
    pub site: SiteName,
    pub node: Node,
    pub used: NodeUse,
}

/// A place for one replica: index of the want, index of the node, devices there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    pub want: usize,
    pub node: usize,
    pub devices: Vec<u32>,
}

/// Seats all wants on the nodes, or says which does not fit. Seats come in the order of the wants.
pub fn seat(wants: &[ReplicaWant], nodes: &[NodeRoom]) -> Result<Vec<Seat>, Conflict> {
    let mut by_size: Vec<usize> = (0..wants.len()).collect();
    by_size.sort_by_key(|&i| (Reverse(size(&wants[i])), &wants[i].component, wants[i].replica));
    let attempt = |order: &[usize]| Attempt::new(wants, nodes).run(order);
    let mut seats = attempt(&by_size).or_else(|conflict| {
        let as_asked: Vec<usize> = (0..wants.len()).collect();
        attempt(&as_asked).map_err(|_| conflict)
    })?;
    seats.sort_by_key(|s| s.want);
    Ok(seats)
}

/// Devices, share, own node, cores, memory: what is harder to seat is larger.
fn size(want: &ReplicaWant) -> (u32, u64, bool, u64, u64) {
    let accelerators = want.need.accelerators.as_ref();
    let devices = accelerators.and_then(|a| a.count).unwrap_or(0);
    let share = accelerators.and_then(|a| a.share).map_or(0, Share::thousandths);
    (devices, share, want.own_node, want.need.cpu.milli(), want.need.memory.bytes())
}

/// What all replicas of a component at a site must share, where the need asks for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Domain {
    Named(Label),
    /// A node that names no domain shares one with itself alone.
    Node(NodeName),
}

fn domain(want: &ReplicaWant, node: &Node) -> Option<Domain> {
    let named = |label: &Option<Label>| match label {
        Some(label) => Domain::Named(label.clone()),
        None => Domain::Node(node.name.clone()),
    };
    match want.need.accelerators.as_ref()?.interconnect {
        Interconnect::NvlDomain => Some(named(&node.nvl_domain)),
        Interconnect::Rack => Some(named(&node.rack)),
        _ => None,
    }
}

#[derive(Clone)]
struct Attempt<'a> {
    wants: &'a [ReplicaWant],
    nodes: Vec<NodeRoom>,
    /// What a replica of a component would be given on a node, until something is held there.
    offers: BTreeMap<(usize, &'a ComponentName), Option<Vec<u32>>>,
    /// Nodes that a component has a replica on.
    taken: BTreeSet<(&'a ComponentName, usize)>,
    seats: Vec<Seat>,
}

impl<'a> Attempt<'a> {
    fn new(wants: &'a [ReplicaWant], nodes: &[NodeRoom]) -> Self {
        Self {
            wants,
            nodes: nodes.to_vec(),
            offers: BTreeMap::new(),
            taken: BTreeSet::new(),
            seats: Vec::with_capacity(wants.len()),
        }
    }

    fn run(mut self, order: &[usize]) -> Result<Vec<Seat>, Conflict> {
        let mut done = BTreeSet::new();
        for &index in order {
            if !done.insert(index) {
                continue;
            }
            let want = &self.wants[index];
            let here = self.nodes.iter().filter(|n| n.site == want.site);
            let domains: BTreeSet<Domain> = here.filter_map(|n| domain(want, &n.node)).collect();
            if domains.is_empty() {
                self.one(index, None)?;
                continue;
            }
            let together = |i: &usize| self.wants[*i].component == want.component && self.wants[*i].site == want.site;
            let group: Vec<usize> = order.iter().copied().filter(together).collect();
            let seated = domains.iter().find_map(|within| {
                let mut trial = self.clone();
                group.iter().all(|&i| trial.one(i, Some(within)).is_ok()).then_some(trial)
            });
            self = seated.ok_or_else(|| no_room(want))?;
            done.extend(group);
        }
        Ok(self.seats)
    }

    fn one(&mut self, index: usize, within: Option<&Domain>) -> Result<(), Conflict> {
        let want = &self.wants[index];
        let mut best = None;
        for (at, room) in self.nodes.iter().enumerate() {
            let usable = room.site == want.site
                && !(want.own_node && self.taken.contains(&(&want.component, at)))
                && within.is_none_or(|d| domain(want, &room.node).as_ref() == Some(d));
            if !usable {
                continue;
            }
            // replicas of one component have one need and one model at a site
            let offer = self.offers.entry((at, &want.component));
            let offer = offer.or_insert_with(|| fit::allocate(&want.need, want.model.as_ref(), &room.node, &room.used));
            if offer.is_some() {
                let rank = (room.spare(), at);
                if best.as_ref().is_none_or(|b| rank < *b) {
                    best = Some(rank);
                }
            }
        }
        let (_, at) = best.ok_or_else(|| no_room(want))?;
        let devices = self.offers.get(&(at, &want.component)).cloned().flatten().unwrap_or_default();
        self.offers.retain(|(node, _), _| *node != at);
        let room = &mut self.nodes[at];
        room.used.add_replica(&want.need, &room.node, &devices);
        self.taken.insert((&want.component, at));
        self.seats.push(Seat { want: index, node: at, devices });
        Ok(())
    }
}

fn no_room(want: &ReplicaWant) -> Conflict {
    Conflict::Room { site: want.site.clone(), component: want.component.clone(), replica: want.replica }
}

impl NodeRoom {
    /// What best fit keeps small: thousandths of devices free, then cores, then memory.
    fn spare(&self) -> (u64, u64, u64) {
        let taken = |d: &rhumb_model::Device| self.used.devices.get(&d.index).map_or(0, |u| u.share.thousandths());
        (
            self.node.devices.iter().map(|d| 1_000_u64.saturating_sub(taken(d))).sum(),
            self.node.cpu.milli().saturating_sub(self.used.cpu.milli()),
            self.node.memory.bytes().saturating_sub(self.used.memory.bytes()),
        )
    }
}
