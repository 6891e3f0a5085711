//! What this point has to give: nodes and their devices.

mod found;

use crate::{config::Devices, error::AgentError};
use rhumb_model::{
    Bytes, ModelName, NodeName,
    federation_file::{DeviceGroupEntry, DeviceKind, NodeEntry},
    site::{Device, Health},
};
use rhumb_wire::NodeReport;
use std::collections::BTreeMap;
use tokio::sync::watch;

/// Most nodes or devices of a node that a file may declare.
const MOST: u32 = 4_096;

/// What a point has, and what becomes of it.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    pub(crate) nodes: Vec<NodeReport>,
    /// Says again what there is whenever that changes; `None`: it does not.
    pub(crate) changes: Option<watch::Receiver<Vec<NodeReport>>>,
}

/// The inventory by its configured source; none for a relay. Looks at the host, which may take seconds.
pub(crate) fn inventory(devices: Option<&Devices>) -> Result<Inventory, AgentError> {
    match devices {
        None => Ok(Inventory::default()),
        Some(Devices::File { kinds, nodes }) => Ok(Inventory { nodes: declared(kinds, nodes)?, changes: None }),
        Some(looked @ (Devices::Auto { .. } | Devices::Nvml { .. } | Devices::Output { .. })) => {
            let (nodes, changes) = found::watch(looked)?;
            Ok(Inventory { nodes, changes: Some(changes) })
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
        for _ in 0..entry.count {
            let name = format!("n{}", nodes.len() + 1);
            nodes.push(NodeReport {
                name: NodeName::new(&name).expect("a letter and digits are a name"),
                devices: expand(kinds, groups)?,
                cpu: entry.cpu,
                memory: entry.memory,
                rack: entry.rack.as_ref().map(ToString::to_string),
                nvl_domain: entry.nvl_domain.as_ref().map(ToString::to_string),
                unknown: Vec::new(),
            });
        }
    }
    Ok(nodes)
}

fn expand(kinds: &BTreeMap<ModelName, DeviceKind>, groups: &[DeviceGroupEntry]) -> Result<Vec<Device>, AgentError> {
    let mut devices = Vec::new();
    // islands and the like are numbered through the whole node
    let (mut island, mut numa, mut pcie) = (0, 0, 0);
    for group in groups {
        let memory = match kinds.get(&group.model) {
            Some(kind) => kind.memory,
            None if kinds.is_empty() => Bytes::ZERO,
            None => {
                return Err(AgentError::Setting {
                    setting: "the device model",
                    value: group.model.to_string(),
                    remedy: "describe it under devices.kinds",
                });
            }
        };
        let islands = spread(&group.islands, &mut island);
        let numas = spread(&group.numa, &mut numa);
        let pcies = spread(&group.pcie, &mut pcie);
        for place in 0..group.count as usize {
            devices.push(Device {
                index: devices.len() as u32,
                model: group.model.clone(),
                memory,
                island: islands.get(place).copied(),
                numa: numas.get(place).copied(),
                pcie: pcies.get(place).copied(),
                health: Health::Ok,
                mig: None,
            });
        }
    }
    Ok(devices)
}

/// `[2, 3]` from number 5 on is `5 5 6 6 6`: the number of each device's part.
fn spread(sizes: &[u32], next: &mut u16) -> Vec<u16> {
    let mut numbers = Vec::new();
    for &size in sizes {
        numbers.extend(std::iter::repeat_n(*next, size.min(MOST) as usize));
        *next = next.saturating_add(1);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::document;

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
        let nodes = inventory(Some(&file)).unwrap().nodes;
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2", "n3"]);
        let islands: Vec<Option<u16>> = nodes[0].devices.iter().map(|device| device.island).collect();
        assert_eq!(islands, [Some(0), Some(0), Some(1), Some(1), None, Some(2), Some(2)]);
        assert_eq!(nodes[0].devices[6].index, 6);
        assert_eq!(nodes[0].devices[6].memory, Bytes::from_bytes(40 << 30));
    }

    #[test]
    fn an_unknown_model_is_refused() {
        let file =
            devices("source: file\nkinds: {H100: {memory: 80GiB}}\nnodes: [{accelerators: {model: B200, count: 1}}]");
        assert!(inventory(Some(&file)).unwrap_err().to_string().contains("B200"));
    }

    #[test]
    fn a_relay_has_nothing() {
        assert!(inventory(None).unwrap().nodes.is_empty());
    }
}
