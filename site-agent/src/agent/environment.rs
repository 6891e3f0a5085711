//! The environment of an order's command.
//!
//! | variable | value |
//! | --- | --- |
//! | `RHUMB_ORDER`, `RHUMB_GENERATION`, `RHUMB_COMPONENT`, `RHUMB_REPLICA` | whose work this is |
//! | `RHUMB_SITE`, `RHUMB_NODE` | where it runs |
//! | `CUDA_VISIBLE_DEVICES`, `ASCEND_RT_VISIBLE_DEVICES`, `ROCR_VISIBLE_DEVICES` | the assigned devices' indices, or the slices' UUIDs, comma between, in the one that devices of their family heed; without devices all three, empty |
//! | `RHUMB_IMAGE` | the container image that the order names for these devices |
//! | `RHUMB_CHECKPOINT_FILE` | where the work writes what names its last checkpoint, in one line; also at the checkpoint signal |
//! | `RHUMB_CHECKPOINT` | what names the checkpoint that the work goes on from; absent: it begins |
//! | `RHUMB_ISOLATION` | of a slice `enforced`: the device keeps it apart; of a share `advisory`: it is for the work to keep to it |
//! | `RHUMB_DEVICE_SHARE`, `RHUMB_DEVICE_MEMORY_BYTES` | of a share: the part of the device, in thousandths, and of its memory |
//! | `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`, `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT` | of a share: the same for CUDA, which keeps work to it where its MPS daemon runs |
//! | `RHUMB_DATASET_<NAME>` | path of the staged dataset, name in capitals, `_` for `-` |
//! | `RHUMB_DATASET_<NAME>` | of a dataset that the work writes: where it writes it, unless the work reads it too |
//! | `RHUMB_OUTPUT_DIR` | folder of the files that become datasets, each named as its dataset |
//! | `RHUMB_FLOW_<n>` | path of the socket of flow n |
//! | `TRACEPARENT` | W3C trace context of the order |

use super::family::Family;
use crate::lease::Claim;
use rhumb_model::{
    PointName,
    site::{Isolation, Piece},
};
use rhumb_runtimes::DeviceFamily;
use rhumb_wire::{Assignment, DevicePart, RunVariant};
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

/// The command or image for devices of this family, if the order has one of its own for them.
pub(super) fn variant<'a>(assignment: &'a Assignment, family: Option<&Family>) -> Option<&'a RunVariant> {
    family?.names.iter().find_map(|name| assignment.terms.variants.get(*name))
}

pub(super) fn environment(
    assignment: &Assignment,
    family: Option<&Family>,
    place: &Place<'_>,
) -> BTreeMap<String, String> {
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
    ];
    env.extend(fixed.map(|(name, value)| (name.to_owned(), value)));
    // devices of one family may heed the word for another's: only where there are none all say so
    let shown_by = family.map_or(Some(DeviceFamily::Cuda), |family| family.shown_by);
    let heeded = |heeded: &DeviceFamily| devices.is_empty() || shown_by == Some(*heeded);
    let shown = DeviceFamily::ALL.into_iter().filter(heeded);
    env.extend(shown.map(|family| (family.variable().to_owned(), devices.join(","))));
    let image = variant(assignment, family).and_then(|variant| variant.image.as_ref());
    if let Some(image) = image.or(assignment.terms.image.as_ref()) {
        env.insert("RHUMB_IMAGE".into(), image.clone());
    }
    if let Some(checkpoint) = &assignment.terms.restart_from {
        env.insert("RHUMB_CHECKPOINT".into(), checkpoint.clone());
    }
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
