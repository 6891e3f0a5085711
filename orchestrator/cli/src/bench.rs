//! `rhumb bench place`: how quick decisions are, on a generated fleet or a given one, each applied before the next.

mod figures;
mod world;

use crate::{
    exit::{CliError, Exit},
    output::{Output, progress},
};
use clap::{Args, Subcommand};
use figures::Figures;
use rhumb_placement::{
    Policy,
    measure::{Made, Trial, measure},
};
use serde_json::{Value, json as value};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use world::World;

/// Explaining a refusal asks many more questions; these are enough for a 99th percentile of what is typical.
const EXPLAINED: usize = 100;
/// Decisions on each kind of gang.
const GANGS: usize = 25;
/// Reports folded in.
const REPORTS: usize = 1_000;

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Decide order after order, each on what those before it left, and say how long it took
    #[command(after_help = "Examples:\n  rhumb bench place --sites 1000 -o json\n  \
                            rhumb bench place --sites 10,100,1000\n  \
                            rhumb bench place --sites 1000 --documents out --plans out/plans.json && \
                            rhumb audit --federation out/federation.json --plans out/plans.json\n  \
                            rhumb bench place --federation f.yaml --orders orders.yaml --plans plans.json\n\n\
                            When every order has been decided on, a new round begins on the federation as it was.")]
    Place(BenchArgs),
}

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Sites of the generated fleet; several sizes give a table of growth
    #[arg(long, default_value = "10", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=10_000))]
    sites: Vec<u32>,
    /// Its links, each both ways (default: three for each site)
    #[arg(long)]
    links: Option<u32>,
    /// Its accelerators (default: a hundred for each site)
    #[arg(long)]
    accelerators: Option<u32>,
    /// A federation file in place of a generated fleet
    #[arg(long, value_name = "FILE", requires = "orders", conflicts_with_all = ["sites", "links", "accelerators"])]
    federation: Option<PathBuf>,
    /// Order documents for it: a list, or one after the other
    #[arg(long, value_name = "FILE", requires = "federation")]
    orders: Option<PathBuf>,
    /// Number of decisions (default: as many as orders are given, or 1000)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    decisions: Option<u32>,
    /// Seed of what is generated
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Write each plan with its order, turn and instant, which `rhumb audit --federation FILE --plans OUT` checks in sequence
    #[arg(long, value_name = "OUT")]
    plans: Option<PathBuf>,
    /// Write the federation and the orders, as documents, into this folder
    #[arg(long, value_name = "DIR")]
    documents: Option<PathBuf>,
}

pub fn main(command: &BenchCommand, output: Output) -> Result<Exit, CliError> {
    let BenchCommand::Place(args) = command;
    let many = args.federation.is_none() && args.sites.len() > 1;
    if many && (args.plans.is_some() || args.documents.is_some()) {
        return Err(CliError::Usage("plans and documents are those of one size: give one number of --sites".into()));
    }
    let sizes = if args.federation.is_some() { &args.sites[..1] } else { &args.sites[..] };
    let mut all = Vec::with_capacity(sizes.len());
    for sites in sizes {
        let world = World::new(args, *sites)?;
        if let Some(folder) = &args.documents {
            world.write(folder)?;
        }
        let bar = progress(format!("deciding on {} sites", world.file.sites.len()));
        let (figures, plans) = run(&world);
        bar.finish_and_clear();
        if let Some(path) = &args.plans {
            write(path, &plans)?;
        }
        all.push(figures);
    }
    match &all[..] {
        [one] => output.show(one, |_| one.table())?,
        many => output.show(&many, |_| figures::growth(many))?,
    }
    // a plan that cannot be applied is wrong
    Ok(if all.iter().all(|f| f.not_applied == 0) { Exit::Done } else { Exit::Failed })
}

fn run(world: &World) -> (Figures, Vec<Value>) {
    let policy = Policy::default();
    let trial = Trial {
        view: &world.view,
        orders: &world.orders,
        submit: world.submit,
        decisions: world.decisions,
        explained: EXPLAINED,
        gangs: GANGS,
        reports: REPORTS,
    };
    figures::forget_peak();
    let begun = Instant::now();
    let timings = measure(&trial, &policy, &mut || begun.elapsed());
    let figures = Figures::new(world, &timings);
    let entry = |(turn, made): (usize, &Made)| {
        value!({
            "turn": turn,
            "round": made.round,
            "at": world.submit,
            "order": world.orders[made.order],
            "plan": made.plan,
        })
    };
    (figures, timings.plans.iter().enumerate().map(entry).collect())
}

fn write(path: &Path, document: &impl serde::Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string(document).map_err(anyhow::Error::from)?;
    std::fs::write(path, text).map_err(|e| CliError::Failed(format!("cannot write {}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_federation::View;
    use rhumb_placement::generate::workload;

    #[test]
    fn every_decision_is_counted_once_and_each_plan_is_kept_with_its_order_and_turn() {
        let file = workload::federation(workload::size(10), 1);
        let view = View::from_file(&file).unwrap();
        let orders = workload::orders(&file, 10, 1);
        let world = World { view, orders, file, submit: workload::instant(), decisions: 15 };
        let (figures, plans) = run(&world);
        assert_eq!((figures.decisions, figures.planned + figures.refused), (15, 15));
        assert_eq!((figures.sites, figures.links, figures.accelerators), (10, 30, 1_000));
        assert_eq!(plans.len() as u64, figures.planned);
        assert!(
            plans.iter().enumerate().all(|(i, p)| p["turn"] == i && p["order"].is_object() && p["plan"].is_object())
        );
        assert!(figures.rss_bytes > 0);
    }
}
