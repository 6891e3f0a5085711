//! Small instances by trying everything.

use crate::check;
use proptest::prelude::*;
use rhumb_placement::batch::{
    instance::{Id, Instance, Job, Link, Nano, Pool, Site},
    solve::{Answer, Budget, Taken, solve},
};

const MILLI: i64 = 1_000_000;

prop_compose! {
    fn job(id: i64, nodes: u32)(
        source in 0..nodes, gpus in 1..4_u32, types in 1..4_usize, rate in 1..7_i64, delay in proptest::option::of(2..9_i64),
        hours in 1..4_i64, reject in 1..40_i64,
    ) -> Job {
        let gpu_types = ["a", "b"].iter().enumerate().filter(|(i, _)| types >> i & 1 == 1).map(|(_, t)| (*t).to_owned());
        Job {
            id: Id::Number(id), source, gpus, gpu_types: gpu_types.collect(), rate: Nano(rate * 50 * Nano::ONE.0),
            max_delay: delay.map(|d| Nano(d * Nano::ONE.0)), hours: Nano(hours * Nano::ONE.0),
            reject: Nano(reject * Nano::ONE.0),
        }
    }
}

prop_compose! {
    fn instance()(nodes in 2..5_u32, jobs in 1..6_usize)(
        links in proptest::collection::vec((any::<bool>(), 1..5_i64, 1..9_i64, 0..60_i64), (nodes * nodes) as usize),
        places in proptest::collection::vec(0..nodes, 2),
        counts in proptest::collection::vec((0..5_u32, 1..9_i64), 4),
        jobs in (0..jobs as i64).map(|id| job(id, nodes)).collect::<Vec<_>>(),
        nodes in Just(nodes),
    ) -> Instance {
        let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
        let links = pairs.zip(links).filter(|((a, b), (there, ..))| a != b && *there).map(|((from, to), (_, delay, capacity, price))| Link {
            from, to, delay: Nano(delay * Nano::ONE.0), capacity: Nano(capacity * 60 * Nano::ONE.0),
            // up to 3 USD for what 50 Mbit/s take in an hour: paths matter as much as devices
            price: Nano(price * Nano::ONE.0 + 37 * MILLI),
        });
        let pool = |site: usize, rank: usize| {
            let (count, price) = counts[site * 2 + rank];
            Pool { gpu: ["a", "b"][rank].to_owned(), count, price: Nano(price * 1_010 * MILLI) }
        };
        let site = |(i, node): (usize, &u32)| Site { id: Id::Text(format!("s{i}")), node: *node, pools: vec![pool(i, 0), pool(i, 1)] };
        Instance { name: "drawn".to_owned(), nodes, links: links.collect(), sites: places.iter().enumerate().map(site).collect(), jobs }
    }
}

/// All simple paths of a job, in the order of its links.
fn paths(
    instance: &Instance,
    from: u32,
    to: u32,
    seen: &mut Vec<u32>,
    path: &mut Vec<[u32; 2]>,
    out: &mut Vec<Vec<[u32; 2]>>,
) {
    if from == to {
        out.push(path.clone());
    }
    for link in instance.links.iter().filter(|l| l.from == from) {
        if !seen.contains(&link.to) {
            seen.push(link.to);
            path.push([link.from, link.to]);
            paths(instance, link.to, to, seen, path, out);
            path.pop();
            seen.pop();
        }
    }
}

/// Cost, and pool and links by ordinal; rejection has neither.
type Choice = (i128, Option<(usize, Vec<usize>)>);

struct Brute<'i> {
    instance: &'i Instance,
    /// By job, cheapest first.
    choices: Vec<Vec<Choice>>,
    devices: Vec<i64>,
    room: Vec<i64>,
    best: i128,
}

impl<'i> Brute<'i> {
    fn new(instance: &'i Instance) -> Self {
        let mut choices = Vec::new();
        for (j, job) in instance.jobs.iter().enumerate() {
            let mut list = vec![(i128::from(job.reject.0), None)];
            for (s, site) in instance.sites.iter().enumerate() {
                let mut found = Vec::new();
                paths(instance, job.source, site.node, &mut vec![job.source], &mut Vec::new(), &mut found);
                for (p, pool) in site.pools.iter().enumerate().filter(|(_, p)| job.gpu_types.contains(&p.gpu)) {
                    for links in &found {
                        // one job alone is checked and priced as any plan is
                        let alone = Instance { jobs: vec![job.clone()], ..instance.clone() };
                        let taken = Taken { site: site.id.clone(), gpu: pool.gpu.clone(), links: links.clone() };
                        let answer = Answer {
                            name: String::new(),
                            total: Nano(0),
                            lower_bound: Nano(0),
                            plan: vec![(job.id.clone(), Some(taken))],
                            nodes: 0,
                        };
                        let hops: Vec<usize> = links
                            .iter()
                            .map(|[a, b]| instance.links.iter().position(|l| (l.from, l.to) == (*a, *b)).unwrap())
                            .collect();
                        let delay: i64 = hops.iter().map(|l| instance.links[*l].delay.0).sum();
                        let wide = hops.iter().all(|l| instance.links[*l].capacity >= job.rate);
                        if pool.count >= job.gpus && wide && job.max_delay.is_none_or(|most| delay <= most.0) {
                            list.push((check::cost(&alone, &answer), Some((s * 2 + p, hops))));
                        }
                    }
                }
            }
            list.sort();
            choices.push(list);
            assert_eq!(choices.len(), j + 1);
        }
        let devices = instance.sites.iter().flat_map(|s| &s.pools).map(|p| i64::from(p.count)).collect();
        Self {
            instance,
            choices,
            devices,
            room: instance.links.iter().map(|l| l.capacity.0).collect(),
            best: i128::MAX,
        }
    }

    fn next(&mut self, job: usize, spent: i128) {
        let rest: i128 = self.choices[job..].iter().map(|c| c[0].0).sum();
        if spent + rest >= self.best {
            return;
        }
        let Some(choices) = self.choices.get(job).cloned() else {
            self.best = spent;
            return;
        };
        let (gpus, rate) = (i64::from(self.instance.jobs[job].gpus), self.instance.jobs[job].rate.0);
        for (cost, taken) in choices {
            let Some((pool, links)) = taken else {
                self.next(job + 1, spent + cost);
                continue;
            };
            if self.devices[pool] >= gpus && links.iter().all(|l| self.room[*l] >= rate) {
                self.devices[pool] -= gpus;
                for l in &links {
                    self.room[*l] -= rate;
                }
                self.next(job + 1, spent + cost);
                self.devices[pool] += gpus;
                for l in &links {
                    self.room[*l] += rate;
                }
            }
        }
    }
}

fn optimum(instance: &Instance) -> i128 {
    let mut brute = Brute::new(instance);
    brute.next(0, 0);
    brute.best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn small_instances_are_solved_to_the_optimum_and_the_bound_is_below_it(instance in instance()) {
        let answer = solve(&instance, &Budget::default()).unwrap();
        check::sound(&instance, &answer);
        let best = optimum(&instance);
        prop_assert!(i128::from(answer.lower_bound.0) <= best);
        prop_assert!(i128::from(answer.total.0) - best <= best / 10_000_000, "{} above {best}", answer.total.0);
    }

    #[test]
    fn a_small_budget_keeps_plan_and_bound_sound(instance in instance(), rounds in 0..3_u32, work in 0..2_000_u64) {
        let answer = solve(&instance, &Budget { rounds, work, seed: 7 }).unwrap();
        check::sound(&instance, &answer);
        let best = optimum(&instance);
        prop_assert!(i128::from(answer.lower_bound.0) <= best && best <= i128::from(answer.total.0));
    }

    #[test]
    fn the_order_of_the_input_changes_nothing(instance in instance(), turns in 1..5_usize) {
        let mut turned = instance.clone();
        let turn = |n: usize| turns % n.max(1);
        turned.links.rotate_left(turn(instance.links.len()));
        turned.links.reverse();
        turned.sites.reverse();
        for site in &mut turned.sites {
            site.pools.reverse();
        }
        turned.jobs.rotate_left(turn(instance.jobs.len()));
        for job in &mut turned.jobs {
            job.gpu_types.reverse();
        }
        let (one, mut other) = (solve(&instance, &Budget::default()).unwrap(), solve(&turned, &Budget::default()).unwrap());
        other.plan.rotate_right(turn(instance.jobs.len()));
        prop_assert_eq!(one, other);
    }
}
