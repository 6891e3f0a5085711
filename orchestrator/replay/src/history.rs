//! How long jobs run that have not ended yet: guessed from those that have.

use crate::time::Micros;
use std::collections::BTreeMap;

/// What is known beforehand of how long a job runs: who sends it, how large it is, and what it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kin {
    /// 0: nobody's in particular.
    pub owner: u32,
    pub devices: u64,
    pub burst: usize,
}

/// Sums over finished jobs by burst, by owner and size, and by size.
#[derive(Debug, Clone)]
pub(crate) struct History {
    prior: Micros,
    recent: i64,
    bursts: BTreeMap<usize, Sum>,
    fine: BTreeMap<(u32, u64), Sum>,
    coarse: BTreeMap<u64, Sum>,
    /// Counts up with every job.
    pub version: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    jobs: i64,
    ran: i64,
}

impl Sum {
    /// With more than `recent` jobs, all that came before fade a little.
    fn add(&mut self, ran: Micros, recent: i64) {
        if self.jobs >= recent {
            self.ran -= self.ran / recent;
        } else {
            self.jobs += 1;
        }
        self.ran = self.ran.saturating_add(ran.0);
    }

    /// The mean, with one more job that ran for `other`.
    fn mean(self, other: i64) -> i64 {
        self.ran.saturating_add(other) / (self.jobs + 1)
    }

    /// The same where each job counts as much as `weight` others.
    fn weighed(self, weight: i64, other: i64) -> i64 {
        self.ran.saturating_mul(weight).saturating_add(other) / (self.jobs * weight + 1)
    }
}

/// Jobs of one burst are more alike than others: one of them says as much as so many.
const LIKENESS: i64 = 8;

impl History {
    pub fn new(prior: Micros, recent: u32) -> Self {
        let recent = i64::from(recent.max(1));
        Self { prior, recent, bursts: BTreeMap::new(), fine: BTreeMap::new(), coarse: BTreeMap::new(), version: 0 }
    }

    pub fn add(&mut self, Kin { owner, devices, burst }: Kin, ran: Micros) {
        self.version += 1;
        self.bursts.entry(burst).or_default().add(ran, self.recent);
        self.coarse.entry(devices).or_default().add(ran, self.recent);
        if owner > 0 {
            self.fine.entry((owner, devices)).or_default().add(ran, self.recent);
        }
    }

    /// At least a second.
    pub fn guess(&self, Kin { owner, devices, burst }: Kin) -> Micros {
        let coarse = self.coarse.get(&devices).copied().unwrap_or_default().mean(self.prior.0);
        let fine = self.fine.get(&(owner, devices)).map_or(coarse, |sum| sum.mean(coarse));
        let own = self.bursts.get(&burst).map_or(fine, |sum| sum.weighed(LIKENESS, fine));
        Micros(own).max(Micros::SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn kin(owner: u32, devices: u64) -> Kin {
        // nothing came with it
        Kin { owner, devices, burst: usize::MAX - owner as usize }
    }

    #[test]
    fn those_of_a_burst_say_more_than_all_others_of_the_size() {
        let mut history = History::new(Micros::HOUR, 100);
        (0..50).for_each(|burst| history.add(Kin { owner: 1, devices: 8, burst }, Micros::HOUR));
        let mate = Kin { owner: 1, devices: 8, burst: 70 };
        assert_eq!(history.guess(mate), Micros::HOUR);
        history.add(mate, Micros::SECOND);
        assert!(history.guess(mate) < Micros::from_seconds(410), "{:?}", history.guess(mate));
        assert!(history.guess(Kin { burst: 71, ..mate }) > Micros::from_seconds(3_500));
    }

    #[test]
    fn a_guess_moves_from_the_prior_to_the_size_to_the_owner() {
        let mut history = History::new(Micros::HOUR, 1_000);
        assert_eq!(history.guess(kin(1, 8)), Micros::HOUR);
        for _ in 0..99 {
            history.add(kin(2, 8), Micros::SECOND);
        }
        assert!(history.guess(kin(1, 8)) < Micros::from_seconds(40));
        for _ in 0..99 {
            history.add(kin(1, 8), Micros::HOUR);
        }
        assert!(history.guess(kin(1, 8)) > Micros::from_seconds(3_500));
        assert!(history.guess(kin(2, 8)) < Micros::from_seconds(60));
        assert_eq!(history.guess(kin(1, 4)), Micros::HOUR);
    }

    #[test]
    fn what_ran_long_ago_fades() {
        let mut history = History::new(Micros::HOUR, 10);
        (0..1_000).for_each(|_| history.add(kin(0, 1), Micros::HOUR));
        (0..50).for_each(|_| history.add(kin(0, 1), Micros::SECOND));
        // an hour with a weight of one in eleven stays: the prior
        assert!(history.guess(kin(0, 1)) < Micros::from_seconds(360), "{:?}", history.guess(kin(0, 1)));
    }
}
