//! No input makes a reader panic.

use proptest::prelude::*;

/// Words that readers look for, so that arbitrary text gets past their doors.
fn word() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "GPU0",
        "GPU1",
        "NPU0",
        "NIC0",
        "X",
        "NV18",
        "SYS",
        "|",
        "+----+",
        "+====+",
        "GPU  Name  Bus-Id",
        "NPU   Name",
        "0",
        "1",
        "N/A",
        "/",
        "12MiB",
        "\n",
        "\n",
        "\n",
        "\t",
        "   ",
        " : ",
        "NVIDIA-SMI",
        "npu-smi",
        "MX-SMI",
        "NVSMI LOG",
        "GPU 0000:01:00.0",
        "Attached GPUs : 2",
        "GPU[0] : x: y",
        "GPU[1]\t\t: GPU use (%): 7",
        "# gpu pwr",
        "uuid, index",
        "CPU Affinity",
        "=== Hops between two GPUs ===",
        "Device  Node  IDs  Temp",
        "NPU ID : 1",
        "Chip ID : 0",
        "Processes:",
        "PID Process name",
        "<a>",
        "{\"card0\": {\"GPU use (%)\": \"3\"}}",
        "\u{1b}[4m",
        "\u{b0}",
        "\u{ffff}",
        "MIG 3g.40gb Device 0: (UUID: x)",
        "GPU 0: A (UUID: x)",
        "### $ nvidia-smi",
        "...",
        "-",
        "MIG Device",
        "Processes",
    ];
    prop_oneof![6 => prop::sample::select(KNOWN).prop_map(str::to_owned), 1 => ".{0,8}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        _ = rhumb_devices::read(&bytes);
    }

    #[test]
    fn any_words(words in prop::collection::vec(word(), 0..120), gap in prop::sample::select(vec!["", " ", "  "])) {
        _ = rhumb_devices::read(words.join(gap).as_bytes());
    }

    #[test]
    fn any_xml(names in prop::collection::vec(prop::sample::select(vec!["gpu", "pci", "cpu", "nic", "net", "nvlink", "total"]), 0..40),
               root in prop::sample::select(vec!["nvidia_smi_log", "system"])) {
        let open: String = names.iter().fold(String::new(), |s, n| s + "<" + n + " busid=\"0:0:0.0\" class=\"0x030200\" target=\"1\">N/A");
        let close: String = names.iter().rev().fold(String::new(), |s, n| s + "</" + n + ">");
        _ = rhumb_devices::read(format!("<{root}>{open}{close}</{root}>").as_bytes());
    }
}
