//! What this point has to give: nodes and their devices.

mod found;

use crate::{config::Devices, error::AgentError};
use rhumb_model::{
    ModelName, NodeName,
    federation_file::{DeviceGroupEntry, DeviceKind, NodeEntry},
};
use rhumb_wire::{DeviceFigures, NodeReport};
use std::collections::BTreeMap;
use tokio::sync::watch;

/// Most nodes or devices of a node that a file may declare.
const MOST: u32 = 4_096;

/// What a point has, and what becomes of it.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// `None`: nobody knows yet.
    pub(crate) nodes: Option<Vec<NodeReport>>,
    /// Of a host that is looked at.
    pub(crate) eye: Option<Seen>,
}

/// What is seen of a host from now on.
#[derive(Debug)]
pub(crate) struct Seen {
    /// What there is, whenever that changes; `None`: nobody knows yet.
    pub(crate) nodes: watch::Receiver<Option<Vec<NodeReport>>>,
    /// How the devices fare, as last asked.
    pub(crate) figures: watch::Receiver<Vec<DeviceFigures>>,
}

/// The inventory by its configured source; none for a relay. Looks at the host, and waits a moment for what there is.
pub(crate) fn inventory(devices: Option<&Devices>) -> Result<Inventory, AgentError> {
    match devices {
        None => Ok(Inventory { nodes: Some(Vec::new()), eye: None }),
        // the agent asks its runtime
        Some(Devices::Runtime { .. }) => Ok(Inventory::default()),
        Some(Devices::File { kinds, nodes }) => Ok(Inventory { nodes: Some(declared(kinds, nodes)?), eye: None }),
        Some(looked @ (Devices::Auto { .. } | Devices::Nvml { .. } | Devices::Output { .. })) => {
            let seen = found::watch(looked)?;
            let nodes = seen.nodes.borrow().clone();
            Ok(Inventory { nodes, eye: Some(seen) })
        }
    }
}

/// `count` equal nodes become that many, named `n1`, `n2` and on in the order of the file.
fn declared(kinds: &BTreeMap<ModelName, DeviceKind>, entries: &[NodeEntry]) -> Result<Vec<NodeReport>, AgentError> {
    let mut nodes = Vec::new();
    for entry in entries {
        let groups = &entry.accelerators.0;
        let devices = u64::from(entry.count.max(1)) * groups.iter().map(|group| u64::from(group.count)).sum::<u64>();
        if entry.count > MOST || devices > u64::from(MOST) * 16 {
            return Err(AgentError::Setting {
                setting: "devices.nodes",
                value: format!("with {} nodes and {devices} devices", entry.count),
                remedy: "declare at most 4096 nodes and 65536 devices in one entry",
            });
        }
        check(kinds, groups)?;
        let given = entry.devices(kinds);
        for _ in 0..entry.count {
            let name = format!("n{}", nodes.len() + 1);
            nodes.push(NodeReport {
                name: NodeName::new(&name).expect("a letter and digits are a name"),
                devices: given.clone(),
                cpu: entry.cpu,
                memory: entry.memory,
                rack: entry.rack.as_ref().map(ToString::to_string),
                nvl_domain: entry.nvl_domain.as_ref().map(ToString::to_string),
                unknown: Vec::new(),
                ports: Vec::new(),
            });
        }
    }
    Ok(nodes)
}

/// Where models are described, all must be.
fn check(kinds: &BTreeMap<ModelName, DeviceKind>, groups: &[DeviceGroupEntry]) -> Result<(), AgentError> {
    match groups.iter().find(|g| !kinds.is_empty() && !kinds.contains_key(&g.model)) {
        None => Ok(()),
        Some(group) => Err(AgentError::Setting {
            setting: "the device model",
            value: group.model.to_string(),
            remedy: "describe it under devices.kinds",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::{Bytes, document};

    fn devices(text: &str) -> Devices {
        document::read(text).unwrap()
    }

    #[test]
    fn islands_are_numbered_through_a_node() {
        let file = devices(
            "source: file\nkinds: {H100: {memory: 80GiB}, A100: {memory: 40GiB}}\nnodes:\n\
             - {accelerators: [{model: H100, count: 5, islands: [2, 2]}, {model: A100, count: 2, islands: [2]}], cpu: 8, memory: 1GiB}\n\
             - {count: 2, cpu: 4}\n",
        );
        let nodes = inventory(Some(&file)).unwrap().nodes.unwrap();
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "n3"]);
        let islands: Vec<Option<u16>> = nodes[0].devices.iter().map(|device| device.island).collect();
        assert_eq!(islands, [Some(0), Some(0), Some(1), Some(1), None, Some(2), Some(2)]);
        assert_eq!(nodes[0].devices[6].index, 6);
        assert_eq!(nodes[0].devices[6].memory, Bytes::from_bytes(40 << 30));
    }

    #[test]
    fn slices_of_a_file_are_numbered_on_the_last_devices() {
        let file = devices(
            "source: file\nkinds: {H100: {memory: 80GiB}}\nnodes:\n\
             - {accelerators: [{model: H100, count: 2, mig: {3g.40gb: 1, 2g.20gb: 1}}], cpu: 8, memory: 1GiB}\n",
        );
        let nodes = inventory(Some(&file)).unwrap().nodes.unwrap();
        let [whole, cut] = &nodes[0].devices[..] else { panic!("{nodes:?}") };
        assert!(!whole.is_in_slices() && cut.is_in_slices());
        let slices: Vec<_> = cut.slices().iter().map(|s| (s.number, s.profile.to_string())).collect();
        assert_eq!(slices, [(0, "2g.20gb".into()), (1, "3g.40gb".into())]);
    }

    #[test]
    fn an_unknown_model_is_refused() {
        let file =
            devices("source: file\nkinds: {H100: {memory: 80GiB}}\nnodes: [{accelerators: {model: B200, count: 1}}]");
        assert!(inventory(Some(&file)).unwrap_err().to_string().contains("B200"));
    }

    #[test]
    fn a_relay_has_nothing() {
        assert_eq!(inventory(None).unwrap().nodes, Some(Vec::new()));
    }
}
