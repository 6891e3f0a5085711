//! What the kernel tells, from a tree of files as it would write them.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

use rhumb_devices::{Catalogue, LinkKind, Value, inventory};
use rhumb_hardware::{Host, output_of, sysfs};
use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

/// One PCI function at `path` below `/sys/devices`.
fn function(root: &Path, path: &str, class: &str, id: (&str, &str), numa: &str) {
    let device = root.join("sys/devices").join(path);
    fs::create_dir_all(&device).unwrap();
    let files = [
        ("class", class),
        ("vendor", id.0),
        ("device", id.1),
        ("numa_node", numa),
        ("current_link_speed", "32.0 GT/s PCIe"),
        ("current_link_width", "16"),
    ];
    for (file, content) in files {
        fs::write(device.join(file), format!("{content}\n")).unwrap();
    }
    let bus = root.join("sys/bus/pci/devices");
    fs::create_dir_all(&bus).unwrap();
    symlink(&device, bus.join(device.file_name().unwrap())).unwrap();
}

fn port(root: &Path, class: &str, name: &str, device: &str, file: &str, content: &str) {
    let port = root.join("sys/class").join(class).join(name);
    fs::create_dir_all(port.join(file).parent().unwrap()).unwrap();
    fs::write(port.join(file), content).unwrap();
    symlink(root.join("sys/devices").join(device), port.join("device")).unwrap();
}

/// Two sockets; below one switch of the first two cards and a port, a third card on a port of its own, a fourth far away.
fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let h100 = ("0x10de", "0x2330");
    let switch = "pci0000:15/0000:15:01.0/0000:16:00.0";
    function(root.path(), &format!("{switch}/0000:17:00.0/0000:1b:00.0"), "0x030200", h100, "0");
    function(root.path(), &format!("{switch}/0000:17:01.0/0000:1c:00.0"), "0x030200", h100, "0");
    function(root.path(), &format!("{switch}/0000:17:02.0/0000:1d:00.0"), "0x020700", ("0x15b3", "0x1021"), "0");
    function(root.path(), "pci0000:15/0000:15:03.0/0000:43:00.0", "0x030200", h100, "0");
    function(root.path(), "pci0000:97/0000:97:01.0/0000:9d:00.0", "0x030200", h100, "1");
    // the board's own graphics, a storage controller, and a card of which the firmware says no NUMA node
    function(root.path(), "pci0000:00/0000:00:1c.0/0000:02:00.0", "0x030000", ("0x1a03", "0x2000"), "0");
    function(root.path(), "pci0000:00/0000:00:1d.0", "0x010802", ("0x144d", "0xa80a"), "0");
    function(root.path(), "pci0000:e0/0000:e0:01.0/0000:e1:00.0", "0x120000", ("0x19e5", "0xd801"), "-1");
    let mellanox = &format!("{switch}/0000:17:02.0/0000:1d:00.0");
    port(root.path(), "infiniband", "mlx5_0", mellanox, "ports/1/rate", "400 Gb/sec (4X NDR)\n");
    port(root.path(), "net", "ib0", mellanox, "speed", "-1\n");
    fs::create_dir_all(root.path().join("sys/devices/system/cpu")).unwrap();
    fs::write(root.path().join("sys/devices/system/cpu/online"), "0-95,128-159\n").unwrap();
    fs::create_dir_all(root.path().join("proc")).unwrap();
    fs::write(root.path().join("proc/meminfo"), "MemTotal:       1056400000 kB\nMemFree: 1 kB\n").unwrap();
    root
}

#[test]
fn cards_ports_and_how_they_are_joined() {
    let root = tree();
    let host = Host::new(root.path(), None, &Catalogue::built_in());
    assert_eq!((host.cpu.milli(), host.memory.bytes()), (128_000, 1_056_400_000 * 1_024));
    let addresses: Vec<String> = host.shown.accelerators.iter().map(|a| a.pci.known().unwrap().to_string()).collect();
    assert_eq!(addresses, ["0000:1b:00.0", "0000:1c:00.0", "0000:43:00.0", "0000:9d:00.0", "0000:e1:00.0"]);
    let [nic] = &host.shown.nics[..] else { panic!("{:?}", host.shown.nics) };
    assert_eq!((&nic.name, &nic.speed_mbps), (&Value::Known("mlx5_0".into()), &Value::Known(400_000)));
    let topology = host.shown.topology.as_ref().unwrap();
    // ends in the order of the bus: two cards, the port, two cards, one card
    let link = |a, b| topology.link(a, b).clone();
    assert_eq!((link(0, 1), link(0, 2), link(0, 3)), (LinkKind::Pix, LinkKind::Pix, LinkKind::Phb));
    assert_eq!((link(0, 4), link(0, 5)), (LinkKind::System, LinkKind::Unknown));
    let seen = inventory(&host.shown, &Catalogue::built_in());
    let levels: Vec<_> = seen.devices.iter().map(|d| (d.model.as_str(), d.numa, d.pcie)).collect();
    assert_eq!(levels[..2], [("H100", Some(0), Some(0)), ("H100", Some(0), Some(0))]);
    assert_eq!(levels[4].1, None);
    assert_eq!(host.shown.accelerators[0].pcie.generation, Value::Known(5));
}

#[test]
fn a_host_without_a_bus_has_no_cards_and_says_why() {
    let root = tempfile::tempdir().unwrap();
    let host = Host::new(root.path(), None, &Catalogue::built_in());
    assert!(host.shown.accelerators.is_empty() && host.cpu.milli() == 0);
    assert!(host.shown.notes[0].starts_with("the PCI bus cannot be read"));
    assert_eq!(sysfs::memory(root.path()), None);
}

/// The maker's library knows most, the kernel the rest; no card is counted twice.
#[test]
fn the_kernel_fills_in_what_a_tool_does_not_say() {
    let root = tree();
    let csv = "index, pci.bus_id, name, memory.total [MiB]\n0, 00000000:1B:00.0, NVIDIA H100 80GB HBM3, 81559 MiB\n";
    let told = rhumb_devices::read(csv.as_bytes()).unwrap().together();
    let host = Host::new(root.path(), Some(told), &Catalogue::built_in());
    let [card] = &host.shown.accelerators[..] else { panic!("{:?}", host.shown.accelerators) };
    assert_eq!((&card.numa, &card.memory_bytes), (&Value::Known(0), &Value::Known(81_559 << 20)));
    assert!(host.shown.notes.iter().any(|n| n.contains("another source shows")), "{:?}", host.shown.notes);
}

#[test]
fn a_tool_that_is_absent_silent_or_strange_is_an_error_with_its_name() {
    let run = |command: &[&str], ms| {
        let command: Vec<String> = command.iter().map(|c| (*c).to_owned()).collect();
        output_of(&command, Duration::from_millis(ms))
    };
    assert!(run(&["no-such-tool-here"], 5_000).unwrap_err().to_string().contains("no-such-tool-here"));
    assert!(run(&["sleep", "600"], 50).unwrap_err().to_string().contains("no output within"));
    assert!(run(&["echo", "hello"], 5_000).unwrap_err().to_string().contains("not understood"));
    assert!(run(&[], 50).is_err());
    let list = "GPU 0: NVIDIA A30 (UUID: GPU-1)";
    assert_eq!(run(&["echo", list], 5_000).unwrap().accelerators.len(), 1);
}

/// NVLink from the tool, PCIe switches from the kernel, whatever order each lists the cards in.
#[test]
fn links_of_the_maker_and_of_the_bus_go_together() {
    let root = tree();
    let told = "$ nvidia-smi --query-gpu=index,pci.bus_id,name --format=csv\nindex, pci.bus_id, name\n\
                0, 00000000:9D:00.0, NVIDIA H100\n1, 00000000:1C:00.0, NVIDIA H100\n2, 00000000:1B:00.0, NVIDIA H100\n\
                $ nvidia-smi topo -m\n\tGPU0\tGPU1\tGPU2\tCPU Affinity\n\
                GPU0\t X \tNV4\tSYS\t0\nGPU1\tNV4\t X \tPIX\t0\nGPU2\tSYS\tPIX\t X \t0\n";
    let told = rhumb_devices::read(told.as_bytes()).unwrap().together();
    let host = Host::new(root.path(), Some(told), &Catalogue::built_in());
    let seen = inventory(&host.shown, &Catalogue::built_in());
    let levels: Vec<_> = seen.devices.iter().map(|d| (d.index, d.island, d.numa, d.pcie)).collect();
    let (far, near) = (levels[0], (levels[1], levels[2]));
    assert_eq!((far.1, near.0.1, near.1.1), (Some(0), Some(0), None));
    assert_eq!((far.2, near.0.2, near.1.2), (Some(1), Some(0), Some(0)));
    assert_eq!((near.0.3, near.1.3), (Some(0), Some(0)));
    assert_ne!(far.3, Some(0));
}
