//! The site agent alone, for hosts that need nothing else of Rhumb.

use anyhow::Context;
use clap::Parser;
use rhumb_agent::{AgentConfig, SUPERVISE, run, shutdown_asked, supervise_main};
use std::{path::PathBuf, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// Site agent of a Rhumb federation.
#[derive(Debug, Parser)]
#[command(version, after_help = "Example: rhumb-agent --config /etc/rhumb/agent.yaml")]
struct Arguments {
    /// Configuration file, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// End when standard input does.
    #[arg(long)]
    supervised: bool,
    /// Remove everything of orders' routes from this host's kernel and end; for a host that is taken out of service.
    #[arg(long)]
    remove_routes: bool,
}

fn main() -> ExitCode {
    // before anything else: a supervisor is small and starts at once
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == SUPERVISE) {
        return arguments.next().map_or(ExitCode::from(2), |dir| supervise_main(dir.as_ref()));
    }
    match start(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rhumb-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(arguments: &Arguments) -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_env("RHUMB_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let config = AgentConfig::read(&arguments.config)?;
    if arguments.remove_routes {
        return remove_routes();
    }
    let parent = arguments.supervised || config.stop_with_parent;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let shutdown = async {
            if let Err(error) = shutdown_asked(parent).await {
                tracing::error!(%error, "cannot listen for signals; ending");
            }
        };
        run(config, shutdown).await
    })?;
    Ok(())
}

fn remove_routes() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let applied = runtime.block_on(async { rhumb_kernel::Kernel::open(None)?.clear().await })?;
    anyhow::ensure!(applied.stuck.is_empty(), "cannot remove all of it: {}", applied.stuck.join("; "));
    println!("removed {} objects", applied.changes);
    Ok(())
}
