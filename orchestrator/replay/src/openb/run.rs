//! One run: the pods in turn.

use super::{
    Bench, Outcome, Policy,
    board::{Board, Choose, Random},
    column::Columns,
    node::Node,
    published::{BestFit, Clustering, DotProd, Fgd, Packing, Rhumb, Scorer, typical},
};
use crate::scoring::{MAX_DEVICES, Need, Valued, WHOLE};

/// What became of one pod.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'a> {
    /// Its place in the order of arrival, from 0.
    pub event: usize,
    /// Its row in the pod list.
    pub pod: usize,
    /// The row of its node; none where it was dropped.
    pub node: Option<usize>,
    /// The numbers of its devices there.
    pub devices: &'a [u8],
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RunError {
    #[error("there is no arrival order for seed {seed}; the arrivals have {known}")]
    Seed { seed: u64, known: String },
}

pub(super) fn run(
    bench: &Bench,
    policy: Policy,
    seed: u64,
    observe: &mut dyn FnMut(&Decision<'_>),
) -> Result<Outcome, RunError> {
    let Some(arrivals) = bench.arrivals.0.get(&seed) else {
        let known = bench.seeds().map(|seed| seed.to_string()).collect::<Vec<_>>().join(", ");
        return Err(RunError::Seed { seed, known });
    };
    let ranks = bench.ranks(seed);
    let mut nodes: Vec<Node> = bench.nodes.rows.iter().enumerate().map(|(row, free)| Node::new(row, *free)).collect();
    nodes.sort_by_key(|node| (ranks[node.row], node.row));
    let demand = &bench.demand;
    let run = Run { bench, arrivals, nodes, policy, seed };
    Ok(match policy {
        Policy::Random => run.all(Random::new(seed), observe),
        Policy::DotProd => run.scored(DotProd, observe),
        Policy::Clustering => run.scored(Clustering, observe),
        Policy::Packing => run.scored(Packing, observe),
        Policy::BestFit => run.scored(BestFit, observe),
        Policy::Fgd => run.scored(Fgd::new(demand), observe),
        Policy::Rhumb => run.scored(Rhumb::new(demand), observe),
    })
}

struct Run<'a> {
    bench: &'a Bench,
    arrivals: &'a [u32],
    /// In the order of their names.
    nodes: Vec<Node>,
    policy: Policy,
    seed: u64,
}

impl Run<'_> {
    fn scored(mut self, scorer: impl Scorer, observe: &mut dyn FnMut(&Decision<'_>)) -> Outcome {
        let board = Board::new(scorer, &mut self.nodes, self.bench.pods.classes.len());
        self.all(board, observe)
    }

    fn all(mut self, mut chooser: impl Choose, observe: &mut dyn FnMut(&Decision<'_>)) -> Outcome {
        let measure = typical(&self.bench.demand);
        let mut idle: u64 = self.nodes.iter().map(|node| u64::from(node.idle_milli)).sum();
        let mut fragmented: i64 = self.nodes.iter().map(|node| measure.value(&node.free)).sum();
        let mut columns = Columns::new(idle);
        let mut failed = 0;
        for (event, pod) in self.arrivals.iter().map(|pod| *pod as usize).enumerate() {
            let class = self.bench.pods.rows[pod];
            let need = &self.bench.pods.classes[class];
            let asked = need.total_milli();
            let mut given = 0;
            match chooser.choose(&self.nodes, class, need) {
                None => {
                    failed += 1;
                    observe(&Decision { event, pod, node: None, devices: &[] });
                }
                Some((place, device)) => {
                    let node = &mut self.nodes[place];
                    let (devices, count) = devices(node, need, device);
                    let before = measure.value(&node.free);
                    node.take(need, device);
                    fragmented += measure.value(&node.free) - before;
                    idle -= u64::from(asked);
                    given = asked;
                    observe(&Decision { event, pod, node: Some(node.row), devices: &devices[..count] });
                    chooser.changed(&mut self.nodes, place);
                }
            }
            let frag = fragmented as f64 / (measure.total().max(1) as f64 * idle.max(1) as f64);
            columns.add(asked, given, frag);
        }
        columns.outcome(self.policy, self.seed, failed)
    }
}

/// The devices that a need will have of the node: the one chosen for a share, else the first whole ones.
fn devices(node: &Node, need: &Need, device: u8) -> ([u8; MAX_DEVICES], usize) {
    let mut chosen = [0; MAX_DEVICES];
    if need.is_share() {
        chosen[0] = device;
        return (chosen, 1);
    }
    let left = node.free.devices().iter().enumerate();
    let whole = left.filter(|(_, left)| **left == WHOLE).map(|(at, _)| at as u8);
    whole.take(usize::from(need.devices)).enumerate().for_each(|(at, device)| chosen[at] = device);
    (chosen, usize::from(need.devices))
}
