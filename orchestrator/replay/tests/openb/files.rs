//! The published files, where they are at hand.

use rhumb_replay::openb::{Arrivals, Bench, Nodes, Pods, Ranks};
use std::path::{Path, PathBuf};

/// The folder of the benchmark's files; says that it is missing.
pub fn folder() -> Option<PathBuf> {
    public_data::folder("openb")
}

/// A file, or the same with `.gz`, unpacked.
pub fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    public_data::bytes(folder, name).unwrap().unwrap()
}

pub fn bench(folder: &Path, list: &str) -> Bench {
    let read = |name: &str| bytes(folder, name);
    let nodes = Nodes::read("nodes", &read("openb_node_list_gpu_node.csv")).unwrap();
    let pods = Pods::read("pods", &read(&format!("openb_pod_list_{list}.csv")), &nodes).unwrap();
    let arrivals = Arrivals::read("arrivals", &read(&format!("arrival_order_{list}.csv")), &pods).unwrap();
    let ranks = Ranks::read("ranks", &read("node_rank_example.csv"), &nodes).unwrap();
    Bench::new(nodes, pods, arrivals, ranks)
}
