//! A plain checker of an instance's plan: rules and price from the instance's own numbers.

use rhumb_placement::batch::{
    instance::{Instance, Nano},
    solve::Answer,
};
use std::collections::BTreeMap;

/// Nano-dollars that the plan costs; panics where a rule is broken.
pub fn cost(instance: &Instance, answer: &Answer) -> i128 {
    let name = &instance.name;
    let one = i128::from(Nano::ONE.0);
    let mut devices: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    let mut carried: BTreeMap<(u32, u32), i64> = BTreeMap::new();
    let mut total = 0_i128;
    assert_eq!(answer.plan.len(), instance.jobs.len(), "{name}: a line for each job");
    for ((id, taken), job) in answer.plan.iter().zip(&instance.jobs) {
        assert_eq!(id, &job.id, "{name}: in the instance's order");
        let Some(taken) = taken else {
            total += i128::from(job.reject.0);
            continue;
        };
        let site = instance.sites.iter().position(|s| s.id == taken.site).expect("a site of the instance");
        let pool = instance.sites[site].pools.iter().find(|p| p.gpu == taken.gpu).expect("a pool of the site");
        assert!(job.gpu_types.contains(&taken.gpu), "{name}: job {id} on {}", taken.gpu);
        let used = devices.entry((site, &pool.gpu)).or_default();
        *used += u64::from(job.gpus);
        assert!(*used <= u64::from(pool.count), "{name}: {} at {} is overfull", taken.gpu, taken.site);
        total += i128::from(pool.price.0) * i128::from(job.hours.0) * i128::from(job.gpus) / one;
        let (mut at, mut delay, mut seen) = (job.source, 0, vec![job.source]);
        for [from, to] in &taken.links {
            let link = instance.links.iter().find(|l| (l.from, l.to) == (*from, *to)).expect("a link of the instance");
            assert_eq!(at, *from, "{name}: job {id} takes a broken path");
            at = *to;
            assert!(!seen.contains(&at), "{name}: job {id} comes to {at} twice");
            seen.push(at);
            delay += link.delay.0;
            let load = carried.entry((*from, *to)).or_default();
            *load += job.rate.0;
            assert!(*load <= link.capacity.0, "{name}: link {from}-{to} is overfull");
            let gbit = i128::from(link.price.0) * i128::from(job.rate.0) * i128::from(job.hours.0);
            total += gbit / (one * one * 1_000);
        }
        assert_eq!(at, instance.sites[site].node, "{name}: job {id} does not reach its site");
        assert!(job.max_delay.is_none_or(|most| delay <= most.0), "{name}: job {id} is late");
    }
    total
}

/// The answer keeps every rule, costs what it says, and its bound is no higher than that.
pub fn sound(instance: &Instance, answer: &Answer) {
    assert_eq!(i128::from(answer.total.0), cost(instance, answer), "{}", instance.name);
    assert!(answer.lower_bound <= answer.total, "{}", instance.name);
}
