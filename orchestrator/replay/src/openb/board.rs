//! The nodes in the order of their names, and every score that still holds.
//!
//! A decision changes one node. For each class of pods the scores of all nodes are kept, and only the nodes that changed
//! since that class last came are scored again; the best one is then found by one pass over the kept scores.

use super::{node::Node, published::Scorer, ranks::Chance};
use crate::scoring::{Need, Pick};

/// Chooses a node for a pod of a class.
pub(super) trait Choose {
    /// The place of the chosen node, and the device for a share.
    fn choose(&mut self, nodes: &[Node], class: usize, need: &Need) -> Option<(usize, u8)>;

    /// The node at a place has taken a pod.
    fn changed(&mut self, _nodes: &mut [Node], _place: usize) {}
}

pub(super) struct Board<S> {
    scorer: S,
    classes: Vec<Class>,
    /// Places of the changed nodes, in turn.
    changes: Vec<u32>,
    /// By place, the pass in which it was scored last.
    scored: Vec<u32>,
    pass: u32,
}

#[derive(Clone, Default)]
struct Class {
    /// By place; none where it does not fit. Empty before the class first comes.
    picks: Vec<Option<Pick>>,
    /// Changes that the scores know of.
    seen: usize,
}

impl<S: Scorer> Board<S> {
    pub(super) fn new(scorer: S, nodes: &mut [Node], classes: usize) -> Self {
        for node in nodes.iter_mut() {
            node.value = scorer.value(&node.free);
        }
        let classes = vec![Class::default(); classes];
        Self { scorer, classes, changes: Vec::new(), scored: vec![0; nodes.len()], pass: 0 }
    }
}

impl<S: Scorer> Choose for Board<S> {
    fn choose(&mut self, nodes: &[Node], class: usize, need: &Need) -> Option<(usize, u8)> {
        let score = |node: &Node| node.fits(need).then(|| self.scorer.score(node, need));
        let class = &mut self.classes[class];
        if class.picks.is_empty() {
            class.picks = nodes.iter().map(score).collect();
        } else {
            self.pass += 1;
            for place in self.changes[class.seen..].iter().map(|place| *place as usize) {
                if self.scored[place] != self.pass {
                    self.scored[place] = self.pass;
                    class.picks[place] = score(&nodes[place]);
                }
            }
        }
        class.seen = self.changes.len();
        let mut best: Option<(usize, Pick)> = None;
        for (place, pick) in class.picks.iter().enumerate() {
            if let Some(pick) = pick
                && best.is_none_or(|(_, best)| pick.score > best.score)
            {
                best = Some((place, *pick));
            }
        }
        best.map(|(place, pick)| (place, pick.device))
    }

    fn changed(&mut self, nodes: &mut [Node], place: usize) {
        nodes[place].value = self.scorer.value(&nodes[place].free);
        self.changes.push(place as u32);
    }
}

/// Any node that fits, and any device of it, each as likely as the others.
pub(super) struct Random {
    chance: Chance,
    fitting: Vec<usize>,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // not the sequence that the ranks are drawn from
        Self { chance: Chance::new(seed ^ 1 << 63), fitting: Vec::new() }
    }
}

impl Choose for Random {
    fn choose(&mut self, nodes: &[Node], _class: usize, need: &Need) -> Option<(usize, u8)> {
        self.fitting.clear();
        self.fitting.extend((0..nodes.len()).filter(|place| nodes[*place].fits(need)));
        if self.fitting.is_empty() {
            return None;
        }
        let place = self.fitting[self.chance.below(self.fitting.len())];
        let devices = nodes[place].free.devices();
        let wide: Vec<usize> = (0..devices.len()).filter(|at| devices[*at] >= need.device_milli).collect();
        let device = if need.is_share() { wide[self.chance.below(wide.len())] as u8 } else { 0 };
        Some((place, device))
    }
}
