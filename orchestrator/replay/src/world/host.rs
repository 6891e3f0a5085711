//! One node.

use rhumb_model::{
    ModelName, Node, NodeName,
    fit::{self, NodeShape, NodeUse, Used},
    order::Need,
    quantity::Share,
    site::{Device, Health},
};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub site: usize,
    pub shape: NodeShape,
    /// Wholly free devices, and all.
    pub free: u32,
    pub size: u32,
    /// How many replicas of which number of whole devices run here.
    pub kinds: BTreeMap<u32, u32>,
    /// The waiting job that it is kept for.
    pub kept: Option<usize>,
    node: Node,
    used: NodeUse,
}

impl Host {
    /// A node that has free what the shape says.
    pub fn new(site: usize, shape: &NodeShape) -> Self {
        let mut devices = Vec::new();
        let mut used = NodeUse::default();
        for group in &shape.groups {
            let whole = std::iter::repeat_n(None, group.free as usize);
            for partial in whole.chain(group.partial.iter().map(Some)) {
                let index = devices.len() as u32;
                devices.push(Device {
                    index,
                    model: group.model.clone(),
                    memory: group.memory,
                    island: group.island,
                    numa: group.numa,
                    pcie: group.pcie,
                    health: Health::Ok,
                    mig: None,
                });
                if let Some((share, memory)) = partial {
                    let taken = Used {
                        share: Share::from_thousandths(1_000 - u64::from(*share)),
                        memory: group.memory.saturating_sub(*memory),
                    };
                    used.devices.insert(index, taken);
                }
            }
        }
        let node = Node {
            name: NodeName::new("node").expect("a word is a name"),
            devices,
            cpu: shape.cpu,
            memory: shape.memory,
            rack: shape.rack.clone(),
            nvl_domain: shape.nvl_domain.clone(),
        };
        let shape = NodeShape::of(&node, &used);
        let (free, size) = (shape.free_devices(), node.devices.len() as u32);
        Self { site, shape, free, size, kinds: BTreeMap::new(), kept: None, node, used }
    }

    /// Gives devices to one replica. `None`: it does not fit.
    pub fn give(&mut self, need: &Need, model: Option<&ModelName>) -> Option<Vec<u32>> {
        let devices = fit::allocate(need, model, &self.node, &self.used)?;
        self.used.add_replica(need, &self.node, &devices);
        let kind = crate::job::whole_devices(need);
        if kind > 0 {
            *self.kinds.entry(kind).or_default() += 1;
        }
        self.seen();
        Some(devices)
    }

    /// Takes back what `give` gave.
    pub fn take_back(&mut self, need: &Need, devices: &[u32]) {
        let (share, memory) = fit::use_of(need, &self.node, devices);
        self.used.cpu = self.used.cpu.checked_sub(need.cpu).unwrap_or_default();
        self.used.memory = self.used.memory.saturating_sub(need.memory);
        for index in devices {
            let Some(used) = self.used.devices.get_mut(index) else { continue };
            used.share = used.share.saturating_sub(share);
            used.memory = used.memory.saturating_sub(memory);
            if used.share.is_zero() && used.memory.is_zero() {
                self.used.devices.remove(index);
            }
        }
        let kind = crate::job::whole_devices(need);
        if let Some(count) = self.kinds.get_mut(&kind) {
            *count -= 1;
            if *count == 0 {
                self.kinds.remove(&kind);
            }
        }
        self.seen();
    }

    fn seen(&mut self) {
        self.shape = NodeShape::of(&self.node, &self.used);
        self.free = self.shape.free_devices();
    }

    /// What would be left free in thousandths of a device, then in cores, with one replica more. `None`: it does not fit.
    pub fn left(&self, need: &Need, model: Option<&ModelName>) -> Option<(u64, u64)> {
        let mut left = self.shape.clone();
        fit::take(need, model, &mut left)?;
        let devices = left.groups.iter().map(|g| {
            let parts: u64 = g.partial.iter().map(|p| u64::from(p.0)).sum();
            u64::from(g.free) * 1_000 + parts
        });
        Some((devices.sum(), left.cpu.milli()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_federation::View;
    use rhumb_model::{FederationFile, Order};

    fn host() -> Host {
        let text = "{currency: CNY, devices: {H100: {memory: 80GiB}}, sites: [{name: a, nodes: [{accelerators: {model: H100, count: 4, islands: [2, 2]}, cpu: 8, memory: 64GiB}]}]}";
        let view = View::from_file(&FederationFile::read(text).unwrap()).unwrap();
        Host::new(0, &view.sites[0].nodes[0].shape)
    }

    fn need(text: &str) -> Need {
        let document =
            format!("name: t\nclass: training\ncomponents: [{{name: c, need: {text}, work: {{duration: 1h}}}}]");
        Order::read(&document).unwrap().components.remove(0).need
    }

    #[test]
    fn what_is_given_and_taken_back_leaves_the_node_as_it_was() {
        let model = ModelName::new("H100").unwrap();
        let before = host();
        let mut host = before.clone();
        let needs = [
            need("{accelerators: {count: 2}, cpu: 2, memory: 8GiB}"),
            need("{accelerators: {share: 25%, memory: 20GiB}, cpu: 1}"),
        ];
        let first = host.give(&needs[0], Some(&model)).unwrap();
        let second = host.give(&needs[1], Some(&model)).unwrap();
        assert_eq!((first.len(), second.len(), host.free), (2, 1, 1));
        assert!(host.give(&needs[0], Some(&model)).is_none());
        host.take_back(&needs[0], &first);
        assert_eq!(host.free, 3);
        host.take_back(&needs[1], &second);
        assert_eq!((host.shape.clone(), host.free, host.kinds.len()), (before.shape.clone(), 4, 0));
    }
}
