//! Small clusters and lists as the text of their files.

use proptest::prelude::*;
use std::fmt::Write as _;

/// The four files, each with one seed, 1.
#[derive(Debug, Clone)]
pub struct Case {
    pub nodes: String,
    pub pods: String,
    pub arrivals: String,
    pub ranks: String,
}

const MODELS: [&str; 3] = ["P100", "T4", "G2"];

pub fn case() -> impl Strategy<Value = Case> {
    let node = (0..3usize, prop::sample::select(vec![1u32, 2, 4, 8]), 8u32..129, 16u32..513);
    let milli = prop::sample::select(vec![50u32, 160, 190, 230, 320, 470, 500, 650, 810, 1000]);
    let pod = (0..4u32, milli, 1u32..33, 1u32..65, prop::sample::select(vec!["", "", "T4", "P100|G2"]));
    let (nodes, pods) = (prop::collection::vec(node, 1..9), prop::collection::vec(pod, 1..16));
    (nodes, pods, prop::collection::vec(any::<prop::sample::Index>(), 1..120), any::<u64>()).prop_map(
        |(nodes, pods, order, chance)| {
            let mut case = Case {
                nodes: "sn,cpu_milli,memory_mib,gpu,model\n".into(),
                pods: "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n".into(),
                arrivals: "seed1\n".into(),
                ranks: "seed1\n".into(),
            };
            for (at, (model, devices, cpu, memory)) in nodes.iter().enumerate() {
                let model = MODELS[*model];
                writeln!(case.nodes, "node-{at},{},{},{devices},{model}", cpu * 1000, memory * 1024).unwrap();
                // equal ranks too
                writeln!(case.ranks, "{}", (chance >> (at * 7)) % 5).unwrap();
            }
            for (at, (kind, milli, cpu, memory, spec)) in pods.iter().enumerate() {
                let (devices, milli) = match kind {
                    0 => (0, 0),
                    1 => (1, *milli),
                    2 => (1, (*milli * 7) % 991 + 1),
                    _ => ([1, 2, 4, 8][(cpu % 4) as usize], 1000),
                };
                writeln!(case.pods, "pod-{at},{},{},{devices},{milli},{spec}", cpu * 1000, memory * 1024).unwrap();
            }
            for index in order {
                writeln!(case.arrivals, "{}", index.index(pods.len())).unwrap();
            }
            case
        },
    )
}
