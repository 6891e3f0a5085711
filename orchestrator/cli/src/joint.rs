//! `rhumb place --joint`: batch instances from a file, solved one by one and timed.

use crate::{
    exit::{CliError, Exit},
    files,
    output::{self, Output},
    show::list,
};
use rhumb_placement::batch::{
    instance,
    solve::{Budget, answer_json, solve},
};
use serde_json::Value;
use std::{path::Path, time::Instant};

pub fn main(path: &Path, output: Output) -> Result<Exit, CliError> {
    let shown = path.display();
    let text = files::packed_text(path, instance::MAX_BYTES)?;
    let instances = instance::read(&text).map_err(|e| CliError::Usage(format!("cannot read {shown}: {e}")))?;
    let mut answers = Vec::with_capacity(instances.len());
    for instance in &instances {
        let begun = Instant::now();
        let answer =
            solve(instance, &Budget::default()).map_err(|e| CliError::Usage(format!("cannot solve {shown}: {e}")))?;
        let micros = begun.elapsed().as_micros();
        answers.push(answer_json(&answer, micros as f64 / 1e3));
    }
    let value = Value::Array(answers);
    output.show(&value, |_| table(&value))?;
    Ok(Exit::Done)
}

fn table(value: &Value) -> String {
    let number = |answer: &Value, key: &str| answer.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let row = |answer: &Value| {
        let plan = list(answer, "/plan");
        let rejected = plan.iter().filter(|p| p.get("rejected").is_some()).count();
        let (total, bound) = (number(answer, "total_usd"), number(answer, "lower_bound_usd"));
        let gap = if total > 0.0 { (total - bound) / total * 100.0 } else { 0.0 };
        vec![
            answer.get("name").and_then(Value::as_str).unwrap_or("-").to_owned(),
            format!("{total:.2}"),
            format!("{bound:.2}"),
            format!("{gap:.3}%"),
            plan.len().to_string(),
            rejected.to_string(),
            format!("{:.1}", number(answer, "wall_ms")),
        ]
    };
    let header = ["INSTANCE", "TOTAL USD>", "BOUND USD>", "GAP>", "JOBS>", "REJECTED>", "MS>"];
    output::table(&header, value.as_array().into_iter().flatten().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use std::io::Write;

    const ONE: &str = r#"[{"name": "one", "nodes": 2,
        "links": [{"from": 0, "to": 1, "delay_ms": 1, "capacity_mbps": 100, "usd_per_gbit_h": 0.5}],
        "sites": [{"id": 0, "node": 1, "pools": [{"gpu": "L4", "count": 1, "usd_per_gpu_h": 1}]}],
        "jobs": [{"id": 0, "source": 0, "gpus": 1, "gpu_types": ["L4"], "mbps": 50, "max_delay_ms": null, "hours": 1, "reject_usd": 9}]}]"#;

    fn file(content: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("batch");
        std::fs::write(&path, content).unwrap();
        (folder, path)
    }

    #[test]
    fn a_packed_file_reads_as_the_plain_one() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(ONE.as_bytes()).unwrap();
        let (_plain, plain) = file(ONE.as_bytes());
        let (_packed, packed) = file(&packer.finish().unwrap());
        let text = |path| files::packed_text(path, instance::MAX_BYTES).unwrap();
        assert_eq!(text(&plain), text(&packed));
        assert_eq!(main(&packed, Output::plain(Format::Table)).unwrap(), Exit::Done);
    }

    #[test]
    fn bad_input_is_wrong_usage_that_names_instance_field_and_value() {
        let (_folder, path) = file(ONE.replace("\"capacity_mbps\": 100", "\"capacity_mbps\": -3").as_bytes());
        let wrong = main(&path, Output::plain(Format::Json)).unwrap_err();
        assert_eq!(wrong.exit(), Exit::Usage);
        let shown = wrong.to_string();
        assert!(shown.contains("instance one: links[0].capacity_mbps: -3 is negative: write 0 or more"), "{shown}");
        let (_folder, cut) = file(&[0x1f, 0x8b, 8, 0]);
        assert_eq!(main(&cut, Output::plain(Format::Json)).unwrap_err().exit(), Exit::Usage);
    }
}
