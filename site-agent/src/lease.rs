//! Who has which device. Pure: the agent asks, and writes down what it was given.
//!
//! A claim is granted whole or refused. Within one replica's identity a higher generation fences every lower one for good, so
//! that an old copy is refused when it returns.

use rhumb_model::{
    Bytes, ComponentName, Cores, Node, NodeName, OrderId,
    fit::{self, NodeUse},
    order::{Accelerators, Need},
    site::Health,
};
use rhumb_wire::{NodeReport, report::AssignmentKey};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What one assignment takes of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub node: NodeName,
    /// Whole devices, by index.
    pub devices: BTreeSet<u32>,
    pub cpu: Cores,
    pub memory: Bytes,
}

/// Why a claim is not granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    #[error("there is no node {0} here")]
    UnknownNode(NodeName),
    #[error("node {node} has no device {device}")]
    UnknownDevice { node: NodeName, device: u32 },
    #[error("device {device} of node {node} is {health}")]
    Unhealthy { node: NodeName, device: u32, health: Health },
    #[error("device {device} of node {node} is leased to order {order}", order = by.order)]
    Taken { node: NodeName, device: u32, by: AssignmentKey },
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
    taken: BTreeMap<(NodeName, u32), AssignmentKey>,
    highest: BTreeMap<Identity, u64>,
}

impl Allocator {
    pub fn new(nodes: &[NodeReport]) -> Self {
        Self { nodes: stock(nodes), ..Self::default() }
    }

    /// Goes on with what the nodes have now. Claims stay; those that hold a device which is gone or not well any more are
    /// named, with the device.
    pub fn renew(&mut self, nodes: &[NodeReport]) -> Vec<(AssignmentKey, u32)> {
        self.nodes = stock(nodes);
        let well = |node: &NodeName, index: u32| {
            let of = self.nodes.get(node);
            of.is_some_and(|n| n.devices.iter().any(|d| d.index == index && d.health == Health::Ok))
        };
        let held = self.taken.iter().filter(|((node, device), _)| !well(node, *device));
        held.map(|((_, device), by)| (by.clone(), *device)).collect()
    }

    /// The devices that a claim for as many of the same model would get on its node now, by the rule that placement counts
    /// on: the best-connected free ones. `None`: there are none.
    pub fn choose(&self, claim: &Claim) -> Option<Vec<u32>> {
        let node = self.nodes.get(&claim.node)?;
        let first = claim.devices.first()?;
        let model = node.devices.iter().find(|d| d.index == *first).or(node.devices.first())?.model.clone();
        let accelerators = Accelerators::whole(u32::try_from(claim.devices.len()).ok()?);
        let need = Need { accelerators: Some(accelerators), cpu: claim.cpu, memory: claim.memory };
        let mut used = NodeUse::default();
        for held in self.claims.values().filter(|held| held.node == claim.node) {
            let devices: Vec<u32> = held.devices.iter().copied().collect();
            let whole = rhumb_model::Share::from_thousandths(1_000);
            used.add(held.cpu, held.memory, &devices, whole, Bytes::ZERO);
        }
        fit::allocate(&need, Some(&model), node, &used)
    }

    /// Grants `claim` to `key`, or says why not and changes no lease. The same again is granted again.
    pub fn lease(&mut self, key: &AssignmentKey, claim: Claim) -> Result<(), LeaseError> {
        if let Some(held) = self.claims.get(key) {
            return if *held == claim { Ok(()) } else { Err(LeaseError::Changed(claim.node)) };
        }
        // that a generation was asked for fences the ones before it, be it granted or not
        let seen = self.see(key);
        if key.generation < seen {
            return Err(LeaseError::Fenced { asked: key.generation, seen });
        }
        self.check(&claim)?;
        self.grant(key, claim);
        Ok(())
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

    fn check(&self, claim: &Claim) -> Result<(), LeaseError> {
        let node = &claim.node;
        let stock = self.nodes.get(node).ok_or_else(|| LeaseError::UnknownNode(node.clone()))?;
        for &device in &claim.devices {
            match stock.devices.iter().find(|d| d.index == device).map(|d| d.health) {
                None => return Err(LeaseError::UnknownDevice { node: node.clone(), device }),
                Some(Health::Ok) => {}
                Some(health) => return Err(LeaseError::Unhealthy { node: node.clone(), device, health }),
            }
            if let Some(by) = self.taken.get(&(node.clone(), device)) {
                return Err(LeaseError::Taken { node: node.clone(), device, by: by.clone() });
            }
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
        Ok(())
    }

    fn grant(&mut self, key: &AssignmentKey, claim: Claim) {
        for &device in &claim.devices {
            self.taken.entry((claim.node.clone(), device)).or_insert_with(|| key.clone());
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rhumb_model::{ModelName, site::Device};
    use uuid::Uuid;

    fn node(name: &str, devices: u32) -> NodeReport {
        let device = |index| Device {
            index,
            model: ModelName::new("H100").unwrap(),
            memory: Bytes::from_bytes(80 << 30),
            island: Some(0),
            numa: None,
            pcie: None,
            health: Health::Ok,
            mig: None,
        };
        NodeReport {
            name: NodeName::new(name).unwrap(),
            devices: (0..devices).map(device).collect(),
            cpu: Cores::from_milli(16_000),
            memory: Bytes::from_bytes(64 << 30),
            rack: None,
            nvl_domain: None,
            unknown: Vec::new(),
        }
    }

    fn key(order: u128, generation: u64, replica: u32) -> AssignmentKey {
        let component = ComponentName::new("trainer").unwrap();
        AssignmentKey { order: OrderId(Uuid::from_u128(order)), generation, component, replica }
    }

    fn claim(node: &str, devices: &[u32], milli: u64) -> Claim {
        Claim {
            node: NodeName::new(node).unwrap(),
            devices: devices.iter().copied().collect(),
            cpu: Cores::from_milli(milli),
            memory: Bytes::from_bytes(1 << 30),
        }
    }

    #[test]
    fn a_taken_device_is_refused_until_it_is_given_back() {
        let mut leases = Allocator::new(&[node("n1", 4)]);
        leases.lease(&key(1, 1, 0), claim("n1", &[0, 1], 0)).unwrap();
        let refused = leases.lease(&key(2, 1, 0), claim("n1", &[1, 2], 0));
        assert!(matches!(refused, Err(LeaseError::Taken { device: 1, .. })), "{refused:?}");
        leases.lease(&key(3, 1, 0), claim("n1", &[2], 0)).expect("a refusal holds nothing");
        leases.release(&key(1, 1, 0));
        leases.lease(&key(2, 1, 0), claim("n1", &[1], 0)).unwrap();
    }

    /// What the agent would give is what placement counts on: of two pairs the one that is whole.
    #[test]
    fn the_best_connected_free_devices_are_chosen() {
        let mut pairs = node("n1", 4);
        for device in &mut pairs.devices {
            device.island = Some(device.index as u16 / 2);
        }
        let mut leases = Allocator::new(&[pairs]);
        leases.lease(&key(1, 1, 0), claim("n1", &[0], 0)).unwrap();
        assert_eq!(leases.choose(&claim("n1", &[0, 1], 0)), Some(vec![2, 3]));
        assert_eq!(leases.choose(&claim("n1", &[2], 0)), Some(vec![1]));
        assert_eq!(leases.choose(&claim("n1", &[0, 1, 2, 3], 0)), None);
        assert_eq!(leases.choose(&claim("n2", &[0], 0)), None);
    }

    /// A card that is lost, or cut anew, under an order: the order keeps what it has, and nobody else gets it.
    #[test]
    fn a_device_that_is_lost_under_a_claim_is_named_and_not_given_again() {
        let mut leases = Allocator::new(&[node("n1", 2)]);
        leases.lease(&key(1, 1, 0), claim("n1", &[0], 0)).unwrap();
        let mut now = node("n1", 2);
        now.devices[0].health = Health::Failed;
        assert_eq!(leases.renew(&[now.clone()]), [(key(1, 1, 0), 0)]);
        assert!(leases.claims().contains_key(&key(1, 1, 0)));
        leases.release(&key(1, 1, 0));
        let refused = leases.lease(&key(2, 1, 0), claim("n1", &[0], 0));
        assert!(matches!(refused, Err(LeaseError::Unhealthy { .. })), "{refused:?}");
        now.devices[0].health = Health::Ok;
        assert!(leases.renew(&[now]).is_empty());
        leases.lease(&key(3, 1, 0), claim("n1", &[0], 0)).unwrap();
    }

    #[test]
    fn an_old_copy_is_refused_when_it_returns() {
        let mut leases = Allocator::new(&[node("n1", 4)]);
        leases.lease(&key(1, 2, 0), claim("n1", &[0], 0)).unwrap();
        leases.release(&key(1, 2, 0));
        let refused = leases.lease(&key(1, 1, 0), claim("n1", &[0], 0));
        assert_eq!(refused, Err(LeaseError::Fenced { asked: 1, seen: 2 }));
        leases.lease(&key(1, 1, 1), claim("n1", &[0], 0)).expect("another replica is not fenced");
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let mut leases = Allocator::new(&[node("n1", 1)]);
        assert!(matches!(leases.lease(&key(1, 1, 0), claim("n2", &[], 0)), Err(LeaseError::UnknownNode(_))));
        assert!(matches!(leases.lease(&key(1, 1, 0), claim("n1", &[7], 0)), Err(LeaseError::UnknownDevice { .. })));
        leases.lease(&key(1, 1, 0), claim("n1", &[], 10_000)).unwrap();
        let refused = leases.lease(&key(2, 1, 0), claim("n1", &[], 10_000));
        assert!(matches!(refused, Err(LeaseError::Cpu { .. })), "{refused:?}");
    }

    #[derive(Debug, Clone)]
    enum Act {
        Lease(u128, u64, u32, u32, u64),
        Release(u128, u64, u32),
    }

    fn act() -> impl Strategy<Value = Act> {
        let who = || (0..4u128, 0..4u64, 0..2u32);
        prop_oneof![
            3 => (who(), 0..64u32, 0..9_000u64).prop_map(|((o, g, r), bits, cpu)| Act::Lease(o, g, r, bits, cpu)),
            1 => who().prop_map(|(o, g, r)| Act::Release(o, g, r)),
        ]
    }

    proptest! {
        #[test]
        fn no_device_twice_no_core_too_many_no_old_generation(acts in proptest::collection::vec(act(), 1..60)) {
            let mut leases = Allocator::new(&[node("n1", 5)]);
            let mut highest: BTreeMap<(u128, u32), u64> = BTreeMap::new();
            for act in acts {
                match act {
                    Act::Lease(order, generation, replica, bits, cpu) => {
                        let devices: Vec<u32> = (0..6).filter(|i| bits >> i & 1 == 1).collect();
                        let before = leases.claims().clone();
                        let known = before.contains_key(&key(order, generation, replica));
                        let seen = highest.entry((order, replica)).or_default();
                        let granted = leases.lease(&key(order, generation, replica), claim("n1", &devices, cpu)).is_ok();
                        if granted {
                            prop_assert!(known || generation >= *seen);
                        } else {
                            prop_assert_eq!(&before, leases.claims());
                        }
                        *seen = generation.max(*seen);
                    }
                    Act::Release(order, generation, replica) => leases.release(&key(order, generation, replica)),
                }
                let mut devices = BTreeSet::new();
                let mut cpu = 0;
                for held in leases.claims().values() {
                    cpu += held.cpu.milli();
                    for &device in &held.devices {
                        prop_assert!(device < 5 && devices.insert(device));
                    }
                }
                prop_assert!(cpu <= 16_000);
            }
        }

        #[test]
        fn leases_restored_from_records_bind_as_before(acts in proptest::collection::vec(act(), 1..40)) {
            let mut leases = Allocator::new(&[node("n1", 5)]);
            for act in &acts {
                if let Act::Lease(order, generation, replica, bits, cpu) = act {
                    let devices: Vec<u32> = (0..5).filter(|i| bits >> i & 1 == 1).collect();
                    let _ = leases.lease(&key(*order, *generation, *replica), claim("n1", &devices, *cpu));
                }
            }
            let mut again = Allocator::new(&[node("n1", 5)]);
            for (key, claim) in leases.claims() {
                again.restore(key, claim);
            }
            prop_assert_eq!(leases.claims(), again.claims());
            for device in 0..5 {
                let wanted = claim("n1", &[device], 0);
                let fresh = key(99, 1, 0);
                prop_assert_eq!(leases.clone().lease(&fresh, wanted.clone()), again.clone().lease(&fresh, wanted));
            }
        }
    }
}
