//! Who has which device. Pure: the agent asks, and writes down what it was given.
//!
//! A claim is granted whole or refused. Within one replica's identity a higher generation fences every lower one for good, so
//! that an old copy is refused when it returns.

use rhumb_model::{
    Bytes, ComponentName, Cores, Node, NodeName, OrderId, Share, SliceProfile,
    fit::{self, NodeUse},
    order::{Accelerators, Need},
    site::{Device, DeviceSlice, Health, Piece},
};
use rhumb_wire::{DevicePart, NodeReport, UnknownValue, report::AssignmentKey};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What one assignment takes of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub node: NodeName,
    /// Whole devices or slices, by the number of the piece.
    pub devices: BTreeSet<u32>,
    /// `None`: all of each piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<DevicePart>,
    pub cpu: Cores,
    pub memory: Bytes,
    /// The slices among them as they were when they were leased.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slices: BTreeMap<u32, DeviceSlice>,
}

impl Claim {
    /// Whether both ask for the same.
    fn asks_as(&self, other: &Self) -> bool {
        let asked = |c: &Self| (c.node.clone(), c.devices.clone(), c.part, c.cpu, c.memory);
        asked(self) == asked(other)
    }

    fn share(&self) -> Option<(u64, Bytes)> {
        match self.part {
            Some(DevicePart::Share { thousandths, memory_bytes }) => {
                Some((u64::from(thousandths), Bytes::from_bytes(memory_bytes.unwrap_or(0))))
            }
            Some(DevicePart::Slice { .. }) | None => None,
        }
    }
}

/// Why a claim is not granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    #[error("there is no node {0} here")]
    UnknownNode(NodeName),
    #[error("node {node} has no device {device}")]
    UnknownDevice { node: NodeName, device: Piece },
    #[error("device {device} of node {node} is {health}")]
    Unhealthy { node: NodeName, device: u32, health: Health },
    #[error("device {device} of node {node} is leased to order {order}", order = by.order)]
    Taken { node: NodeName, device: Piece, by: AssignmentKey },
    #[error("device {device} of node {node} is cut into slices and not given away whole")]
    InSlices { node: NodeName, device: u32 },
    #[error("slice {piece} of node {node} is {found} now, {asked} was asked for")]
    Profile { node: NodeName, piece: Piece, found: SliceProfile, asked: SliceProfile },
    #[error("device {device} of node {node} was cut anew under order {order}, which must end first", order = by.order)]
    CutAnew { node: NodeName, device: u32, by: AssignmentKey },
    #[error(
        "device {device} of node {node} has {thousandths} thousandths and {memory} free, which is less than asked for"
    )]
    Share { node: NodeName, device: u32, thousandths: u64, memory: Bytes },
    #[error("node {node} has {free} cores free, {needed} are needed")]
    Cpu { node: NodeName, free: Cores, needed: Cores },
    #[error("node {node} has {free} of memory free, {needed} are needed")]
    Memory { node: NodeName, free: Bytes, needed: Bytes },
    #[error("generation {seen} of this replica is known here; generation {asked} is over")]
    Fenced { asked: u64, seen: u64 },
    #[error("this assignment holds something else on node {0}; a changed claim needs a new generation")]
    Changed(NodeName),
}

/// One replica over all its generations.
type Identity = (OrderId, ComponentName, u32);

fn identity(key: &AssignmentKey) -> Identity {
    (key.order, key.component.clone(), key.replica)
}

/// The leases of one point.
#[derive(Debug, Clone, Default)]
pub struct Allocator {
    nodes: BTreeMap<NodeName, Node>,
    claims: BTreeMap<AssignmentKey, Claim>,
    /// Pieces that are leased as a whole.
    taken: BTreeMap<(NodeName, u32), AssignmentKey>,
    highest: BTreeMap<Identity, u64>,
}

impl Allocator {
    pub fn new(nodes: &[NodeReport]) -> Self {
        Self { nodes: stock(nodes), ..Self::default() }
    }

    /// Goes on with what the nodes have now. Claims stay; those that hold a piece which is gone or not well any more are
    /// named, with the piece.
    pub fn renew(&mut self, nodes: &[NodeReport]) -> Vec<(AssignmentKey, Piece)> {
        self.nodes = stock(nodes);
        let held = self.claims.iter().flat_map(|(by, claim)| claim.devices.iter().map(move |n| (by, claim, *n)));
        let ill = held.filter(|(_, claim, number)| {
            let piece = Piece::of(*number);
            let device = self.device(&claim.node, piece.device());
            device.is_none_or(|d| d.health != Health::Ok) || self.is_cut_anew(claim, *number)
        });
        ill.map(|(by, _, number)| (by.clone(), Piece::of(number))).collect()
    }

    /// The nodes as they may be sold: a card that was cut anew under a claim gives nothing until that has ended, and says why.
    pub fn judge(&self, nodes: &[NodeReport]) -> Vec<NodeReport> {
        let mut nodes = nodes.to_vec();
        for (by, claim) in &self.claims {
            let Some(node) = nodes.iter_mut().find(|n| n.name == claim.node) else { continue };
            for number in claim.devices.iter().filter(|n| self.is_cut_anew(claim, **n)) {
                let index = Piece::of(*number).device();
                let Some(device) = node.devices.iter_mut().find(|d| d.index == index) else { continue };
                device.health = Health::Degraded;
                let why =
                    format!("cut anew under order {}: nothing of it is given away until that has ended", by.order);
                let unknown = UnknownValue { device: index, value: "slices".into(), why };
                if !node.unknown.iter().any(|u| u.device == index && u.value == unknown.value) {
                    node.unknown.push(unknown);
                }
            }
        }
        nodes
    }

    fn device(&self, node: &NodeName, index: u32) -> Option<&Device> {
        self.nodes.get(node)?.devices.iter().find(|d| d.index == index)
    }

    /// Whether the piece that a claim holds is cut otherwise than when it was leased. One that is gone is not.
    fn is_cut_anew(&self, claim: &Claim, number: u32) -> bool {
        let Some(device) = self.device(&claim.node, Piece::of(number).device()) else { return false };
        match Piece::of(number) {
            Piece::Device(_) => device.is_in_slices(),
            Piece::Slice { slice, .. } => {
                let now = device.slices().iter().find(|s| s.number == slice);
                claim.slices.get(&number) != now
            }
        }
    }

    /// The devices that a claim for as many of the same model would get on its node now, by the rule that placement counts
    /// on: the best-connected free ones. `None`: there are none.
    pub fn choose(&self, claim: &Claim) -> Option<Vec<u32>> {
        let node = self.nodes.get(&claim.node)?;
        let first = Piece::of(*claim.devices.first()?).device();
        let model = node.devices.iter().find(|d| d.index == first).or(node.devices.first())?.model.clone();
        let mut accelerators = Accelerators::whole(u32::try_from(claim.devices.len()).ok()?);
        match claim.part {
            Some(DevicePart::Slice { profile }) => accelerators.mig = Some(profile),
            Some(DevicePart::Share { thousandths, memory_bytes }) => {
                accelerators.count = None;
                accelerators.share = Some(Share::from_thousandths(u64::from(thousandths)));
                accelerators.memory = memory_bytes.map(Bytes::from_bytes);
            }
            None => {}
        }
        let need = Need { accelerators: Some(accelerators), cpu: claim.cpu, memory: claim.memory };
        let mut used = NodeUse::default();
        for held in self.claims.values().filter(|held| held.node == claim.node) {
            let devices: Vec<u32> = held.devices.iter().copied().collect();
            let (thousandths, memory) = held.share().unwrap_or((1_000, Bytes::ZERO));
            used.add(held.cpu, held.memory, &devices, Share::from_thousandths(thousandths), memory);
        }
        fit::allocate(&need, Some(&model), node, &used)
    }

    /// Grants `claim` to `key`, or says why not and changes no lease. The same again is granted again.
    pub fn lease(&mut self, key: &AssignmentKey, mut claim: Claim) -> Result<(), LeaseError> {
        self.size(&mut claim);
        if let Some(held) = self.claims.get(key) {
            return if held.asks_as(&claim) { Ok(()) } else { Err(LeaseError::Changed(claim.node)) };
        }
        // that a generation was asked for fences the ones before it, be it granted or not
        let seen = self.see(key);
        if key.generation < seen {
            return Err(LeaseError::Fenced { asked: key.generation, seen });
        }
        claim.slices = self.check(&claim)?;
        self.grant(key, claim);
        Ok(())
    }

    /// The claim of what runs already, with its share's size and its slices as the devices have them now.
    pub(crate) fn as_it_is(&self, mut claim: Claim) -> Claim {
        self.size(&mut claim);
        for &number in &claim.devices {
            let Piece::Slice { device, slice } = Piece::of(number) else { continue };
            let found = self.device(&claim.node, device).and_then(|d| d.slices().iter().find(|s| s.number == slice));
            claim.slices.extend(found.map(|s| (number, s.clone())));
        }
        claim
    }

    /// Takes over what the records of an earlier start say. Of two that claim one device the first keeps it.
    pub fn restore(&mut self, key: &AssignmentKey, claim: &Claim) {
        self.see(key);
        self.grant(key, claim.clone());
    }

    /// Notes that this generation exists; gives the highest one known.
    pub fn see(&mut self, key: &AssignmentKey) -> u64 {
        let seen = self.highest.entry(identity(key)).or_default();
        *seen = key.generation.max(*seen);
        *seen
    }

    /// Whether a higher generation of the same replica is known.
    pub fn superseded(&self, key: &AssignmentKey) -> bool {
        self.highest.get(&identity(key)).is_some_and(|&seen| key.generation < seen)
    }

    /// Gives back what `key` holds, if anything.
    pub fn release(&mut self, key: &AssignmentKey) {
        self.claims.remove(key);
        self.taken.retain(|_, by| by != key);
    }

    /// Forgets a replica's generations; only for one of which no record is left.
    pub fn forget(&mut self, key: &AssignmentKey) {
        let identity = identity(key);
        if self.highest.get(&identity) == Some(&key.generation) {
            self.highest.remove(&identity);
        }
    }

    pub fn claims(&self) -> &BTreeMap<AssignmentKey, Claim> {
        &self.claims
    }

    /// A share that names no memory has its part of the device's.
    fn size(&self, claim: &mut Claim) {
        let Some(DevicePart::Share { thousandths, memory_bytes: memory_bytes @ None }) = &mut claim.part else {
            return;
        };
        let device =
            claim.devices.first().and_then(|n| self.nodes.get(&claim.node)?.devices.iter().find(|d| d.index == *n));
        let share = Share::from_thousandths(u64::from(*thousandths));
        *memory_bytes = device.map(|d| fit::memory_of_share(None, share, d.memory).bytes());
    }

    /// The slices of the claim, as they are.
    fn check(&self, claim: &Claim) -> Result<BTreeMap<u32, DeviceSlice>, LeaseError> {
        let node = &claim.node;
        let stock = self.nodes.get(node).ok_or_else(|| LeaseError::UnknownNode(node.clone()))?;
        let mut slices = BTreeMap::new();
        for &number in &claim.devices {
            let slice = self.check_piece(claim, number)?;
            slices.extend(slice.map(|s| (number, s.clone())));
        }
        let here = || self.claims.values().filter(|held| held.node == *node);
        let free = here().fold(stock.cpu, |free, held| free.checked_sub(held.cpu).unwrap_or(Cores::ZERO));
        if claim.cpu > free {
            return Err(LeaseError::Cpu { node: node.clone(), free, needed: claim.cpu });
        }
        let free = here().fold(stock.memory, |free, held| free.saturating_sub(held.memory));
        if claim.memory > free {
            return Err(LeaseError::Memory { node: node.clone(), free, needed: claim.memory });
        }
        Ok(slices)
    }

    fn check_piece(&self, claim: &Claim, number: u32) -> Result<Option<&DeviceSlice>, LeaseError> {
        let (piece, node) = (Piece::of(number), claim.node.clone());
        let index = piece.device();
        let unknown = || LeaseError::UnknownDevice { node: claim.node.clone(), device: piece };
        let device = self.device(&node, index).ok_or_else(unknown)?;
        if device.health != Health::Ok {
            return Err(LeaseError::Unhealthy { node, device: index, health: device.health });
        }
        let here = || self.claims.iter().filter(|(_, held)| held.node == claim.node);
        let of_device = |held: &Claim| held.devices.iter().any(|n| Piece::of(*n).device() == index);
        let anew =
            |held: &Claim| held.devices.iter().any(|n| Piece::of(*n).device() == index && self.is_cut_anew(held, *n));
        if let Some((by, _)) = here().find(|(_, held)| anew(held)) {
            return Err(LeaseError::CutAnew { node, device: index, by: by.clone() });
        }
        if let Some(by) = self.taken.get(&(node.clone(), number)) {
            return Err(LeaseError::Taken { node, device: piece, by: by.clone() });
        }
        let Piece::Slice { slice, .. } = piece else {
            if device.is_in_slices() {
                return Err(LeaseError::InSlices { node, device: index });
            }
            let shares =
                || here().filter(|(_, held)| of_device(held)).filter_map(|(by, held)| Some((by, held.share()?)));
            let Some((thousandths, memory)) = claim.share() else {
                return match shares().next() {
                    Some((by, _)) => Err(LeaseError::Taken { node, device: piece, by: by.clone() }),
                    None => Ok(None),
                };
            };
            let free = shares().fold(1_000_u64, |free, (_, (taken, _))| free.saturating_sub(taken));
            let left = shares().fold(device.memory, |left, (_, (_, taken))| left.saturating_sub(taken));
            // of a device whose memory nobody knows, none can be promised
            if thousandths > free || memory > left {
                return Err(LeaseError::Share { node, device: index, thousandths: free, memory: left });
            }
            return Ok(None);
        };
        let found = device.slices().iter().find(|s| s.number == slice).ok_or_else(unknown)?;
        match claim.part {
            Some(DevicePart::Slice { profile }) if profile != found.profile => {
                Err(LeaseError::Profile { node, piece, found: found.profile, asked: profile })
            }
            _ => Ok(Some(found)),
        }
    }

    fn grant(&mut self, key: &AssignmentKey, claim: Claim) {
        if claim.share().is_none() {
            for &device in &claim.devices {
                self.taken.entry((claim.node.clone(), device)).or_insert_with(|| key.clone());
            }
        }
        self.claims.insert(key.clone(), claim);
    }
}

fn stock(nodes: &[NodeReport]) -> BTreeMap<NodeName, Node> {
    let node = |n: &NodeReport| Node {
        name: n.name.clone(),
        devices: n.devices.clone(),
        cpu: n.cpu,
        memory: n.memory,
        rack: None,
        nvl_domain: None,
    };
    nodes.iter().map(|n| (n.name.clone(), node(n))).collect()
}

#[cfg(test)]
mod tests;
