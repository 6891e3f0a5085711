//! The environment of an order's command.
//!
//! | variable | value |
//! | --- | --- |
//! | `RHUMB_ORDER`, `RHUMB_GENERATION`, `RHUMB_COMPONENT`, `RHUMB_REPLICA` | whose work this is |
//! | `RHUMB_SITE`, `RHUMB_NODE` | where it runs |
//! | `CUDA_VISIBLE_DEVICES` | the assigned devices' indices, or the slices' UUIDs, comma between; empty: none |
//! | `RHUMB_ISOLATION` | of a slice `enforced`: the device keeps it apart; of a share `advisory`: it is for the work to keep to it |
//! | `RHUMB_DEVICE_SHARE`, `RHUMB_DEVICE_MEMORY_BYTES` | of a share: the part of the device, in thousandths, and of its memory |
//! | `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`, `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT` | of a share: the same for CUDA, which keeps work to it where its MPS daemon runs |
//! | `RHUMB_DATASET_<NAME>` | path of the staged dataset, name in capitals, `_` for `-` |
//! | `RHUMB_DATASET_<NAME>` | of a dataset that the work writes: where it writes it, unless the work reads it too |
//! | `RHUMB_OUTPUT_DIR` | folder of the files that become datasets, each named as its dataset |
//! | `RHUMB_FLOW_<n>` | path of the socket of flow n |
//! | `TRACEPARENT` | W3C trace context of the order |

use crate::lease::Claim;
use rhumb_model::{
    PointName,
    site::{Isolation, Piece},
};
use rhumb_wire::{Assignment, DevicePart};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What the environment says beside the assignment itself.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// What it has leased.
    pub(super) claim: Option<&'a Claim>,
    pub(super) site: &'a PointName,
    pub(super) search_path: &'a str,
    pub(super) outputs: &'a Path,
    /// Dataset and its file.
    pub(super) inputs: &'a [(String, PathBuf)],
    /// Flow and its socket.
    pub(super) flows: &'a [(u32, PathBuf)],
}

pub(super) fn environment(assignment: &Assignment, place: &Place<'_>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([("PATH".to_owned(), place.search_path.to_owned())]);
    // what says which devices and files are the command's own is not for the order to say
    let own = assignment.env.iter().filter(|(name, _)| !is_reserved(name));
    env.extend(own.map(|(name, value)| (name.clone(), value.clone())));
    let key = &assignment.key;
    let visible = |number: &u32| {
        let uuid = place.claim.and_then(|c| c.slices.get(number)).and_then(|s| s.uuid.clone());
        match Piece::of(*number) {
            Piece::Device(index) => index.to_string(),
            // a slice that nobody can name stands in the tools' own notation
            Piece::Slice { device, slice } => uuid.unwrap_or_else(|| format!("{device}:{slice}")),
        }
    };
    let devices: Vec<String> = assignment.devices.iter().map(visible).collect();
    let fixed = [
        ("RHUMB_ORDER", key.order.to_string()),
        ("RHUMB_GENERATION", key.generation.to_string()),
        ("RHUMB_COMPONENT", key.component.to_string()),
        ("RHUMB_REPLICA", key.replica.to_string()),
        ("RHUMB_SITE", place.site.to_string()),
        ("RHUMB_NODE", assignment.node.to_string()),
        ("RHUMB_OUTPUT_DIR", place.outputs.to_string_lossy().into_owned()),
        ("CUDA_VISIBLE_DEVICES", devices.join(",")),
    ];
    env.extend(fixed.map(|(name, value)| (name.to_owned(), value)));
    match place.claim.map_or(assignment.part, |c| c.part) {
        Some(DevicePart::Share { thousandths, memory_bytes }) => {
            let memory_bytes = memory_bytes.unwrap_or(0);
            let pct = thousandths.div_ceil(10).clamp(1, 100);
            // as the work numbers them: it sees no other device
            let limit = format!("0={}M", memory_bytes >> 20);
            let told = [
                ("RHUMB_ISOLATION", Isolation::Advisory.as_str().to_owned()),
                ("RHUMB_DEVICE_SHARE", thousandths.to_string()),
                ("RHUMB_DEVICE_MEMORY_BYTES", memory_bytes.to_string()),
                ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", pct.to_string()),
                ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", limit),
            ];
            env.extend(told.map(|(name, value)| (name.to_owned(), value)));
        }
        Some(DevicePart::Slice { .. }) => {
            env.insert("RHUMB_ISOLATION".into(), Isolation::Enforced.as_str().to_owned());
        }
        None => {}
    }
    let written = assignment.outputs.iter().map(|output| (&output.dataset, place.outputs.join(&output.dataset)));
    let read = place.inputs.iter().map(|(dataset, path)| (dataset, path.clone()));
    for (dataset, path) in written.chain(read) {
        let name = dataset.to_ascii_uppercase().replace('-', "_");
        env.insert(format!("RHUMB_DATASET_{name}"), path.to_string_lossy().into_owned());
    }
    for (flow, path) in place.flows {
        env.insert(format!("RHUMB_FLOW_{flow}"), path.to_string_lossy().into_owned());
    }
    if let Some(traceparent) = &assignment.traceparent {
        env.insert("TRACEPARENT".into(), traceparent.clone());
    }
    env
}

fn is_reserved(name: &str) -> bool {
    name.starts_with("RHUMB_") || name.starts_with("CUDA_MPS_") || name.ends_with("_VISIBLE_DEVICES")
}
