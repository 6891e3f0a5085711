//! `rhumb agent`: the agent of one site or relay point.

use crate::{
    exit::{CliError, Exit},
    server::{asked_to_stop, stop_with_parent},
    telemetry,
};
use clap::Args;
use rhumb_agent::identity::settle;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// Probes keep their own threads; what is left is waiting.
const WORKERS: usize = 2;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rhumb agent --config /etc/rhumb/agent.yaml\n  RHUMB_JOIN_TOKEN=... rhumb agent --join https://rhumb.example:7443 --data /var/lib/rhumb-agent"
)]
pub struct AgentArgs {
    /// Configuration, YAML or JSON
    #[arg(long, value_name = "FILE", required_unless_present = "join")]
    config: Option<PathBuf>,
    /// Join the federation of the orchestrator at this https:// URL, unless the data folder says that this was done
    #[arg(long, value_name = "URL")]
    join: Option<String>,
    /// Join token, as `rhumb site token SITE --join` shows it
    #[arg(long, value_name = "TOKEN", env = "RHUMB_JOIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Data folder of an agent that joins without a configuration file
    #[arg(long, value_name = "DIR", default_value = "rhumb-agent", conflicts_with = "config")]
    data: PathBuf,
    /// Stop when standard input ends, that is when the parent is gone
    #[arg(long)]
    stop_with_parent: bool,
}

pub fn main(args: &AgentArgs) -> Result<Exit, CliError> {
    let _telemetry = telemetry::start("rhumb-agent")?;
    let stop = CancellationToken::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)?;
    let joining = args.join.as_deref().zip(args.token.as_deref());
    let mut config =
        runtime.block_on(settle(args.config.as_deref(), joining, &args.data)).map_err(anyhow::Error::from)?;
    if args.stop_with_parent || config.stop_with_parent {
        config.stop_with_parent = false;
        stop_with_parent(stop.clone());
    }
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
