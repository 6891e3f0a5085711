//! A host looked at through files, a stand-in driver and the kernel.

use super::*;
use rhumb_devices::Value;
use rhumb_model::{document, site::Health};

fn output(files: &[(&str, &str)], more: &str) -> (tempfile::TempDir, Devices) {
    let folder = tempfile::tempdir().unwrap();
    let mut named = Vec::new();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
        named.push(folder.path().join(name).display().to_string());
    }
    let root = folder.path().display();
    let text = format!(
        "source: output\nfiles: [{}]\nhost: {{node: gpu-7, rack: r1, root: {root}, every: 1s{more}}}",
        named.join(", ")
    );
    (folder, document::read(&text).unwrap())
}

/// What is seen first.
async fn nodes(seen: &mut Seen) -> Vec<NodeReport> {
    let patience = std::time::Duration::from_mins(1);
    let looked = seen.nodes.wait_for(Option::is_some);
    tokio::time::timeout(patience, looked).await.expect("it is looked at").unwrap().clone().unwrap()
}

const CARDS: &str = "index, uuid, name, memory.total [MiB], temperature.gpu\n\
                     0, GPU-0, NVIDIA H100 80GB HBM3, 81559 MiB, 30\n1, GPU-0, NVIDIA H100 80GB HBM3, [N/A], 31\n";
const MATRIX: &str = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-3\t0\nGPU1\tNV18\t X \t4-7\t1\n";

#[tokio::test]
async fn what_tools_say_becomes_a_node_with_its_levels() {
    let (folder, devices) = output(&[("cards", CARDS), ("matrix", MATRIX)], "");
    let mut seen = watch(&devices).unwrap();
    let nodes = nodes(&mut seen).await;
    let [node] = &nodes[..] else { panic!("{nodes:?}") };
    assert_eq!((node.name.as_str(), node.rack.as_deref()), ("gpu-7", Some("r1")));
    let shown: Vec<_> =
        node.devices.iter().map(|d| (d.index, d.model.as_str(), d.memory.bytes() >> 20, d.island, d.numa)).collect();
    assert_eq!(shown, [(0, "H100", 81_559, Some(0), Some(0)), (1, "H100", 0, Some(0), Some(1))]);
    assert!(node.devices.iter().all(|d| d.health == Health::Ok), "one value that is missing makes no card ill");
    let missing = node.unknown.iter().find(|u| u.device == 1 && u.value == "memory").unwrap();
    assert!(missing.why.contains("N/A"), "{missing:?}");
    // and it is looked at again
    let lost = CARDS.replace("1, GPU-0, NVIDIA H100 80GB HBM3, [N/A], 31\n", "");
    fs::write(folder.path().join("cards"), lost).unwrap();
    let patience = std::time::Duration::from_mins(1);
    tokio::time::timeout(patience, seen.nodes.changed()).await.expect("the change is seen").unwrap();
    assert_eq!(seen.nodes.borrow_and_update().as_ref().unwrap()[0].devices.len(), 1);
}

#[test]
fn a_catalogue_of_ones_own_names_what_is_not_known() {
    let card = "index, uuid, name\n0, x, Frobnicator 9\n";
    let (folder, _) = output(&[("cards", card)], "");
    let catalogue = folder.path().join("more.yaml");
    fs::write(&catalogue, "F9: {vendor: nvidia, memory: 16GiB, names: [Frobnicator 9]}").unwrap();
    let more = format!(", catalogue: {}", catalogue.display());
    let (_folder, devices) = output(&[("cards", card)], &more);
    assert_eq!(Eye::open(&devices).unwrap().look().unwrap()[0].devices[0].model.as_str(), "F9");
}

#[test]
fn a_source_that_gives_nothing_is_an_error_at_the_start() {
    let (_folder, devices) = output(&[("cards", "no such tool")], "");
    assert!(watch(&devices).is_err());
    let nvml = "source: nvml\nlibrary: /nowhere/libnvidia-ml.so.1";
    assert!(watch(&document::read(nvml).unwrap()).is_err());
}

#[tokio::test]
async fn a_host_without_cards_is_a_node_without_devices() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("source: auto\nhost: {{root: {}}}", folder.path().display());
    let mut seen = watch(&document::read(&text).unwrap()).unwrap();
    assert!(nodes(&mut seen).await[0].devices.is_empty());
}

/// The cards of the second maker were dropped when the first one's tool spoke; now each is seen by whoever sees it.
#[tokio::test]
async fn cards_of_two_makers_in_one_host_are_all_seen() {
    let folder = tempfile::tempdir().unwrap();
    for (address, class, id, numa) in [
        ("0000:1b:00.0", "0x030200", ("0x10de", "0x2330"), "0"),
        ("0000:9d:00.0", "0x120000", ("0x1002", "0x74a1"), "1"),
        ("0000:43:00.0", "0x030200", ("0x10de", "0x2330"), "0"),
    ] {
        let place = folder.path().join("sys/bus/pci/devices").join(address);
        fs::create_dir_all(&place).unwrap();
        for (file, text) in [("class", class), ("vendor", id.0), ("device", id.1), ("numa_node", numa)] {
            fs::write(place.join(file), text).unwrap();
        }
    }
    let text = format!("source: auto\nhost: {{root: {}}}", folder.path().display());
    let mut seen = watch(&document::read(&text).unwrap()).unwrap();
    let nodes = nodes(&mut seen).await;
    let shown: Vec<_> = nodes[0].devices.iter().map(|d| (d.index, d.model.as_str(), d.numa)).collect();
    assert_eq!(shown, [(0, "H100", Some(0)), (1, "H100", Some(0)), (2, "MI300X", Some(1))]);
    // that the kernel sees a card does not show that it works
    assert!(nodes[0].devices.iter().all(|d| d.health == Health::Unknown));
}

#[test]
fn a_makers_tool_and_the_kernel_stand_side_by_side() {
    let bus = |address: &str, vendor| Accelerator {
        vendor: Value::Known(vendor),
        pci: Value::Known(address.parse().unwrap()),
        ..Accelerator::default()
    };
    let shown = |accelerators| Snapshot { accelerators, ..Snapshot::default() };
    let told = |address: &str, index| Accelerator {
        index: Value::Known(index),
        temperature_mc: Value::Known(40_000),
        ..bus(address, Vendor::Nvidia)
    };
    let nvidia = shown(vec![told("0000:9d:00.0", 0), told("0000:c3:00.0", 1)]);
    let kernel = shown(vec![
        bus("0000:1b:00.0", Vendor::Amd),
        bus("0000:9d:00.0", Vendor::Nvidia),
        bus("0000:c3:00.0", Vendor::Nvidia),
    ]);
    let both = kernel.of(Vendor::Amd).beside(nvidia).or(kernel);
    let devices = inventory(&both, &Catalogue::built_in()).devices;
    let health: Vec<_> = devices.iter().map(|d| (d.index, d.health)).collect();
    assert_eq!(
        health,
        [(0, Health::Unknown), (1, Health::Ok), (2, Health::Ok)],
        "numbered by the bus: both count from 0"
    );
}

/// How cards fare is sampled between looks, and a card that is lost is looked at at once.
#[cfg(feature = "nvidia")]
#[tokio::test]
async fn figures_come_between_looks() {
    use fake_nvml as _;
    let folder = tempfile::tempdir().unwrap();
    let here = std::env::current_exe().unwrap();
    fs::copy(here.parent().unwrap().join("libfake_nvml.so"), folder.path().join("lib.so")).unwrap();
    fs::write(folder.path().join("lib.so.spec"), "gpus 2\nswitches 1\nxid 1 31\n").unwrap();
    let place = folder.path().display();
    let text = format!(
        "source: nvml\nlibrary: {place}/lib.so\nhost: {{root: {place}, timeout: 1s, every: 1h, sample: 200ms}}"
    );
    let mut seen = watch(&document::read(&text).unwrap()).unwrap();
    let nodes = nodes(&mut seen).await;
    assert_eq!(nodes[0].devices.iter().map(|d| d.health).collect::<Vec<_>>(), [Health::Ok, Health::Ok]);
    for _ in 0..2 {
        let patience = std::time::Duration::from_mins(1);
        tokio::time::timeout(patience, seen.figures.changed()).await.expect("it is sampled").unwrap();
    }
    let figures = seen.figures.borrow().clone();
    let told: Vec<_> = figures.iter().map(|f| (f.device, f.fares)).collect();
    let expected = |device: u32, processes, xid| Fares {
        utilisation_pct: Some(10 * device as u8),
        memory_used_bytes: Some(u64::from(device) << 30),
        temperature_mc: Some(30_000 + 1_000 * i64::from(device)),
        power_mw: Some(70_000 + u64::from(device)),
        ecc_uncorrected: Some(0),
        processes: Some(processes),
        xid: Some(xid),
    };
    assert_eq!(told, [(0, expected(0, 1, 0)), (1, expected(1, 0, 31))]);
}

/// A driver that does not come up: what the kernel shows of the host is there at once.
#[cfg(feature = "nvidia")]
#[tokio::test]
async fn a_driver_that_hangs_at_its_start_hides_no_host() {
    use fake_nvml as _;
    let folder = tempfile::tempdir().unwrap();
    let here = std::env::current_exe().unwrap();
    fs::copy(here.parent().unwrap().join("libfake_nvml.so"), folder.path().join("lib.so")).unwrap();
    fs::write(folder.path().join("lib.so.spec"), "gpus 2\nhang nvmlInit_v2\n").unwrap();
    fs::create_dir_all(folder.path().join("proc")).unwrap();
    fs::write(folder.path().join("proc/meminfo"), "MemTotal:       16777216 kB\n").unwrap();
    let place = folder.path().display();
    // it has longer to come up than anybody waits here
    let text = format!("source: nvml\nlibrary: {place}/lib.so\nhost: {{node: n, root: {place}, timeout: 60s}}");
    let seen = watch(&document::read(&text).unwrap()).unwrap();
    let nodes = seen.nodes.borrow().clone().expect("it is there when the agent has started");
    assert_eq!((nodes[0].name.as_str(), nodes[0].memory.bytes()), ("n", 16 << 30));
}

/// One card lost and one that lets a call hang: both are reported, and the others as they are.
#[cfg(feature = "nvidia")]
#[tokio::test]
async fn a_driver_in_trouble_gives_what_it_can() {
    use fake_nvml as _;
    let folder = tempfile::tempdir().unwrap();
    let here = std::env::current_exe().unwrap();
    let built = here.parent().unwrap().join("libfake_nvml.so");
    let library = folder.path().join("lib.so");
    fs::copy(built, &library).unwrap();
    let spec = "gpus 4\nswitches 2\nfail * 15 1\nhang nvmlDeviceGetTemperature 2\n";
    fs::write(folder.path().join("lib.so.spec"), spec).unwrap();
    let (library, root) = (library.display(), folder.path().display());
    let text = format!("source: nvml\nlibrary: {library}\nhost: {{root: {root}, timeout: 1s, nvl_domain: d1}}");
    let mut seen = watch(&document::read(&text).unwrap()).unwrap();
    // until it has answered, what the kernel shows is all there is
    let looked = seen.nodes.wait_for(|n| n.as_ref().is_some_and(|n| !n[0].devices.is_empty()));
    let looked = tokio::time::timeout(std::time::Duration::from_mins(1), looked).await.expect("it is looked at");
    let nodes = looked.unwrap().clone().unwrap();
    let [node] = &nodes[..] else { panic!("{nodes:?}") };
    let health: Vec<Health> = node.devices.iter().map(|d| d.health).collect();
    assert_eq!(health, [Health::Ok, Health::Failed, Health::Ok, Health::Ok]);
    let islands: Vec<Option<u16>> = node.devices.iter().map(|d| d.island).collect();
    assert_eq!(islands, [Some(0), None, Some(0), Some(0)]);
    assert_eq!(node.nvl_domain.as_deref(), Some("d1"));
    let why = |device, value| node.unknown.iter().find(|u| (u.device, u.value.as_str()) == (device, value));
    assert!(why(1, "memory").unwrap().why.contains("memory:"), "{:?}", node.unknown);
    assert!(why(2, "temperature").unwrap().why.contains("no answer"), "{:?}", node.unknown);
    assert!(why(0, "memory").is_none());
}
