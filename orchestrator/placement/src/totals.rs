//! How many replicas each component gets: the fewest that will do.

use crate::problem::{Place, Problem};

/// Replicas of each component to try: the fewest first, then one more in all, and so on.
pub(crate) struct Totals {
    fewest: Vec<u32>,
    /// How many more each may have.
    spare: Vec<u32>,
    queue: Vec<Vec<u32>>,
    extra: u32,
}

/// Numbers of replicas that are tried for one order, at most.
const EXTRAS: u32 = 256;

impl Totals {
    pub fn new(problem: &Problem) -> Self {
        let fewest: Vec<u32> = problem.parts.iter().map(|p| p.fewest).collect();
        let possible = problem.parts.iter().all(|p| p.fewest <= p.most);
        // more replicas only help where they divide what a flow asks of links
        let divides = |part: usize| {
            let this = Place::Part(part);
            problem.streams.iter().any(|s| (s.from == this) != (s.to == this))
        };
        let spare = problem
            .parts
            .iter()
            .enumerate()
            .map(|(i, p)| if divides(i) { p.most.saturating_sub(p.fewest) } else { 0 })
            .collect();
        let queue = if possible { vec![fewest.clone()] } else { Vec::new() };
        Self { fewest, spare, queue, extra: 0 }
    }

    /// All ways to give `extra` more replicas to components from `index` on.
    fn spread(&self, index: usize, extra: u32, now: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
        if found.len() >= EXTRAS as usize {
            return;
        }
        if index == self.fewest.len() {
            if extra == 0 {
                found.push(now.clone());
            }
            return;
        }
        for more in 0..=extra.min(self.spare[index]) {
            now.push(self.fewest[index] + more);
            self.spread(index + 1, extra - more, now, found);
            now.pop();
        }
    }
}

impl Iterator for Totals {
    type Item = Vec<u32>;

    fn next(&mut self) -> Option<Vec<u32>> {
        if self.queue.is_empty() {
            return None;
        }
        let next = self.queue.remove(0);
        if self.queue.is_empty() && self.extra < EXTRAS {
            self.extra += 1;
            let mut found = Vec::new();
            self.spread(0, self.extra, &mut Vec::new(), &mut found);
            self.queue = found;
        }
        Some(next)
    }
}
