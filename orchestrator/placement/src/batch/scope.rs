//! What a node of the tree leaves open.

use super::desk::Desk;
use std::rc::Rc;

/// Which offers of each job are open, and which arcs it must not take.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// Flat; the last of a job is its rejection.
    pub open: Box<[bool]>,
    /// Of each job's first offer; one more at the end.
    pub first: Rc<[usize]>,
    /// (job, arc), ascending.
    ban: Vec<(u32, u32)>,
}

impl Scope {
    /// Every offer of every job.
    pub fn whole(desk: &Desk) -> Self {
        let mut first = vec![0];
        for job in &desk.jobs {
            first.push(first[first.len() - 1] + job.offers.len() + 1);
        }
        Self { open: vec![true; first[desk.jobs.len()]].into(), first: first.into(), ban: Vec::new() }
    }

    /// `offer`: flat.
    pub fn only(&self, job: usize, offer: usize) -> Self {
        let mut scope = self.clone();
        scope.open[self.first[job]..self.first[job + 1]].fill(false);
        scope.open[offer] = true;
        scope
    }

    pub fn without(&self, offer: usize) -> Self {
        let mut scope = self.clone();
        scope.open[offer] = false;
        scope
    }

    pub fn banned(&self, job: u32, arc: u32) -> Self {
        let mut scope = self.clone();
        if let Err(at) = scope.ban.binary_search(&(job, arc)) {
            scope.ban.insert(at, (job, arc));
        }
        scope
    }

    pub fn bans(&self, job: u32, arc: u32) -> bool {
        self.ban.binary_search(&(job, arc)).is_ok()
    }

    /// Arcs that a job must not take.
    pub fn bans_of(&self, job: u32) -> &[(u32, u32)] {
        let from = self.ban.partition_point(|b| b.0 < job);
        let to = self.ban.partition_point(|b| b.0 <= job);
        &self.ban[from..to]
    }

    /// Closes what no longer fits beside jobs that have one offer left; false where nothing is left of a job or a pool.
    pub fn settle(&mut self, desk: &Desk) -> bool {
        loop {
            let mut left: Vec<i64> = desk.pools.iter().map(|p| p.capacity).collect();
            let mut settled = vec![false; desk.jobs.len()];
            for (j, job) in desk.jobs.iter().enumerate() {
                let range = self.first[j]..self.first[j + 1];
                let mut open = range.clone().filter(|o| self.open[*o]);
                let Some(one) = open.next() else { return false };
                if open.next().is_none() {
                    settled[j] = true;
                    if let Some(offer) = job.offers.get(one - range.start) {
                        left[offer.pool as usize] -= job.gpus;
                    }
                }
            }
            if left.iter().any(|l| *l < 0) {
                return false;
            }
            let mut changed = false;
            for (j, job) in desk.jobs.iter().enumerate().filter(|(j, _)| !settled[*j]) {
                for (o, offer) in job.offers.iter().enumerate() {
                    let open = &mut self.open[self.first[j] + o];
                    if *open && left[offer.pool as usize] < job.gpus {
                        *open = false;
                        changed = true;
                    }
                }
            }
            if !changed {
                return true;
            }
        }
    }
}
