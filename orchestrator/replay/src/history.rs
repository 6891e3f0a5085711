//! How long jobs run that have not ended yet: guessed from those that have.

use crate::time::Micros;
use std::collections::BTreeMap;

/// Sums over finished jobs by owner and size, and by size.
#[derive(Debug, Clone)]
pub(crate) struct History {
    prior: Micros,
    recent: i64,
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
}

impl History {
    pub fn new(prior: Micros, recent: u32) -> Self {
        Self { prior, recent: i64::from(recent.max(1)), fine: BTreeMap::new(), coarse: BTreeMap::new(), version: 0 }
    }

    pub fn add(&mut self, owner: u32, devices: u64, ran: Micros) {
        self.version += 1;
        self.coarse.entry(devices).or_default().add(ran, self.recent);
        if owner > 0 {
            self.fine.entry((owner, devices)).or_default().add(ran, self.recent);
        }
    }

    /// At least a second.
    pub fn guess(&self, owner: u32, devices: u64) -> Micros {
        let coarse = self.coarse.get(&devices).copied().unwrap_or_default().mean(self.prior.0);
        let fine = self.fine.get(&(owner, devices)).map_or(coarse, |sum| sum.mean(coarse));
        Micros(fine).max(Micros::SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_moves_from_the_prior_to_the_size_to_the_owner() {
        let mut history = History::new(Micros::HOUR, 1_000);
        assert_eq!(history.guess(1, 8), Micros::HOUR);
        for _ in 0..99 {
            history.add(2, 8, Micros::SECOND);
        }
        assert!(history.guess(1, 8) < Micros::from_seconds(40));
        for _ in 0..99 {
            history.add(1, 8, Micros::HOUR);
        }
        assert!(history.guess(1, 8) > Micros::from_seconds(3_500));
        assert!(history.guess(2, 8) < Micros::from_seconds(60));
        assert_eq!(history.guess(1, 4), Micros::HOUR);
    }

    #[test]
    fn what_ran_long_ago_fades() {
        let mut history = History::new(Micros::HOUR, 10);
        (0..1_000).for_each(|_| history.add(0, 1, Micros::HOUR));
        (0..50).for_each(|_| history.add(0, 1, Micros::SECOND));
        // an hour with a weight of one in eleven stays: the prior
        assert!(history.guess(0, 1) < Micros::from_seconds(360), "{:?}", history.guess(0, 1));
    }
}
