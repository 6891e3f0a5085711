//! Chance that can be repeated: the seed is printed, and `RHUMB_TEST_SEED` sets it.

use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug)]
pub struct Seed(u64);

impl Seed {
    pub fn new(test: &str) -> Self {
        let given = std::env::var("RHUMB_TEST_SEED").ok().and_then(|s| s.parse().ok());
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.subsec_nanos().into());
        let seed = given.unwrap_or_else(clock);
        println!("{test}: repeat with RHUMB_TEST_SEED={seed}");
        Self(seed)
    }

    /// A number below `bound` (SplitMix64).
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}
