//! `rhumb bench place`: how quick decisions are, on a generated federation or a given one.

use crate::{
    exit::{CliError, Exit},
    files,
    output::{Output, json, progress, table},
    place, show,
};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::Order;
use rhumb_placement::{
    Policy, Request, apply, decide,
    generate::{self, Size},
};
use serde::Serialize;
use serde_json::{Value, json as value};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// Distinct generated orders; they are decided on in turn.
const ORDERS: u32 = 100;
/// Gangs of 512 devices asked for, to learn how long the largest decisions take.
const GANGS: usize = 20;
/// Generated federations are decided on as of this instant, so that runs can be compared.
const INSTANT: &str = "2026-12-01T03:17:00Z";

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Decide over and over, and say how long it took
    #[command(after_help = "Examples:\n  rhumb bench place --sites 100 -o json\n  \
                            rhumb bench place --federation f.yaml --orders orders.yaml --plans plans.json")]
    Place(BenchArgs),
}

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Sites of the generated federation
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=20_000))]
    sites: u32,
    /// Its links, each both ways (default: twice its sites)
    #[arg(long)]
    links: Option<u32>,
    /// Its accelerators (default: 64 times its sites)
    #[arg(long)]
    accelerators: Option<u32>,
    /// A federation file in place of a generated federation
    #[arg(long, value_name = "FILE", requires = "orders", conflicts_with_all = ["sites", "links", "accelerators"])]
    federation: Option<PathBuf>,
    /// A list of order documents for it
    #[arg(long, value_name = "FILE", requires = "federation")]
    orders: Option<PathBuf>,
    /// Number of decisions
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    decisions: u32,
    /// Seed of what is generated
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Write each order with its plan, which `rhumb audit --federation FILE --plans OUT` checks
    #[arg(long, value_name = "OUT")]
    plans: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Figures {
    sites: usize,
    links: usize,
    accelerators: u64,
    decisions: u64,
    planned: u64,
    refused: u64,
    proven_optimal_pct: f64,
    p50_us: u64,
    p99_us: u64,
    decisions_per_s: f64,
    refusal_p99_us: Option<u64>,
    gang512_p99_us: u64,
    view_update_p99_us: Option<u64>,
    rss_bytes: u64,
}

/// A question that decisions are asked of.
struct World {
    view: View,
    orders: Vec<Order>,
    submit: Timestamp,
}

pub fn main(command: &BenchCommand, output: Output) -> Result<Exit, CliError> {
    let BenchCommand::Place(args) = command;
    let world = world(args)?;
    let bar = progress("deciding");
    let (figures, plans) = measure(&world, args.decisions as usize);
    bar.finish_and_clear();
    if let Some(path) = &args.plans {
        std::fs::write(path, json(&plans)?)
            .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", path.display())))?;
    }
    output.show(&figures, |_| figures_table(&figures))?;
    Ok(Exit::Done)
}

fn world(args: &BenchArgs) -> Result<World, CliError> {
    if let (Some(federation), Some(orders)) = (&args.federation, &args.orders) {
        let file = files::federation(federation)?;
        let documents: Vec<Value> = files::read(orders)?;
        let read = |(index, document): (usize, Value)| {
            Order::from_value(document)
                .map_err(|e| CliError::Usage(format!("order {index} of {} is not valid: {e}", orders.display())))
        };
        let orders = documents.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        if orders.is_empty() {
            return Err(CliError::Usage("the list of orders is empty: give at least one".into()));
        }
        return Ok(World { view: place::view(federation, &file)?, orders, submit: place::instant(None, &file) });
    }
    let whole = Size::of(args.sites);
    let size = Size {
        links: args.links.unwrap_or(whole.links),
        accelerators: args.accelerators.unwrap_or(whole.accelerators),
        ..whole
    };
    let view = View::from_file(&generate::federation(size, args.seed)).map_err(anyhow::Error::from)?;
    let submit = INSTANT.parse().map_err(anyhow::Error::from)?;
    Ok(World { view, orders: generate::orders(args.sites, ORDERS, args.seed), submit })
}

fn measure(world: &World, decisions: usize) -> (Figures, Vec<Value>) {
    let World { view, orders, submit } = world;
    let policy = Policy::default();
    let mut times = Vec::with_capacity(decisions);
    let (mut refusals, mut updates, mut plans) = (Vec::new(), Vec::new(), Vec::new());
    let mut proven = 0_u64;
    for index in 0..decisions {
        let order = &orders[index % orders.len()];
        let begun = Instant::now();
        let decision = decide(view, &Request::new(order, *submit), &policy);
        let took = begun.elapsed();
        times.push(took);
        let Some(plan) = decision.plan() else {
            refusals.push(took);
            continue;
        };
        proven += u64::from(plan.proven_optimal);
        // the same question has the same answer, so one round is all there is to say
        if index < orders.len() {
            let begun = Instant::now();
            let next = apply(view, plan, order);
            updates.push(begun.elapsed());
            drop(next);
            plans.push(value!({ "order": order, "at": submit, "plan": plan }));
        }
    }
    let planned = (decisions - refusals.len()) as u64;
    let seconds = times.iter().sum::<Duration>().as_secs_f64();
    let gangs = gangs(world, &policy);
    let figures = Figures {
        sites: view.sites.len(),
        links: view.graph.edge_count(),
        accelerators: view.sites.iter().map(devices).sum(),
        decisions: decisions as u64,
        planned,
        refused: refusals.len() as u64,
        proven_optimal_pct: if planned == 0 { 0.0 } else { proven as f64 * 100.0 / planned as f64 },
        p50_us: percentile(&mut times, 50).unwrap_or(0),
        p99_us: percentile(&mut times, 99).unwrap_or(0),
        decisions_per_s: decisions as f64 / seconds.max(1e-9),
        refusal_p99_us: percentile(&mut refusals, 99),
        gang512_p99_us: gangs,
        view_update_p99_us: percentile(&mut updates, 99),
        rss_bytes: resident_bytes(),
    };
    (figures, plans)
}

fn devices(site: &rhumb_federation::ViewSite) -> u64 {
    let count = |n: &rhumb_federation::FreeNodes| {
        let per_node: u64 = n.shape.groups.iter().map(|g| u64::from(g.total)).sum();
        u64::from(n.count) * per_node
    };
    site.whole.iter().map(count).sum()
}

/// 99th percentile of decisions on 64 replicas of 8 devices that start together, of a model that the federation has.
fn gangs(world: &World, policy: &Policy) -> u64 {
    let models: Vec<String> = world.view.devices.keys().map(ToString::to_string).collect();
    let document = value!({"name": "gang-512", "class": "training", "components": [{"name": "trainer", "replicas": 64, "gang": true,
        "need": {"accelerators": {"count": 8, "models": models}}, "work": {"duration": "1h"}}]});
    let Ok(order) = Order::from_value(document) else { return 0 };
    let once = || {
        let begun = Instant::now();
        let decision = decide(&world.view, &Request::new(&order, world.submit), policy);
        let took = begun.elapsed();
        drop(decision);
        took
    };
    let mut times: Vec<_> = (0..GANGS).map(|_| once()).collect();
    percentile(&mut times, 99).unwrap_or(0)
}

/// In microseconds; the value that so many percent do not exceed.
fn percentile(times: &mut [Duration], percent: usize) -> Option<u64> {
    times.sort_unstable();
    let rank = (times.len() * percent).div_ceil(100);
    times.get(rank.saturating_sub(1)).map(|t| t.as_micros() as u64)
}

/// What the kernel says that this process has in memory.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).map_or(0, |kib| kib * 1_024)
}

fn figures_table(f: &Figures) -> String {
    let us = |us: Option<u64>| show::or_dash(us.map(|us| format!("{us} us")));
    let rows = [
        ("federation", format!("{} sites, {} directed links, {} accelerators", f.sites, f.links, f.accelerators)),
        ("decisions", format!("{} ({} planned, {} refused)", f.decisions, f.planned, f.refused)),
        ("proven optimal", format!("{:.1} %", f.proven_optimal_pct)),
        ("per second", format!("{:.0}", f.decisions_per_s)),
        ("p50, p99", format!("{} us, {} us", f.p50_us, f.p99_us)),
        ("refusal p99", us(f.refusal_p99_us)),
        ("gang of 512 p99", us(Some(f.gang512_p99_us))),
        ("view update p99", us(f.view_update_p99_us)),
        ("memory", show::bytes(f.rss_bytes as i64)),
    ];
    table(&["FIGURE", "VALUE"], rows.map(|(name, value)| vec![name.to_owned(), value]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let mut times: Vec<Duration> = (1..=100).rev().map(Duration::from_micros).collect();
        assert_eq!((percentile(&mut times, 50), percentile(&mut times, 99)), (Some(50), Some(99)));
        assert_eq!(percentile(&mut [Duration::from_micros(7)], 99), Some(7));
        assert_eq!(percentile(&mut [], 50), None);
    }

    #[test]
    fn every_decision_is_counted_once_and_each_plan_is_kept_with_its_order() {
        let view = View::from_file(&generate::federation(Size::of(4), 1)).unwrap();
        let world = World { view, orders: generate::orders(4, 10, 1), submit: INSTANT.parse().unwrap() };
        let (figures, plans) = measure(&world, 25);
        assert_eq!((figures.decisions, figures.planned + figures.refused), (25, 25));
        assert!(plans.len() <= 10 && plans.iter().all(|p| p.get("order").is_some() && p.get("plan").is_some()));
        assert!(figures.accelerators > 0 && figures.rss_bytes > 0);
    }
}
