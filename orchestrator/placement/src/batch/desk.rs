//! An instance in dense form: arcs, pools and jobs by ordinal, costs in nano-dollars, rates in one whole unit.
//!
//! Ordinals follow names, not the input's order, so the same batch is the same desk however it was written.

use super::instance::{Instance, InstanceError, Nano};
use std::collections::BTreeMap;

/// A directed link.
#[derive(Debug, Clone)]
pub(crate) struct Arc {
    pub from: u32,
    pub to: u32,
    pub delay: i64,
    /// In units of rate.
    pub capacity: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Pool {
    /// Ordinal of the site, and of the pool in the instance's list of that site.
    pub site: u32,
    pub rank: u32,
    pub capacity: i64,
}

/// A pool that a job may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    pub pool: u32,
    pub site: u32,
    /// Devices alone.
    pub cost: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub source: u32,
    pub gpus: i64,
    /// Units of rate on each link of its path.
    pub rate: i64,
    pub bound: i64,
    pub reject: i64,
    pub offers: Vec<Offer>,
    /// By arc; `None` where the arc can never carry the job.
    pub arc_cost: Vec<Option<i64>>,
    /// By arc: the job's part of its capacity, times 2^32, rounded down.
    pub share: Vec<i64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub arcs: Vec<Arc>,
    /// Arcs that leave each node.
    pub leaving: Vec<Vec<u32>>,
    /// By site ordinal.
    pub site_node: Vec<u32>,
    pub pools: Vec<Pool>,
    pub jobs: Vec<Job>,
    /// Every cost is a multiple of it, so that of any plan is.
    pub grain: i64,
    /// From ordinals to places in the instance.
    pub site_at: Vec<usize>,
    pub job_at: Vec<usize>,
}

/// More than any batch costs, and little enough that sums stay in range: 10^7 USD for a job, 10^9 in all.
const MOST_JOB: i64 = 10_000_000 * Nano::ONE.0;
const MOST_ALL: i64 = 100 * MOST_JOB;
/// Jobs times links that memory is spent on.
const MOST_PAIRS: usize = 20_000_000;
/// Where a delay is not bounded.
pub(crate) const ANY_DELAY: i64 = i64::MAX / 4;
/// Fractions of a capacity have this many binary places.
pub(crate) const SHARE_BITS: u32 = 32;

impl Desk {
    pub fn new(instance: &Instance) -> Result<Self, InstanceError> {
        if instance.jobs.len().saturating_mul(instance.links.len()) > MOST_PAIRS {
            let reason =
                format!("{} jobs on {} links are too many: split the batch", instance.jobs.len(), instance.links.len());
            return Err(InstanceError::Field { instance: instance.name.clone(), field: "jobs".to_owned(), reason });
        }
        let mut site_at: Vec<usize> = (0..instance.sites.len()).collect();
        site_at.sort_by(|a, b| instance.sites[*a].id.cmp(&instance.sites[*b].id));
        let mut job_at: Vec<usize> = (0..instance.jobs.len()).collect();
        job_at.sort_by(|a, b| instance.jobs[*a].id.cmp(&instance.jobs[*b].id));
        let mut link_at: Vec<usize> = (0..instance.links.len()).collect();
        link_at.sort_by_key(|l| (instance.links[*l].from, instance.links[*l].to));

        // all rates are whole in the largest unit that divides them: what a link has beyond that is of no use to anyone
        let unit = instance.jobs.iter().fold(0, |unit, j| gcd(unit, j.rate.0)).max(1);
        let arcs: Vec<Arc> = link_at
            .iter()
            .map(|l| &instance.links[*l])
            .map(|l| Arc { from: l.from, to: l.to, delay: l.delay.0, capacity: l.capacity.0 / unit })
            .collect();
        let mut leaving = vec![Vec::new(); instance.nodes as usize];
        for (i, arc) in arcs.iter().enumerate() {
            leaving[arc.from as usize].push(i as u32);
        }
        let mut pools = Vec::new();
        let mut by_gpu: BTreeMap<&str, Vec<(usize, i64)>> = BTreeMap::new();
        for (site, at) in site_at.iter().enumerate() {
            let list = &instance.sites[*at].pools;
            let mut ranks: Vec<usize> = (0..list.len()).collect();
            ranks.sort_by(|a, b| list[*a].gpu.cmp(&list[*b].gpu));
            for rank in ranks {
                by_gpu.entry(&list[rank].gpu).or_default().push((pools.len(), list[rank].price.0));
                let capacity = i64::from(list[rank].count);
                pools.push(Pool { site: site as u32, rank: rank as u32, capacity });
            }
        }
        let mut all = 0_i64;
        let mut jobs = Vec::with_capacity(job_at.len());
        for at in &job_at {
            let job = &instance.jobs[*at];
            let gpus = i64::from(job.gpus);
            let dear = |what: &str| InstanceError::Field {
                instance: instance.name.clone(),
                field: format!("jobs[{at}]"),
                reason: format!("{what} more than {}: check its units", usd(MOST_JOB)),
            };
            let mut offers = Vec::new();
            let mut types: Vec<&str> = job.gpu_types.iter().map(String::as_str).collect();
            types.sort_unstable();
            types.dedup();
            for (pool, price) in types.iter().filter_map(|t| by_gpu.get(t)).flatten() {
                if pools[*pool].capacity < gpus {
                    continue;
                }
                let cost = product([i128::from(*price), i128::from(job.hours.0), i128::from(gpus)], 1)
                    .ok_or_else(|| dear("devices cost"))?;
                offers.push(Offer { pool: *pool as u32, site: pools[*pool].site, cost });
            }
            offers.sort_by_key(|o| o.pool);
            let rate = job.rate.0 / unit;
            let carries: Vec<bool> = arcs.iter().map(|a| rate <= a.capacity).collect();
            let mut arc_cost = Vec::with_capacity(arcs.len());
            for (l, carries) in link_at.iter().zip(&carries) {
                let price = i128::from(instance.links[*l].price.0);
                // a rate of 10^3 Mbit/s is one Gbit/s
                let cost =
                    product([price, i128::from(job.rate.0), i128::from(job.hours.0)], 1_000 * i128::from(Nano::ONE.0))
                        .ok_or_else(|| dear("a link costs"))?;
                arc_cost.push(carries.then_some(cost));
            }
            let share = |a: &Arc| if rate > a.capacity { 0 } else { part(rate, a.capacity) };
            if job.reject.0 > MOST_JOB {
                return Err(dear("rejection costs"));
            }
            all = all.saturating_add(job.reject.0);
            if all > MOST_ALL {
                let reason = format!("rejecting all costs more than {}: split the batch", usd(MOST_ALL));
                return Err(InstanceError::Field { instance: instance.name.clone(), field: "jobs".to_owned(), reason });
            }
            jobs.push(Job {
                source: job.source,
                gpus,
                rate,
                bound: job.max_delay.map_or(ANY_DELAY, |d| d.0),
                reject: job.reject.0,
                offers,
                arc_cost,
                share: arcs.iter().map(share).collect(),
            });
        }
        let site_node = site_at.iter().map(|s| instance.sites[*s].node).collect();
        let costs = jobs.iter().flat_map(|j| {
            let offers = j.offers.iter().map(|o| o.cost);
            offers.chain(j.arc_cost.iter().flatten().copied()).chain([j.reject])
        });
        let grain = costs.fold(0, gcd).max(1);
        Ok(Self { arcs, leaving, site_node, pools, jobs, grain, site_at, job_at })
    }
}

fn usd(nano: i64) -> String {
    format!("{} USD", Nano(nano))
}

fn part(rate: i64, capacity: i64) -> i64 {
    if capacity == 0 { 0 } else { ((i128::from(rate) << SHARE_BITS) / i128::from(capacity)) as i64 }
}

/// Nano times nano (and a third, if it is one) by 10^9 and `scale`, rounded down.
fn product(factors: [i128; 3], scale: i128) -> Option<i64> {
    let first = factors[0].checked_mul(factors[1])?;
    let all = first.checked_mul(factors[2])? / (i128::from(Nano::ONE.0) * scale);
    i64::try_from(all).ok().filter(|cost| *cost <= MOST_JOB)
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
