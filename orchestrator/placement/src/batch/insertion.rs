//! A batch of jobs that share what there is: regret insertion, and large-neighbourhood search on top of it.
//!
//! What a job can take (a column) and what is left (a room) are the market's business, so the same search serves dense
//! instances and orders on a view. Costs are integers; equal ones are told apart by ordinal. Chance comes from a seed.

use crate::dice::Dice;

/// Jobs, what each can take, and what they take it from.
pub(crate) trait Market {
    type Room: Clone;
    type Column: Clone;

    fn jobs(&self) -> usize;
    /// All there is.
    fn whole(&self) -> Self::Room;
    /// What leaving the job out costs.
    fn without(&self, job: usize) -> i128;
    fn cost(&self, column: &Self::Column) -> i128;
    /// The cheapest column that fits, and the cheapest one unlike it.
    fn offers(&mut self, room: &Self::Room, job: usize) -> [Option<Self::Column>; 2];
    fn fits(&self, room: &Self::Room, job: usize, column: &Self::Column) -> bool;
    /// False, and nothing is taken, where it does not fit.
    fn take(&self, room: &mut Self::Room, job: usize, column: &Self::Column) -> bool;
    /// Whether taking one may be why the other no longer fits.
    fn meets(&self, one: &Self::Column, other: &Self::Column) -> bool;
    /// Whether the job might want what another job's column holds.
    fn contends(&self, job: usize, other: &Self::Column) -> bool;
}

/// What each job takes, and what it all costs with those left out.
#[derive(Debug, Clone)]
pub(crate) struct Filled<C> {
    pub taken: Vec<Option<C>>,
    pub cost: i128,
}

/// How the next job to insert is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The one that loses most if its cheapest column goes to another.
    Regret,
    /// By chance.
    Chance,
}

impl<C: Clone> Filled<C> {
    pub fn empty<M: Market<Column = C>>(market: &M) -> Self {
        let cost = (0..market.jobs()).map(|j| market.without(j)).sum();
        Self { taken: vec![None; market.jobs()], cost }
    }

    /// What the batch leaves; `None` where it does not fit when taken job by job.
    pub fn room<M: Market<Column = C>>(&self, market: &M) -> Option<M::Room> {
        let mut room = market.whole();
        for (job, column) in self.taken.iter().enumerate() {
            if let Some(column) = column
                && !market.take(&mut room, job, column)
            {
                return None;
            }
        }
        Some(room)
    }

    fn remove<M: Market<Column = C>>(&mut self, market: &M, job: usize) {
        if let Some(column) = self.taken[job].take() {
            self.cost += market.without(job) - market.cost(&column);
        }
    }

    pub fn set<M: Market<Column = C>>(&mut self, market: &M, job: usize, column: C) {
        self.cost += market.cost(&column) - market.without(job);
        self.taken[job] = Some(column);
    }
}

/// Inserts `pending` (ascending) one by one into `room`, which the batch leaves.
pub(crate) fn insert<M: Market>(
    market: &mut M,
    batch: &mut Filled<M::Column>,
    mut room: M::Room,
    pending: &[usize],
    turn: Turn,
    dice: &mut Dice,
) {
    let mut pending: Vec<(usize, [Option<M::Column>; 2])> =
        pending.iter().map(|j| (*j, market.offers(&room, *j))).collect();
    let mut last: Option<M::Column> = None;
    loop {
        pending.retain_mut(|(job, offers)| {
            let stands = |column: &Option<M::Column>| match (column, &last) {
                (Some(column), Some(last)) => !market.meets(last, column) || market.fits(&room, *job, column),
                _ => true,
            };
            if !stands(&offers[0]) || !stands(&offers[1]) {
                *offers = market.offers(&room, *job);
            }
            offers[0].as_ref().is_some_and(|c| market.cost(c) < market.without(*job))
        });
        if pending.is_empty() {
            return;
        }
        let next = match turn {
            Turn::Chance => dice.below(pending.len() as u64) as usize,
            Turn::Regret => {
                let regret = |(job, offers): &(usize, [Option<M::Column>; 2])| {
                    let without = market.without(*job);
                    let cost = |c: &Option<M::Column>| c.as_ref().map_or(without, |c| market.cost(c).min(without));
                    cost(&offers[1]) - cost(&offers[0])
                };
                // the first of those with the largest
                let all = pending.iter().enumerate().map(|(i, p)| (regret(p), std::cmp::Reverse(i)));
                all.max().map_or(0, |(_, i)| i.0)
            }
        };
        let (job, [best, _]) = pending.remove(next);
        if let Some(column) = best {
            if market.take(&mut room, job, &column) {
                batch.set(market, job, column.clone());
            }
            last = Some(column);
        }
    }
}

/// How long to search, and how far from the best it may stray.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub rounds: u32,
    /// Jobs taken out in one round, at the most.
    pub out: usize,
    /// Ends when nothing better was found for so many rounds.
    pub patience: u32,
}

/// Takes some jobs out and inserts them anew, again and again, from `batch` on; gives the cheapest seen. No batch costs
/// less than `floor`: reaching it ends the search.
pub(crate) fn improve<M: Market>(
    market: &mut M,
    batch: Filled<M::Column>,
    floor: i128,
    effort: Effort,
    dice: &mut Dice,
) -> Filled<M::Column> {
    let jobs = market.jobs();
    let spent: i128 = batch.taken.iter().flatten().map(|c| market.cost(c)).sum();
    let mut best = batch.clone();
    let mut at = batch;
    let mut idle = 0;
    for round in 0..effort.rounds {
        if best.cost <= floor || idle >= effort.patience || jobs == 0 {
            break;
        }
        let mut next = at.clone();
        let out = destroy(market, &mut next, effort.out, dice);
        let turn = if dice.below(2) == 0 { Turn::Regret } else { Turn::Chance };
        idle += 1;
        let Some(room) = next.room(market) else { continue };
        insert(market, &mut next, room, &out, turn, dice);
        // packing may depend on the order of taking: what counts is that it fits job by job
        if next.room(market).is_none() {
            continue;
        }
        // it may stray by 1/1024 of what the columns cost at first, by nothing at last
        let slack = spent / 1024 * i128::from(effort.rounds - round) / i128::from(effort.rounds);
        if next.cost <= at.cost || next.cost <= best.cost + slack {
            at = next;
        }
        if at.cost < best.cost {
            best = at.clone();
            idle = 0;
        } else if idle % 128 == 127 {
            at = best.clone();
        }
    }
    best
}

/// Takes out a job, one that is left out as often as not, with jobs that hold what it might want; gives those to insert,
/// ascending: them and others that were out already.
fn destroy<M: Market>(market: &M, batch: &mut Filled<M::Column>, most: usize, dice: &mut Dice) -> Vec<usize> {
    let jobs = market.jobs();
    let left_out: Vec<usize> = (0..jobs).filter(|j| batch.taken[*j].is_none()).collect();
    let first = if left_out.is_empty() || dice.below(2) == 0 {
        dice.below(jobs as u64) as usize
    } else {
        left_out[dice.below(left_out.len() as u64) as usize]
    };
    let wanted = 1 + dice.below(most.max(1) as u64) as usize;
    let mut near: Vec<usize> = (0..jobs)
        .filter(|j| *j != first && batch.taken[*j].as_ref().is_some_and(|c| market.contends(first, c)))
        .collect();
    batch.remove(market, first);
    let mut removed = vec![first];
    while removed.len() < wanted {
        // now and then one that has nothing to do with it
        let job = if near.is_empty() || dice.below(8) == 0 {
            dice.below(jobs as u64) as usize
        } else {
            near.swap_remove(dice.below(near.len() as u64) as usize)
        };
        batch.remove(market, job);
        removed.push(job);
    }
    // of many jobs left out, some: a round stays short
    let skip = dice.below(left_out.len().max(1) as u64) as usize;
    let again = left_out.iter().cycle().skip(skip).take(left_out.len().min(AGAIN));
    removed.extend(again);
    removed.sort_unstable();
    removed.dedup();
    removed
}

/// Jobs left out that one round looks at again.
const AGAIN: usize = 24;
