//! `rhumb replay openb`: the published fragmentation benchmark, from its files.

use crate::{
    exit::{CliError, Exit},
    files,
    output::{Output, progress, table},
};
use clap::Args;
use rhumb_replay::openb::{Arrivals, Bench, Decision, Nodes, Outcome, Pods, Policy, Ranks, TableError};
use serde::Serialize;
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    str::FromStr,
    time::Instant,
};

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  rhumb replay openb --nodes openb_node_list_gpu_node.csv --pods openb_pod_list_default.csv \\\n    \
                        --arrivals arrival_order_default.csv.gz --ranks node_rank_example.csv.gz --policy fgd --policy rhumb\n\n\
                        Files may be packed with gzip."
)]
pub struct OpenbArgs {
    /// The cluster: sn,cpu_milli,memory_mib,gpu,model
    #[arg(long, value_name = "FILE")]
    nodes: PathBuf,
    /// The pod list: name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec]
    #[arg(long, value_name = "FILE")]
    pods: PathBuf,
    /// The pods' rows in the order they arrive, a column seedN for each seed
    #[arg(long, value_name = "FILE")]
    arrivals: PathBuf,
    /// The ranks of the nodes' names, a column seedN for each seed; of other seeds they are drawn
    #[arg(long, value_name = "FILE")]
    ranks: PathBuf,
    /// random, dotprod, clustering, packing, bestfit, fgd or rhumb; may be repeated (default: all)
    #[arg(long = "policy", value_name = "NAME")]
    policies: Vec<Policy>,
    /// First and last seed (default: all that arrive)
    #[arg(long, value_name = "N..N")]
    seeds: Option<Seeds>,
    /// Write every decision as CSV: policy,seed,event,node,gpus
    #[arg(long, value_name = "FILE")]
    assignments: Option<PathBuf>,
}

/// `42..51`, both ends included, or one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seeds(RangeInclusive<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        match (first.parse(), last.trim_start_matches('=').parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self(first..=last)),
            _ => Err("write a first and a last seed such as 42..51".into()),
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    outcome: Outcome,
    decisions_per_s: f64,
}

/// A decision as it is written.
struct Written {
    event: usize,
    node: Option<usize>,
    devices: Vec<u8>,
}

pub fn main(args: &OpenbArgs, output: Output) -> Result<Exit, CliError> {
    let bench = bench(args)?;
    let seeds: Vec<u64> = match &args.seeds {
        Some(Seeds(seeds)) => seeds.clone().collect(),
        None => bench.seeds().collect(),
    };
    let policies = if args.policies.is_empty() { Policy::ALL.to_vec() } else { args.policies.clone() };
    let mut file = args.assignments.as_deref().map(Assignments::create).transpose()?;
    let mut rows = Vec::new();
    for policy in policies {
        for seed in &seeds {
            let bar = progress(format!("{policy}, seed {seed}"));
            let mut written = Vec::new();
            let keep = file.is_some();
            let begun = Instant::now();
            let outcome = bench.run(policy, *seed, &mut |decision: &Decision<'_>| {
                if keep {
                    let Decision { event, node, devices, .. } = *decision;
                    written.push(Written { event, node, devices: devices.to_vec() });
                }
            });
            let seconds = begun.elapsed().as_secs_f64();
            bar.finish_and_clear();
            let outcome = outcome.map_err(|e| CliError::Usage(format!("cannot run {policy}: {e}")))?;
            if let Some(file) = &mut file {
                file.write(&bench, policy, *seed, &written)?;
            }
            let decisions_per_s = (outcome.decisions as f64 / seconds.max(1e-9)).round();
            rows.push(Row { outcome, decisions_per_s });
        }
    }
    if let Some(file) = file {
        file.finish()?;
    }
    output.show(&rows, |_| shown(&rows))?;
    Ok(Exit::Done)
}

fn bench(args: &OpenbArgs) -> Result<Bench, CliError> {
    let wrong = |e: TableError| CliError::Usage(e.to_string());
    let name = |path: &Path| path.display().to_string();
    let nodes = Nodes::read(&name(&args.nodes), &contents(&args.nodes)?).map_err(wrong)?;
    let pods = Pods::read(&name(&args.pods), &contents(&args.pods)?, &nodes).map_err(wrong)?;
    let arrivals = Arrivals::read(&name(&args.arrivals), &contents(&args.arrivals)?, &pods).map_err(wrong)?;
    let ranks = Ranks::read(&name(&args.ranks), &contents(&args.ranks)?, &nodes).map_err(wrong)?;
    Ok(Bench::new(nodes, pods, arrivals, ranks))
}

fn contents(path: &Path) -> Result<Vec<u8>, CliError> {
    files::packed_bytes(path, files::MAX_TABLE_BYTES)
}

/// The file of every decision.
struct Assignments<'a> {
    path: &'a Path,
    file: BufWriter<File>,
}

impl<'a> Assignments<'a> {
    fn create(path: &'a Path) -> Result<Self, CliError> {
        let file = File::create(path).map(BufWriter::new).map_err(|e| unwritten(path, &e))?;
        let mut assignments = Self { path, file };
        assignments.line(format_args!("policy,seed,event,node,gpus"))?;
        Ok(assignments)
    }

    fn write(&mut self, bench: &Bench, policy: Policy, seed: u64, rows: &[Written]) -> Result<(), CliError> {
        for Written { event, node, devices } in rows {
            let node = node.and_then(|node| bench.node_name(node)).unwrap_or_default();
            let devices = devices.iter().map(u8::to_string).collect::<Vec<_>>().join("+");
            self.line(format_args!("{policy},{seed},{event},{node},{devices}"))?;
        }
        Ok(())
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) -> Result<(), CliError> {
        writeln!(self.file, "{line}").map_err(|e| unwritten(self.path, &e))
    }

    fn finish(mut self) -> Result<(), CliError> {
        self.file.flush().map_err(|e| unwritten(self.path, &e))
    }
}

fn unwritten(path: &Path, error: &io::Error) -> CliError {
    CliError::Failed(format!("cannot write {}: {error}", path.display()))
}

/// The means of each policy.
fn shown(rows: &[Row]) -> String {
    let header =
        ["POLICY", "SEEDS>", "ALLOC@100>", "ALLOC@130>", "SD>", "FRAG@50>", "FRAG@90>", "FAILED>", "DECISIONS/S>"];
    let lines = rows.chunk_by(|a, b| a.outcome.policy == b.outcome.policy).map(|rows| {
        let count = rows.len() as f64;
        let mean = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).sum::<f64>() / count;
        let last = mean(&|row| row.outcome.alloc_pct[130]);
        let square = |row: &Row| (row.outcome.alloc_pct[130] - last).powi(2);
        let deviation = (rows.iter().map(square).sum::<f64>() / (count - 1.0).max(1.0)).sqrt();
        vec![
            rows[0].outcome.policy.to_string(),
            rows.len().to_string(),
            format!("{:.2}%", mean(&|row| row.outcome.alloc_pct[100])),
            format!("{last:.2}%"),
            format!("{deviation:.2}"),
            format!("{:.2}%", mean(&|row| row.outcome.frag_pct[50])),
            format!("{:.2}%", mean(&|row| row.outcome.frag_pct[90])),
            format!("{:.0}", mean(&|row| row.outcome.failed as f64)),
            format!("{:.0}", mean(&|row| row.decisions_per_s)),
        ]
    });
    table(&header, lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: OpenbArgs,
    }

    /// Two nodes, three kinds of pods and one order, the pods packed.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("nodes", "sn,cpu_milli,memory_mib,gpu,model\nleft,8000,8000,2,T4\nright,8000,8000,2,G2\n");
        write("arrivals", "seed42\n0\n1\n2\n1\n");
        write("ranks", "seed42\n1\n0\n");
        let pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n\
                    a,1000,10,1,600,T4\nb,1000,10,2,1000,\nc,1000,10,0,0,\n";
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(pods.as_bytes()).unwrap();
        std::fs::write(folder.path().join("pods"), packer.finish().unwrap()).unwrap();
        folder
    }

    fn args(folder: &Path, more: &[&str]) -> OpenbArgs {
        let path = |name: &str| folder.join(name).display().to_string();
        let mut words = vec!["openb".to_owned()];
        for name in ["nodes", "pods", "arrivals", "ranks"] {
            words.extend([format!("--{name}"), path(name)]);
        }
        words.extend(more.iter().map(|word| (*word).to_owned()));
        Line::try_parse_from(words).unwrap().args
    }

    #[test]
    fn every_decision_is_written_with_its_node_and_devices() {
        let folder = folder();
        let out = folder.path().join("out.csv");
        let args = args(folder.path(), &["--policy", "bestfit", "--assignments", out.to_str().unwrap()]);
        assert_eq!(main(&args, Output::plain(Format::Json)).unwrap(), Exit::Done);
        // the last pod wants two whole devices, of which none are left together
        let expected = "policy,seed,event,node,gpus\nbestfit,42,0,left,0\nbestfit,42,1,right,0+1\nbestfit,42,2,right,\nbestfit,42,3,,\n";
        assert_eq!(std::fs::read_to_string(out).unwrap(), expected);
    }

    #[test]
    fn a_wrong_file_or_seed_is_wrong_usage_and_says_where() {
        let folder = folder();
        let refused = |more: &[&str]| match main(&args(folder.path(), more), Output::plain(Format::Json)) {
            Err(CliError::Usage(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(refused(&["--seeds", "41..42"]).contains("seed 41; the arrivals have 42"));
        std::fs::write(folder.path().join("ranks"), "seed42\n1\nx\n").unwrap();
        let shown = refused(&[]);
        assert!(shown.contains("ranks line 3, column seed42: \"x\" is not a rank"), "{shown}");
    }

    #[test]
    fn seeds_are_a_first_and_a_last_one() {
        assert_eq!("42..51".parse(), Ok(Seeds(42..=51)));
        assert_eq!("7".parse(), Ok(Seeds(7..=7)));
        assert!(["", "5..", "9..2", "a..b"].iter().all(|text| text.parse::<Seeds>().is_err()));
    }
}
