//! Shortest and widest paths from one point, over arcs in canonical order.

use super::Matrix;
use std::{cmp::Reverse, collections::BinaryHeap};

pub(super) const NONE: u32 = u32::MAX;

/// Distances from one point, and the arc by which each point is reached.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    pub distance: Vec<u64>,
    pub links: Vec<u32>,
    pub arc: Vec<u32>,
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl Tree {
    /// Shortest by length, then by links; equal ones by the order of arcs. Ends early once `until` is reached.
    pub fn grow(&mut self, matrix: &Matrix, root: u32, until: Option<u32>, length: impl Fn(u32) -> u64) {
        let Self { distance, links, arc, heap } = self;
        for list in [&mut *links, &mut *arc] {
            list.clear();
            list.resize(matrix.points, NONE);
        }
        distance.clear();
        distance.resize(matrix.points, u64::MAX);
        heap.clear();
        distance[root as usize] = 0;
        links[root as usize] = 0;
        heap.push(Reverse((0, 0, root)));
        while let Some(Reverse((reached, hops, point))) = heap.pop() {
            if (reached, hops) != (distance[point as usize], links[point as usize]) {
                continue;
            }
            if until == Some(point) {
                return;
            }
            for &a in &matrix.leaving[point as usize] {
                let to = matrix.arcs[a as usize].to as usize;
                let next = (reached.saturating_add(length(a)), hops + 1);
                if next < (distance[to], links[to]) {
                    (distance[to], links[to]) = next;
                    arc[to] = a;
                    heap.push(Reverse((next.0, next.1, to as u32)));
                }
            }
        }
    }

    /// The arcs from the root to a point that was reached, in order.
    pub fn path(&self, matrix: &Matrix, to: u32, path: &mut Vec<u32>) {
        path.clear();
        let mut point = to;
        while self.arc[point as usize] != NONE {
            let arc = self.arc[point as usize];
            path.push(arc);
            point = matrix.arcs[arc as usize].from;
        }
        path.reverse();
    }
}

/// The capacity of the widest path to each point; 0 where none leads.
pub(super) fn widths(matrix: &Matrix, root: u32) -> Vec<u64> {
    let mut width = vec![0; matrix.points];
    width[root as usize] = u64::MAX;
    let mut heap = BinaryHeap::from([(u64::MAX, root)]);
    while let Some((wide, point)) = heap.pop() {
        if wide < width[point as usize] {
            continue;
        }
        for &a in &matrix.leaving[point as usize] {
            let edge = &matrix.arcs[a as usize];
            let through = wide.min(edge.capacity);
            if through > width[edge.to as usize] {
                width[edge.to as usize] = through;
                heap.push((through, edge.to));
            }
        }
    }
    width
}
