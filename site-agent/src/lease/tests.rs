use super::*;
use proptest::prelude::*;
use rhumb_model::{
    ModelName,
    site::{Mig, MigMode},
};
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
        ports: Vec::new(),
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
        part: None,
        cpu: Cores::from_milli(milli),
        memory: Bytes::from_bytes(1 << 30),
        slices: BTreeMap::new(),
    }
}

#[test]
fn a_taken_device_is_refused_until_it_is_given_back() {
    let mut leases = Allocator::new(&[node("n1", 4)]);
    leases.lease(&key(1, 1, 0), claim("n1", &[0, 1], 0)).unwrap();
    let refused = leases.lease(&key(2, 1, 0), claim("n1", &[1, 2], 0));
    assert!(matches!(refused, Err(LeaseError::Taken { device: Piece::Device(1), .. })), "{refused:?}");
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
    assert_eq!(leases.renew(&[now.clone()]), [(key(1, 1, 0), Piece::Device(0))]);
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

fn slice(number: u32, profile: &str, uuid: &str) -> DeviceSlice {
    let profile: SliceProfile = profile.parse().unwrap();
    DeviceSlice { number, profile, memory: profile.memory(), uuid: Some(uuid.into()) }
}

fn cut(slices: Vec<DeviceSlice>) -> Mig {
    Mig { mode: MigMode::On, slices, open: BTreeMap::new() }
}

/// Two devices, the second in slices.
fn half_cut() -> NodeReport {
    let mut node = node("n1", 2);
    node.devices[1].mig = Some(cut(vec![slice(0, "3g.40gb", "MIG-a"), slice(1, "2g.20gb", "MIG-b")]));
    node
}

fn slices(device: u32, numbers: &[u32], profile: &str) -> Claim {
    let number = |slice: &u32| Piece::Slice { device, slice: *slice }.number().unwrap();
    let part = Some(DevicePart::Slice { profile: profile.parse().unwrap() });
    Claim { part, ..claim("n1", &numbers.iter().map(number).collect::<Vec<_>>(), 0) }
}

fn share(device: u32, thousandths: u16, gib: u64) -> Claim {
    Claim { part: Some(DevicePart::Share { thousandths, memory_bytes: Some(gib << 30) }), ..claim("n1", &[device], 0) }
}

#[test]
fn a_slice_is_leased_by_its_own_name_and_its_device_is_not() {
    let mut leases = Allocator::new(&[half_cut()]);
    leases.lease(&key(1, 1, 0), slices(1, &[0], "3g.40gb")).unwrap();
    let held = &leases.claims()[&key(1, 1, 0)].slices;
    assert_eq!(held.values().map(|s| s.uuid.as_deref().unwrap()).collect::<Vec<_>>(), ["MIG-a"]);
    leases.lease(&key(1, 1, 0), slices(1, &[0], "3g.40gb")).expect("the same again is granted again");
    let refused = |leases: &mut Allocator, claim: Claim| leases.lease(&key(9, 1, 0), claim).unwrap_err().to_string();
    assert!(refused(&mut leases, slices(1, &[0], "3g.40gb")).starts_with("device 1/0 of node n1 is leased to order"));
    assert!(refused(&mut leases, slices(1, &[1], "3g.40gb")).contains("2g.20gb now, 3g.40gb was asked for"));
    assert!(refused(&mut leases, slices(1, &[5], "3g.40gb")).contains("no device 1/5"));
    assert!(refused(&mut leases, claim("n1", &[1], 0)).contains("cut into slices"));
    assert_eq!(
        leases.choose(&slices(1, &[0], "2g.20gb")),
        Some(vec![Piece::Slice { device: 1, slice: 1 }.number().unwrap()])
    );
    assert_eq!(leases.choose(&slices(1, &[0], "3g.40gb")), None);
    leases.release(&key(1, 1, 0));
    leases.lease(&key(2, 1, 0), slices(1, &[0], "3g.40gb")).unwrap();
}

/// A card was cut anew while an order ran on it: others were given what the order still had.
#[test]
fn a_card_that_is_cut_anew_under_a_lease_gives_nothing_until_that_ends() {
    let mut leases = Allocator::new(&[half_cut()]);
    leases.lease(&key(1, 1, 0), slices(1, &[0], "3g.40gb")).unwrap();
    assert_eq!(leases.judge(&[half_cut()]), [half_cut()], "nothing is said of a card that is as it was");
    let mut anew = half_cut();
    // the same number and profile, and another slice
    anew.devices[1].mig = Some(cut(vec![slice(0, "3g.40gb", "MIG-c"), slice(1, "3g.40gb", "MIG-d")]));
    assert_eq!(leases.renew(&[anew.clone()]), [(key(1, 1, 0), Piece::Slice { device: 1, slice: 0 })]);
    let told = leases.judge(&[anew.clone()]);
    assert_eq!(told[0].devices.iter().map(|d| d.health).collect::<Vec<_>>(), [Health::Ok, Health::Degraded]);
    assert!(told[0].unknown[0].why.contains("cut anew under order"), "{:?}", told[0].unknown);
    let refused = leases.lease(&key(2, 1, 0), slices(1, &[1], "3g.40gb"));
    assert!(matches!(refused, Err(LeaseError::CutAnew { device: 1, .. })), "{refused:?}");
    leases.lease(&key(3, 1, 0), claim("n1", &[0], 0)).expect("the other card is as it was");
    leases.release(&key(1, 1, 0));
    assert_eq!(leases.judge(&[anew.clone()]), [anew]);
    leases.lease(&key(2, 1, 0), slices(1, &[1], "3g.40gb")).unwrap();
}

#[test]
fn a_whole_card_that_is_cut_under_a_lease_gives_no_slices() {
    let mut leases = Allocator::new(&[node("n1", 2)]);
    leases.lease(&key(1, 1, 0), claim("n1", &[1], 0)).unwrap();
    assert_eq!(leases.renew(&[half_cut()]), [(key(1, 1, 0), Piece::Device(1))]);
    let refused = leases.lease(&key(2, 1, 0), slices(1, &[0], "3g.40gb"));
    assert!(matches!(refused, Err(LeaseError::CutAnew { .. })), "{refused:?}");
}

/// Two orders with a share each could not stand on one device.
#[test]
fn shares_stand_beside_each_other_up_to_the_whole() {
    let mut leases = Allocator::new(&[node("n1", 1)]);
    leases.lease(&key(1, 1, 0), share(0, 500, 20)).unwrap();
    leases.lease(&key(2, 1, 0), share(0, 250, 50)).unwrap();
    let refused = leases.lease(&key(3, 1, 0), share(0, 251, 1));
    assert!(matches!(refused, Err(LeaseError::Share { thousandths: 250, .. })), "{refused:?}");
    let refused = leases.lease(&key(3, 2, 0), share(0, 250, 11));
    assert!(matches!(refused, Err(LeaseError::Share { memory, .. }) if memory.bytes() == 10 << 30), "{refused:?}");
    let refused = leases.lease(&key(4, 1, 0), claim("n1", &[0], 0));
    assert!(matches!(refused, Err(LeaseError::Taken { .. })), "{refused:?}");
    leases.release(&key(1, 1, 0));
    leases.release(&key(2, 1, 0));
    // without a word of memory it is the share's part of it
    let quarter = Claim { part: Some(DevicePart::Share { thousandths: 250, memory_bytes: None }), ..share(0, 250, 0) };
    leases.lease(&key(6, 1, 0), quarter.clone()).unwrap();
    leases.lease(&key(6, 1, 0), quarter).expect("the same again is granted again");
    let held = leases.claims()[&key(6, 1, 0)].part;
    assert_eq!(held, Some(DevicePart::Share { thousandths: 250, memory_bytes: Some(20 << 30) }));
    leases.release(&key(6, 1, 0));
    leases.lease(&key(4, 2, 0), claim("n1", &[0], 0)).unwrap();
    assert!(matches!(leases.lease(&key(5, 1, 0), share(0, 10, 0)), Err(LeaseError::Taken { .. })));
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
