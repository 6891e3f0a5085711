//! One path for each demand: from the split routing, by best responses to the potential, shaken and repeated.
//!
//! With all else in place, the path that adds least to the potential is a shortest path under what each arc would gain, so
//! a best response is exact. Nobody moves any more in a local optimum; a shake lays a few demands of the fullest arcs anew.

use super::{
    Matrix, Routing, Share, Utilisation,
    measure::Measure,
    split::{self, Solved, SplitEffort},
    tree::Tree,
};
use crate::dice::Dice;
use std::cmp::Reverse;

/// How long the search goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsplitEffort {
    /// For the routing to begin with, and the bound.
    pub split: SplitEffort,
    /// Ends once the utilisation is within this of the lower bound, in parts per million of the bound.
    pub gap_ppm: u64,
    /// Best responses of single demands to shakes; a little more where a shake is under way.
    pub responses: u64,
    pub seed: u64,
}

impl Default for UnsplitEffort {
    fn default() -> Self {
        Self { split: SplitEffort::default(), gap_ppm: 1_000, responses: 300_000, seed: 1 }
    }
}

/// Sharpness of the potentials that are descended one after the other.
const SHARPNESS: [u64; 5] = [16, 48, 128, 384, SHARPEST];
const SHARPEST: u64 = 1_024;
/// Rounds of best responses under one potential at the most, at first and after a shake.
const ROUNDS: u32 = 12;
const SHORT_ROUNDS: u32 = 3;
/// How full an arc is for a shake to begin there, and for its demands to answer one: in thousandths of the fullest.
const FULL: u32 = 999;
const FILLING: u32 = 970;
/// Demands that a shake takes off the full arc, and off any other, at the most.
const OFF_FULL: usize = 6;
const OFF_ANY: usize = 7;
/// Shakes that may lead uphill before the best routing is taken up again.
const STRAY: u32 = 4;

/// The routing on single paths with the least largest utilisation that the effort finds.
pub fn unsplit(matrix: &Matrix, effort: UnsplitEffort) -> Routing {
    let solved = split::solve(matrix, effort.split);
    let bound = whole_loads(matrix, solved.bound).max(matrix.widest);
    let enough = u128::from(bound.billionths) * (1_000_000 + u128::from(effort.gap_ppm)) / 1_000_000;
    let mut search = Search::new(matrix, &solved);
    let mut rounds = solved.rounds + search.settle();
    let mut best = search.snapshot();
    let mut dice = Dice::new(effort.seed);
    let end = search.responses + effort.responses;
    let mut shakes = 0_u32;
    while search.responses < end && u128::from(search.utilisation(best.largest).billionths) > enough {
        shakes += 1;
        rounds += search.shake(&mut dice);
        let found = search.snapshot();
        if found.rank() <= best.rank() {
            best = found;
        } else if shakes.is_multiple_of(STRAY) {
            search.restore(&best);
        }
    }
    let parts = 1 << solved.scale;
    let mut paths = vec![Vec::new(); matrix.demands];
    for (want, arcs) in matrix.wanted.iter().zip(&best.routes) {
        let arcs = arcs.iter().map(|a| matrix.given[*a as usize]).collect();
        paths[want.given] = vec![Share { arcs, carried: u128::from(want.amount) * u128::from(parts), parts }];
    }
    Routing { max_utilisation: search.utilisation(best.largest), lower_bound: bound, paths, rounds }
}

/// A bound raised to what loads can be: sums of whole demands are multiples of their greatest common divisor.
fn whole_loads(matrix: &Matrix, bound: Utilisation) -> Utilisation {
    let step = matrix.wanted.iter().fold(0, |gcd, w| greatest_common_divisor(gcd, w.amount));
    let billion = 1_000_000_000_u128;
    let raised = matrix.arcs.iter().filter_map(|arc| {
        let load = u128::from(bound.billionths) * u128::from(arc.capacity);
        let load = load.div_ceil(billion * u128::from(step.max(1))) * u128::from(step);
        // the fullest arc is one of these: the least of them is a bound
        u64::try_from(load * billion / u128::from(arc.capacity)).ok()
    });
    raised.min().map_or(bound, |billionths| bound.max(Utilisation { billionths }))
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

struct Snapshot {
    routes: Vec<Vec<u32>>,
    /// Load and capacity of the fullest arc.
    largest: (u64, u64),
    /// Weight of all arcs: of two routings with one largest utilisation, fewer arcs are as full.
    crowd: u64,
}

impl Snapshot {
    fn rank(&self) -> (u128, u64) {
        ((u128::from(self.largest.0) << 60) / u128::from(self.largest.1), self.crowd)
    }
}

struct Search<'a> {
    matrix: &'a Matrix,
    measure: Measure,
    scale: u32,
    routes: Vec<Vec<u32>>,
    /// Wanted demands, largest first.
    order: Vec<u32>,
    /// Best responses so far.
    responses: u64,
    tree: Tree,
    path: Vec<u32>,
}

impl<'a> Search<'a> {
    /// Every demand on the path that carries most of it.
    fn new(matrix: &'a Matrix, solved: &Solved) -> Self {
        let routes = solved.flows.iter().map(|flows| {
            let main = flows.iter().min_by_key(|f| (Reverse(f.carried), f.arcs.len(), &f.arcs));
            main.map(|f| f.arcs.clone()).unwrap_or_default()
        });
        let routes = routes.collect();
        let mut order: Vec<u32> = (0..solved.flows.len() as u32).collect();
        order.sort_by_key(|i| Reverse(matrix.wanted[*i as usize].amount));
        let measure = Measure::new(matrix);
        let mut search = Self {
            matrix,
            measure,
            scale: solved.scale,
            routes,
            order,
            responses: 0,
            tree: Tree::default(),
            path: Vec::new(),
        };
        search.load();
        search
    }

    fn load(&mut self) {
        self.measure.load.fill(0);
        for i in 0..self.routes.len() {
            self.lay(i);
        }
    }

    fn utilisation(&self, (load, capacity): (u64, u64)) -> Utilisation {
        Utilisation::at_most(load.into(), u128::from(capacity) << self.scale)
    }

    fn snapshot(&mut self) -> Snapshot {
        let largest = self.measure.fullest();
        self.measure.refer(largest, SHARPEST);
        let load = &self.measure.load;
        let crowd = (0..).zip(load).map(|(arc, load)| self.measure.weight(arc, *load)).sum();
        Snapshot { routes: self.routes.clone(), largest, crowd }
    }

    fn restore(&mut self, to: &Snapshot) {
        self.routes.clone_from(&to.routes);
        self.load();
    }

    /// Best responses of all demands in turn, under ever sharper potentials, until nobody moves. Returns the rounds.
    fn settle(&mut self) -> u32 {
        SHARPNESS.iter().map(|sharpness| self.respond_all(*sharpness, ROUNDS, 0)).sum()
    }

    /// Best responses of demands on arcs that are at least so full, in thousandths of the fullest.
    fn respond_all(&mut self, sharpness: u64, rounds: u32, least: u32) -> u32 {
        for round in 1..=rounds {
            let fullest = self.measure.fullest();
            self.measure.refer(fullest, sharpness);
            let mut moved = false;
            for next in 0..self.order.len() {
                let i = self.order[next] as usize;
                if self.routes[i].iter().any(|arc| self.measure.near(*arc, fullest, least)) {
                    self.lift(i);
                    moved |= self.respond(i);
                    self.lay(i);
                }
            }
            if !moved {
                return round;
            }
        }
        rounds
    }

    fn amount(&self, i: usize) -> u64 {
        self.matrix.wanted[i].amount << self.scale
    }

    fn lift(&mut self, i: usize) {
        let amount = self.amount(i);
        for arc in &self.routes[i] {
            self.measure.load[*arc as usize] -= amount;
        }
    }

    fn lay(&mut self, i: usize) {
        let amount = self.amount(i);
        for arc in &self.routes[i] {
            self.measure.load[*arc as usize] += amount;
        }
    }

    /// Routes a lifted demand where it adds least to the potential; of equals it stays. Whether the route is a new one.
    fn respond(&mut self, i: usize) -> bool {
        self.responses += 1;
        let (want, amount, measure) = (self.matrix.wanted[i], self.amount(i), &self.measure);
        let added = |arc: u32| {
            let load = measure.load[arc as usize];
            measure.rise(arc, load, load + amount)
        };
        self.tree.grow(self.matrix, want.from, Some(want.to), added);
        self.tree.path(self.matrix, want.to, &mut self.path);
        let cost = |path: &[u32]| (path.iter().fold(0, |sum, arc| added(*arc).saturating_add(sum)), path.len());
        let route = &mut self.routes[i];
        let better = route.is_empty() || cost(&self.path) < cost(route);
        if better {
            route.clone_from(&self.path);
        }
        better
    }

    /// Takes demands off a full arc, and a few others, lays them anew in another order, and lets what is near answer.
    fn shake(&mut self, dice: &mut Dice) -> u32 {
        let fullest = self.measure.fullest();
        let sharpness = SHARPNESS[1 + dice.index(SHARPNESS.len() - 1)];
        self.measure.refer(fullest, sharpness);
        let arcs = 0..self.measure.load.len() as u32;
        let full: Vec<u32> = arcs.filter(|arc| self.measure.near(*arc, fullest, FULL)).collect();
        let arc = full[dice.index(full.len())];
        let mut there: Vec<usize> = (0..self.routes.len()).filter(|i| self.routes[*i].contains(&arc)).collect();
        let mut lifted = Vec::new();
        for _ in 0..=dice.index(OFF_FULL) {
            if !there.is_empty() {
                lifted.push(there.swap_remove(dice.index(there.len())));
            }
        }
        for _ in 0..dice.index(OFF_ANY + 1) {
            let other = dice.index(self.routes.len());
            if !lifted.contains(&other) {
                lifted.push(other);
            }
        }
        for i in &lifted {
            self.lift(*i);
            self.routes[*i].clear();
        }
        while !lifted.is_empty() {
            let i = lifted.swap_remove(dice.index(lifted.len()));
            self.respond(i);
            self.lay(i);
        }
        self.respond_all(sharpness, SHORT_ROUNDS, FILLING) + self.respond_all(SHARPEST, SHORT_ROUNDS, FILLING)
    }
}
