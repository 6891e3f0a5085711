//! The site agent alone, for hosts that need nothing else of Rhumb.

use anyhow::Context;
use clap::Parser;
use rhumb_agent::{AgentConfig, SUPERVISE, identity::settle, run, shutdown_asked, supervise_main};
use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tracing_subscriber::EnvFilter;

/// Site agent of a Rhumb federation.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:\n  rhumb-agent --config /etc/rhumb/agent.yaml\n  RHUMB_JOIN_TOKEN=... rhumb-agent --join https://rhumb.example:7443 --data /var/lib/rhumb-agent"
)]
struct Arguments {
    /// Configuration file, YAML or JSON.
    #[arg(long, value_name = "FILE", required_unless_present = "join")]
    config: Option<PathBuf>,
    /// Join the federation of the orchestrator at this https:// URL, unless the data folder says that this was done.
    #[arg(long, value_name = "URL", requires = "token")]
    join: Option<String>,
    /// Join token, as `rhumb site token SITE --join` shows it.
    #[arg(long, value_name = "TOKEN", env = "RHUMB_JOIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Data folder of an agent that joins without a configuration file.
    #[arg(long, value_name = "DIR", default_value = "rhumb-agent", conflicts_with = "config")]
    data: PathBuf,
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
    let colour = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(std::io::stderr).init();
    if arguments.remove_routes {
        return remove_routes(arguments.config.as_deref());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    let joining = arguments.join.as_deref().zip(arguments.token.as_deref());
    let config = runtime.block_on(settle(arguments.config.as_deref(), joining, &arguments.data))?;
    let parent = arguments.supervised || config.stop_with_parent;
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

/// And withdraws what the configuration's daemon announces of them; one that is away keeps nothing from being removed.
fn remove_routes(config: Option<&Path>) -> anyhow::Result<()> {
    let bgp = config.map(AgentConfig::read).transpose()?.and_then(|config| config.routes.bgp);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let withdrawn = bgp.map(|bgp| {
        let none = rhumb_bgp::Announcements::new();
        runtime.block_on(async { rhumb_bgp::Bgp::open(&bgp.gobgp, Duration::from_secs(5))?.apply(&none).await })
    });
    let applied = runtime.block_on(async { rhumb_kernel::Kernel::open(None)?.clear().await })?;
    anyhow::ensure!(applied.stuck.is_empty(), "cannot remove all of it: {}", applied.stuck.join("; "));
    println!("removed {} objects", applied.changes);
    if let Some(withdrawn) = withdrawn.transpose()? {
        println!("withdrew {} prefixes", withdrawn.withdrawn.len());
    }
    Ok(())
}
