//! Better prices: a deflected subgradient ascent in whole numbers.

use super::{
    desk::Desk,
    dual::{Dual, Paths, Prices},
    scope::Scope,
};

/// Slopes are in parts of a capacity, or of a job, times 2^16.
const SLOPE_BITS: u32 = 16;

/// Steps to take, and how they shrink.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Climb {
    pub steps: u32,
    /// Of 1,024: the first step's part of the way to the target.
    pub pace: i64,
    /// The pace is halved after so many steps without a better bound.
    pub patience: u32,
    /// Paths are searched for at every so many steps.
    pub search_every: u32,
    /// The dual's work at which it ends.
    pub limit: u64,
}

/// Raises the bound from `prices` on towards `target`, which no bound that matters exceeds; leaves the best prices in
/// `prices`.
pub(crate) fn climb(
    desk: &Desk,
    dual: &mut Dual,
    scope: &Scope,
    prices: &mut Prices,
    target: i128,
    how: Climb,
) -> i128 {
    dual.begin();
    let mut best = dual.value(scope, prices, Paths::Every);
    let mut at = prices.clone();
    let mut value = best;
    let mut pace = how.pace;
    let mut idle = 0;
    let jobs = at.job.len();
    let mut heading = vec![0_i64; jobs + at.arc.len()];
    for step in 1..=how.steps {
        if best >= target || dual.work >= how.limit {
            break;
        }
        let mut norm = 0_i128;
        for (i, h) in heading.iter_mut().enumerate() {
            let slope =
                if i < jobs { (1 - dual.reply.times[i]) << SLOPE_BITS } else { overfull(desk, dual, &at, i - jobs) };
            *h = slope + *h * DEFLECT / 16;
            norm += i128::from(*h) * i128::from(*h);
        }
        if norm == 0 {
            // the reply keeps every rule: it is a plan that costs the bound
            break;
        }
        let way = (target - value).max(1) * i128::from(pace) / 1024;
        for (i, h) in heading.iter().enumerate() {
            let delta = (way * i128::from(*h) * (1 << SLOPE_BITS) / norm).clamp(-FAR, FAR) as i64;
            if i < jobs {
                at.job[i] = (at.job[i] + delta).clamp(-(FAR as i64), FAR as i64);
            } else {
                at.arc[i - jobs] = (at.arc[i - jobs] + delta).clamp(0, FAR as i64);
            }
        }
        let paths = if step % how.search_every == 0 || step == how.steps { Paths::Every } else { Paths::Known };
        value = dual.value(scope, &at, paths);
        if paths == Paths::Known && value > best {
            // only a value over all paths counts
            value = dual.value(scope, &at, Paths::Every);
        }
        if value > best {
            best = value;
            prices.clone_from(&at);
            idle = 0;
            continue;
        }
        idle += 1;
        if idle >= how.patience {
            idle = 0;
            pace /= 2;
            if pace == 0 {
                break;
            }
            at.clone_from(prices);
            heading.fill(0);
            value = dual.value(scope, &at, Paths::Known);
        }
    }
    best
}

/// By how much the reply overfills an arc, in parts of its capacity; nothing where its price can not fall.
fn overfull(desk: &Desk, dual: &Dual, at: &Prices, arc: usize) -> i64 {
    let capacity = desk.arcs[arc].capacity;
    let over = dual.reply.load[arc] - capacity;
    if capacity == 0 || (over < 0 && at.arc[arc] == 0) {
        return 0;
    }
    ((i128::from(over) << SLOPE_BITS) / i128::from(capacity)) as i64
}

/// Of 16: what of the last heading stays in the next.
const DEFLECT: i64 = 15;
/// No price goes beyond: ten million dollars.
const FAR: i128 = 10_000_000 * 1_000_000_000;
