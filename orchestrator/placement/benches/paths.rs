//! Every net of the reference table, routed split and unsplit.
use rhumb_placement::paths::{matrix, wan};
use std::{io::Read, path::PathBuf, time::Instant};

fn main() {
    let folder = PathBuf::from(std::env::var("RHUMB_DATA").unwrap_or_else(|_| "../shared/data".into())).join("wan");
    let only: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let table = std::fs::read_to_string(folder.join("reference_mlu.csv")).unwrap();
    for line in table.lines().skip(1) {
        let f: Vec<&str> = line.split(',').collect();
        if !only.is_empty() && !only.iter().any(|o| f[0].contains(o.as_str())) {
            continue;
        }
        let m = wan::read(f[0], |file| -> std::io::Result<Option<String>> {
            let plain = folder.join(file);
            if plain.exists() {
                return std::fs::read_to_string(plain).map(Some);
            }
            let packed = folder.join(format!("{file}.gz"));
            let mut text = String::new();
            flate2::read::GzDecoder::new(std::fs::File::open(packed)?).read_to_string(&mut text)?;
            Ok(Some(text))
        })
        .unwrap();
        let opt: f64 = f[5].parse().unwrap();
        let t = Instant::now();
        let r = matrix::split(&m, matrix::SplitEffort::default());
        let ms = t.elapsed().as_millis();
        println!(
            "{:22} opt {opt:12.4} split {:12.4} {:+.3}% bound {:+.3}% rounds {} {ms} ms",
            f[0],
            r.max_utilisation.ratio(),
            (r.max_utilisation.ratio() / opt - 1.0) * 100.0,
            (r.lower_bound.ratio() / opt - 1.0) * 100.0,
            r.rounds
        );
    }
}
