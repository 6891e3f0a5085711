//! Flows of one demand moved between its paths until none of them is longer than another.

use super::measure::Measure;

/// A path and what it carries, in units of load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flow {
    pub arcs: Vec<u32>,
    pub carried: u64,
}

/// Lengths this close (one in 2^22) are equal: a shift between such paths gains next to nothing.
const ALIKE: u32 = 22;
/// Halvings of a shift; the next round corrects what they leave.
const HALVINGS: u32 = 28;

/// Marks arcs of one path, so that what two paths share is left out.
#[derive(Debug, Default)]
pub(super) struct Marks {
    stamp: u32,
    of: Vec<u32>,
}

impl Marks {
    pub fn new(arcs: usize) -> Self {
        Self { stamp: 0, of: vec![0; arcs] }
    }

    fn set(&mut self, arcs: &[u32]) {
        self.stamp += 1;
        for arc in arcs {
            self.of[*arc as usize] = self.stamp;
        }
    }

    fn has(&self, arc: u32) -> bool {
        self.of[arc as usize] == self.stamp
    }
}

/// Moves flow from longer paths to `best`, as far as that lowers the potential. Lengths follow the loads.
pub(super) fn balance(measure: &mut Measure, marks: &mut Marks, flows: &mut Vec<Flow>, best: &[u32]) {
    let length = |measure: &Measure, arcs: &[u32]| sum(arcs.iter().map(|a| measure.length(*a)));
    let shortest = length(measure, best);
    let longest = flows.iter().map(|f| length(measure, &f.arcs)).max().unwrap_or(0);
    if longest <= shortest + (shortest >> ALIKE) {
        return;
    }
    let target = flows.iter().position(|f| f.arcs == best).unwrap_or_else(|| {
        flows.push(Flow { arcs: best.to_vec(), carried: 0 });
        flows.len() - 1
    });
    for i in 0..flows.len() {
        if i == target {
            continue;
        }
        marks.set(&flows[i].arcs);
        let onto: Vec<u32> = best.iter().copied().filter(|a| !marks.has(*a)).collect();
        marks.set(best);
        let off: Vec<u32> = flows[i].arcs.iter().copied().filter(|a| !marks.has(*a)).collect();
        let moved = shift(measure, &off, &onto, flows[i].carried);
        for arc in &off {
            measure.load[*arc as usize] -= moved;
        }
        for arc in &onto {
            measure.load[*arc as usize] += moved;
        }
        flows[i].carried -= moved;
        flows[target].carried += moved;
    }
    flows.retain(|f| f.carried > 0);
}

/// How much of `most` to move, so that the arcs `off` are no longer than the arcs `onto` afterwards.
fn shift(measure: &Measure, off: &[u32], onto: &[u32], most: u64) -> u64 {
    let gains = |moved: u64| {
        let lost = sum(off.iter().map(|a| measure.length_at(*a, measure.load[*a as usize] - moved)));
        let won = sum(onto.iter().map(|a| measure.length_at(*a, measure.load[*a as usize] + moved)));
        lost > won.saturating_add(won >> ALIKE)
    };
    if !gains(0) {
        return 0;
    }
    if gains(most) {
        return most;
    }
    let (mut low, mut high) = (0, most);
    for _ in 0..HALVINGS {
        let middle = low + (high - low) / 2;
        if gains(middle) { low = middle } else { high = middle }
    }
    low
}

fn sum(lengths: impl Iterator<Item = u64>) -> u64 {
    lengths.fold(0, u64::saturating_add)
}
