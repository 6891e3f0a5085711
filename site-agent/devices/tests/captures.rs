//! Real output of the makers' tools against what is to be read in it. `UPDATE_EXPECT=1` rewrites the expectations.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

fn expectations() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Name and content of every capture; none, with a notice, where they are not at hand.
fn captures() -> BTreeMap<String, Vec<u8>> {
    let Some(folder) = public_data::folder("gpu-dumps") else { return BTreeMap::new() };
    let files = fs::read_dir(folder).unwrap().flatten();
    let named = files.map(|f| (f.file_name().into_string().unwrap(), f.path()));
    named.filter(|(name, _)| name != "INDEX.tsv").map(|(name, path)| (name, fs::read(path).unwrap())).collect()
}

#[test]
fn every_capture_reads_as_expected() {
    let captures = captures();
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut wrong = Vec::new();
    for (name, bytes) in &captures {
        let read = rhumb_devices::read(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(read.sections.iter().any(|s| !s.formats.is_empty()), "{name}");
        let text = serde_json::to_string_pretty(&read).unwrap() + "\n";
        let path = expectations().join(format!("{name}.json"));
        if update {
            fs::create_dir_all(expectations()).unwrap();
            fs::write(&path, &text).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != text {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "these read differently; look at the difference after UPDATE_EXPECT=1: {wrong:?}");
    if !captures.is_empty() {
        assert_eq!(captures.len(), fs::read_dir(expectations()).unwrap().count(), "an expectation has no capture");
    }
}

/// Whatever is cut off or overwritten, the rest is read or refused, and no row appears from nothing.
#[test]
fn mangled_captures_are_read_or_refused() {
    for (name, bytes) in captures() {
        let most = rhumb_devices::read(&bytes).unwrap();
        let rows: usize = most.sections.iter().map(|s| s.shown.accelerators.len()).max().unwrap();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize % n.max(1)
        };
        for _ in 0..6 {
            let cut = next(bytes.len());
            if let Ok(read) = rhumb_devices::read(&bytes[..cut]) {
                let cut_rows = read.sections.iter().map(|s| s.shown.accelerators.len()).max().unwrap_or(0);
                assert!(cut_rows <= rows, "{name} cut at {cut}: {cut_rows} rows of {rows}");
            }
            let mut mangled = bytes.clone();
            for _ in 0..8 {
                let at = next(mangled.len());
                mangled[at] = next(256) as u8;
            }
            let from = next(mangled.len());
            let to = (from + next(200)).min(mangled.len());
            mangled.drain(from..to);
            _ = rhumb_devices::read(&mangled);
        }
    }
}
