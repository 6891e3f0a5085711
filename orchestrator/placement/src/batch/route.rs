//! The cheapest paths from one job's source to every node under a delay bound.

use super::desk::{Desk, Job};
use std::{cmp::Reverse, collections::BinaryHeap};

/// Workspace of a search from one node; kept between searches so that nothing is allocated anew.
#[derive(Debug, Default)]
pub(crate) struct Search {
    labels: Vec<Label>,
    /// By (cost, delay, label).
    heap: BinaryHeap<Reverse<(i64, i64, u32)>>,
    /// By node: the least delay of any label opened there. A label that is not quicker is beaten by a cheaper one.
    quickest: Vec<i64>,
    /// By node: the first label opened there, which is the cheapest.
    first: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Label {
    node: u32,
    arc: u32,
    parent: u32,
}

const NONE: u32 = u32::MAX;

impl Search {
    /// Opens labels until every node of `ends` is reached, or can not be, and gives how many it made. `weight` is the cost of an arc for this job,
    /// `None` where the job may not take it.
    pub fn run(&mut self, desk: &Desk, job: &Job, ends: &[u32], weight: impl Fn(usize) -> Option<i64>) -> u64 {
        let nodes = desk.leaving.len();
        self.labels.clear();
        self.heap.clear();
        self.quickest.clear();
        self.quickest.resize(nodes, i64::MAX);
        self.first.clear();
        self.first.resize(nodes, NONE);
        self.labels.push(Label { node: job.source, arc: NONE, parent: NONE });
        self.heap.push(Reverse((0, 0, 0)));
        let bounded = job.bound < super::desk::ANY_DELAY;
        let mut left = ends.len();
        while let Some(Reverse((cost, delay, at))) = self.heap.pop() {
            let node = self.labels[at as usize].node as usize;
            if delay >= self.quickest[node] {
                continue;
            }
            self.quickest[node] = delay;
            if self.first[node] == NONE {
                self.first[node] = at;
                left -= ends.iter().filter(|e| **e as usize == node).count();
                if left == 0 {
                    break;
                }
            }
            for &arc in &desk.leaving[node] {
                let Some(more) = weight(arc as usize) else { continue };
                let edge = &desk.arcs[arc as usize];
                let later = if bounded { delay + edge.delay } else { 0 };
                if later > job.bound || later >= self.quickest[edge.to as usize] {
                    continue;
                }
                self.heap.push(Reverse((cost.saturating_add(more), later, self.labels.len() as u32)));
                self.labels.push(Label { node: edge.to, arc, parent: at });
            }
        }
        self.labels.len() as u64
    }

    /// Arcs of the cheapest path to `node`, in order; `None`: there is none within the bound.
    pub fn path(&self, node: u32) -> Option<Box<[u32]>> {
        let mut at = self.first[node as usize];
        if at == NONE {
            return None;
        }
        let mut arcs = Vec::new();
        while self.labels[at as usize].parent != NONE {
            arcs.push(self.labels[at as usize].arc);
            at = self.labels[at as usize].parent;
        }
        arcs.reverse();
        Some(arcs.into())
    }

    /// Whether the cheapest path to `node` is `arcs`.
    pub fn ends_as(&self, node: u32, arcs: &[u32]) -> bool {
        let mut at = self.first[node as usize];
        if at == NONE {
            return false;
        }
        let mut rest = arcs.iter().rev();
        while self.labels[at as usize].parent != NONE {
            if rest.next() != Some(&self.labels[at as usize].arc) {
                return false;
            }
            at = self.labels[at as usize].parent;
        }
        rest.next().is_none()
    }
}
