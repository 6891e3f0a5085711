//! Processors next to the devices: a run with devices on one memory node keeps to that node's processors.

use rhumb_model::Cores;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{
    collections::{BTreeSet, btree_set},
    fs,
    path::Path,
};

/// The processors of these memory nodes that may be used here. Empty, which means any: nothing is known of the nodes, or they
/// have fewer processors than the work needs.
pub(crate) fn near(nodes: &BTreeSet<u16>, cpu: Cores, root: &Path) -> Vec<usize> {
    let allowed = sched_getaffinity(None).ok();
    let read = |node: &u16| {
        let path = root.join(format!("sys/devices/system/node/node{node}/cpulist"));
        list(fs::read_to_string(path).ok()?.trim())
    };
    let Some(found) = nodes.iter().map(read).collect::<Option<Vec<_>>>() else { return Vec::new() };
    let near: BTreeSet<usize> = found.into_iter().flat_map(btree_set::BTreeSet::into_iter).collect();
    let near: Vec<usize> = near
        .into_iter()
        .filter(|&cpu| allowed.as_ref().is_none_or(|a| cpu < CpuSet::MAX_CPU && a.is_set(cpu)))
        .collect();
    if (near.len() as u64) * 1_000 < cpu.milli() { Vec::new() } else { near }
}

/// Keeps the calling process, and what it starts from now on, to these processors; none: leaves it as it is.
pub(crate) fn pin(processors: &[usize]) {
    let mut set = CpuSet::new();
    processors.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    if set.count() > 0
        && let Err(error) = sched_setaffinity(None, &set)
    {
        eprintln!("cannot keep to the processors {processors:?}: {error}");
    }
}

/// `0-3,8` in the kernel's way.
fn list(text: &str) -> Option<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= CpuSet::MAX_CPU {
            return None;
        }
        found.extend(first..=last);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(nodes: &[(u16, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (node, cpus) in nodes {
            let folder = root.path().join(format!("sys/devices/system/node/node{node}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpulist"), format!("{cpus}\n")).unwrap();
        }
        root
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(list("0-2,7"), Some(BTreeSet::from([0, 1, 2, 7])));
        assert_eq!(list(""), Some(BTreeSet::new()));
        for bad in ["a", "1-", "0-99999999"] {
            assert_eq!(list(bad), None, "{bad}");
        }
    }

    #[test]
    fn work_keeps_to_the_processors_next_to_its_devices() {
        let root = host(&[(0, "0"), (1, "1-900")]);
        let near = |nodes: &[u16], milli| near(&nodes.iter().copied().collect(), Cores::from_milli(milli), root.path());
        assert_eq!(near(&[0], 1_000), [0]);
        assert_eq!(near(&[0], 2_000), [0_usize; 0], "too few for what it needs");
        assert_eq!(near(&[0, 5], 0), [0_usize; 0], "a node that nothing is known of");
        assert_eq!(near(&[], 0), [0_usize; 0]);
    }
}
