//! What is shown and measured of devices, from an agent's report.

use crate::{agents::Agent, desk::Rig};
use axum::http::StatusCode;
use rhumb_model::site::{DeviceSlice, Health, Mig, MigMode};
use rhumb_wire::{DeviceFigures, Fares, NodeReport, PortReport, report::UnknownValue};
use std::collections::BTreeMap;

/// A device in slices, one that is ill, and what is known of how the others fare.
async fn reported() -> (Rig, Agent) {
    let (rig, mut agent) = (Rig::start().await, Agent::new("east"));
    let mut report = agent.report();
    let node: &mut NodeReport = &mut report.nodes.as_mut().unwrap()[0];
    let slice = |number: u32, profile: &str| {
        let profile: rhumb_model::SliceProfile = profile.parse().unwrap();
        DeviceSlice { number, profile, memory: profile.memory(), uuid: Some(format!("MIG-{number}")) }
    };
    let open = BTreeMap::from([("1g.10gb".parse().unwrap(), 2)]);
    node.devices[6].mig = Some(Mig { mode: MigMode::On, slices: vec![slice(0, "3g.40gb"), slice(1, "2g.20gb")], open });
    node.devices[7].health = Health::Failed;
    node.devices[0].numa = Some(0);
    node.unknown.push(UnknownValue { device: 7, value: "memory".into(), why: "memory: not supported".into() });
    node.ports.push(PortReport { name: "eth0".into(), rate_kbps: Some(25_000_000), numa: None });
    let figures = |device, fares| DeviceFigures { node: node.name.clone(), device, fares };
    report.inventory.figures = vec![
        figures(
            0,
            Fares {
                utilisation_pct: Some(37),
                memory_used_bytes: Some(5 << 30),
                temperature_mc: Some(41_500),
                power_mw: Some(312_345),
                xid: Some(0),
                ..Fares::default()
            },
        ),
        figures(6, Fares { temperature_mc: Some(40_000), ..Fares::default() }),
    ];
    assert_eq!(agent.post(&rig, &report).await.0, StatusCode::OK);
    (rig, agent)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_shows_its_devices_down_to_the_slice() {
    let (rig, _agent) = reported().await;
    let site = rig.get("t-acme", "/v1/sites/east").await;
    let node = &site["nodes"][0];
    let (first, sliced, ill) = (&node["devices"][0], &node["devices"][6], &node["devices"][7]);
    assert_eq!(
        (&first["numa"], &first["utilisation_pct"], &first["power_mw"]),
        (&0.into(), &37.into(), &312_345.into())
    );
    assert_eq!((&sliced["mig"], &sliced["can_be_cut"]["1g.10gb"]), (&"on".into(), &2.into()));
    assert_eq!(sliced["slices"][1]["profile"], "2g.20gb");
    assert_eq!(
        (&sliced["slices"][0]["isolation"], &sliced["slices"][0]["uuid"]),
        (&"enforced".into(), &"MIG-0".into())
    );
    // what is not known is null, never nothing
    assert!(sliced["utilisation_pct"].is_null() && ill["temperature_mc"].is_null());
    assert_eq!((&ill["health"], &ill["notes"][0]), (&"failed".into(), &"memory: memory: not supported".into()));
    assert_eq!(node["ports"][0]["rate_kbps"], 25_000_000);
    assert_eq!((&site["utilisation_pct"], &site["utilisation_known"]), (&37.into(), &1.into()), "of those that say it");
    assert_eq!((&site["accelerators"][0]["total"], &site["accelerators"][0]["free"]), (&8.into(), &6.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_are_measured_under_the_names_of_dcgm() {
    let (rig, _agent) = reported().await;
    let text = rhumb_api::device_metrics(&rig.desk);
    let of = |metric: &str, gpu: u32| {
        let labels = format!("{{site=\"east\",Hostname=\"n000\",gpu=\"{gpu}\",modelName=\"H100\"}} ");
        let found = text.lines().find_map(|l| l.strip_prefix(metric)?.strip_prefix(labels.as_str()));
        found.map(str::to_owned)
    };
    let expected = [
        ("DCGM_FI_DEV_GPU_UTIL", "37"),
        ("DCGM_FI_DEV_FB_USED", "5120"),
        ("DCGM_FI_DEV_FB_FREE", "76800"),
        ("DCGM_FI_DEV_GPU_TEMP", "41.500"),
        ("DCGM_FI_DEV_POWER_USAGE", "312.345"),
        ("DCGM_FI_DEV_XID_ERRORS", "0"),
    ];
    for (metric, value) in expected {
        assert_eq!(of(metric, 0).as_deref(), Some(value), "{text}");
        assert!(text.contains(&format!("# TYPE {metric} gauge")));
    }
    assert_eq!((of("DCGM_FI_DEV_GPU_TEMP", 6).as_deref(), of("DCGM_FI_DEV_GPU_UTIL", 6)), (Some("40.000"), None));
    assert_eq!(of("DCGM_FI_DEV_GPU_UTIL", 7), None);
    assert!(text.contains("rhumb_devices{site=\"east\",modelName=\"H100\",health=\"failed\"} 1\n"), "{text}");
    assert!(text.contains("rhumb_devices{site=\"east\",modelName=\"H100\",health=\"ok\"} 7\n"));
    assert!(!text.contains("site=\"west\""), "it never reported");
}
