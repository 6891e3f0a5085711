//! The documents that ship with the project are sound.
#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

use rhumb_model::{FederationFile, Order, order::End};
use std::{fs, path::PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn demo() -> FederationFile {
    let path = root().join("deploy/demo/federation.yaml");
    FederationFile::read(&fs::read_to_string(&path).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn examples() -> Vec<(PathBuf, Order)> {
    let entries = fs::read_dir(root().join("examples")).unwrap().map(|e| e.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|p| p.extension().is_some_and(|e| e == "yaml")).collect();
    paths.sort();
    let read = |p: PathBuf| {
        let order = Order::read(&fs::read_to_string(&p).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", p.display()));
        (p, order)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn the_demo_federation_is_sound_and_reads_back() {
    let file = demo();
    assert!(file.sites.len() >= 8 && file.links.len() >= 10);
    assert!(file.transit.iter().any(|t| t.relay));
    let text = serde_json::to_string(&file).unwrap();
    assert_eq!(FederationFile::read(&text).unwrap(), file);
    let yaml = serde_yaml_ng::to_string(&file).unwrap();
    assert_eq!(FederationFile::read(&yaml).unwrap(), file);
}

#[test]
fn every_example_order_is_sound_and_names_what_the_demo_has() {
    let file = demo();
    let examples = examples();
    assert!(examples.len() >= 5);
    for (path, order) in examples {
        for flow in &order.flows {
            for end in [&flow.from, &flow.to] {
                let known = match end {
                    End::Component(_) => true,
                    End::Dataset(name) => file.datasets.iter().any(|d| d.name == *name),
                    End::Region(name) => file.regions.iter().any(|r| r.name == *name),
                };
                assert!(known, "{}: {end}", path.display());
            }
        }
        for component in &order.components {
            for model in component.need.accelerators.iter().flat_map(|a| &a.models) {
                assert!(file.devices.contains_key(model), "{}: {model}", path.display());
            }
        }
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(Order::read_json(&text).unwrap(), order, "{}", path.display());
    }
}
