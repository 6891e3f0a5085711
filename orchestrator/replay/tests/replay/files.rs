//! The public traces, where they are.

use rhumb_federation::View;
use rhumb_model::FederationFile;
use rhumb_replay::{Workload, trace};

/// A trace with its federation; of its rows the first so many. `None`, and said so: the data is not there.
pub fn trace(name: &str, file: &str, rows: usize) -> Option<(View, Workload)> {
    let folder = public_data::folder("traces")?;
    let federation = std::fs::read_to_string(folder.join(format!("fed8-{name}.yaml"))).unwrap();
    let view = View::from_file(&FederationFile::read(&federation).unwrap()).unwrap();
    let text = public_data::text(&folder, &format!("{file}.csv")).unwrap().unwrap();
    let window: Vec<&str> = text.lines().take(rows + 1).collect();
    let workload = trace::read(&window.join("\n"), &view).unwrap();
    Some((view, workload))
}
