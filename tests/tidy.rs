//! Rules of the house that no compiler checks. Every rule says why.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ stands in the project").to_path_buf()
}

fn manifests() -> BTreeMap<String, String> {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = workspace.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    members
        .lines()
        .filter_map(|l| l.trim().strip_prefix('"')?.strip_suffix("\",").map(str::to_owned))
        .map(|m| (m.clone(), fs::read_to_string(root().join(&m).join("Cargo.toml")).unwrap()))
        .collect()
}

/// Names in `[dependencies]` (not dev-dependencies).
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        } else if inside
            && let Some(name) = line.split(['.', ' ', '=']).next().filter(|n| !n.is_empty() && !n.starts_with('#'))
        {
            found.insert(name.to_owned());
        }
    }
    found
}

fn rust_files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != "node_modules" {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["deploy", "orchestrator", "site-agent", "netprobe", "tests"] {
        rust_files(&root().join(folder), &mut files);
    }
    files
}

/// A decision must not be able to read a socket, a clock or a table: its crates cannot name what does.
/// Pure crates outside the orchestrator.
const ELSEWHERE_PURE: [&str; 3] = ["netprobe/session", "netprobe/mesh", "site-agent/devices"];

#[test]
fn pure_crates_name_no_runtime() {
    let pure = ["model", "wire", "federation", "placement", "provision", "replay"].map(|c| format!("orchestrator/{c}"));
    let banned =
        ["tokio", "sqlx", "reqwest", "hyper", "axum", "socket2", "mio", "rand", "rustix", "tracing-subscriber"];
    for (member, manifest) in manifests() {
        if pure.contains(&member) || ELSEWHERE_PURE.contains(&member.as_str()) {
            for name in dependencies(&manifest) {
                assert!(!banned.contains(&name.as_str()), "{member} is pure and names {name}");
            }
        }
    }
}

/// Clocks, environment and files come into pure crates as arguments.
#[test]
fn pure_crates_read_no_clock_environment_or_file() {
    let banned =
        ["SystemTime::now", "Instant::now", "Timestamp::now", "Zoned::now", "std::env::", "std::fs::", "std::net::Tcp"];
    for file in sources() {
        let shown = file.strip_prefix(root()).unwrap().display().to_string();
        let pure = ["model", "wire", "federation", "placement", "provision", "replay"];
        let inside = pure.iter().any(|c| shown.starts_with(&format!("orchestrator/{c}/src")));
        let elsewhere = ELSEWHERE_PURE.iter().any(|member| shown.starts_with(&format!("{member}/src")));
        if !inside && !elsewhere {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for word in banned {
            assert!(!code.contains(word), "{shown} names {word}");
        }
    }
}

/// Data runs one way: a crate depends on crates to its left only.
#[test]
fn dependencies_run_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("orchestrator/model", &[][..]),
        ("orchestrator/wire", &["rhumb-model"]),
        ("orchestrator/federation", &["rhumb-model"]),
        ("orchestrator/placement", &["rhumb-model", "rhumb-federation"]),
        ("orchestrator/replay", &["rhumb-model", "rhumb-federation", "rhumb-placement"]),
        ("orchestrator/provision", &["rhumb-model", "rhumb-wire"]),
        ("orchestrator/store", &["rhumb-model", "rhumb-provision"]),
        ("orchestrator/naas", &["rhumb-model", "rhumb-provision", "rhumb-wire"]),
        (
            "orchestrator/control",
            &[
                "rhumb-model",
                "rhumb-wire",
                "rhumb-federation",
                "rhumb-mesh",
                "rhumb-probe-session",
                "rhumb-placement",
                "rhumb-provision",
                "rhumb-store",
                "rhumb-naas",
                "rhumb-identity",
            ],
        ),
        (
            "orchestrator/api",
            &[
                "rhumb-model",
                "rhumb-wire",
                "rhumb-federation",
                "rhumb-placement",
                "rhumb-provision",
                "rhumb-store",
                "rhumb-control",
                "rhumb-identity",
            ],
        ),
        ("orchestrator/identity", &["rhumb-model"]),
        ("netprobe/session", &["rhumb-model"]),
        ("netprobe/mesh", &["rhumb-model"]),
        ("netprobe/emulator", &[]),
        ("netprobe", &["rhumb-probe-session", "rhumb-wire"]),
        ("site-agent/devices", &["rhumb-model"]),
        ("site-agent/hardware", &["rhumb-model", "rhumb-devices"]),
        ("site-agent/runtimes", &["rhumb-model", "rhumb-wire"]),
        ("site-agent/kernel", &["rhumb-model"]),
        ("site-agent/bgp", &["rhumb-model"]),
        ("site-agent/kubernetes", &["rhumb-model", "rhumb-runtimes"]),
        (
            "site-agent",
            &[
                "rhumb-model",
                "rhumb-wire",
                "rhumb-probe",
                "rhumb-probe-session",
                "rhumb-devices",
                "rhumb-hardware",
                "rhumb-runtimes",
                "rhumb-identity",
                "rhumb-kernel",
                "rhumb-bgp",
                // behind a feature
                "rhumb-kubernetes",
            ],
        ),
    ]);
    for (member, manifest) in manifests() {
        let Some(left) = allowed.get(member.as_str()) else { continue };
        for name in dependencies(&manifest).iter().filter(|n| n.starts_with("rhumb")) {
            assert!(left.contains(&name.as_str()), "{member} may not depend on {name}");
        }
    }
}

/// SQL stays behind the store's trait.
#[test]
fn only_the_store_names_sqlx() {
    for (member, manifest) in manifests() {
        if member != "orchestrator/store" {
            assert!(!dependencies(&manifest).contains("sqlx"), "{member} names sqlx");
        }
    }
}

/// A file that people can proofread.
#[test]
fn files_are_short() {
    for file in sources() {
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 500, "{} has {lines} lines: cut it by noun", file.display());
    }
}

/// What does not run is not a test; what is not written is not code.
#[test]
fn nothing_is_left_undone() {
    let marks = [
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("FIX", "ME"),
        concat!("#[ign", "ore"),
        concat!("db", "g!("),
    ];
    for file in sources() {
        let text = fs::read_to_string(&file).unwrap();
        for mark in marks {
            assert!(!text.contains(mark), "{} has {mark}", file.display());
        }
    }
}

/// A reader learns from the first line what a crate is for.
#[test]
fn crates_state_their_purpose() {
    for (member, _) in manifests() {
        let folder = root().join(&member).join("src");
        let file = ["lib.rs", "main.rs"].map(|f| folder.join(f)).into_iter().find(|f| f.exists()).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//! "), "{} does not open with its purpose", file.display());
    }
}
