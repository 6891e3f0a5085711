//! Keys, assignments, processes and patience.

use rhumb_model::{Bytes, Cores, OrderId};
use rhumb_wire::{Assignment, AssignmentGoal, Desired, RunTerms, report::AssignmentKey};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use uuid::Uuid;

/// Longest that anything in a test may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Looks until `look` gives something.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn key(order: u128, generation: u64) -> AssignmentKey {
    AssignmentKey {
        order: OrderId(Uuid::from_u128(order)),
        generation,
        component: "trainer".parse().unwrap(),
        replica: 0,
    }
}

pub fn assignment(key: &AssignmentKey, goal: AssignmentGoal, devices: &[u32], script: &str) -> Assignment {
    Assignment {
        key: key.clone(),
        goal,
        node: "n1".parse().unwrap(),
        devices: devices.to_vec(),
        part: None,
        cpu: Cores::from_milli(1_000),
        memory: Bytes::from_bytes(1 << 20),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: BTreeMap::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        endpoints: Vec::new(),
        lease_ms: None,
        grace_ms: 1_000,
        checkpoint_signal: None,
        traceparent: None,
        terms: RunTerms::default(),
    }
}

pub fn desired(epoch: u64, generation: u64, assignments: Vec<Assignment>) -> Desired {
    Desired {
        epoch,
        generation,
        assignments,
        routes: Vec::new(),
        probes: Vec::new(),
        pairs: Vec::new(),
        links: Vec::new(),
        peers: Vec::new(),
        probe_key_base64: None,
    }
}

/// The folder of a run below a data folder's `runs`.
pub fn folder(runs: &Path, key: &AssignmentKey) -> PathBuf {
    runs.join(format!("{}.{}.{}.{}", key.order, key.generation, key.component, key.replica))
}

/// A whole number that a run wrote into its working folder.
#[track_caller]
pub fn written(runs: &Path, key: &AssignmentKey, file: &str) -> i32 {
    let path = folder(runs, key).join("work").join(file);
    until(&format!("{}", path.display()), || fs::read_to_string(&path).ok()?.trim().parse().ok())
}

/// Whether a process is there and not just waiting to be reaped.
pub fn lives(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')))
}
