//! `rhumb agent`: the agent of one site or relay point.

use crate::{
    exit::{CliError, Exit},
    server::{asked_to_stop, stop_with_parent},
    telemetry,
};
use clap::Args;
use rhumb_agent::AgentConfig;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// Probes keep their own threads; what is left is waiting.
const WORKERS: usize = 2;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rhumb agent --config /etc/rhumb/agent.yaml")]
pub struct AgentArgs {
    /// Configuration, YAML or JSON
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Stop when standard input ends, that is when the parent is gone
    #[arg(long)]
    stop_with_parent: bool,
}

pub fn main(args: &AgentArgs) -> Result<Exit, CliError> {
    let mut config = AgentConfig::read(&args.config).map_err(anyhow::Error::from)?;
    let _telemetry = telemetry::start("rhumb-agent")?;
    let stop = CancellationToken::new();
    if args.stop_with_parent || config.stop_with_parent {
        config.stop_with_parent = false;
        stop_with_parent(stop.clone());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)?;
    runtime.block_on(async {
        let asked = stop.clone();
        tokio::spawn(async move {
            if let Err(error) = asked_to_stop(&asked).await {
                tracing::error!(%error, "signals cannot be heard");
            }
            asked.cancel();
        });
        rhumb_agent::run(config, stop.cancelled_owned()).await.map_err(anyhow::Error::from)
    })?;
    Ok(Exit::Done)
}
