//! The environment of an order's command.
//!
//! | variable | value |
//! | --- | --- |
//! | `RHUMB_ORDER`, `RHUMB_GENERATION`, `RHUMB_COMPONENT`, `RHUMB_REPLICA` | whose work this is |
//! | `RHUMB_SITE`, `RHUMB_NODE` | where it runs |
//! | `CUDA_VISIBLE_DEVICES` | the assigned devices' indices, comma between; empty: none |
//! | `RHUMB_DATASET_<NAME>` | path of the staged dataset, name in capitals, `_` for `-` |
//! | `RHUMB_DATASET_<NAME>` | of a dataset that the work writes: where it writes it, unless the work reads it too |
//! | `RHUMB_OUTPUT_DIR` | folder of the files that become datasets, each named as its dataset |
//! | `RHUMB_FLOW_<n>` | path of the socket of flow n |
//! | `TRACEPARENT` | W3C trace context of the order |

use rhumb_model::PointName;
use rhumb_wire::Assignment;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What the environment says beside the assignment itself.
#[derive(Debug)]
pub(super) struct Place<'a> {
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
    let devices: Vec<String> = assignment.devices.iter().map(ToString::to_string).collect();
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
    name.starts_with("RHUMB_") || name.ends_with("_VISIBLE_DEVICES")
}
