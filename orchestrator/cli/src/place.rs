//! `rhumb place`: the decision alone, on files, without a server.

use crate::{
    commands::explain,
    exit::{CliError, Exit},
    files, joint,
    output::{Output, Paint},
    show::{int, list, money},
};
use clap::Args;
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Order};
use rhumb_placement::{Policy, Request, batch_json, decision_json, place, place_batch};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rhumb place --federation deploy/demo/federation.yaml --order examples/pipeline.yaml -o json\n  \
                        rhumb place --federation view.yaml --order a.yaml b.yaml --at 2026-12-01T09:00:00Z\n  \
                        rhumb place --joint batch.json.gz -o json\n\n\
                        Prints JSON where standard output is no terminal."
)]
pub struct PlaceArgs {
    /// Federation file, or a view that `order explain --export` wrote
    #[arg(long, value_name = "FILE", required_unless_present = "joint")]
    federation: Option<PathBuf>,
    /// Order documents; several are decided on as one batch
    #[arg(long = "order", value_name = "FILE", required_unless_present = "joint", num_args = 1..)]
    orders: Vec<PathBuf>,
    /// Rules of the decision (default: the orchestrator's)
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Instant of the decision (default: the file's `at`, else now)
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// Batch instances with prices, pools and demands (JSON, may be gzip), each solved as one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["federation", "orders", "policy", "at"])]
    joint: Option<PathBuf>,
}

pub fn main(args: &PlaceArgs, output: Output) -> Result<Exit, CliError> {
    let output = output.or_json_for_programs();
    if let Some(path) = &args.joint {
        return joint::main(path, output);
    }
    let Some(federation) = &args.federation else {
        return Err(CliError::Usage("give --federation FILE and --order FILE, or --joint FILE".into()));
    };
    let file = files::federation(federation)?;
    let view = view(federation, &file)?;
    let policy = policy(args.policy.as_deref())?;
    let orders = args.orders.iter().map(|path| files::order(path)).collect::<Result<Vec<_>, _>>()?;
    let submit = instant(args.at, &file);
    let view = view.after(submit);
    let requests: Vec<_> = orders.iter().map(|order| Request::new(order, submit)).collect();
    let begun = Instant::now();
    let (mut value, placed) = if let [request] = &requests[..] {
        let decision = place(&view, request, &policy);
        (decision_json(&decision, micros(begun)), decision.plan().is_some())
    } else {
        let batch = place_batch(&view, &requests, &policy);
        (batch_json(&batch, micros(begun)), batch.decisions.iter().all(|d| d.plan().is_some()))
    };
    add_questions(&mut value, &orders, submit);
    output.show(&value, |o| table(&value, &orders, &file, o))?;
    Ok(if placed { Exit::Done } else { Exit::Failed })
}

/// What each answer answers, so that `rhumb audit` needs nothing else.
fn add_questions(value: &mut Value, orders: &[Order], submit: Timestamp) {
    let batch = value.get("plans").is_some();
    let answers: Vec<&mut Value> =
        if batch { value["plans"].as_array_mut().into_iter().flatten().collect() } else { vec![value] };
    for (answer, order) in answers.into_iter().zip(orders) {
        answer["order"] = json!(order);
        answer["at"] = json!(submit);
    }
}

pub fn view(path: &Path, file: &FederationFile) -> Result<View, CliError> {
    View::from_file(file)
        .map_err(|e| CliError::Problem(Box::new(crate::exit::Problem::document(&path.display().to_string(), &e))))
}

pub fn policy(path: Option<&Path>) -> Result<Policy, CliError> {
    path.map_or_else(|| Ok(Policy::default()), files::read)
}

/// `--at`, else when an exported view was decided on, else now.
pub fn instant(asked: Option<Timestamp>, file: &FederationFile) -> Timestamp {
    asked.or(file.at).unwrap_or_else(|| {
        let now = Timestamp::now();
        // decisions are made on microseconds
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    })
}

fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}

fn table(value: &Value, orders: &[Order], file: &FederationFile, output: Output) -> String {
    if value.get("plans").is_none() {
        return explain::decision(value, output).join("\n").trim_start().to_owned();
    }
    let mut lines = Vec::new();
    for (decision, order) in list(value, "/plans").iter().zip(orders) {
        lines.push(output.paint(Paint::Bold, order.name.as_str()));
        lines.extend(explain::decision(decision, output));
        lines.push(String::new());
    }
    lines.push(format!("total {}", money(int(value, "/total_micros").unwrap_or(0), file.currency.as_str())));
    lines.join("\n")
}
