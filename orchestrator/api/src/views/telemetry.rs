//! How devices fare, in the text that Prometheus reads, under the names that NVIDIA's exporter (DCGM) gives the same
//! figures: dashboards made for it show these as well. What is not known has no line.

use rhumb_control::{
    Desk,
    hub::LastReport,
    metrics::{
        DCGM_ECC, DCGM_FB_FREE, DCGM_FB_USED, DCGM_POWER, DCGM_TEMPERATURE, DCGM_UTILISATION, DCGM_XID,
        DEVICE_PROCESSES, DEVICES,
    },
};
use rhumb_model::{Device, state::SiteState};
use rhumb_store::AnyStore;
use rhumb_wire::{Fares, NodeReport};
use std::{collections::BTreeMap, fmt::Write};

type Figure = fn(&Device, &Fares) -> Option<String>;

/// Name, what it is, and how it is had; units as DCGM has them: per cent, MiB, degrees Celsius, watts.
const FIGURES: [(&str, &str, Figure); 8] = [
    (DCGM_UTILISATION, "Use of the compute units (%).", |_, f| f.utilisation_pct.map(|n| n.to_string())),
    (DCGM_FB_USED, "Memory in use (MiB).", |_, f| f.memory_used_bytes.map(|n| (n >> 20).to_string())),
    (DCGM_FB_FREE, "Memory that is free (MiB).", |d, f| {
        let all = Some(d.memory.bytes()).filter(|n| *n > 0)?;
        f.memory_used_bytes.map(|used| (all.saturating_sub(used) >> 20).to_string())
    }),
    (DCGM_TEMPERATURE, "Temperature (degrees Celsius).", |_, f| f.temperature_mc.map(thousandths)),
    (DCGM_POWER, "Power (W).", |_, f| f.power_mw.map(|n| thousandths(n as i64))),
    (DCGM_ECC, "Errors of memory that were not corrected, since the driver was loaded.", |_, f| {
        f.ecc_uncorrected.map(|n| n.to_string())
    }),
    (DCGM_XID, "The last error that the driver reported by number; 0: none.", |_, f| f.xid.map(|n| n.to_string())),
    (DEVICE_PROCESSES, "Processes that compute on the device.", |_, f| f.processes.map(|n| n.to_string())),
];

fn thousandths(n: i64) -> String {
    let sign = if n < 0 { "-" } else { "" };
    format!("{sign}{}.{:03}", n.unsigned_abs() / 1_000, n.unsigned_abs() % 1_000)
}

/// Of every site that is heard of.
pub fn device_metrics(desk: &Desk<AnyStore>) -> String {
    let lost_after = desk.config().times.lost_after;
    let state = desk.hub().lock();
    let last = state.points.iter().filter_map(|(site, p)| Some((site, p.last.as_ref()?)));
    let alive = last.filter(|(_, last)| LastReport::state(Some(last), lost_after, false) == SiteState::Ready);
    let sites: Vec<_> = alive.map(|(site, last)| (site.to_string(), last.devices.clone())).collect();
    drop(state);
    let mut text = String::new();
    let nodes = || {
        sites.iter().flat_map(|(site, heard)| {
            heard.nodes().into_iter().flat_map(|nodes| nodes.iter()).map(move |node| (site, heard, node))
        })
    };
    for (name, help, figure) in FIGURES {
        head(&mut text, name, help);
        for (site, heard, node) in nodes() {
            for device in &node.devices {
                let Some(fares) = heard.figures().get(&(node.name.clone(), device.index)) else { continue };
                if let Some(value) = figure(device, fares) {
                    line(&mut text, name, &labels(site, node, device), &value);
                }
            }
        }
    }
    head(&mut text, DEVICES, "Devices by what is known of their health.");
    let mut counts: BTreeMap<(&str, &str, String), u32> = BTreeMap::new();
    for (site, _, node) in nodes() {
        for device in &node.devices {
            *counts.entry((site.as_str(), device.model.as_str(), device.health.to_string())).or_default() += 1;
        }
    }
    for ((site, model, health), n) in counts {
        let labels = format!("site=\"{site}\",modelName=\"{model}\",health=\"{health}\"");
        line(&mut text, DEVICES, &labels, &n.to_string());
    }
    text
}

/// Names are such that they may stand here as they are.
fn labels(site: &str, node: &NodeReport, device: &Device) -> String {
    format!("site=\"{site}\",Hostname=\"{}\",gpu=\"{}\",modelName=\"{}\"", node.name, device.index, device.model)
}

fn head(text: &mut String, name: &str, help: &str) {
    // writing to a text cannot fail
    _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
}

fn line(text: &mut String, name: &str, labels: &str, value: &str) {
    _ = writeln!(text, "{name}{{{labels}}} {value}");
}
