use super::*;
use crate::{
    order::Accelerators,
    refusal::ReasonKind,
    site::{Device, Health, Node},
};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn gib(n: u64) -> Bytes {
    Bytes::from_bytes(n << 30)
}

fn h100() -> ModelName {
    ModelName::new("H100").unwrap()
}

fn need(accelerators: &str) -> Need {
    let accelerators: Option<Accelerators> = match accelerators {
        "" => None,
        text => Some(serde_yaml_ng::from_str(text).unwrap()),
    };
    Need { accelerators, cpu: Cores::from_milli(1_000), memory: gib(1) }
}

/// Devices by island (`None`: no NVLink), two to a PCIe switch and four to a NUMA node by index.
fn node(islands: &[Option<u16>]) -> Node {
    let devices = islands.iter().enumerate().map(|(i, island)| Device {
        index: i as u32,
        model: h100(),
        memory: gib(80),
        island: *island,
        numa: Some(i as u16 / 4),
        pcie: Some(i as u16 / 2),
        health: Health::Ok,
        mig: None,
    });
    Node {
        name: crate::name::NodeName::new("n000").unwrap(),
        devices: devices.collect(),
        cpu: Cores::from_milli(96_000),
        memory: gib(1_024),
        rack: None,
        nvl_domain: None,
    }
}

fn used(node: &Node, whole: &[u32]) -> NodeUse {
    let mut used = NodeUse::default();
    for index in whole {
        used.add_replica(&need("{count: 1}"), node, &[*index]);
    }
    used
}

fn nodes(shapes: &[&NodeShape]) -> Vec<FreeNodes> {
    group_nodes(shapes.iter().map(|s| ((*s).clone(), 1)))
}

#[test]
fn nvlink_takes_one_island_the_tightest_that_fits() {
    let a = Some(0);
    let b = Some(1);
    let n = node(&[a, a, a, a, b, b, None, None]);
    let two = need("{count: 2, interconnect: nvlink}");
    assert_eq!(allocate(&two, Some(&h100()), &n, &NodeUse::default()), Some(vec![4, 5]));
    assert_eq!(allocate(&two, Some(&h100()), &n, &used(&n, &[4])), Some(vec![0, 1]));
    assert_eq!(allocate(&need("{count: 5, interconnect: nvlink}"), Some(&h100()), &n, &NodeUse::default()), None);
    assert_eq!(replicas_on(&two, Some(&h100()), &NodeShape::whole(&n)), 3);
    // one device without NVLink is no island
    assert_eq!(replicas_on(&need("{count: 1, interconnect: nvlink}"), Some(&h100()), &NodeShape::whole(&n)), 6);
}

#[test]
fn a_loose_need_leaves_large_islands_whole() {
    let (a, b) = (Some(0), Some(1));
    let n = node(&[a, a, a, a, b, b, None, None]);
    let take_of = |count: u32| allocate(&need(&format!("{{count: {count}}}")), Some(&h100()), &n, &NodeUse::default());
    assert_eq!(take_of(1), Some(vec![6]));
    assert_eq!(take_of(2), Some(vec![6, 7]));
    // one island that holds all is better than a mixture
    assert_eq!(take_of(3), Some(vec![0, 1, 2]));
    // a mixture is the best-connected one, and takes from no island what it can have elsewhere
    assert_eq!(take_of(5), Some(vec![0, 1, 2, 3, 6]));
    assert_eq!(take_of(8).unwrap().len(), 8);
    assert_eq!(take_of(9), None);
}

#[test]
fn numa_and_pcie_bind_like_islands_and_unknown_places_do_not_count() {
    let mut n = node(&[Some(0); 8]);
    let pcie = need("{count: 2, interconnect: pcie}");
    let numa = need("{count: 4, interconnect: numa}");
    assert_eq!(allocate(&pcie, Some(&h100()), &n, &used(&n, &[0, 3])), Some(vec![4, 5]));
    assert_eq!(allocate(&numa, Some(&h100()), &n, &used(&n, &[0])), Some(vec![4, 5, 6, 7]));
    assert_eq!(allocate(&numa, Some(&h100()), &n, &used(&n, &[0, 4])), None);
    n.devices.iter_mut().for_each(|d| (d.numa, d.pcie) = (None, None));
    assert_eq!(allocate(&pcie, Some(&h100()), &n, &NodeUse::default()), None);
    assert_eq!(allocate(&numa, Some(&h100()), &n, &NodeUse::default()), None);
}

#[test]
fn devices_that_are_not_healthy_are_given_to_nobody() {
    let mut n = node(&[Some(0); 2]);
    n.devices[0].health = Health::Unknown;
    assert_eq!(allocate(&need("{count: 1}"), Some(&h100()), &n, &NodeUse::default()), Some(vec![1]));
    assert_eq!(replicas_on(&need("{count: 2}"), Some(&h100()), &NodeShape::whole(&n)), 0);
    assert_eq!(replicas_on(&need("{share: 50%}"), Some(&h100()), &NodeShape::whole(&n)), 2);
}

/// A card given away whole takes no second tenant, in either order of arrival.
#[test]
fn a_share_never_lands_on_a_wholly_taken_card() {
    let n = node(&[None]);
    let all = need("{share: 100%, memory: 1GiB}");
    let some = need("{share: 1%, memory: 1GiB}");
    let mut first = NodeUse::default();
    first.add_replica(&all, &n, &allocate(&all, Some(&h100()), &n, &first).unwrap());
    assert_eq!(allocate(&some, Some(&h100()), &n, &first), None);
    assert_eq!(allocate(&some, Some(&h100()), &n, &used(&n, &[0])), None);
    let mut second = NodeUse::default();
    second.add_replica(&some, &n, &allocate(&some, Some(&h100()), &n, &second).unwrap());
    assert_eq!(allocate(&all, Some(&h100()), &n, &second), None);
    assert_eq!(allocate(&need("{count: 1}"), Some(&h100()), &n, &second), None);
}

#[test]
fn shares_never_add_up_to_more_memory_than_the_card_has() {
    let mut n = node(&[None]);
    n.devices[0].memory = Bytes::from_bytes(30_500 << 20);
    let share = need("{share: 5%, memory: 2000MiB}");
    let mut taken = NodeUse::default();
    let placed = (0..16).take_while(|_| match allocate(&share, Some(&h100()), &n, &taken) {
        Some(devices) => {
            taken.add_replica(&share, &n, &devices);
            true
        }
        None => false,
    });
    assert_eq!(placed.count(), 15);
    assert_eq!(replicas_on(&share, Some(&h100()), &NodeShape::whole(&n)), 15);
}

#[test]
fn a_share_without_memory_takes_that_share_of_it_and_fills_the_fullest_card() {
    let n = node(&[Some(0), Some(0), None]);
    let third = need("{share: 33.3%}");
    let mut taken = NodeUse::default();
    for expected in [2, 2, 2, 0] {
        let devices = allocate(&third, Some(&h100()), &n, &taken).unwrap();
        assert_eq!(devices, [expected]);
        taken.add_replica(&third, &n, &devices);
    }
    assert_eq!(use_of(&need("{share: 50%}"), &n, &[0]).1, gib(40));
    assert_eq!(replicas_on(&need("{share: 50%}"), Some(&h100()), &NodeShape::whole(&n)), 6);
}

#[test]
fn slices_and_needs_without_their_model_do_not_fit() {
    let mut shape = NodeShape::whole(&node(&[Some(0)]));
    let before = shape.clone();
    assert_eq!(take(&need("{mig: 3g.40gb, count: 1}"), Some(&h100()), &mut shape), None);
    assert_eq!(take(&need("{count: 1}"), None, &mut shape), None);
    assert_eq!(take(&need(""), Some(&h100()), &mut shape), None);
    assert_eq!(take(&need("{count: 1, memory: 81GiB}"), Some(&h100()), &mut shape), None);
    assert_eq!(shape, before);
}

#[test]
fn nodes_that_differ_in_numbering_alone_are_one_shape() {
    let a = NodeShape::whole(&node(&[Some(3), Some(3), Some(3), Some(1), None, None]));
    let mut mirrored = node(&[None, None, Some(0), Some(9), Some(9), Some(9)]);
    for d in &mut mirrored.devices {
        (d.numa, d.pcie) = (Some((5 - d.index as u16) / 4 + 7), Some((5 - d.index as u16) / 2 + 3));
    }
    assert_eq!(a, NodeShape::whole(&mirrored));
    assert_eq!(nodes(&[&a, &a])[0].count, 2);
}

#[test]
fn most_counts_replicas_by_node_rack_and_spread() {
    let mut shapes = vec![NodeShape::whole(&node(&[Some(0); 8])); 3];
    for (shape, rack) in shapes.iter_mut().zip(["r1", "r1", "r2"]) {
        shape.rack = Some(Label::new(rack).unwrap());
    }
    let free = group_nodes(shapes.into_iter().map(|s| (s, 1)));
    let four = need("{count: 4}");
    assert_eq!(most(&four, Some(&h100()), &free), 6);
    assert_eq!(most(&need("{count: 4, interconnect: rack}"), Some(&h100()), &free), 4);
    assert_eq!(most(&need("{count: 4, interconnect: nvl_domain}"), Some(&h100()), &free), 2);
    assert_eq!(most_spread(&four, Some(&h100()), &free, Some(Spread::Node)), 3);
    assert_eq!(most_spread(&four, Some(&h100()), &free, Some(Spread::Rack)), 2);
    assert_eq!(most_spread(&four, Some(&h100()), &free, Some(Spread::Site)), 1);
    assert_eq!(most(&need("{count: 9}"), Some(&h100()), &free), 0);
}

#[test]
fn a_misfit_says_what_is_in_the_way() {
    let models = BTreeSet::from([h100()]);
    let whole = NodeShape::whole(&node(&[Some(0), Some(0), Some(0), Some(0), Some(1), Some(1), Some(1), Some(1)]));
    let three = NodeShape::of(&node(&[Some(0); 8]), &used(&node(&[Some(0); 8]), &[0, 1, 2, 3, 4]));
    let why = |text: &str, free: &[&NodeShape]| {
        let n = need(text);
        let whole = nodes(&vec![&whole; free.len()]);
        misfit(&n, &models, &nodes(free), &whole, 1)
    };
    let other = BTreeSet::from([ModelName::new("A100").unwrap()]);
    let m = misfit(&need("{count: 1, models: [A100]}"), &other, &nodes(&[&whole]), &nodes(&[&whole]), 1);
    assert_eq!((m.reason, m.needed.as_str(), m.free.as_str()), (ReasonKind::Model, "A100", "H100"));
    let m = why("{count: 1, memory: 100GiB}", &[&whole]);
    assert_eq!((m.reason, m.free.as_str()), (ReasonKind::Memory, "80GiB on the largest"));
    let m = why("{count: 8, interconnect: nvlink}", &[&whole]);
    assert_eq!((m.reason, m.free.as_str()), (ReasonKind::Interconnect, "4 on the best node"));
    // enough in sum, on no single node: the largest is named
    let m = why("{count: 4}", &[&three, &three, &three]);
    assert_eq!(m.reason, ReasonKind::Shape);
    assert!(m.free.starts_with("at most 3 x H100 on one node"), "{}", m.free);
    let m = why("{count: 4}", &[&three]);
    assert_eq!(m.reason, ReasonKind::Capacity);
    assert_eq!(why("{mig: 1g.10gb}", &[&whole]).reason, ReasonKind::Shape);
    let huge = Need { memory: gib(2_000), ..need("") };
    assert_eq!(misfit(&huge, &models, &nodes(&[&whole]), &nodes(&[&whole]), 1).reason, ReasonKind::Memory);
    let cores = Need { cpu: Cores::from_milli(97_000), ..need("") };
    assert_eq!(misfit(&cores, &models, &nodes(&[&whole, &three]), &nodes(&[&whole]), 1).reason, ReasonKind::Shape);
    assert_eq!(misfit(&cores, &models, &nodes(&[&whole]), &nodes(&[&whole]), 1).reason, ReasonKind::Capacity);
}

fn any_node() -> impl Strategy<Value = Node> {
    let device =
        (prop::option::of(0..3_u16), prop::option::of(0..2_u16), prop::option::of(0..4_u16), 0..10_u8, 0..4_u8);
    prop::collection::vec(device, 0..10).prop_map(|devices| {
        let mut n = node(&vec![None; devices.len()]);
        for (d, (island, numa, pcie, health, small)) in n.devices.iter_mut().zip(devices) {
            (d.island, d.numa, d.pcie) = (island, numa, pcie);
            if health == 0 {
                d.health = Health::Failed;
            }
            if small == 0 {
                d.memory = gib(40);
            }
        }
        n
    })
}

fn any_need() -> impl Strategy<Value = Need> {
    let interconnect = prop::sample::select(vec!["nvlink", "pcie", "numa", "node", "site"]);
    let whole = (1..6_u32, interconnect, prop::option::of(prop::sample::select(vec![30_u64, 40, 60])));
    let whole = whole.prop_map(|(count, interconnect, memory)| {
        let memory = memory.map_or(String::new(), |m| format!(", memory: {m}GiB"));
        need(&format!("{{count: {count}, interconnect: {interconnect}{memory}}}"))
    });
    let part = (1..1000_u32, prop::option::of(1..60_u64)).prop_map(|(share, memory)| {
        let memory = memory.map_or(String::new(), |m| format!(", memory: {m}GiB"));
        need(&format!("{{share: {}.{}%{memory}}}", share / 10, share % 10))
    });
    prop_oneof![whole, part, Just(need(""))]
}

fn model_of(need: &Need) -> Option<ModelName> {
    need.accelerators.as_ref().map(|_| h100())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is taken one after another: no device holds more than all of itself, nor more memory than it has, whole
    /// devices have one owner, bound devices share their place, and the shape says the same as the node.
    #[test]
    fn nothing_is_ever_given_twice(n in any_node(), needs in prop::collection::vec(any_need(), 1..12)) {
        let mut taken = NodeUse::default();
        let mut shape = NodeShape::whole(&n);
        for need in &needs {
            let model = model_of(need);
            let devices = allocate(need, model.as_ref(), &n, &taken);
            let before = shape.clone();
            let from_shape = take(need, model.as_ref(), &mut shape);
            prop_assert_eq!(devices.is_some(), from_shape.is_some());
            let Some(devices) = devices else {
                prop_assert_eq!(&shape, &before);
                continue;
            };
            if let Some(a) = &need.accelerators {
                prop_assert_eq!(devices.len() as u32, a.count.unwrap_or(1));
                let of: Vec<&Device> = devices.iter().map(|i| &n.devices[*i as usize]).collect();
                prop_assert!(of.iter().all(|d| d.health == Health::Ok));
                let one_place = |place: fn(&Device) -> Option<u16>| of.iter().all(|d| place(d).is_some() && place(d) == place(of[0]));
                match a.interconnect {
                    Interconnect::Nvlink => prop_assert!(one_place(|d| d.island)),
                    Interconnect::Pcie => prop_assert!(one_place(|d| d.pcie)),
                    Interconnect::Numa => prop_assert!(one_place(|d| d.numa)),
                    _ => {}
                }
                if a.count.is_some() {
                    prop_assert!(devices.iter().all(|i| !taken.devices.contains_key(i)));
                }
            }
            let sum_before: u64 = taken.devices.values().map(|u| u.share.thousandths()).sum();
            let (share, _) = use_of(need, &n, &devices);
            taken.add_replica(need, &n, &devices);
            let sum_after: u64 = taken.devices.values().map(|u| u.share.thousandths()).sum();
            // no share was cut at 100 %
            prop_assert_eq!(sum_after, sum_before + share.thousandths() * devices.len() as u64);
            for (i, u) in &taken.devices {
                prop_assert!(u.memory <= n.devices[*i as usize].memory);
            }
            prop_assert_eq!(&shape, &NodeShape::of(&n, &taken));
        }
    }

    #[test]
    fn as_many_fit_as_can_be_taken(n in any_node(), need in any_need()) {
        let model = model_of(&need);
        let mut taken = NodeUse::default();
        let mut count = 0;
        while let Some(devices) = allocate(&need, model.as_ref(), &n, &taken) {
            taken.add_replica(&need, &n, &devices);
            count += 1;
        }
        prop_assert_eq!(count, replicas_on(&need, model.as_ref(), &NodeShape::whole(&n)));
    }

    /// Renaming islands, NUMA nodes and switches changes nothing, and a shape in order stays as it is.
    #[test]
    fn a_shape_is_its_own_canonical_form(n in any_node()) {
        let shape = NodeShape::whole(&n);
        prop_assert_eq!(&NodeShape::new(shape.groups.clone(), shape.cpu, shape.memory).groups, &shape.groups);
    }
}

/// A device in slices of these profiles.
fn sliced(index: u32, profiles: &[&str]) -> Device {
    use crate::site::{DeviceSlice, Mig, MigMode};
    let slice = |(number, text): (usize, &&str)| {
        let profile: crate::SliceProfile = text.parse().unwrap();
        DeviceSlice { number: number as u32, profile, memory: profile.memory(), uuid: None }
    };
    let slices = profiles.iter().enumerate().map(slice).collect();
    let mig = Some(Mig { mode: MigMode::On, slices, open: std::collections::BTreeMap::new() });
    Device { mig, ..node(&[None; 8]).devices[index as usize].clone() }
}

#[test]
fn slices_that_there_are_are_given_by_number_and_only_once() {
    let mut node = node(&[None; 3]);
    node.devices[1] = sliced(1, &["3g.40gb", "2g.20gb", "1g.10gb"]);
    node.devices[2] = sliced(2, &["3g.40gb", "3g.40gb"]);
    let mut used = NodeUse::default();
    let give = |text: &str, used: &mut NodeUse| {
        let pieces = allocate(&need(text), Some(&h100()), &node, used)?;
        used.add_replica(&need(text), &node, &pieces);
        Some(pieces.into_iter().map(|n| crate::site::Piece::of(n).to_string()).collect::<Vec<_>>().join(" "))
    };
    // the whole device that is left first, and none in slices as a whole
    assert_eq!(give("{count: 1}", &mut used).as_deref(), Some("0"));
    assert_eq!(give("{count: 1}", &mut used), None);
    assert_eq!(give("{share: 25%}", &mut used), None);
    // the device that has the least left
    assert_eq!(give("{mig: 3g.40gb}", &mut used).as_deref(), Some("1/0"));
    assert_eq!(give("{mig: 3g.40gb, count: 2}", &mut used).as_deref(), Some("2/0 2/1"));
    assert_eq!(give("{mig: 3g.40gb}", &mut used), None);
    assert_eq!(give("{mig: 1g.10gb}", &mut used).as_deref(), Some("1/2"));
    assert_eq!(give("{mig: 1g.10gb}", &mut used), None, "nothing is cut that was not there");
    let shape = NodeShape::of(&node, &used);
    assert_eq!((shape.free_devices(), shape.groups.iter().map(|g| g.total).sum::<u32>()), (0, 3));
}

/// A card that is cut anew while something is held of it: neither the whole nor a slice is given a second time.
#[test]
fn what_is_held_of_a_card_stays_held_when_it_is_cut_anew() {
    let mut cut = node(&[None; 1]);
    cut.devices[0] = sliced(0, &["3g.40gb", "3g.40gb"]);
    let whole = node(&[None; 1]);
    let mut used = NodeUse::default();
    used.add_replica(
        &need("{mig: 3g.40gb}"),
        &cut,
        &allocate(&need("{mig: 3g.40gb}"), Some(&h100()), &cut, &used).unwrap(),
    );
    assert_eq!(allocate(&need("{count: 1}"), Some(&h100()), &whole, &used), None);
    assert_eq!(allocate(&need("{share: 10%}"), Some(&h100()), &whole, &used), None);
    let mut used = NodeUse::default();
    used.add_replica(&need("{count: 1}"), &whole, &[0]);
    assert_eq!(allocate(&need("{mig: 3g.40gb}"), Some(&h100()), &cut, &used), None);
}

proptest! {
    /// What placement takes from the shape is what the node's devices give, slice by slice.
    #[test]
    fn slices_of_a_shape_and_of_a_node_are_the_same(
        cuts in proptest::collection::vec(proptest::sample::subsequence(vec!["4g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"], 0..=4), 1..4),
        asks in proptest::collection::vec((proptest::sample::select(vec!["1g.10gb", "2g.20gb", "4g.40gb"]), 1..3_u32), 1..9),
    ) {
        let mut node = node(&vec![None; cuts.len() + 1]);
        for (i, cut) in cuts.iter().enumerate() {
            node.devices[i + 1] = sliced(i as u32 + 1, cut);
        }
        let mut used = NodeUse::default();
        for (profile, count) in asks {
            let need = need(&format!("{{mig: {profile}, count: {count}}}"));
            let mut shape = NodeShape::of(&node, &used);
            let taken = take(&need, Some(&h100()), &mut shape);
            let given = allocate(&need, Some(&h100()), &node, &used);
            prop_assert_eq!(taken.is_some(), given.is_some());
            if let Some(pieces) = given {
                prop_assert!(pieces.iter().all(|p| !used.devices.contains_key(p)));
                prop_assert_eq!(pieces.len() as u32, count);
                used.add_replica(&need, &node, &pieces);
            }
            prop_assert_eq!(shape, NodeShape::of(&node, &used));
        }
    }
}
