//! A simulator as plain as can be: it reads the files' text itself, scores every node for every pod, and follows the
//! published formulas word by word.

use crate::cases::{Case, case};
use proptest::prelude::*;
use rhumb_replay::{
    openb::{Arrivals, Bench, Nodes, Pods, Policy, Ranks},
    scoring::{Crumbs, FINE, Free, Weights},
};

#[derive(Clone)]
struct Node {
    row: usize,
    cpu: i64,
    memory: i64,
    model: String,
    left: Vec<i64>,
    kinds: Vec<(i64, i64)>,
}

#[derive(Clone, PartialEq)]
struct Pod {
    cpu: i64,
    memory: i64,
    devices: i64,
    milli: i64,
    spec: String,
}

impl Pod {
    fn allowed(&self, model: &str) -> bool {
        self.spec.is_empty() || self.spec.split('|').any(|m| m == model)
    }

    fn shared(&self) -> bool {
        self.devices == 1 && self.milli < 1000
    }

    fn total(&self) -> i64 {
        self.devices * self.milli
    }
}

impl Node {
    fn idle(&self) -> i64 {
        self.left.iter().sum()
    }

    fn fits(&self, pod: &Pod) -> bool {
        let wide = self.left.iter().filter(|left| **left >= pod.milli).count() as i64;
        self.cpu >= pod.cpu && self.memory >= pod.memory && pod.allowed(&self.model) && wide >= pod.devices
    }

    fn with(&self, pod: &Pod, devices: &[usize]) -> Node {
        let mut after = self.clone();
        after.cpu -= pod.cpu;
        after.memory -= pod.memory;
        for device in devices {
            after.left[*device] -= pod.milli;
        }
        if pod.devices > 0 {
            after.kinds.push((pod.devices, i64::from(pod.shared())));
        }
        after
    }

    /// Every set of devices worth trying: each single one for a share, the first whole ones else.
    fn ways(&self, pod: &Pod) -> Vec<Vec<usize>> {
        let fitting = (0..self.left.len()).filter(|at| self.left[*at] >= pod.milli);
        if pod.shared() {
            fitting.map(|at| vec![at]).collect()
        } else {
            vec![fitting.take(pod.devices as usize).collect()]
        }
    }

    /// What the next pod of the mix cannot use of the idle devices, times the pods counted.
    fn unusable(&self, mix: &[(Pod, i64)]) -> i64 {
        let of = |pod: &Pod| {
            let fits = self.left.iter().filter(|left| **left >= pod.milli).count() as i64 >= pod.devices;
            if pod.devices == 0 || !fits || self.cpu < pod.cpu || !pod.allowed(&self.model) {
                return self.idle();
            }
            self.left.iter().filter(|left| **left < pod.milli).sum()
        };
        mix.iter().map(|(pod, count)| count * of(pod)).sum()
    }
}

/// The different pods, memory apart, and how many there are, most frequent first, until `milli` thousandths of all are
/// reached. Pods that ask for the same of the models there are do not differ.
fn mix(pods: &[Pod], models: &[String], milli: i64) -> Vec<(Pod, i64)> {
    let known = |pod: &Pod| -> u32 {
        if pod.spec.is_empty() {
            return u32::MAX;
        }
        (0..models.len()).filter(|at| pod.allowed(&models[*at])).map(|at| 1 << at).sum()
    };
    let key = |pod: &Pod| (pod.cpu, pod.devices, pod.milli, known(pod));
    let mut counts: Vec<(Pod, i64)> = Vec::new();
    for pod in pods {
        match counts.iter_mut().find(|(other, _)| key(other) == key(pod)) {
            Some((_, count)) => *count += 1,
            None => counts.push((pod.clone(), 1)),
        }
    }
    counts.sort_by_key(|(pod, count)| (-count, key(pod)));
    let mut seen = 0;
    counts.retain(|(_, count)| {
        let wanted = seen * 1000 < milli * pods.len() as i64;
        seen += count;
        wanted
    });
    counts
}

struct Simulator {
    policy: Policy,
    pods: Vec<Pod>,
    typical: Vec<(Pod, i64)>,
    crumbs: Crumbs,
    models: Vec<String>,
}

impl Simulator {
    /// The best devices of a node and the score, the first of equals.
    fn score(&self, node: &Node, pod: &Pod) -> (i64, Vec<usize>) {
        let mut ways = node.ways(pod);
        if matches!(self.policy, Policy::Fgd | Policy::Rhumb) {
            let scored = ways.into_iter().map(|way| (self.fall(node, &node.with(pod, &way)), way));
            return scored.rev().max_by_key(|(score, _)| *score).unwrap();
        }
        ways.sort_by_key(|way| way.first().map(|at| node.left[*at]));
        let way = ways[0].clone();
        let left = way.first().map_or(0, |at| node.left[*at]);
        let whole = node.left.iter().filter(|left| **left == 1000).count() as i64;
        let (cpu, idle) = (node.cpu as f64, node.idle() as f64);
        let score = match self.policy {
            Policy::BestFit => {
                let (cpu, idle) = (cpu - pod.cpu as f64, idle - pod.total() as f64);
                (100.0 * (1.0 - (0.5 * cpu / 128_000.0 + 0.5 * idle / 8000.0))) as i64
            }
            Policy::DotProd => {
                let cpu = cpu / 128_000.0 * pod.cpu as f64 / 128_000.0;
                (100.0 * (1.0 - 0.5 * (cpu + idle / 8000.0 * pod.total() as f64 / 8000.0))) as i64
            }
            Policy::Clustering | Policy::Packing if pod.devices == 0 => 0,
            Policy::Clustering => {
                let kind = (pod.devices, i64::from(pod.shared()));
                let same = node.kinds.contains(&kind);
                let only = node.kinds.iter().all(|k| *k == kind);
                let base = if node.kinds.is_empty() { 25 } else { 50 * i64::from(same) + 25 * i64::from(same && only) };
                base + 25 * (8000 - node.idle()) / 8000
            }
            _ if whole == node.left.len() as i64 => (33 - whole).max(whole),
            _ if pod.shared() && left < 1000 => (100 - left * 100 / 1000 / 10).max(50),
            _ => (50 - pod.devices).max(33),
        };
        (score, way)
    }

    fn fall(&self, before: &Node, after: &Node) -> i64 {
        if self.policy == Policy::Fgd {
            let total: i64 = self.typical.iter().map(|(_, count)| count).sum();
            let fall = before.unusable(&self.typical) - after.unusable(&self.typical);
            return (100.0 / (1.0 + (-(fall as f64) / (total as f64 * 1000.0)).exp())) as i64;
        }
        let fall = self.lost(before) - self.lost(after);
        fall.div_euclid(i64::from(Weights::TUNED.step) * FINE as i64)
    }

    fn lost(&self, node: &Node) -> i64 {
        let w = Weights::TUNED;
        let idle = node.idle();
        let served: Vec<&Pod> = self.pods.iter().filter(|pod| pod.allowed(&node.model)).collect();
        let sum = |of: fn(&Pod) -> i64| served.iter().map(|pod| of(pod)).sum::<i64>();
        let (devices, cpu, memory) = (sum(Pod::total) * 1000, sum(|pod| pod.cpu), sum(|pod| pod.memory));
        let by_cpu = node.cpu * devices / (cpu * i64::from(w.blend_cpu)).max(1);
        let by_memory = node.memory * devices / (memory * i64::from(w.blend_memory)).max(1);
        let blend = idle - idle.min(by_cpu).min(by_memory);
        let model = self.models.iter().position(|model| *model == node.model).unwrap() as u8;
        let of = |left: &i64| self.crumbs.of(&Free::empty(node.cpu as u32, 0, model, 0).with_devices(&[*left as u16]));
        node.left.iter().map(of).sum::<u64>() as i64 + i64::from(w.blend) * blend * FINE as i64 / 1000
    }
}

/// By event, the row of the node and its devices.
fn simulate(case: &Case, policy: Policy) -> Vec<Option<(usize, Vec<u8>)>> {
    let rows = |text: &str| -> Vec<Vec<String>> {
        text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
    };
    let number = |text: &String| text.parse::<i64>().unwrap();
    let pods: Vec<Pod> = rows(&case.pods)
        .iter()
        .map(|row| Pod {
            cpu: number(&row[1]),
            memory: number(&row[2]),
            devices: number(&row[3]),
            milli: number(&row[4]),
            spec: row[5].clone(),
        })
        .collect();
    let mut nodes: Vec<Node> = rows(&case.nodes)
        .iter()
        .enumerate()
        .map(|(at, row)| Node {
            row: at,
            cpu: number(&row[1]),
            memory: number(&row[2]),
            left: vec![1000; number(&row[3]) as usize],
            model: row[4].clone(),
            kinds: Vec::new(),
        })
        .collect();
    let ranks = rows(&case.ranks);
    nodes.sort_by_key(|node| (number(&ranks[node.row][0]), node.row));
    let files = Nodes::read("nodes", case.nodes.as_bytes()).unwrap();
    let mut models: Vec<String> = Vec::new();
    for row in rows(&case.nodes) {
        if !models.contains(&row[4]) {
            models.push(row[4].clone());
        }
    }
    let demand = Pods::read("pods", case.pods.as_bytes(), &files).unwrap().demand();
    let simulator = Simulator {
        policy,
        typical: mix(&pods, &models, 950),
        crumbs: Crumbs::new(&demand, Weights::TUNED.arrivals),
        models,
        pods,
    };
    let mut decisions = Vec::new();
    for row in rows(&case.arrivals) {
        let pod = &simulator.pods[number(&row[0]) as usize];
        let fitting = (0..nodes.len()).filter(|at| nodes[*at].fits(pod));
        let scored = fitting.map(|at| (simulator.score(&nodes[at], pod), at)).rev();
        decisions.push(scored.max_by_key(|((score, _), _)| *score).map(|((_, way), at)| {
            nodes[at] = nodes[at].with(pod, &way);
            (nodes[at].row, way.iter().map(|device| *device as u8).collect())
        }));
    }
    decisions
}

fn decided(case: &Case, policy: Policy) -> Vec<Option<(usize, Vec<u8>)>> {
    let nodes = Nodes::read("nodes", case.nodes.as_bytes()).unwrap();
    let pods = Pods::read("pods", case.pods.as_bytes(), &nodes).unwrap();
    let arrivals = Arrivals::read("arrivals", case.arrivals.as_bytes(), &pods).unwrap();
    let ranks = Ranks::read("ranks", case.ranks.as_bytes(), &nodes).unwrap();
    let mut decisions = Vec::new();
    let bench = Bench::new(nodes, pods, arrivals, ranks);
    let outcome = bench.run(policy, 1, &mut |decision| {
        decisions.push(decision.node.map(|node| (node, decision.devices.to_vec())));
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.failed as usize, decisions.iter().filter(|decision| decision.is_none()).count());
    decisions
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_decision_is_the_naive_simulators(case in case()) {
        for policy in Policy::ALL.into_iter().filter(|policy| *policy != Policy::Random) {
            prop_assert_eq!(decided(&case, policy), simulate(&case, policy), "{}", policy);
        }
    }

    #[test]
    fn what_comes_later_changes_nothing_before(case in case(), cut in 1usize..60) {
        let lines: Vec<&str> = case.arrivals.lines().take(cut + 1).collect();
        let short = Case { arrivals: lines.join("\n") + "\n", ..case.clone() };
        for policy in Policy::ALL {
            let (short, long) = (decided(&short, policy), decided(&case, policy));
            prop_assert_eq!(&short[..], &long[..short.len()], "{}", policy);
        }
    }
}
