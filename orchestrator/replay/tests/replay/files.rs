//! The public traces, where they are.

use flate2::read::GzDecoder;
use rhumb_federation::View;
use rhumb_model::FederationFile;
use rhumb_replay::{Workload, trace};
use std::{fs::File, io::Read, path::PathBuf};

/// A trace with its federation; of its rows the first so many. `None`, and said so: the data is not there.
pub fn trace(name: &str, file: &str, rows: usize) -> Option<(View, Workload)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data = std::env::var_os("RHUMB_DATA").map_or_else(|| root.join("../shared/data"), PathBuf::from);
    let folder = data.join("traces");
    if !folder.is_dir() {
        eprintln!("skipped: {} is not there; set RHUMB_DATA to the folder of the public data", folder.display());
        return None;
    }
    let federation = std::fs::read_to_string(folder.join(format!("fed8-{name}.yaml"))).unwrap();
    let view = View::from_file(&FederationFile::read(&federation).unwrap()).unwrap();
    let mut text = String::new();
    GzDecoder::new(File::open(folder.join(format!("{file}.csv.gz"))).unwrap()).read_to_string(&mut text).unwrap();
    let window: Vec<&str> = text.lines().take(rows + 1).collect();
    let workload = trace::read(&window.join("\n"), &view).unwrap();
    Some((view, workload))
}
