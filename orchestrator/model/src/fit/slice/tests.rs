use super::*;
use proptest::prelude::*;

fn gib(n: u64) -> Bytes {
    Bytes::from_bytes(n << 30)
}

fn profile(text: &str) -> SliceProfile {
    text.parse().unwrap()
}

/// The device with these slices, taken one after the other.
fn with(device: Bytes, slices: &[&str]) -> Option<Slices> {
    slices.iter().try_fold(Slices::open(), |d, p| d.take(profile(p), device))
}

#[test]
fn sets_of_slices_fit_as_the_maker_lists_them() {
    let (a40, h80) = (gib(40), gib(80));
    for set in [
        vec!["7g.80gb"],
        vec!["4g.40gb", "3g.40gb"],
        vec!["4g.40gb", "2g.20gb", "1g.10gb"],
        vec!["4g.40gb", "1g.10gb", "1g.10gb", "1g.10gb"],
        vec!["3g.40gb", "3g.40gb"],
        vec!["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"],
        vec!["2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"],
        vec!["1g.10gb+me", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb", "1g.10gb"],
        vec!["1g.20gb", "1g.20gb", "1g.20gb", "1g.20gb"],
    ] {
        // in whatever order they come
        let mut turned = set.clone();
        turned.reverse();
        assert!(with(h80, &set).is_some() && with(h80, &turned).is_some(), "{set:?}");
    }
    for set in [
        vec!["7g.80gb", "1g.10gb"],
        vec!["4g.40gb", "4g.40gb"],
        vec!["4g.40gb", "3g.40gb", "1g.10gb"],
        vec!["3g.40gb", "3g.40gb", "1g.10gb"],
        vec!["3g.40gb", "3g.40gb", "3g.40gb"],
        vec!["2g.20gb", "2g.20gb", "2g.20gb", "2g.20gb"],
        vec!["2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb", "1g.10gb"],
        vec!["1g.10gb+me", "1g.10gb+me"],
        vec!["1g.10gb"; 8],
        vec!["1g.20gb"; 5],
        // of another device
        vec!["3g.20gb"],
        vec!["5g.40gb"],
        vec!["3g.40gb+me"],
    ] {
        assert_eq!(with(h80, &set), None, "{set:?}");
    }
    assert!(with(a40, &["3g.20gb", "3g.20gb"]).is_some());
    assert!(with(a40, &["1g.5gb"; 7]).is_some() && with(a40, &["1g.5gb"; 8]).is_none());
    // names round the memory of an H200, and a card of 24 GB has four slices
    assert!(with(gib(141), &["3g.71gb", "2g.35gb", "1g.18gb", "1g.18gb"]).is_some());
    assert!(with(gib(24), &["2g.12gb", "1g.6gb", "1g.6gb"]).is_some());
    assert!(with(gib(24), &["2g.12gb", "2g.12gb", "1g.6gb"]).is_none());
}

#[test]
fn a_slice_that_settles_leaves_the_most_room() {
    let one = with(gib(80), &["1g.10gb"]).unwrap().settled(gib(80));
    // at the end, where only a slice of seven or a half is lost
    assert_eq!(one, Slices::Open { taken: 0b0100_0000, media: false, new: vec![] });
    assert!(one.has(profile("4g.40gb"), gib(80)) && !one.has(profile("7g.80gb"), gib(80)));
    // what stands stays: a slice in the middle of each half leaves no half
    let spoiled = Slices::Open { taken: 0b0010_0010, media: false, new: vec![] };
    assert!(!spoiled.has(profile("3g.40gb"), gib(80)) && spoiled.has(profile("2g.20gb"), gib(80)));
    assert_eq!(spoiled.free(gib(80)), 6);
}

#[test]
fn what_is_cut_stays_cut() {
    let slices = [profile("1g.10gb"), profile("3g.40gb"), profile("3g.40gb")];
    let devices = cut(&slices, gib(80), 2).unwrap();
    assert_eq!(devices.len(), 2);
    assert!(devices[0].has(profile("3g.40gb"), gib(80)) && !devices[0].has(profile("4g.40gb"), gib(80)));
    assert_eq!(cut(&slices, gib(80), 1), None);
}

proptest! {
    /// Against trying every start of every slice, in order.
    #[test]
    fn a_set_fits_if_some_arrangement_does(
        taken in any::<u8>(),
        picks in prop::collection::vec(0_usize..6, 0..7),
    ) {
        fn any_way(taken: u8, picks: &[usize]) -> bool {
            let Some((pick, rest)) = picks.split_first() else { return true };
            let (_, size, starts) = EIGHT[*pick];
            (0..8_u8).filter(|s| starts.contains(s)).any(|start| {
                let bits: Vec<u8> = (start..start + size).collect();
                bits.iter().all(|b| taken & (1 << b) == 0)
                    && any_way(bits.iter().fold(taken, |mask, b| mask | (1 << b)), rest)
            })
        }
        let names = ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"];
        let start = Slices::Open { taken, media: false, new: vec![] };
        let device = picks.iter().try_fold(start, |d, p| d.take(profile(names[*p]), gib(80)));
        prop_assert_eq!(device.is_some(), any_way(taken, &picks));
        if let Some(device) = device {
            let settled = device.settled(gib(80));
            prop_assert_eq!(settled.free(gib(80)), device.free(gib(80)));
            let full = names.iter().all(|n| !device.has(profile(n), gib(80)));
            prop_assert_eq!(device.is_full(gib(80)), full);
        }
    }
}

/// What `nvidia-smi mig -lgip` and `-lgipp` of the MIG User Guide list: profile, memory slices, starts.
type Listed = &'static [(&'static str, u8, &'static [u8])];
const A100_40: Listed = &[
    ("1g.5gb", 1, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.5gb+me", 1, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.10gb", 2, &[0, 2, 4, 6]),
    ("2g.10gb", 2, &[0, 2, 4]),
    ("3g.20gb", 4, &[0, 4]),
    ("4g.20gb", 4, &[0]),
    ("7g.40gb", 8, &[0]),
];
const H100_80: Listed = &[
    ("1g.10gb", 1, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.10gb+me", 1, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.20gb", 2, &[0, 2, 4, 6]),
    ("2g.20gb", 2, &[0, 2, 4]),
    ("3g.40gb", 4, &[0, 4]),
    ("4g.40gb", 4, &[0]),
    ("7g.80gb", 8, &[0]),
];
const H200: Listed = &[
    ("1g.18gb", 1, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.18gb+me", 1, &[0, 1, 2, 3, 4, 5, 6]),
    ("1g.35gb", 2, &[0, 2, 4, 6]),
    ("2g.35gb", 2, &[0, 2, 4]),
    ("3g.71gb", 4, &[0, 4]),
    ("4g.71gb", 4, &[0]),
    ("7g.141gb", 8, &[0]),
];
const A30: Listed = &[
    ("1g.6gb", 1, &[0, 1, 2, 3]),
    ("1g.6gb+me", 1, &[0, 1, 2, 3]),
    ("2g.12gb", 2, &[0, 2]),
    ("2g.12gb+me", 2, &[0, 2]),
    ("4g.24gb", 4, &[0]),
];

/// With the memory that drivers report of such cards, in MiB.
const CARDS: [(Listed, u64); 5] =
    [(A100_40, 40_960), (H100_80, 81_920), (H100_80, 81_559), (H200, 143_771), (A30, 24_576)];

fn bits(size: u8, start: u8) -> u16 {
    ((1 << size) - 1) << start
}

/// The most of one profile beside what is taken, by trying every set of its places.
fn most_of(taken: u16, (_, size, starts): &(&str, u8, &[u8])) -> u32 {
    let sets = 0_u32..1 << starts.len();
    let fits = |set: &u32| {
        let mut all = taken;
        starts.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).all(|(_, start)| {
            let place = bits(*size, *start);
            let free = all & place == 0;
            all |= place;
            free
        })
    };
    sets.filter(fits).map(u32::count_ones).max().unwrap_or(0)
}

fn expected(listed: Listed, taken: u16, media: bool) -> BTreeMap<SliceProfile, u32> {
    let counts = listed.iter().map(|kind| {
        let most = most_of(taken, kind);
        let profile = profile(kind.0);
        (profile, if profile.media { most.min(u32::from(!media)) } else { most })
    });
    counts.filter(|(_, n)| *n > 0).collect()
}

#[test]
fn a_whole_card_can_be_cut_into_what_the_maker_lists() {
    for (listed, mib) in CARDS {
        assert_eq!(open(Bytes::from_bytes(mib << 20), &[]), expected(listed, 0, false), "{mib}");
        let plain: Vec<String> = profiles(Bytes::from_bytes(mib << 20)).iter().map(ToString::to_string).collect();
        let names = listed.iter().map(|(name, ..)| (*name).to_owned()).filter(|n| !n.ends_with("+me"));
        assert_eq!(plain, names.collect::<Vec<_>>());
    }
    // a card that nobody knows promises nothing
    assert!(open(gib(11), &[]).is_empty() && open(gib(80), &[(profile("3g.20gb"), None)]).is_empty());
}

proptest! {
    /// Against every way to place them, on every card: with starts that are known, and with the worst of those that may be.
    #[test]
    fn what_can_still_be_cut_is_what_trying_everything_finds(
        card in 0..CARDS.len(),
        picks in proptest::collection::vec((0..7_usize, 0..7_usize, any::<bool>()), 0..5),
    ) {
        let (listed, mib) = CARDS[card];
        let device = Bytes::from_bytes(mib << 20);
        let mut taken = 0_u16;
        let mut standing = Vec::new();
        for (kind, start, is_known) in picks {
            let (name, size, starts) = listed[kind % listed.len()];
            let start = starts[start % starts.len()];
            let media = |all: &[(SliceProfile, Option<u8>)]| all.iter().any(|(p, _)| p.media);
            if taken & bits(size, start) == 0 && !(profile(name).media && media(&standing)) {
                taken |= bits(size, start);
                standing.push((profile(name), is_known.then_some(start)));
            }
        }
        let media = standing.iter().any(|(p, _)| p.media);
        // every place of those whose start is not known
        let mut masks = vec![0_u16];
        for (profile, start) in &standing {
            let (_, size, starts) = listed.iter().find(|(name, ..)| profile.to_string() == *name).unwrap();
            let starts = start.map_or(starts.to_vec(), |s| vec![s]);
            let with = |mask: &u16| -> Vec<u16> {
                let places = starts.iter().map(|s| bits(*size, *s));
                places.filter(|p| mask & p == 0).map(|p| mask | p).collect()
            };
            masks = masks.iter().flat_map(with).collect();
        }
        let mut least = expected(listed, masks[0], media);
        for mask in &masks[1..] {
            let here = expected(listed, *mask, media);
            least.retain(|profile, n| {
                *n = (*n).min(here.get(profile).copied().unwrap_or(0));
                *n > 0
            });
        }
        prop_assert_eq!(open(device, &standing), least);
    }
}
