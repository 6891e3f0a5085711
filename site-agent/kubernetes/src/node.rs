//! Nodes as the cluster has them: what device plug-ins offer, and the labels that say where a node stands.

use crate::quantity;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::api::resource::Quantity};
use rhumb_model::{Bytes, Cores, NodeName};
use rhumb_runtimes::{KubernetesSettings, NodeStock};
use std::collections::BTreeMap;

/// Resources that are whole devices, or slices that stand: by their full name, or by how it begins where that ends in a dash.
/// Ascend's go on with the model: `huawei.com/Ascend910`.
const DEVICES: [&str; 12] = [
    "nvidia.com/gpu",
    "nvidia.com/mig-",
    "amd.com/gpu",
    "huawei.com/Ascend",
    "metax-tech.com/gpu",
    "hygon.com/dcu",
    "cambricon.com/mlu",
    "iluvatar.com/gpu",
    "mthreads.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
];
/// Labels in which makers' own tools write the model of a node's devices.
const MODELS: [(&str, &str); 2] =
    [("nvidia.com/gpu", "nvidia.com/gpu.product"), ("amd.com/gpu", "amd.com/gpu.product-name")];
const ZONE: &str = "topology.kubernetes.io/zone";

/// Devices of one resource on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kind {
    /// As pods ask for it.
    pub(crate) resource: String,
    /// What it is called for people and in settings: the model, where the node says it.
    pub(crate) word: String,
    pub(crate) count: u32,
}

pub(crate) fn is_device(resource: &str) -> bool {
    DEVICES.iter().any(|known| {
        let begins = known.ends_with('-') || known.ends_with("Ascend");
        resource == *known || (begins && resource.len() > known.len() && resource.starts_with(known))
    })
}

/// In the order of the devices' indices; `None`: a number cannot be read.
pub(crate) fn kinds(node: &Node) -> Option<Vec<Kind>> {
    let labels = node.metadata.labels.as_ref();
    let offered = allocatable(node).into_iter().flatten().filter(|(resource, _)| is_device(resource));
    let kind = |(resource, count): (&String, &Quantity)| {
        let label = MODELS.iter().find(|(known, _)| known == resource).map(|(_, label)| *label);
        let word = label.and_then(|label| labels?.get(label)).unwrap_or(resource).clone();
        let count = u32::try_from(quantity::ones(count)?).ok()?;
        Some(Kind { resource: resource.clone(), word, count })
    };
    offered.map(kind).collect()
}

/// How many of each resource these devices are; `None`: the node has no such devices.
pub(crate) fn resources(kinds: &[Kind], devices: impl IntoIterator<Item = u32>) -> Option<BTreeMap<String, u32>> {
    let mut asked = BTreeMap::new();
    for device in devices {
        let mut first = 0;
        let kind = kinds.iter().find(|kind| {
            first += kind.count;
            device < first
        });
        *asked.entry(kind?.resource.clone()).or_default() += 1;
    }
    Some(asked)
}

pub(crate) fn stock(node: &Node, settings: &KubernetesSettings) -> Option<NodeStock> {
    let name = NodeName::new(node.metadata.name.as_deref()?).ok()?;
    let of = |resource: &str| allocatable(node).and_then(|offered| offered.get(resource));
    let label = |name: &String| node.metadata.labels.as_ref()?.get(name).cloned();
    let first = |names: &[String]| names.iter().find_map(label);
    // racks of two zones may be called alike
    let rack = first(&settings.rack_labels);
    let rack = rack.map(|rack| label(&ZONE.to_owned()).map_or(rack.clone(), |zone| format!("{zone}/{rack}")));
    Some(NodeStock {
        name,
        devices: kinds(node).map(|kinds| kinds.into_iter().map(|kind| (kind.word, kind.count)).collect()),
        cpu: Cores::from_milli(of("cpu").and_then(quantity::milli).unwrap_or(0)),
        memory: Bytes::from_bytes(of("memory").and_then(quantity::ones).unwrap_or(0)),
        is_up: is_up(node, settings),
        rack,
        nvl_domain: first(&settings.nvl_domain_labels),
    })
}

fn allocatable(node: &Node) -> Option<&BTreeMap<String, Quantity>> {
    node.status.as_ref()?.allocatable.as_ref()
}

/// Whether the cluster would start our work on it.
fn is_up(node: &Node, settings: &KubernetesSettings) -> bool {
    let spec = node.spec.as_ref();
    let is_open = !spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
    let taints = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let is_borne = |key: &String| settings.tolerations.contains(key) || is_device(key);
    let is_barred = taints.iter().any(|taint| taint.effect != "PreferNoSchedule" && !is_borne(&taint.key));
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let is_ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    is_open && !is_barred && is_ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn settings() -> KubernetesSettings {
        serde_json::from_value(json!({"namespace": "rhumb", "shared": "/s", "volume": {"claim": "runs"}})).unwrap()
    }

    fn node(allocatable: &Value, labels: &Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "gpu-1.example", "labels": labels},
            "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap()
    }

    #[test]
    fn devices_of_every_maker_are_told_apart_from_other_resources() {
        let offered = json!({
            "cpu": "95500m", "memory": "1055762868Ki", "pods": "110", "hugepages-2Mi": "0",
            "nvidia.com/gpu": "6", "nvidia.com/mig-1g.5gb": "7", "nvidia.com/gpu.shared": "40", "rdma/hca": "8",
        });
        let labels = json!({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"});
        let stock = stock(&node(&offered, &labels), &settings()).unwrap();
        let expected = vec![("NVIDIA-A100-SXM4-40GB".to_owned(), 6), ("nvidia.com/mig-1g.5gb".to_owned(), 7)];
        assert_eq!(stock.devices, Some(expected));
        assert_eq!((stock.cpu, stock.memory.bytes()), (Cores::from_milli(95_500), 1_055_762_868 << 10));
        for (resource, expected) in [
            ("amd.com/gpu", true),
            ("huawei.com/Ascend910", true),
            ("huawei.com/Ascend", true),
            ("amd.com/gpux", false),
        ] {
            assert_eq!(is_device(resource), expected, "{resource}");
        }
    }

    #[test]
    fn a_number_that_cannot_be_read_is_not_zero() {
        assert_eq!(stock(&node(&json!({"amd.com/gpu": "many"}), &json!({})), &settings()).unwrap().devices, None);
    }

    #[test]
    fn indices_run_over_the_kinds_in_order() {
        let kinds = kinds(&node(&json!({"nvidia.com/mig-2g.10gb": "3", "nvidia.com/gpu": "2"}), &json!({}))).unwrap();
        let asked = resources(&kinds, [0, 1, 4]).unwrap();
        assert_eq!(asked, BTreeMap::from([("nvidia.com/gpu".into(), 2), ("nvidia.com/mig-2g.10gb".into(), 1)]));
        assert_eq!(resources(&kinds, [5]), None);
    }

    #[test]
    fn topology_is_read_from_labels() {
        let labels = json!({
            "topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/rack": "r7",
            "nvidia.com/gpu.clique": "5f0.1",
        });
        let stock = stock(&node(&json!({}), &labels), &settings()).unwrap();
        assert_eq!((stock.rack.as_deref(), stock.nvl_domain.as_deref()), (Some("z1/r7"), Some("5f0.1")));
    }

    #[test]
    fn a_node_that_takes_no_work_is_not_up() {
        let good = node(&json!({}), &json!({}));
        let tainted = |key: &str, effect: &str| {
            let mut node = good.clone();
            let taints = json!({"taints": [{"key": key, "effect": effect}]});
            node.spec = serde_json::from_value(taints).unwrap();
            is_up(&node, &settings())
        };
        assert!(is_up(&good, &settings()));
        assert!(tainted("nvidia.com/gpu", "NoSchedule") && tainted("slow", "PreferNoSchedule"));
        assert!(!tainted("node.kubernetes.io/unreachable", "NoExecute") && !tainted("theirs", "NoSchedule"));
        let bears = KubernetesSettings { tolerations: vec!["theirs".into()], ..settings() };
        let mut node = good.clone();
        node.spec = serde_json::from_value(json!({"taints": [{"key": "theirs", "effect": "NoSchedule"}]})).unwrap();
        assert!(is_up(&node, &bears));
        node.spec = serde_json::from_value(json!({"unschedulable": true})).unwrap();
        assert!(!is_up(&node, &bears));
        let mut silent = good;
        silent.status =
            serde_json::from_value(json!({"conditions": [{"type": "Ready", "status": "Unknown"}]})).unwrap();
        assert!(!is_up(&silent, &settings()));
    }
}
