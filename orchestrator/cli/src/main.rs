//! `rhumb`: the orchestrator, a site's agent, the standalone prober, a whole federation on one machine, and the client
//! commands, in one binary.
//!
//! Invariants
//! - Exit codes are 0 done, 1 failed or refused, 2 wrong usage, 3 not reachable; what failed is said on standard error.
//! - JSON output of a client command is the REST body as it came.
//! - Colour and progress are for terminals only.

mod agent;
mod args;
mod bandwidth;
mod bench;
mod client;
mod commands;
mod context;
mod demo;
mod exit;
mod files;
mod joint;
mod output;
mod paths;
mod place;
mod plans;
mod probe;
mod replay;
mod server;
mod show;
mod telemetry;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use exit::{CliError, Exit};
use output::Output;
use std::{path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    // what agents start to watch over a run: before anything else of this program comes to life
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == rhumb_agent::SUPERVISE) {
        let Some(folder) = words.next().map(PathBuf::from) else { return Exit::Usage.into() };
        return rhumb_agent::supervise_main(&folder);
    }
    // fails only where a provider is installed already
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let output = Output::new(cli.global.output);
    match dispatch(cli, output) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::complain(&error);
            error.exit().into()
        }
    }
}

fn dispatch(cli: Cli, output: Output) -> Result<Exit, CliError> {
    let global = cli.global;
    match cli.command {
        Command::Demo(args) => demo::main(args, output),
        Command::Server(args) => server::main(&args),
        Command::Agent(args) => agent::main(&args),
        Command::Probe(args) => probe::main(args, output),
        Command::Place(args) => place::main(&args, output),
        Command::Paths(args) => paths::main(&args, output),
        Command::Replay(args) => replay::main(&args, output),
        Command::Bench(command) => bench::main(&command, output),
        Command::Audit(args) if args.federation.is_some() => plans::main(&args, output),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "rhumb", &mut script);
            output::write(&String::from_utf8_lossy(&script));
            Ok(Exit::Done)
        }
        command => commands::main(command, &global, output),
    }
}
