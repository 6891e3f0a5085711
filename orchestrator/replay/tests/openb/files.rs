//! The published files, where they are at hand.

use rhumb_replay::openb::{Arrivals, Bench, Nodes, Pods, Ranks};
use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

/// The folder of the benchmark's files, from the environment or beside the repository; says that it is missing.
pub fn folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data = std::env::var_os("RHUMB_DATA").map_or_else(|| root.join("../shared/data"), PathBuf::from);
    let folder = data.join("openb");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: {} is not there; set RHUMB_DATA to the folder of the public data", folder.display());
    None
}

/// A file, or the same with `.gz`, unpacked.
pub fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    let plain = folder.join(name);
    if plain.is_file() {
        return fs::read(plain).unwrap();
    }
    let packed = fs::read(folder.join(format!("{name}.gz"))).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    bytes
}

pub fn bench(folder: &Path, list: &str) -> Bench {
    let read = |name: &str| bytes(folder, name);
    let nodes = Nodes::read("nodes", &read("openb_node_list_gpu_node.csv")).unwrap();
    let pods = Pods::read("pods", &read(&format!("openb_pod_list_{list}.csv")), &nodes).unwrap();
    let arrivals = Arrivals::read("arrivals", &read(&format!("arrival_order_{list}.csv")), &pods).unwrap();
    let ranks = Ranks::read("ranks", &read("node_rank_example.csv"), &nodes).unwrap();
    Bench::new(nodes, pods, arrivals, ranks)
}
