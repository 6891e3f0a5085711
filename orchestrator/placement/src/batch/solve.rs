//! One instance: regret insertion, a wide search around it, and a tree that proves how good the result is.

use super::{
    booking::Bookings,
    desk::Desk,
    insertion::{Effort, Filled, Market, Turn, improve, insert},
    instance::{Id, Instance, InstanceError, Nano},
    tree::{self, grow},
};
use crate::dice::Dice;
use serde_json::{Value, json};

/// What solving one instance may spend. No clock: the same budget gives the same answer everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Rounds of large-neighbourhood search, for batches of up to 32 jobs; larger ones get fewer.
    pub rounds: u32,
    /// Elementary operations of the bound, some two nanoseconds each; larger batches get up to four times as many.
    pub work: u64,
    pub seed: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { rounds: 1_500, work: 60_000_000, seed: 1 }
    }
}

/// A plan for every job, and how far from the best it can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub name: String,
    /// USD.
    pub total: Nano,
    /// USD: no plan costs less.
    pub lower_bound: Nano,
    /// In the instance's order.
    pub plan: Vec<(Id, Option<Taken>)>,
    /// Nodes of the tree.
    pub nodes: u64,
}

/// What a job takes; `None` in its stead: it is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub site: Id,
    pub gpu: String,
    /// From and to of each link, from the job's source on.
    pub links: Vec<[u32; 2]>,
}

/// Solves one instance within a budget. The answer does not depend on the order in which the instance lists its parts.
pub fn solve(instance: &Instance, budget: &Budget) -> Result<Answer, InstanceError> {
    let desk = Desk::new(instance)?;
    let mut market = Bookings::new(&desk);
    let mut dice = Dice::new(budget.seed);
    let jobs = desk.jobs.len();
    let mut plan = Filled::empty(&market);
    let all: Vec<usize> = (0..jobs).collect();
    let room = market.whole();
    insert(&mut market, &mut plan, room, &all, Turn::Regret, &mut dice);
    let rounds = (u64::from(budget.rounds) * 32 / jobs.max(32) as u64).max(300.min(budget.rounds.into())) as u32;
    let effort = Effort { rounds, out: 8, patience: rounds };
    let plan = improve(&mut market, plan, 0, effort, &mut dice);
    let work = budget.work.saturating_mul((jobs as u64 / 32).clamp(1, 4));
    let mut grown = grow(&desk, &mut market, plan, tree::Budget { work, rounds: 20 }, &mut dice);
    if grown.best.cost > grown.bound {
        grown.best = improve(&mut market, grown.best, grown.bound, effort, &mut dice);
    }
    let nano = |cost: i128| Nano(i64::try_from(cost).unwrap_or(i64::MAX));
    let mut plan = vec![None; jobs];
    for (job, booking) in grown.best.taken.iter().enumerate() {
        plan[desk.job_at[job]] = booking.as_ref().map(|b| {
            let pool = &desk.pools[b.pool as usize];
            let site = &instance.sites[desk.site_at[pool.site as usize]];
            let ends = |a: &u32| [desk.arcs[*a as usize].from, desk.arcs[*a as usize].to];
            Taken {
                site: site.id.clone(),
                gpu: site.pools[pool.rank as usize].gpu.clone(),
                links: b.path.iter().map(ends).collect(),
            }
        });
    }
    Ok(Answer {
        name: instance.name.clone(),
        total: nano(grown.best.cost),
        lower_bound: nano(grown.bound),
        plan: instance.jobs.iter().map(|j| j.id.clone()).zip(plan).collect(),
        nodes: grown.nodes,
    })
}

/// As `rhumb place --joint` prints it; `wall_ms` is how long it took, as the caller measured it.
pub fn answer_json(answer: &Answer, wall_ms: f64) -> Value {
    let usd = |n: Nano| json!(n.0 as f64 / Nano::ONE.0 as f64);
    let line = |(job, taken): &(Id, Option<Taken>)| match taken {
        Some(t) => json!({"job": job, "site": t.site, "gpu": t.gpu, "links": t.links}),
        None => json!({"job": job, "rejected": true}),
    };
    json!({
        "name": answer.name,
        "total_usd": usd(answer.total),
        "lower_bound_usd": usd(answer.lower_bound),
        "wall_ms": wall_ms,
        "plan": answer.plan.iter().map(line).collect::<Vec<_>>(),
    })
}
