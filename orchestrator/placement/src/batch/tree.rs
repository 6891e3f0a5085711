//! Branch and bound over the dual: which pool a job takes, then which job of a full arc goes around it.

use super::{
    ascent::{Climb, climb},
    booking::{Booking, Bookings},
    desk::Desk,
    dual::{Dual, Often, Prices},
    insertion::{Effort, Filled, Market, Turn, improve, insert},
    scope::Scope,
};
use crate::dice::Dice;
use std::{cmp::Reverse, collections::BTreeMap};

/// What the tree may spend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Elementary operations of the dual, about a nanosecond each.
    pub work: u64,
    /// Rounds of search for a better plan at each node.
    pub rounds: u32,
}

/// The cheapest plan and the bound when the tree is done, or its budget.
#[derive(Debug)]
pub(crate) struct Grown {
    pub best: Filled<Booking>,
    pub bound: i128,
    pub nodes: u64,
}

/// Of the whole batch, of a part, and of a part that is only looked at to choose a cut. The limit is the budget's.
const ROOT: Climb = Climb { steps: 3_000, pace: 2_048, patience: 80, search_every: 30, limit: 0 };
const CHILD: Climb = Climb { steps: 100, pace: 512, patience: 15, search_every: 30, limit: 0 };
const LOOK: Climb = Climb { steps: 25, pace: 512, patience: 6, search_every: 20, limit: 0 };
/// Cuts of either kind that are looked at.
const OFFERS: usize = 3;
const ARCS: usize = 1;

/// A bound this part of the cost below it is as good as reached.
const NEAR: i128 = 10_000_000;

pub(crate) fn grow<'d>(
    desk: &'d Desk,
    market: &mut Bookings<'d>,
    best: Filled<Booking>,
    budget: Budget,
    dice: &mut Dice,
) -> Grown {
    let mut dual = Dual::new(desk);
    let scope = Scope::whole(desk);
    let prices = dual.start(&scope);
    let root = Node { scope, prices, bound: 0, split: Split::None };
    let mut tree = Tree {
        desk,
        market,
        dual,
        dice,
        rounds: budget.rounds,
        best,
        open: BTreeMap::new(),
        stuck: i128::MAX,
        made: 0,
        limit: budget.work,
    };
    tree.visit(root, ROOT);
    while let Some(entry) = tree.open.first_entry() {
        if entry.key().0 + tree.best.cost / NEAR >= tree.best.cost || tree.dual.work >= budget.work {
            break;
        }
        let (_, node) = entry.remove_entry();
        for scope in node.split.children(&node.scope) {
            let child = Node { scope, prices: node.prices.clone(), bound: node.bound, split: Split::None };
            tree.visit(child, CHILD);
        }
    }
    let open = tree.open.first_key_value().map_or(i128::MAX, |((bound, _), _)| *bound);
    let bound = open.min(tree.stuck).min(tree.best.cost);
    Grown { best: tree.best, bound, nodes: tree.made }
}

struct Node {
    scope: Scope,
    prices: Prices,
    bound: i128,
    split: Split,
}

/// How a node is cut in parts that together hold every plan of it.
enum Split {
    None,
    /// The job takes the offer, or does not; flat as in a scope.
    Offer {
        job: usize,
        offer: usize,
    },
    /// The arc can not carry all of these jobs: one of them is kept off it.
    Arc {
        arc: u32,
        jobs: Vec<u32>,
    },
}

impl Split {
    fn children(&self, scope: &Scope) -> Vec<Scope> {
        match self {
            Self::None => Vec::new(),
            Self::Offer { job, offer } => vec![scope.only(*job, *offer), scope.without(*offer)],
            Self::Arc { arc, jobs } => jobs.iter().map(|j| scope.banned(*j, *arc)).collect(),
        }
    }
}

struct Tree<'t, 'd> {
    desk: &'d Desk,
    market: &'t mut Bookings<'d>,
    dual: Dual<'d>,
    dice: &'t mut Dice,
    rounds: u32,
    best: Filled<Booking>,
    /// By bound, then age.
    open: BTreeMap<(i128, u64), Node>,
    /// The least bound of a node that could not be cut.
    stuck: i128,
    made: u64,
    /// No climb begins a step past this work.
    limit: u64,
}

impl Tree<'_, '_> {
    fn visit(&mut self, mut node: Node, how: Climb) {
        self.made += 1;
        if !node.scope.settle(self.desk) {
            return;
        }
        let bound = climb(
            self.desk,
            &mut self.dual,
            &node.scope,
            &mut node.prices,
            self.best.cost,
            Climb { limit: self.limit, ..how },
        );
        // a plan costs a multiple of the grain
        let grain = i128::from(self.desk.grain);
        let above = bound.rem_euclid(grain);
        node.bound = node.bound.max(if above == 0 { bound } else { bound - above + grain });
        if node.bound >= self.best.cost {
            return;
        }
        self.try_plan();
        if node.bound >= self.best.cost {
            return;
        }
        node.split = self.split(&node);
        if matches!(node.split, Split::None) {
            self.stuck = self.stuck.min(node.bound);
            return;
        }
        self.open.insert((node.bound, self.made), node);
    }

    /// A plan from the dual's last reply: what it serves once and fits, the rest inserted.
    fn try_plan(&mut self) {
        let mut plan = Filled::empty(self.market);
        let mut room = self.market.whole();
        for pick in &self.dual.reply.picks {
            let job = pick.job as usize;
            if self.dual.reply.times[job] != 1 {
                continue;
            }
            let booking = self.dual.booking(pick);
            if self.market.fits(&room, job, &booking) {
                self.market.take(&mut room, job, &booking);
                plan.set(self.market, job, booking);
            }
        }
        let rest: Vec<usize> = (0..self.desk.jobs.len()).filter(|j| plan.taken[*j].is_none()).collect();
        insert(self.market, &mut plan, room, &rest, Turn::Regret, self.dice);
        let effort = Effort { rounds: self.rounds, out: 6, patience: self.rounds };
        let plan = improve(self.market, plan, 0, effort, self.dice);
        if plan.cost < self.best.cost {
            self.best = plan;
        }
    }

    /// The cut whose parts have the highest bounds, of those where the last replies disagreed most.
    fn split(&mut self, node: &Node) -> Split {
        let mut splits = self.candidates(node);
        if splits.len() < 2 {
            return splits.pop().unwrap_or(Split::None);
        }
        let mut best: Option<(i128, i128, usize)> = None;
        for (i, split) in splits.iter().enumerate() {
            let (mut least, mut sum) = (i128::MAX, 0);
            for mut scope in split.children(&node.scope) {
                let bound = if scope.settle(self.desk) {
                    let mut prices = node.prices.clone();
                    let look = Climb { limit: self.limit, ..LOOK };
                    climb(self.desk, &mut self.dual, &scope, &mut prices, self.best.cost, look)
                        .clamp(node.bound, self.best.cost)
                } else {
                    self.best.cost
                };
                least = least.min(bound - node.bound);
                sum += bound - node.bound;
            }
            if best.is_none_or(|(l, s, _)| (least, sum) > (l, s)) {
                best = Some((least, sum, i));
            }
        }
        best.map_or(Split::None, |(.., i)| splits.swap_remove(i))
    }

    fn candidates(&self, node: &Node) -> Vec<Split> {
        let often = &self.dual.often;
        let mut offers = Vec::new();
        for (j, job) in self.desk.jobs.iter().enumerate() {
            let open = (node.scope.first[j]..node.scope.first[j + 1]).filter(|o| node.scope.open[*o]);
            let list: Vec<usize> = open.collect();
            if list.len() < 2 {
                continue;
            }
            let Some(most) = list.iter().copied().max_by_key(|o| (often.chosen[*o], Reverse(*o))) else {
                continue;
            };
            // parts of 16 in doubt, and what is at stake
            let doubt = (Often::ALWAYS - often.chosen[most]).clamp(0, Often::ALWAYS / 2) * 16 / Often::ALWAYS;
            if doubt > 0 {
                offers.push((doubt * job.reject, Reverse(j), most));
            }
        }
        offers.sort_unstable_by(|a, b| b.cmp(a));
        let mut arcs: Vec<(i64, Reverse<u32>, &Vec<u32>)> = often
            .over
            .iter()
            .filter(|(arc, jobs)| {
                node.prices.arc[**arc as usize] > 0 && jobs.iter().all(|j| !node.scope.bans(*j, **arc))
            })
            .map(|(arc, jobs)| (node.prices.arc[*arc as usize], Reverse(*arc), jobs))
            .collect();
        arcs.sort_unstable_by(|a, b| b.cmp(a));
        let mut splits: Vec<Split> =
            offers.iter().take(OFFERS).map(|(_, j, offer)| Split::Offer { job: j.0, offer: *offer }).collect();
        let covers = arcs.iter().take(ARCS);
        splits.extend(covers.map(|(_, arc, jobs)| Split::Arc { arc: arc.0, jobs: self.cover(arc.0, jobs) }));
        if splits.is_empty() { vec![self.any(node)] } else { splits }
    }

    /// Fewest of these jobs that are too many for the arc.
    fn cover(&self, arc: u32, jobs: &[u32]) -> Vec<u32> {
        let mut largest = jobs.to_vec();
        largest.sort_by_key(|j| (Reverse(self.desk.jobs[*j as usize].rate), *j));
        let mut sum = 0;
        let capacity = self.desk.arcs[arc as usize].capacity;
        largest
            .into_iter()
            .take_while(|j| {
                let more = sum <= capacity;
                sum += self.desk.jobs[*j as usize].rate;
                more
            })
            .collect()
    }

    /// Any job that still has a choice.
    fn any(&self, node: &Node) -> Split {
        for j in 0..self.desk.jobs.len() {
            let mut open = (node.scope.first[j]..node.scope.first[j + 1]).filter(|o| node.scope.open[*o]);
            if let (Some(offer), Some(_)) = (open.next(), open.next()) {
                return Split::Offer { job: j, offer };
            }
        }
        Split::None
    }
}
