//! `rhumb replay`: a workload under several policies, in simulated time.

mod openb;

use crate::{
    exit::{CliError, Exit, Problem},
    files,
    output::{Output, json, progress, table},
    place,
};
use clap::{Args, Subcommand, ValueEnum};
use rhumb_federation::View;
use rhumb_model::{DocumentError, FederationFile, Ppm};
use rhumb_replay::{
    Durations, Figures, Happening, Policy, ReplayError, Setup, Workload, WorkloadError, course::Course, happening,
    journal::Record, orders, plot, queues, replay, trace,
};
use std::{
    error::Error,
    path::{Path, PathBuf},
    time::Instant,
};

/// In place of a file of jobs: Kueue's public baseline workload, with its own federation.
const QUEUES: &str = "kueue-baseline";

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  rhumb replay --federation fed8-philly.yaml --jobs philly_20k.csv.gz --policy fifo --policy rhumb\n  \
                  rhumb replay --federation f.yaml --jobs orders.yaml --events failures.yaml --plot replay.html\n  \
                  rhumb replay --jobs kueue-baseline --policy rhumb -o json\n\n\
                  JOBS is a trace (CSV: submit_s,duration_s,num_gpus,vc; plain or packed with gzip), a list of\n\
                  {submit: TIME, order: {...}, runs: 2h, owner: NAME}, or the words kueue-baseline.\n\
                  EVENTS is a list of {after: 36h, site: NAME, state: down} and {at: TIME, link: ID, state: up} or {..., latency: 200ms}."
)]
pub struct ReplayArgs {
    #[command(subcommand)]
    command: Option<ReplayCommand>,
    /// Federation file
    #[arg(long, value_name = "FILE")]
    federation: Option<PathBuf>,
    /// Trace, list of orders, or kueue-baseline
    #[arg(long, value_name = "FILE", required = true)]
    jobs: Option<PathBuf>,
    /// Built-in policy or policy file; may be repeated (default: all built-in ones)
    #[arg(long = "policy", value_name = "NAME|FILE")]
    policies: Vec<String>,
    /// Seed of everything that is drawn
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Whether policies know beforehand how long jobs run
    #[arg(long, value_enum, default_value_t = Knowledge::Hidden)]
    durations: Knowledge,
    /// By how much a probed delay may be off the true one
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    noise: Ppm,
    /// What befalls sites and links on the way
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Draw the figures into a page that needs no network
    #[arg(long, value_name = "OUT")]
    plot: Option<PathBuf>,
    /// Write what happened, as JSON by policy
    #[arg(long, value_name = "OUT")]
    journal: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ReplayCommand {
    /// The published fragmentation benchmark
    Openb(openb::OpenbArgs),
    /// Print a built-in policy file
    #[command(after_help = "Example:\n  rhumb replay policy rhumb > mine.yaml")]
    Policy {
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Knowledge {
    Known,
    Hidden,
}

pub fn main(args: &ReplayArgs, output: Output) -> Result<Exit, CliError> {
    match &args.command {
        Some(ReplayCommand::Openb(args)) => return openb::main(args, output),
        Some(ReplayCommand::Policy { name }) => {
            let text = Policy::file(name).ok_or_else(|| unknown(name))?;
            crate::output::write(text);
            return Ok(Exit::Done);
        }
        None => {}
    }
    let (view, workload) = world(args)?;
    let policies = policies(&args.policies)?;
    let happenings: Vec<Happening> = match &args.events {
        Some(path) => {
            happening::read(&files::text(path, rhumb_model::document::MAX_LARGE_BYTES)?).map_err(|e| wrong(path, &e))?
        }
        None => Vec::new(),
    };
    let mut rows = Vec::new();
    let mut shown = Vec::new();
    let mut journals = serde_json::Map::new();
    for policy in &policies {
        let bar = progress(format!("replaying under {}", policy.name));
        let setup = Setup {
            view: &view,
            workload: &workload,
            policy,
            seed: args.seed,
            durations: match args.durations {
                Knowledge::Known => Durations::Known,
                Knowledge::Hidden => Durations::Hidden,
            },
            noise: args.noise,
            happenings: &happenings,
        };
        let begun = Instant::now();
        let done = replay(setup).map_err(|e| failed(args, &e))?;
        let figures = Figures { wall_ms: begun.elapsed().as_millis() as u64, ..done.figures };
        bar.finish_and_clear();
        if args.plot.is_some() {
            shown.push(plot::Shown { figures: figures.clone(), course: Course::of(&done.journal) });
        }
        if args.journal.is_some() {
            journals.insert(policy.name.clone(), events(&done.journal)?);
        }
        rows.push(figures);
    }
    if let Some(path) = &args.plot {
        let page = plot::html(&shown, &about(args, &workload)).map_err(anyhow::Error::from)?;
        written(path, &page)?;
    }
    if let Some(path) = &args.journal {
        written(path, &json(&journals)?)?;
    }
    output.show(&rows, |_| shown_table(&rows))?;
    Ok(Exit::Done)
}

fn events(journal: &[Record]) -> Result<serde_json::Value, CliError> {
    Ok(serde_json::to_value(journal).map_err(anyhow::Error::from)?)
}

fn written(path: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(path, text).map_err(|e| CliError::Failed(format!("cannot write {}: {e}", path.display())))
}

fn world(args: &ReplayArgs) -> Result<(View, Workload), CliError> {
    let jobs = args.jobs.as_deref().unwrap_or(Path::new(QUEUES));
    let generated = jobs.as_os_str() == QUEUES;
    let file: FederationFile = match &args.federation {
        Some(path) => files::federation(path)?,
        None if generated => queues::federation(),
        None => return Err(CliError::Usage("name the federation with --federation FILE".into())),
    };
    let path = args.federation.as_deref().unwrap_or(Path::new(QUEUES));
    let view = place::view(path, &file)?;
    if generated {
        return Ok((view, queues::workload().map_err(|e| workload_error(jobs, &e))?));
    }
    let text = files::packed_text(jobs)?;
    let workload = if is_trace(&text) { trace::read(&text, &view) } else { orders::read(&text) };
    let workload = workload.map_err(|e| workload_error(jobs, &e))?;
    Ok((view, workload))
}

/// A trace begins with a line of column names.
fn is_trace(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.contains(',') && !first.contains(['{', '[', ':'])
}

fn workload_error(path: &Path, error: &WorkloadError) -> CliError {
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    CliError::Usage(format!("cannot use the jobs of {}: {error}{cause}", path.display()))
}

fn wrong(path: &Path, error: &DocumentError) -> CliError {
    CliError::Problem(Box::new(Problem::document(&path.display().to_string(), error)))
}

fn failed(args: &ReplayArgs, error: &ReplayError) -> CliError {
    match (error, &args.events) {
        (ReplayError::Happenings(error), Some(path)) => wrong(path, error),
        _ => CliError::Failed(error.to_string()),
    }
}

fn unknown(name: &str) -> CliError {
    let known: Vec<&str> = Policy::names().collect();
    CliError::Usage(format!(
        "there is no policy \"{name}\": use one of {}, or the path of a policy file",
        known.join(", ")
    ))
}

fn policies(asked: &[String]) -> Result<Vec<Policy>, CliError> {
    if asked.is_empty() {
        return Ok(Policy::names().filter_map(Policy::named).collect());
    }
    let read = |word: &String| {
        if let Some(policy) = Policy::named(word) {
            return Ok(policy);
        }
        let path = Path::new(word);
        if !path.exists() {
            return Err(unknown(word));
        }
        Policy::read(&files::text(path, rhumb_model::document::MAX_BYTES)?).map_err(|e| wrong(path, &e))
    };
    asked.iter().map(read).collect()
}

fn about(args: &ReplayArgs, workload: &Workload) -> String {
    let name = |path: &Option<PathBuf>| {
        let file = path.as_ref().and_then(|p| p.file_name()).map(|n| n.to_string_lossy().into_owned());
        file.unwrap_or_else(|| QUEUES.to_owned())
    };
    let durations = if args.durations == Knowledge::Known { "known" } else { "hidden" };
    format!(
        "{} jobs of {} on {}, durations {durations}, seed {}",
        workload.jobs.len(),
        name(&args.jobs),
        name(&args.federation),
        args.seed
    )
}

fn shown_table(rows: &[Figures]) -> String {
    let header = [
        "POLICY",
        "UTIL>",
        "QUEUE MEAN>",
        "P50>",
        "P99>",
        "MAX>",
        "COMPLETION>",
        "COST/ACC-H>",
        "LATE FLOWS>",
        "GB MOVED>",
        "FRAG>",
        "MAKESPAN>",
        "REJECTED>",
        "WALL>",
    ];
    let line = |f: &Figures| {
        vec![
            f.policy.clone(),
            format!("{:.1}%", f.utilisation_pct),
            seconds(f.queue_s.mean),
            seconds(f.queue_s.p50),
            seconds(f.queue_s.p99),
            seconds(f.queue_s.max),
            seconds(f.completion_s.mean),
            format!("{:.3}", f.cost_per_accelerator_hour_micros as f64 / 1e6),
            f.delay_violations.to_string(),
            format!("{:.0}", f.gb_moved),
            format!("{:.1}%", f.fragmentation_pct),
            seconds(f.makespan_s),
            f.rejected.to_string(),
            format!("{} ms", f.wall_ms),
        ]
    };
    table(&header, rows.iter().map(line))
}

fn seconds(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}s") } else { format!("{value:.0}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use clap::Parser;
    use std::io::Write;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ReplayArgs,
    }

    const FEDERATION: &str = "currency: CNY\ndevices: {H100: {memory: 80GiB, fp16: 1}}\nsites:\n  - {name: a, prices: {H100: 36 CNY}, nodes: [{accelerators: {model: H100, count: 8}}]}\n";

    fn run(folder: &Path, more: &[&str]) -> Result<Exit, CliError> {
        std::fs::write(folder.join("f"), FEDERATION).unwrap();
        let federation = folder.join("f").display().to_string();
        let words = ["replay", "--federation", &federation].into_iter().chain(more.iter().copied());
        main(&Line::try_parse_from(words).unwrap().args, Output::plain(Format::Json))
    }

    #[test]
    fn a_packed_trace_is_replayed_and_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(b"submit_s,duration_s,num_gpus,vc\n0,60,8,x\n1,60,8,x\n").unwrap();
        let jobs = folder.path().join("jobs.csv.gz");
        std::fs::write(&jobs, packer.finish().unwrap()).unwrap();
        let page = folder.path().join("out.html");
        let words = [
            "--jobs",
            jobs.to_str().unwrap(),
            "--policy",
            "fifo",
            "--policy",
            "rhumb",
            "--plot",
            page.to_str().unwrap(),
        ];
        assert_eq!(run(folder.path(), &words).unwrap(), Exit::Done);
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains("<svg") && page.contains("rhumb") && !page.contains("http://cdn"));
    }

    #[test]
    fn wrong_jobs_and_policies_are_wrong_usage() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = folder.path().join("jobs.csv");
        std::fs::write(&jobs, "submit_s,duration_s,num_gpus\n0,60,none\n").unwrap();
        let said = |words: &[&str]| match run(folder.path(), words) {
            Err(CliError::Usage(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(said(&["--jobs", jobs.to_str().unwrap()]).contains("row 1"));
        std::fs::write(&jobs, "submit_s,duration_s,num_gpus\n0,60,1\n").unwrap();
        assert!(said(&["--jobs", jobs.to_str().unwrap(), "--policy", "fifi"]).contains("fifo"));
    }

    #[test]
    fn jobs_are_asked_for_unless_a_subcommand_is_given() {
        assert!(Line::try_parse_from(["replay"]).is_err());
        assert!(Line::try_parse_from(["replay", "--federation", "f"]).is_err());
        assert!(Line::try_parse_from(["replay", "policy", "rhumb"]).is_ok());
        assert!(Line::try_parse_from(["replay", "--jobs", QUEUES]).is_ok());
    }
}
