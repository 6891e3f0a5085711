//! NVIDIA cards through the real wrapper, against a library without a GPU behind it.
#![cfg(feature = "nvidia")]
#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

use fake_nvml as _;
use rhumb_devices::{Catalogue, Condition, LinkKind, MigMode, Snapshot, Value, Why, inventory};
use rhumb_hardware::nvml::{Driver, DriverError, Options};
use rhumb_model::site::Health;
use std::{fs, path::PathBuf, time::Duration};
use tempfile::TempDir;

/// The library, as built beside this test.
fn built() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let folder = here.parent().unwrap();
    ["libfake_nvml.so", "../libfake_nvml.so"].iter().map(|f| folder.join(f)).find(|p| p.exists()).unwrap()
}

/// A library of its own: loaded apart from all others, without the symbols named.
struct Library {
    folder: TempDir,
}

impl Library {
    fn new(spec: &str, missing: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = fs::read(built()).unwrap();
        for name in missing {
            // a name that is spelt otherwise is not found
            let sought = [b"\0", name.as_bytes(), b"\0"].concat();
            let at: Vec<usize> = (0..bytes.len() - sought.len()).filter(|i| bytes[*i..].starts_with(&sought)).collect();
            assert!(!at.is_empty(), "{name} is in the library");
            for i in at {
                bytes[i + 1] = b'x';
            }
        }
        fs::write(folder.path().join("lib.so"), bytes).unwrap();
        fs::write(folder.path().join("lib.so.spec"), spec).unwrap();
        Self { folder }
    }

    fn open(&self, timeout: Duration) -> Result<Driver, DriverError> {
        let library = Some(self.folder.path().join("lib.so").into_os_string());
        Driver::open(&Options { library, timeout })
    }

    /// Where nothing hangs, the time does not matter.
    fn look(&self) -> Snapshot {
        self.look_within(Duration::from_secs(10))
    }

    fn look_within(&self, timeout: Duration) -> Snapshot {
        self.open(timeout).unwrap().look()
    }
}

const HGX: &str = "gpus 8\nswitches 4\n";

/// What the agent asks of a card, and of the driver.
const OF_A_CARD: [&str; 25] = [
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetNumaNodeId",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlEventSetCreate",
    "nvmlDeviceRegisterEvents",
    "nvmlEventSetWait_v2",
];
const OF_THE_DRIVER: [&str; 3] = ["nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2", "nvmlShutdown"];

/// Values of a card that are known, of those every card here has.
fn known(shown: &Snapshot, card: usize) -> usize {
    let a = &shown.accelerators[card];
    let all = [
        a.model.known().is_some(),
        a.uuid.known().is_some(),
        a.pci.known().is_some(),
        a.pcie.generation.known().is_some(),
        a.pcie.lanes.known().is_some(),
        a.numa.known().is_some(),
        a.memory_bytes.known().is_some(),
        a.utilisation_pct.known().is_some(),
        a.power_mw.known().is_some(),
        a.power_limit_mw.known().is_some(),
        a.temperature_mc.known().is_some(),
        a.ecc.uncorrected.known().is_some(),
        a.mig.known().is_some(),
        a.jobs.known().is_some(),
        a.fabric_links.known().is_some(),
    ];
    all.iter().filter(|k| **k).count()
}

const ALL: usize = 15;

#[test]
fn eight_cards_joined_by_switches() {
    let shown = Library::new(HGX, &[]).look();
    assert_eq!(shown.driver, Value::Known("570.124.06".into()));
    assert_eq!(shown.runtime, Value::Known("CUDA 12.8".into()));
    assert_eq!(shown.accelerators.len(), 8);
    for card in 0..8 {
        assert_eq!(known(&shown, card), ALL, "{:?}", shown.accelerators[card]);
    }
    let first = &shown.accelerators[0];
    assert_eq!(first.memory_bytes, Value::Known(81_559 << 20));
    assert_eq!(first.pci.known().unwrap().to_string(), "0000:1b:00.0");
    assert_eq!(first.pci_id.known().unwrap().to_string(), "10de:2330");
    assert_eq!(first.jobs.known().unwrap()[0].pid, Value::Known(4_242));
    assert_eq!(first.fabric_links, Value::Known(18));
    let topology = shown.topology.as_ref().unwrap();
    assert_eq!(topology.link(0, 7), &LinkKind::NvLink(18));
    let devices = inventory(&shown, &Catalogue::built_in()).devices;
    assert!(devices.iter().all(|d| d.island == Some(0) && d.health == Health::Ok && d.model.as_str() == "H100"));
    assert_eq!(devices.iter().filter_map(|d| d.numa).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn cards_bridged_in_pairs_are_islands_of_two() {
    let shown = Library::new("gpus 4\n", &[]).look();
    let topology = shown.topology.unwrap();
    assert_eq!(topology.islands(), [vec![0, 1], vec![2, 3]]);
    assert_eq!(topology.link(0, 2), &LinkKind::Node);
}

#[test]
fn slices_are_seen_and_their_card_is_not_given_away_whole() {
    let shown = Library::new("gpus 2\nmig 1 2\n", &[]).look();
    let card = &shown.accelerators[1];
    assert_eq!((&card.mig, card.slices.len()), (&Value::Known(MigMode::Enabled), 2));
    assert_eq!(card.slices[0].profile, Value::Known("3g.40gb".into()));
    let ids: Vec<_> = card.slices.iter().map(|s| (s.gpu_instance.known(), s.compute_instance.known())).collect();
    assert_eq!(ids, [(Some(&1), Some(&0)), (Some(&2), Some(&0))]);
    assert_eq!(card.slices[1].memory_bytes, Value::Known(40_448 << 20));
    assert!(card.utilisation_pct.known().is_none(), "a card in slices has no use of its own");
    let devices = inventory(&shown, &Catalogue::built_in()).devices;
    assert!(devices.iter().all(|d| d.health == Health::Ok));
    let told: Vec<_> = devices.iter().map(|d| (d.is_in_slices(), d.slices().len())).collect();
    assert_eq!(told, [(false, 0), (true, 2)]);
    let slice = &devices[1].slices()[1];
    assert_eq!((slice.number, slice.profile.to_string(), slice.memory.bytes()), (1, "3g.40gb".into(), 40_448 << 20));
    assert_eq!(slice.uuid.as_deref(), Some("MIG-00000001-0000-4000-8000-000000000001"));
    let open = |device: usize| devices[device].mig.as_ref().unwrap().open.len();
    assert_eq!((open(0), open(1)), (7, 0), "a whole card can be cut into every profile, two halves into nothing more");
}

/// A fault that the driver reports by number is the card's, unless it is the work's.
#[test]
fn errors_by_number_make_a_card_ill_and_those_of_work_do_not() {
    let driver = Library::new("gpus 4\nxid 0 31\nxid 1 63\nxid 1 13\nxid 2 79\n", &[]).open(Duration::from_secs(10));
    let shown = driver.unwrap().look();
    let xids: Vec<_> = shown.accelerators.iter().map(|a| a.xid.known().copied()).collect();
    assert_eq!(xids, [Some(31), Some(63), Some(79), Some(0)]);
    let seen = inventory(&shown, &Catalogue::built_in());
    let health: Vec<Health> = seen.devices.iter().map(|d| d.health).collect();
    assert_eq!(health, [Health::Ok, Health::Degraded, Health::Failed, Health::Ok]);
    assert!(seen.unknown.iter().any(|u| u.device == 1 && u.why.contains("Xid 63")), "{:?}", seen.unknown);
}

#[test]
fn a_sample_has_what_changes_and_says_what_it_lacks() {
    let spec = "gpus 3\nswitches 1\nfail nvmlDeviceGetTemperature 999 1\nfail * 15 2\n";
    let driver = Library::new(spec, &[]).open(Duration::from_secs(10)).unwrap();
    let samples = driver.sample(&[0, 1, 2]);
    let first = &samples[&0];
    assert_eq!((&first.processes, &first.power_mw), (&Value::Known(1), &Value::Known(70_000)));
    assert_eq!((&first.utilisation_pct, &first.memory_used_bytes), (&Value::Known(0), &Value::Known(0)));
    assert_eq!(first.xid, Value::Known(0));
    let second = &samples[&1];
    assert_eq!((second.temperature_mc.known(), second.power_mw.known()), (None, Some(&70_001)));
    assert_eq!((first.is_lost, second.is_lost, samples[&2].is_lost), (false, false, true));
    assert!(samples[&2].power_mw.known().is_none());
}

/// One card lost, one whose memory cannot be asked, one call that hangs: all eight cards are there.
#[test]
fn what_fails_on_one_card_is_unknown_there_alone() {
    let spec = format!("{HGX}fail * 15 3\nfail nvmlDeviceGetMemoryInfo_v2 3 5\nhang nvmlDeviceGetTemperature 6\n");
    let shown = Library::new(&spec, &[]).look_within(Duration::from_secs(2));
    assert_eq!(shown.accelerators.len(), 8);
    for card in [0, 1, 2, 4, 7] {
        assert_eq!(known(&shown, card), ALL, "{card}");
    }
    assert_eq!((known(&shown, 3), &shown.accelerators[3].condition), (0, &Value::Known(Condition::Failed)));
    let memory = &shown.accelerators[5].memory_bytes;
    assert!(matches!(memory, Value::Unknown(Why::Failed { call, .. }) if call == "memory"), "{memory:?}");
    assert_eq!(known(&shown, 5), ALL - 1);
    let heat = &shown.accelerators[6].temperature_mc;
    assert_eq!(heat, &Value::Unknown(Why::NoAnswer { call: "temperature".into(), after_ms: 2_000 }));
    assert_eq!(known(&shown, 6), ALL - 1);
    let seen = inventory(&shown, &Catalogue::built_in());
    let health: Vec<Health> = seen.devices.iter().map(|d| d.health).collect();
    assert_eq!(health[3], Health::Failed);
    assert_eq!(health[5], Health::Ok);
    assert!(seen.unknown.iter().any(|u| (u.device, u.value) == (6, "temperature") && u.why.contains("no answer")));
}

/// Every call failing alone, and every symbol missing alone: all cards are there, and what depends on it says why.
#[test]
fn every_symbol_failing_or_missing_alone_leaves_the_rest() {
    for symbol in OF_A_CARD.into_iter().chain(OF_THE_DRIVER) {
        for (how, library) in [
            ("failing", Library::new(&format!("gpus 2\nswitches 1\nmig 1 1\nfail {symbol} 999\n"), &[])),
            ("missing", Library::new("gpus 2\nswitches 1\nmig 1 1\n", &[symbol])),
        ] {
            let shown = library.look();
            assert_eq!(shown.accelerators.len(), 2, "{symbol} {how}");
            // of one call depend two values at most; without handles there is nothing to be asked
            let least = if symbol == "nvmlDeviceGetHandleByIndex_v2" { 0 } else { ALL - 2 };
            assert!(known(&shown, 0) >= least, "{symbol} {how}: {:?}", shown.accelerators[0]);
            let seen = inventory(&shown, &Catalogue::built_in());
            assert_eq!(seen.devices.len(), 2, "{symbol} {how}");
            for unknown in seen.unknown.iter().filter(|u| u.device == 0) {
                assert!(unknown.why.contains(':'), "{symbol} {how}: {unknown:?}");
            }
        }
    }
}

#[test]
fn every_symbol_hanging_alone_leaves_the_rest() {
    let look = |symbol: &'static str| {
        std::thread::spawn(move || {
            let shown = Library::new(&format!("gpus 3\nswitches 1\nmig 1 1\nhang {symbol}\n"), &[])
                .look_within(Duration::from_secs(2));
            assert_eq!(shown.accelerators.len(), 3, "{symbol}");
            if symbol != "nvmlDeviceGetHandleByIndex_v2" {
                // a card is given up for its own silence only
                assert!(known(&shown, 0) >= ALL - 3, "{symbol}: {:?}", shown.accelerators[0]);
            }
            let silent = inventory(&shown, &Catalogue::built_in());
            assert_eq!(silent.devices.len(), 3, "{symbol}");
        })
    };
    let looks: Vec<_> = OF_A_CARD.into_iter().chain(["nvmlSystemGetCudaDriverVersion_v2"]).map(look).collect();
    for look in looks {
        look.join().unwrap();
    }
}

#[test]
fn a_driver_that_is_not_there_or_does_not_start_says_so() {
    let absent = Driver::open(&Options { library: Some("/nowhere/lib.so".into()), ..Options::default() }).unwrap_err();
    assert!(absent.to_string().starts_with("there is no NVIDIA driver here"), "{absent}");
    let hangs = Library::new("gpus 1\nhang nvmlInit_v2\n", &[]).open(Duration::from_millis(100)).unwrap_err();
    assert!(matches!(hangs, DriverError::NoAnswer(_)), "{hangs}");
    // the wrapper asks for the version while it starts
    let hangs = Library::new("gpus 1\nhang nvmlSystemGetDriverVersion\n", &[]).open(Duration::from_millis(100));
    assert!(matches!(hangs, Err(DriverError::NoAnswer(_))), "{hangs:?}");
    let fails = Library::new("gpus 1\nfail nvmlInit_v2 9\n", &[]).open(Duration::from_millis(100)).unwrap_err();
    assert!(matches!(fails, DriverError::Absent(_)), "{fails}");
    let missing = Library::new("gpus 1\n", &["nvmlInit_v2"]).open(Duration::from_millis(100)).unwrap_err();
    assert!(matches!(missing, DriverError::Absent(_)), "{missing}");
}

#[test]
fn a_driver_that_cannot_count_its_cards_shows_none_and_says_why() {
    let shown = Library::new("gpus 2\nfail nvmlDeviceGetCount_v2 999\n", &[]).look();
    assert!(shown.accelerators.is_empty());
    assert!(shown.notes.iter().any(|n| n.contains("how many cards")), "{:?}", shown.notes);
}

/// On a machine with a card, the driver's own library.
#[test]
fn a_real_card_where_there_is_one() {
    if !std::path::Path::new("/dev/nvidia0").exists() {
        eprintln!("skipped: there is no NVIDIA card here");
        return;
    }
    let driver = match Driver::open(&Options { library: None, timeout: Duration::from_secs(5) }) {
        Ok(driver) => driver,
        Err(error) => {
            eprintln!("skipped: there is a card and no library to ask: {error}");
            return;
        }
    };
    let shown = driver.look();
    let cards: Vec<u32> = (0..shown.accelerators.len() as u32).collect();
    for (card, sample) in driver.sample(&cards) {
        assert!(!sample.is_lost && sample.memory_used_bytes.known().is_some(), "{card}: {sample:?}");
    }
    assert!(!shown.accelerators.is_empty());
    for card in &shown.accelerators {
        assert!(card.model.known().is_some() && card.pci.known().is_some(), "{card:?}");
        assert!(card.memory_bytes.known().is_some_and(|b| *b > 1 << 30), "{card:?}");
        assert!(card.power_mw.known().is_some() || card.temperature_mc.known().is_some(), "{card:?}");
    }
    eprintln!("{shown:#?}");
}

/// What hangs keeps a thread: it is not asked again as long as it has not come back, and the rest goes on being seen.
#[test]
fn a_call_that_never_comes_back_is_not_asked_again_and_again() {
    let driver =
        Library::new(&format!("{HGX}hang nvmlDeviceGetTemperature\n"), &[]).open(Duration::from_secs(1)).unwrap();
    for _ in 0..10 {
        let shown = driver.look();
        for card in 0..8 {
            assert_eq!(known(&shown, card), ALL - 1, "{:?}", shown.accelerators[card]);
        }
    }
    assert_eq!(driver.hanging(), 2, "ten looks at eight cards would have been eighty");
}
