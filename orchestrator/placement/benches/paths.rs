//! Every net of the reference table routed split and on single paths, with what each takes.
//!
//! `cargo bench -p rhumb-placement --bench paths [-- PART OF A NAME...]`; the folder of public data is `RHUMB_DATA`, else
//! `../shared/data` beside the project.

use rhumb_placement::paths::{
    matrix::{SplitEffort, UnsplitEffort, split, unsplit},
    wan,
};
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Instant,
};

fn main() {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("RHUMB_DATA").map_or_else(beside, PathBuf::from).join("wan");
    let Ok(table) = fs::read_to_string(folder.join("reference_mlu.csv")) else {
        println!("skipped: {} has no reference_mlu.csv, and RHUMB_DATA names no other folder", folder.display());
        return;
    };
    let parts: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    println!(
        "{:<22} {:>14} {:>14} {:>14} {:>8} {:>9} {:>14} {:>14} {:>7} {:>9}",
        "net", "optimum", "bound", "split", "gap ppm", "ms", "no less than", "single paths", "x", "ms"
    );
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (name, optimum): (_, f64) = (fields[0], fields[5].parse().expect("the table has numbers"));
        if !parts.is_empty() && !parts.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let matrix = wan::read(name, |file| text(&folder, file)).expect("the nets of the table can be read").matrix;
        let begun = Instant::now();
        let many = split(&matrix, SplitEffort::default());
        let split_ms = begun.elapsed().as_secs_f64() * 1e3;
        let begun = Instant::now();
        let one = unsplit(&matrix, UnsplitEffort::default());
        let unsplit_ms = begun.elapsed().as_secs_f64() * 1e3;
        let floor = matrix.largest_demand_over_widest_path().ratio().max(optimum);
        let (split, single) = (many.max_utilisation.ratio(), one.max_utilisation.ratio());
        println!(
            "{name:<22} {optimum:>14.6} {:>14.6} {split:>14.6} {:>8.0} {split_ms:>9.1} {floor:>14.6} {single:>14.6} {:>7.4} {unsplit_ms:>9.1}",
            many.lower_bound.ratio(),
            (split / optimum - 1.) * 1e6,
            single / floor,
        );
    }
}

fn text(folder: &Path, file: &str) -> io::Result<Option<String>> {
    let (plain, packed) = (folder.join(file), folder.join(format!("{file}.gz")));
    if plain.exists() {
        return fs::read_to_string(plain).map(Some);
    }
    if !packed.exists() {
        return Ok(None);
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(packed)?).read_to_string(&mut text)?;
    Ok(Some(text))
}
