//! The order of the nodes' names in a run, and chance for the policy that plays with it.

/// A permutation of `0..count`, drawn by the seed.
pub(super) fn drawn(count: usize, seed: u64) -> Vec<u32> {
    let mut chance = Chance::new(seed);
    let mut ranks: Vec<u32> = (0..count as u32).collect();
    for last in (1..count).rev() {
        ranks.swap(last, chance.below(last + 1));
    }
    ranks
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a fixed sequence for a seed, on any machine and in any version.
#[derive(Debug, Clone)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of `0..count`, each as likely as the others.
    pub(super) fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * count as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_a_permutation_of_the_seed() {
        let mut ranks = drawn(1000, 7);
        assert_eq!(ranks, drawn(1000, 7));
        assert_ne!(ranks, drawn(1000, 8));
        ranks.sort_unstable();
        assert!(ranks.iter().enumerate().all(|(at, rank)| at == *rank as usize));
    }
}
