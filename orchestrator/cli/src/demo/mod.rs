//! `rhumb demo`: a whole federation on one machine, and commands that change the one that runs.
//!
//! This process is launcher and WAN emulator; the orchestrator and every agent are processes of their own, which reach each
//! other through the emulator alone.

mod change;
mod children;
mod control;
mod layout;
mod leftovers;
mod ready;
mod run;
mod wan;
mod world;

use crate::{
    context::DEFAULT_DATA,
    exit::{CliError, Exit},
    output::Output,
};
use change::{AgentCommand, WanCommand};
use clap::{Args, Subcommand};
use rhumb_model::Span;
use std::{net::SocketAddr, path::PathBuf};

/// The federation that ships with the project.
const FEDERATION: &str = include_str!("../../../../deploy/demo/federation.yaml");
/// The demo's tenant.
const TENANT: &str = "demo";
/// What the orchestrator is called among the children, and its folder.
const SERVER: &str = "server";

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rhumb demo\n  rhumb demo --data /tmp/other --listen 127.0.0.1:8080 --fresh\n\n\
                        While it runs, in another terminal:\n  rhumb site list\n  rhumb demo wan set hk-sg --latency 200ms\n  \
                        rhumb demo stop")]
pub struct DemoArgs {
    #[command(subcommand)]
    command: Option<DemoCommand>,
    /// Folder of the demo: it goes on from what is there
    #[arg(long, global = true, value_name = "DIR", default_value = DEFAULT_DATA)]
    data: PathBuf,
    /// Address of the interface and console; port 0 takes any
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// Federation file (default: the folder's, else the one that ships with Rhumb)
    #[arg(long, value_name = "FILE")]
    federation: Option<PathBuf>,
    /// Begin anew: empty the folder first
    #[arg(long)]
    fresh: bool,
    /// Pause before an agent that died is started again
    #[arg(long, value_name = "TIME", default_value = "3s")]
    agent_restart: Span,
    /// Seed of the emulated jitter and loss
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Subcommand)]
enum DemoCommand {
    /// Change the emulated WAN
    #[command(subcommand, after_help = "Example:\n  rhumb demo wan set hk-sg --latency 200ms")]
    Wan(WanCommand),
    /// Kill an agent of the running demo, or start it again
    #[command(subcommand, after_help = "Example:\n  rhumb demo agent stop shenzhen-cloud")]
    Agent(AgentCommand),
    /// Show the running demo's processes
    #[command(after_help = "Example:\n  rhumb demo status")]
    Status,
    /// Stop the running demo and everything that it started
    #[command(after_help = "Example:\n  rhumb demo stop")]
    Stop,
}

pub fn main(args: DemoArgs, output: Output) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(anyhow::Error::from)?;
    let data = args.data;
    let done = match args.command {
        Some(DemoCommand::Wan(command)) => runtime.block_on(change::wan(&data, command, output)),
        Some(DemoCommand::Agent(command)) => runtime.block_on(change::agent(&data, command, output)),
        Some(DemoCommand::Status) => runtime.block_on(change::status(&data, output)),
        Some(DemoCommand::Stop) => runtime.block_on(change::stop(&data)),
        None => runtime.block_on(run::run(run::Ask {
            data,
            listen: args.listen,
            federation: args.federation,
            fresh: args.fresh,
            agent_restart: std::time::Duration::from_micros(args.agent_restart.micros()),
            seed: args.seed,
        })),
    };
    // a read of a socket that nobody answers must not hold up the end
    runtime.shutdown_background();
    done
}
