//! Nodes with their devices, slices and ports, who holds what, and how it fares.

use super::site::Shown;
use rhumb_model::site::{Device, DeviceSlice, Isolation, MigMode, Piece};
use rhumb_store::{Holdings, NodeRecord, ReplicaHold};
use rhumb_wire::{Fares, Hearer, NodeReport};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub struct NodeView {
    pub name: String,
    pub rack: Option<String>,
    pub nvl_domain: Option<String>,
    pub cpu_milli_total: u64,
    pub cpu_milli_free: u64,
    pub memory_bytes_total: u64,
    pub memory_bytes_free: u64,
    pub devices: Vec<DeviceView>,
    pub ports: Vec<PortView>,
}

/// A network port of the host, whose rate is a ceiling for its links.
#[derive(Debug, Serialize, ToSchema)]
pub struct PortView {
    pub name: String,
    pub rate_kbps: Option<u64>,
    pub numa: Option<u16>,
}

/// What is null is not known.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeviceView {
    pub index: u32,
    pub model: String,
    pub memory_bytes: u64,
    /// NVLink island, NUMA node and PCIe switch within the node.
    pub island: Option<u16>,
    pub numa: Option<u16>,
    pub pcie: Option<u16>,
    pub health: String,
    /// The order or quote that holds it, or its first part.
    pub order: Option<String>,
    /// Thousandths held; of a device in slices by their memory.
    pub share: u16,
    /// `advisory` where shares of it are held: nothing but the work itself keeps to them.
    pub isolation: Option<&'static str>,
    /// `on`: it is given away in slices. `off`: it could be cut. Null: it cannot, or nobody can say.
    pub mig: Option<&'static str>,
    pub slices: Vec<SliceView>,
    /// What can still be cut: how many of each profile, were no other cut.
    pub can_be_cut: BTreeMap<String, u32>,
    pub utilisation_pct: Option<u8>,
    pub memory_used_bytes: Option<u64>,
    pub temperature_mc: Option<i64>,
    pub power_mw: Option<u64>,
    pub processes: Option<u32>,
    /// What is not known of it, or not well, and why.
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SliceView {
    pub number: u32,
    pub profile: String,
    pub memory_bytes: u64,
    pub uuid: Option<String>,
    pub order: Option<String>,
    /// `enforced`: the device keeps slices apart.
    pub isolation: &'static str,
}

/// `heard`: what the agent of the site says of it.
pub fn node(record: &NodeRecord, held: &Holdings, shown: Shown<'_>, heard: Option<&Hearer>) -> NodeView {
    let node = &record.node;
    let mine: Vec<&ReplicaHold> =
        held.replicas.iter().filter(|h| h.site == record.site && h.node == node.name).collect();
    let cpu: u64 = mine.iter().map(|h| h.cpu_milli).sum();
    let memory: u64 = mine.iter().map(|h| h.memory_bytes).sum();
    let report = heard.and_then(|h| h.nodes()?.iter().find(|n| n.name == node.name));
    let fares = |index| heard.and_then(|h| h.figures().get(&(node.name.clone(), index)).copied()).unwrap_or_default();
    NodeView {
        name: node.name.to_string(),
        rack: node.rack.as_ref().map(ToString::to_string),
        nvl_domain: node.nvl_domain.as_ref().map(ToString::to_string),
        cpu_milli_total: node.cpu.milli(),
        cpu_milli_free: node.cpu.milli().saturating_sub(cpu),
        memory_bytes_total: node.memory.bytes(),
        memory_bytes_free: node.memory.bytes().saturating_sub(memory),
        devices: node.devices.iter().map(|d| device(d, &mine, shown, fares(d.index), report)).collect(),
        ports: report.map_or(&[][..], |r| r.ports.as_slice()).iter().map(port).collect(),
    }
}

fn port(port: &rhumb_wire::PortReport) -> PortView {
    PortView { name: port.name.clone(), rate_kbps: port.rate_kbps, numa: port.numa }
}

fn device(
    d: &Device,
    held: &[&ReplicaHold],
    shown: Shown<'_>,
    fares: Fares,
    report: Option<&NodeReport>,
) -> DeviceView {
    let holder = |number: Option<u32>| held.iter().find(|h| number.is_some_and(|n| h.devices.contains(&n)));
    let whole = || held.iter().filter(|h| h.devices.contains(&d.index));
    let slices: Vec<SliceView> = d.slices().iter().map(|s| slice(d.index, s, &holder, shown)).collect();
    let share = if d.is_in_slices() {
        let taken: u64 = slices.iter().filter(|s| s.order.is_some()).map(|s| s.memory_bytes).sum();
        (taken.saturating_mul(1_000)).checked_div(d.memory.bytes()).unwrap_or(0).min(1_000) as u16
    } else {
        whole().map(|h| h.share).fold(0, u16::saturating_add)
    };
    let unknown = report.map_or(&[][..], |r| r.unknown.as_slice()).iter().filter(|u| u.device == d.index);
    DeviceView {
        index: d.index,
        model: d.model.to_string(),
        memory_bytes: d.memory.bytes(),
        island: d.island,
        numa: d.numa,
        pcie: d.pcie,
        health: d.health.to_string(),
        order: holder(Some(d.index)).map(|h| shown(&h.holder)).or_else(|| slices.iter().find_map(|s| s.order.clone())),
        share,
        isolation: whole().any(|h| h.share < 1_000).then_some(Isolation::Advisory.as_str()),
        mig: d.mig.as_ref().map(|mig| match mig.mode {
            MigMode::On => "on",
            MigMode::Off => "off",
        }),
        slices,
        can_be_cut: d.mig.iter().flat_map(|mig| &mig.open).map(|(profile, n)| (profile.to_string(), *n)).collect(),
        utilisation_pct: fares.utilisation_pct,
        memory_used_bytes: fares.memory_used_bytes,
        temperature_mc: fares.temperature_mc,
        power_mw: fares.power_mw,
        processes: fares.processes,
        notes: unknown.map(|u| format!("{}: {}", u.value, u.why)).collect(),
    }
}

fn slice<'a>(
    device: u32,
    slice: &DeviceSlice,
    holder: &dyn Fn(Option<u32>) -> Option<&'a &'a ReplicaHold>,
    shown: Shown<'_>,
) -> SliceView {
    let number = Piece::Slice { device, slice: slice.number }.number();
    SliceView {
        number: slice.number,
        profile: slice.profile.to_string(),
        memory_bytes: slice.memory.bytes(),
        uuid: slice.uuid.clone(),
        order: holder(number).map(|h| shown(&h.holder)),
        isolation: Isolation::Enforced.as_str(),
    }
}
