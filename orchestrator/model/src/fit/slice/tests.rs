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
