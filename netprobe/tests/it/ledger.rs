//! Budgets that outlive the process.

use rhumb_probe::BandwidthLedger;

const NOW_US: u64 = 1_800_000_000_000_000;

/// Fault F52: bandwidth tests disturb users, after a restart as before it.
#[test]
fn f52_a_restart_refills_no_budget() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bandwidth.json");
    let mut ledger = BandwidthLedger::open(&path).unwrap();
    // 0.1 % of 100 Mbit/s over ten minutes
    assert_eq!(ledger.left_bytes("ab", 100_000, 300_000, NOW_US), 7_500_000);
    assert!(ledger.spend("ab", 100_000, 300_000, 7_000_000, NOW_US).unwrap());
    assert!(!ledger.spend("ab", 100_000, 300_000, 1_000_000, NOW_US).unwrap());
    let again = BandwidthLedger::open(&path).unwrap();
    assert_eq!(again.left_bytes("ab", 100_000, 300_000, NOW_US), 500_000);
    // ten minutes later it is whole
    assert_eq!(again.left_bytes("ab", 100_000, 300_000, NOW_US + 600_000_000), 7_500_000);
}

#[test]
fn the_sites_budget_binds_all_its_links_together() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = BandwidthLedger::open(folder.path().join("bandwidth.json")).unwrap();
    for link in ["ab", "ac"] {
        assert!(ledger.spend(link, 100_000, 100_000, 3_500_000, NOW_US).unwrap());
    }
    assert_eq!(ledger.left_bytes("ad", 100_000, 100_000, NOW_US), 500_000);
    assert!(!ledger.spend("ad", 100_000, 100_000, 500_001, NOW_US).unwrap());
    ledger.refund("ac", 1_000_000).unwrap();
    assert!(ledger.spend("ad", 100_000, 100_000, 1_500_000, NOW_US).unwrap());
}

#[test]
fn a_spoilt_file_is_no_fresh_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bandwidth.json");
    std::fs::write(&path, "{\"site\": 3}").unwrap();
    let error = BandwidthLedger::open(&path).unwrap_err().to_string();
    assert!(error.contains("bandwidth.json") && error.contains("remove it"), "{error}");
}
