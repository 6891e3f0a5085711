//! Layouts of other versions of the tools than the captures have: written for these tests, after the tools' documentation.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

use rhumb_devices::{Accelerator, Condition, LinkKind, PciAddress, Snapshot, Value, Why};

fn read(text: &str) -> Snapshot {
    rhumb_devices::read(text.as_bytes()).unwrap().together()
}

fn pci(text: &str) -> Value<PciAddress> {
    Value::Known(text.parse().unwrap())
}

fn models(shown: &Snapshot) -> Vec<&str> {
    shown.accelerators.iter().filter_map(|a| a.model.known()).map(String::as_str).collect()
}

#[test]
fn an_old_nvidia_table_of_two_lines_a_card() {
    let shown = read(
        "\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 418.87.01    Driver Version: 418.87.01    CUDA Version: 10.1     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:06:00.0 Off |                    0 |
| N/A   41C    P0    52W / 300W |     10MiB / 32480MiB |      3%      Default |
+-------------------------------+----------------------+----------------------+
|   1  ERR!                Off  | 00000000:07:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! |     10MiB / 32480MiB |    ERR!      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0     31337      C   python3 train.py                               10MiB |
+-----------------------------------------------------------------------------+
",
    );
    assert_eq!(shown.driver, Value::Known("418.87.01".into()));
    let [first, second] = &shown.accelerators[..] else { panic!("{shown:#?}") };
    assert_eq!(first.model, Value::Unknown(Why::Shortened("Tesla V100-SXM2...".into())));
    assert_eq!((&first.memory_bytes, &first.power_mw), (&Value::Known(32_480 << 20), &Value::Known(52_000)));
    let jobs = first.jobs.known().unwrap();
    assert_eq!((&jobs[0].name, &jobs[0].pid), (&Value::Known("python3 train.py".into()), &Value::Known(31_337)));
    assert_eq!(jobs[0].memory_bytes, Value::Known(10 << 20));
    assert_eq!(second.condition, Value::Known(Condition::Failed));
    assert_eq!(second.temperature_mc, Value::Unknown(Why::Said("ERR!".into())));
    assert_eq!(second.pci, pci("0000:07:00.0"));
}

#[test]
fn an_old_table_of_slices() {
    let shown = read(
        "\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                   On |
| N/A   34C    P0    46W / 400W |     24MiB / 40536MiB |     N/A      Default |
|                               |                      |              Enabled |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| MIG devices:                                                                |
+------------------+----------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared        |
|      ID  ID  Dev |           BAR1-Usage | SM     Unc| CE  ENC  DEC  OFA  JPG|
|                  |                      |        ECC|                       |
|==================+======================+===========+=======================|
|  0    1   0   0  |     10MiB / 20096MiB | 42      0 |  3   0    2    0    0 |
|                  |      0MiB / 32767MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+
|  0    5   0   1  |      3MiB /  9984MiB | 14      1 |  1   0    0    0    0 |
|                  |      0MiB / 16383MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+
",
    );
    let slices = &shown.accelerators[0].slices;
    assert_eq!(slices.len(), 2);
    assert_eq!((&slices[0].multiprocessors, &slices[0].gpu_instance), (&Value::Known(42), &Value::Known(1)));
    assert_eq!(
        (&slices[1].memory_bytes, &slices[1].memory_used_bytes),
        (&Value::Known(9_984 << 20), &Value::Known(3 << 20))
    );
    assert_eq!(slices[1].ecc_uncorrected, Value::Known(1));
    assert!(shown.notes.is_empty(), "{:?}", shown.notes);
}

#[test]
fn a_card_that_fell_off_the_bus_is_a_failed_card() {
    let shown = read(
        "$ nvidia-smi\nUnable to determine the device handle for GPU 0000:C3:00.0: GPU is lost.  Reboot the system to recover this GPU\n\
         $ nvidia-smi -L\nGPU 0: NVIDIA A30 (UUID: GPU-1)\n",
    );
    assert_eq!(shown.accelerators.len(), 1, "two sources that number differently must not double a card");
    assert_eq!(
        (&shown.accelerators[0].pci, &shown.accelerators[0].condition),
        (&pci("0000:c3:00.0"), &Value::Known(Condition::Failed))
    );
}

#[test]
fn equal_uuids_and_equal_serials_make_no_two_cards_one() {
    let csv = "index, uuid, name, memory.total [MiB], utilization.gpu [%]\n\
               0, GPU-00000000-0000-0000-0000-000000000000, NVIDIA L4, 23034 MiB, 9223372036854775794 %\n\
               1, GPU-00000000-0000-0000-0000-000000000000, NVIDIA L4, 23034 MiB, [Not Supported]\n";
    let shown = read(csv);
    assert_eq!(models(&shown), ["NVIDIA L4", "NVIDIA L4"]);
    assert!(matches!(shown.accelerators[0].utilisation_pct, Value::Unknown(Why::Impossible(_))));
    assert_eq!(shown.accelerators[1].utilisation_pct, Value::Unknown(Why::Said("Not Supported".into())));
}

#[test]
fn ascend_cards_with_two_chips_and_their_processes() {
    let shown = read(
        "\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.0.rc1                 Version: 25.0.rc1                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     Ascend910           | OK            | 172.9       36                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 12          0    / 0          3418 / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | Warning       | -           37                0    / 0             |
| 1     1                   | 0000:9F:00.0  | 0           0    / 0          3149 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       1                 | 4242          | python3                  | 271                     |
+===========================+===============+====================================================+
",
    );
    let [a, b] = &shown.accelerators[..] else { panic!("{shown:#?}") };
    assert_eq!((&a.index, &a.part, &a.pci), (&Value::Known(0), &Value::Known(0), &pci("0000:9d:00.0")));
    assert_eq!((&b.index, &b.part, &b.pci), (&Value::Known(0), &Value::Known(1), &pci("0000:9f:00.0")));
    assert_eq!(b.condition, Value::Known(Condition::Degraded));
    assert_eq!(b.power_mw, Value::Unknown(Why::Said("-".into())));
    assert_eq!((&a.utilisation_pct, &a.memory_bytes), (&Value::Known(12), &Value::Known(64 << 30)));
    assert_eq!(a.jobs, Value::Known(vec![]));
    assert_eq!(b.jobs.known().unwrap()[0].memory_bytes, Value::Known(271 << 20));
    assert!(shown.notes.is_empty(), "{:?}", shown.notes);
}

#[test]
fn ascend_chips_without_hbm_have_their_memory_in_the_other_column() {
    let shown = read(
        "\
+--------------------------------------------------------------------------------------------------------+
| npu-smi 23.0.0                                   Version: 23.0.0                                       |
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 2       310P3                 | OK              | NA           54                0     / 0             |
| 0       0                     | 0000:81:00.0    | 3            1707 / 21534                            |
+===============================+=================+======================================================+
| NPU     Chip                  | Process id      | Process name             | Process memory(MB)        |
+===============================+=================+======================================================+
| No running processes found in NPU 2                                                                    |
+===============================+=================+======================================================+
",
    );
    let [a] = &shown.accelerators[..] else { panic!("{shown:#?}") };
    assert_eq!((&a.index, &a.model), (&Value::Known(2), &Value::Known("310P3".into())));
    assert_eq!((&a.memory_bytes, &a.memory_used_bytes), (&Value::Known(21_534 << 20), &Value::Known(1_707 << 20)));
    assert_eq!(a.power_mw, Value::Unknown(Why::Said("NA".into())));
    assert_eq!(a.jobs, Value::Known(vec![]));
}

#[test]
fn an_old_metax_table_with_its_columns_elsewhere() {
    let shown = read(
        "\
mx-smi  version: 2.1.6

=================== MetaX System Management Interface Log ===================
Timestamp                                         : Mon Nov 11 11:11:11 2024

Attached GPUs                                     : 2
+---------------------------------------------------------------------------------+
| MX-SMI 2.1.6                        Kernel Mode Driver Version: 2.5.014         |
| MACA Version: 2.23.0.1018           BIOS Version: 1.13.4.0                      |
|------------------------------------+---------------------+----------------------+
| GPU         NAME                   | Bus-id              | GPU-Util             |
| Temp        Pwr:Usage/Cap          | Memory-Usage        |                      |
|====================================+=====================+======================|
| 0           MXC500                 | 0000:07:00.0        | 5%                   |
| 36C         56W / 350W             | 858/65536 MiB       |                      |
+------------------------------------+---------------------+----------------------+
| 1           MXC500                 | 0000:08:00.0        | 0%                   |
| 35C         55W / 350W             | 858/65536 MiB       |                      |
+------------------------------------+---------------------+----------------------+

+---------------------------------------------------------------------------------+
| Process:                                                                        |
|  GPU                    PID         Process Name                 GPU Memory     |
|                                                                  Usage(MiB)     |
|=================================================================================|
|  1                      77          python                       512            |
+---------------------------------------------------------------------------------+
",
    );
    assert_eq!(models(&shown), ["MXC500", "MXC500"]);
    let [a, b] = &shown.accelerators[..] else { panic!("{shown:#?}") };
    assert_eq!(
        (&a.temperature_mc, &a.power_mw, &a.utilisation_pct),
        (&Value::Known(36_000), &Value::Known(56_000), &Value::Known(5))
    );
    assert_eq!(b.jobs.known().unwrap()[0].memory_bytes, Value::Known(512 << 20));
    assert!(shown.notes.is_empty(), "{:?}", shown.notes);
}

#[test]
fn rocm_tables_of_other_versions() {
    let old = read(
        "\
======================= ROCm System Management Interface =======================
================================= Concise Info =================================
GPU  Temp (DieEdge)  AvgPwr  SCLK     MCLK     Fan  Perf  PwrCap  VRAM%  GPU%
0    31.0c           39.0W   300Mhz   1200Mhz  0%   auto  290.0W    0%   99%
1    N/A             N/A     None     None     0%   unknown  Unsupported    0%   0%
================================================================================
",
    );
    let [a, b] = &old.accelerators[..] else { panic!("{old:#?}") };
    assert_eq!(
        (&a.temperature_mc, &a.power_mw, &a.utilisation_pct),
        (&Value::Known(31_000), &Value::Known(39_000), &Value::Known(99))
    );
    assert!(matches!(b.power_mw, Value::Unknown(Why::Said(_))));
    let six = read(
        "\
Device  [Model : Revision]    Temp        Power     Partitions      SCLK    MCLK     Fan  Perf  PwrCap  VRAM%  GPU%
        Name (20 chars)       (Junction)  (Socket)  (Mem, Compute)
====================================================================================================================
0       [0x74a1 : 0x00]       40.0\u{b0}C      135.0W    NPS1, SPX       132Mhz  900Mhz   0%   auto  750.0W    7%   0%
        AMD Instinct MI300X
====================================================================================================================
",
    );
    assert_eq!(six.accelerators[0].pci_id.known().unwrap().to_string(), "1002:74a1");
    assert_eq!(six.accelerators[0].memory_used_pct, Value::Known(7));
}

#[test]
fn rocm_topology_in_text() {
    let shown = read(
        "\
================================= Hops between two GPUs ==================================
       GPU0         GPU1         GPU2
GPU0   0            1            2
GPU1   1            0            2
GPU2   2            2            0
=============================== Link Type between two GPUs ===============================
       GPU0         GPU1         GPU2
GPU0   0            XGMI         PCIE
GPU1   XGMI         0            PCIE
GPU2   PCIE         PCIE         0
======================================= Numa Nodes =======================================
GPU[0]		: (Topology) Numa Node: 0
GPU[1]		: (Topology) Numa Node: 0
GPU[2]		: (Topology) Numa Node: 1
",
    );
    let topology = shown.topology.unwrap();
    assert_eq!(topology.islands(), [vec![0, 1]]);
    assert_eq!(topology.link(0, 2), &LinkKind::Pcie(Some(2)));
    assert_eq!(shown.accelerators[2].numa, Value::Known(1));
}

#[test]
fn nvidia_topology_with_named_nics_and_a_missing_row() {
    let shown = read(
        "\t\u{1b}[4mGPU0\tGPU1\tmlx5_0\tNIC1\tCPU Affinity\tNUMA Affinity\u{1b}[0m\n\
         GPU0\t X \tNV4\tPIX\tSYS\t0-15,32-47\t0\n\
         GPU1\tNV4\t X \tSYS\tPXB\t16-31\t1\n\
         mlx5_0\tPIX\tSYS\t X \tSYS\n\
         \n\
         Legend:\n\n  X    = Self\n\n\
         NIC Legend:\n\n  NIC1: mlx5_bond_0\n",
    );
    let names: Vec<_> = shown.nics.iter().map(|n| n.name.known().map(String::as_str)).collect();
    assert_eq!(names, [Some("mlx5_0"), Some("mlx5_bond_0")]);
    assert_eq!(shown.topology.as_ref().unwrap().islands(), [vec![0, 1]]);
    assert_eq!(shown.accelerators[1].numa, Value::Known(1));
    assert!(shown.notes.iter().any(|n| n.contains("NIC1 has a column and no row")), "{:?}", shown.notes);
}

#[test]
fn an_nccl_file_with_switches_that_join_all_cards() {
    let gpu = |bus: &str, dev: u32| {
        format!(
            "<pci busid=\"0000:{bus}:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\
             <gpu dev=\"{dev}\" sm=\"90\"><nvlink target=\"0000:05:00.0\" count=\"9\" tclass=\"0x068000\"/>\
             <nvlink target=\"0000:06:00.0\" count=\"9\" tclass=\"0x068000\"/></gpu></pci>"
        )
    };
    let text = format!(
        "<system version=\"1\"><cpu numaid=\"0\">{}</cpu><cpu numaid=\"1\">{}</cpu></system>",
        gpu("1b", 0),
        gpu("9d", 1)
    );
    let shown = read(&text);
    let topology = shown.topology.unwrap();
    assert_eq!(topology.link(0, 1), &LinkKind::NvLink(18));
    assert_eq!(shown.accelerators[0].pcie.generation, Value::Known(5));
}

#[test]
fn what_is_no_tools_output_is_refused_and_says_how_it_begins() {
    for text in ["", "hello\nworld", "<html></html>", "{\"a\": 1}", "<system", "[1, 2]"] {
        let error = rhumb_devices::read(text.as_bytes()).unwrap_err().to_string();
        assert!(!error.is_empty());
    }
    assert!(rhumb_devices::read(b"hello\nworld").unwrap_err().to_string().contains("hello"));
}

/// Several outputs of one node make one picture of it.
#[test]
fn outputs_of_one_node_go_together() {
    let shown = read(
        "$ nvidia-smi --query-gpu=index,pci.bus_id --format=csv\nindex, pci.bus_id, name\n0, 00000000:1B:00.0, NVIDIA A30\n1, 00000000:9D:00.0, NVIDIA A30\n\
         $ nvidia-smi topo -m\n\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-7\t0\nGPU1\tSYS\t X \t8-15\t1\n",
    );
    let one: &Accelerator = &shown.accelerators[1];
    assert_eq!((&one.pci, &one.numa), (&pci("0000:9d:00.0"), &Value::Known(1)));
    assert_eq!(shown.topology.unwrap().link(0, 1), &LinkKind::System);
}

#[test]
fn ascend_boards_and_the_list_of_chips() {
    let board = read(
        "\tNPU ID                         : 3\n\tSoftware Version               : 23.0.rc2\n\
         \tPCIe Bus Info                  : 0000:C1:00.0\n\tSerial Number                  : NA\n\
         \tChip Count                     : 1\n\n\tChip ID                        : 0\n\tNPU Name                       : 910B1\n",
    );
    let [card] = &board.accelerators[..] else { panic!("{board:#?}") };
    assert_eq!((&card.index, &card.part, &card.pci), (&Value::Known(3), &Value::Known(0), &pci("0000:c1:00.0")));
    assert_eq!(models(&board), ["910B1"]);
    let list = read(
        "\tNPU ID                         Chip ID                        Chip Logic ID                  Chip Name\n\
         \t0                              0                              0                              Ascend 910B1\n\
         \t0                              1                              -                              Mcu\n\
         \t1                              0                              1                              Ascend 910B1\n",
    );
    assert_eq!(models(&list), ["Ascend 910B1", "Ascend 910B1"]);
}

#[test]
fn a_card_that_shares_the_hosts_memory_says_that_it_has_none_of_its_own() {
    let shown = read(
        "\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   38C    P8              4W /  N/A  | Not Supported          |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
",
    );
    let [card] = &shown.accelerators[..] else { panic!("{shown:#?}") };
    assert_eq!(card.memory_used_bytes, Value::Unknown(Why::Said("Not Supported".into())));
    assert_eq!(
        (&card.power_mw, &card.power_limit_mw),
        (&Value::Known(4_000), &Value::Unknown(Why::Said("N/A".into())))
    );
    assert_eq!(card.pci, pci("000f:01:00.0"));
}

#[test]
fn ascend_cards_of_two_chips_in_a_matrix() {
    let shown = read(
        "           Phy-ID0    Phy-ID1    Phy-ID2    CPU Affinity\n\
         Phy-ID0    X          SIO        HCCS_SW    0-31\nPhy-ID1    SIO        X          HCCS_SW    0-31\n\
         Phy-ID2    HCCS_SW    HCCS_SW    X          32-63\n",
    );
    assert_eq!(shown.topology.as_ref().unwrap().islands(), [vec![0, 1, 2]]);
    assert_eq!(shown.accelerators[2].cpus, Value::Known("32-63".into()));
    assert!(shown.notes.is_empty(), "{:?}", shown.notes);
}

#[test]
fn warnings_around_xml_and_json_are_notes() {
    let xml = "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n<nvidia_smi_log>\n<attached_gpus>1</attached_gpus>\n\
               <gpu id=\"00000000:07:00.0\"><product_name>NVIDIA A30</product_name></gpu>\n</nvidia_smi_log>\n\
               WARNING: infoROM is corrupted at gpu 0000:07:00.0\n";
    let shown = read(xml);
    assert_eq!((models(&shown), shown.notes.len()), (vec!["NVIDIA A30"], 1));
    let json = "WARNING: AMD GPU device(s) is/are in a low-power state.\n{\"card0\": {\"GPU use (%)\": \"3\"}}\n";
    let shown = read(json);
    assert_eq!((&shown.accelerators[0].utilisation_pct, shown.notes.len()), (&Value::Known(3), 1));
}

/// Columns that came later, masked addresses, and a table that somebody cut out without its title.
#[test]
fn an_ascend_table_with_a_column_more() {
    let shown = read(
        "\
+---------------------------+---------------+----------------------------------------------------------------------+
| NPU   Name                | Health        | Power(W)             Temp(C)                 Hugepages-Usage(page)   |
| Chip  Phy-ID              | Bus-Id        | AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)           |
+===========================+===============+======================================================================+
| 6     Ascend910           | OK            | 162.6                34                      0    / 0                |
| 0     12                  | 0000:xx:00.0  | 0                    0    / 0                3419 / 65536            |
+------------------------------------------------------------------------------------------------------------------+
| 6     Ascend910           | OK            | -                    34                      0    / 0                |
| 1     13                  | 0000:xx:00.0  | 7                    0    / 0                15503/ 65536            |
+===========================+===============+======================================================================+
+---------------------------+---------------+----------------------------------------------------------------------+
| NPU     Chip              | Process id    | Process name       | Process memory(MB)    | Process id in container |
+===========================+===============+======================================================================+
| 6       1                 | 692318        | python3            | 12417                 | NA                      |
+===========================+===============+======================================================================+
",
    );
    let [a, b] = &shown.accelerators[..] else { panic!("{shown:#?}") };
    assert_eq!((&a.part, &b.part, &b.utilisation_pct), (&Value::Known(0), &Value::Known(1), &Value::Known(7)));
    assert!(matches!(&b.pci, Value::Unknown(Why::Unreadable(_))));
    assert_eq!(b.jobs.known().unwrap()[0].pid, Value::Known(692_318));
    assert_eq!(a.jobs, Value::Known(vec![]));
    assert!(shown.notes.is_empty(), "{:?}", shown.notes);
}

/// The same address is many devices where a card is in partitions.
#[test]
fn partitions_of_one_card_are_devices_of_their_own() {
    let row = |i: u32, part: u32| {
        format!(
            "{i:<8}{:<6}0x74a1,   48427  42.0\u{b0}C      131.0W    NPS1, CPX, {part}        145Mhz  900Mhz  0%   auto  750.0W  0%     0%\n",
            i + 2
        )
    };
    let rows: String = (0..16).map(|i| row(i, i % 8)).collect();
    let text = format!(
        "=== ROCm System Management Interface ===\n=== Concise Info ===\n\
         Device  Node  IDs              Temp        Power     Partitions          SCLK    MCLK    Fan  Perf  PwrCap  VRAM%  GPU%\n\
         \u{20}             (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)\n===\n{rows}===\n"
    );
    let shown = read(&text);
    assert_eq!(shown.accelerators.len(), 16);
    assert_eq!(shown.accelerators[9].part, Value::Known(1));
    assert_eq!(shown.accelerators[15].power_limit_mw, Value::Known(750_000));
}
