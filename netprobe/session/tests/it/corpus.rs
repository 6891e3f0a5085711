//! The seeds of the fuzz target, and what a generator makes of them.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::feed::feed;

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/packets");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut seeds: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "bin")).collect();
    seeds.sort();
    seeds.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn every_seed_holds() {
    let seeds = seeds();
    assert!(seeds.len() >= 10, "{} seeds", seeds.len());
    for seed in &seeds {
        feed(seed);
    }
}

proptest! {
    #[test]
    fn anything_holds(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        feed(&octets);
    }

    #[test]
    fn seeds_with_changes_hold(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in 0_usize..40,
    ) {
        let seeds = seeds();
        let mut octets = which.get(&seeds).clone();
        for (at, to) in changes {
            if !octets.is_empty() {
                let at = at.index(octets.len());
                octets[at] = to;
            }
        }
        octets.truncate(octets.len().saturating_sub(cut / 4));
        feed(&octets);
    }
}
