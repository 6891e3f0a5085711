//! Against every set of devices, on the topologies that machines have.

use super::*;
use crate::{
    fit::{NodeShape, NodeUse, allocate, replicas_on, take},
    name::{ModelName, NodeName},
    order::Need,
    quantity::{Bytes, Cores},
    site::{Health, Node},
};
use proptest::prelude::*;

fn model() -> ModelName {
    ModelName::new("A100").unwrap()
}

/// (island, PCIe switch, NUMA node) of each device.
fn node(places: &[(Option<u16>, Option<u16>, Option<u16>)]) -> Node {
    let device = |(i, &(island, pcie, numa)): (usize, &_)| Device {
        index: i as u32,
        model: model(),
        memory: Bytes::from_bytes(80 << 30),
        island,
        numa,
        pcie,
        health: Health::Ok,
        mig: None,
    };
    Node {
        name: NodeName::new("n1").unwrap(),
        devices: places.iter().enumerate().map(device).collect(),
        cpu: Cores::from_milli(128_000),
        memory: Bytes::from_bytes(1 << 40),
        rack: None,
        nvl_domain: None,
    }
}

/// Four switches of two devices each, two to a socket, all joined by NVSwitch.
fn dgx_a100() -> Node {
    node(&(0..8).map(|i| (Some(0), Some(i / 2), Some(i / 4))).collect::<Vec<_>>())
}

/// A switch of its own for each device, four to a socket, all joined by NVSwitch.
fn hgx_h100() -> Node {
    node(&(0..8).map(|i| (Some(0), Some(i), Some(i / 4))).collect::<Vec<_>>())
}

/// No NVLink; switches of two, four to a socket.
fn two_socket_pcie() -> Node {
    node(&(0..8).map(|i| (None, Some(i / 2), Some(i / 4))).collect::<Vec<_>>())
}

/// Bridges between neighbours; every device at a root port of its own.
fn nvlink_pairs() -> Node {
    node(&(0..8).map(|i| (Some(i / 2), Some(i), Some(i / 4))).collect::<Vec<_>>())
}

fn topologies() -> [Node; 4] {
    [dgx_a100(), hgx_h100(), two_socket_pcie(), nvlink_pairs()]
}

fn need(count: u32, interconnect: &str) -> Need {
    let accelerators = format!("{{count: {count}, interconnect: {interconnect}}}");
    Need { accelerators: Some(serde_yaml_ng::from_str(&accelerators).unwrap()), cpu: Cores::ZERO, memory: Bytes::ZERO }
}

fn busy(node: &Node, free: u8) -> NodeUse {
    let mut used = NodeUse::default();
    for device in node.devices.iter().filter(|d| free >> d.index & 1 == 0) {
        used.add_replica(&need(1, "node"), node, &[device.index]);
    }
    used
}

/// Bandwidth between all pairs of the devices whose bits are set.
fn joined(node: &Node, set: u8) -> u64 {
    let of: Vec<&Device> = node.devices.iter().filter(|d| set >> d.index & 1 == 1).collect();
    let pairs = (0..of.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    pairs.map(|(a, b)| bandwidth(of[a], of[b]).kbps()).sum()
}

/// By looking at every set: the best that can be had, and then the best that can be left.
fn brute_force(node: &Node, free: u8, count: u32, interconnect: &str) -> Option<(u64, u64)> {
    let one_place = |set: u8| {
        let mut of = node.devices.iter().filter(|d| set >> d.index & 1 == 1);
        let place = |d: &Device| match interconnect {
            "nvlink" => d.island,
            "pcie" => d.pcie,
            "numa" => d.numa,
            _ => Some(0),
        };
        let first = of.next().and_then(place);
        first.is_some() && of.all(|d| place(d) == first)
    };
    let sets = (0..=u8::MAX).filter(|set| set & !free == 0 && set.count_ones() == count && one_place(*set));
    sets.map(|set| (joined(node, set), joined(node, free & !set))).max()
}

fn check(node: &Node, free: u8, count: u32, interconnect: &str) {
    let used = busy(node, free);
    let wanted = need(count, interconnect);
    let given = allocate(&wanted, Some(&model()), node, &used);
    let expected = brute_force(node, free, count, interconnect);
    let found = given.as_ref().map(|devices| {
        let set = devices.iter().fold(0, |set, i| set | 1 << i);
        assert_eq!(set & !free, 0, "{devices:?} are not all free in {free:08b}");
        (joined(node, set), joined(node, free & !set))
    });
    assert_eq!(found, expected, "{count} by {interconnect} of {free:08b}: {given:?}");
    // what placement counts on is what the agent and the transaction give
    let mut shape = NodeShape::of(node, &used);
    assert_eq!(take(&wanted, Some(&model()), &mut shape).is_some(), given.is_some());
}

#[test]
fn every_order_on_every_free_set_gets_the_best_connected_devices() {
    for node in topologies() {
        for free in 0..=u8::MAX {
            for count in [1, 2, 4, 8] {
                for interconnect in ["node", "nvlink", "numa", "pcie"] {
                    check(&node, free, count, interconnect);
                }
            }
        }
    }
}

#[test]
fn two_take_an_intact_pair_and_one_a_broken_one() {
    let node = nvlink_pairs();
    let give = |count, free| allocate(&need(count, "node"), Some(&model()), &node, &busy(&node, free)).unwrap();
    assert_eq!(give(2, 0b0000_1101), [2, 3]);
    assert_eq!(give(1, 0b0000_1101), [0]);
    assert_eq!(give(1, 0b0111_1111), [6]);
    // four are two pairs on one socket, even where another device is free beside one of them
    assert_eq!(give(4, 0b1111_0111), [4, 5, 6, 7]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any wiring, any order: the same as looking at every set.
    #[test]
    fn on_any_topology(places in prop::collection::vec((0..3_u16, 0..4_u16, 0..2_u16), 8), free: u8, count in 1..9_u32,
                       interconnect in prop::sample::select(vec!["node", "nvlink", "numa", "pcie"])) {
        let places: Vec<_> = places.into_iter().map(|(a, b, c)| (Some(a), Some(b), Some(c))).collect();
        check(&node(&places), free, count, interconnect);
    }

    /// Nodes too large for every set: what is given is of the right size, free, and never worse than taking it in order.
    #[test]
    fn large_nodes_are_filled_without_looking_at_every_set(islands in prop::collection::vec(0..6_u16, 32), count in 1..33_u32) {
        let places: Vec<_> = islands.iter().enumerate().map(|(i, n)| (Some(*n), Some(i as u16), Some(i as u16 / 8))).collect();
        let node = node(&places);
        let given = allocate(&need(count, "node"), Some(&model()), &node, &NodeUse::default()).unwrap();
        let sum = |of: &[u32]| -> u64 {
            let pairs = of.iter().flat_map(|a| of.iter().filter(move |b| *b < a).map(move |b| (*a, *b)));
            pairs.map(|(a, b)| bandwidth(&node.devices[a as usize], &node.devices[b as usize]).kbps()).sum()
        };
        prop_assert_eq!(given.len() as u32, count);
        prop_assert!(sum(&given) >= sum(&(0..count).collect::<Vec<_>>()));
        prop_assert_eq!(replicas_on(&need(count, "node"), Some(&model()), &NodeShape::whole(&node)), 32 / count);
    }
}
