//! `rhumb probe`: the standalone prober.

mod reflect;
mod send;

use crate::{
    bandwidth::BandwidthArgs,
    exit::{CliError, Exit},
    output::Output,
};
use clap::Subcommand;
use reflect::ReflectArgs;
use rhumb_model::Span;
use rhumb_probe::{ErrorEstimate, Mode, ProbeError, key_from_env, read_key};
use send::SendArgs;
use std::path::Path;

/// The key where no file is named. Never an argument: every user of a machine can read those.
const KEY_VARIABLE: &str = "RHUMB_PROBE_KEY";

#[derive(Debug, Subcommand)]
pub enum ProbeCommand {
    /// Send probes to a reflector and sum up
    #[command(after_help = "Examples:
  rhumb probe send 192.0.2.1:862 --count 100 --interval 10ms -o json
  rhumb probe send [2001:db8::1]:862 --dscp EF --size 1400 --ask class,counters
  RHUMB_PROBE_KEY=... rhumb probe send 192.0.2.1:862 --ssid 7

A key is HMAC-SHA-256's, of 16 octets or more: hexadecimal digits, or any text. It comes from --key FILE or RHUMB_PROBE_KEY.")]
    Send(SendArgs),
    /// Answer probes until stopped
    #[command(after_help = "Examples:
  rhumb probe reflect --listen 0.0.0.0:862
  rhumb probe reflect --listen [::]:862 --allow 192.0.2.0/24 --allow 2001:db8::/32 --key /etc/rhumb/probe.key

Without --allow and without a key, anybody is answered, with as many octets as were sent and --rate packets a second at most.")]
    Reflect(ReflectArgs),
    /// Measure the bandwidth to a reflector
    #[command(after_help = "Example:\n  rhumb probe bandwidth 192.0.2.1:862 --key probe.key -o json")]
    Bandwidth(BandwidthArgs),
}

pub fn main(command: ProbeCommand, output: Output) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(anyhow::Error::from)?;
    runtime.block_on(async {
        match command {
            ProbeCommand::Send(args) => args.run(output).await,
            ProbeCommand::Reflect(args) => args.run(output).await,
            ProbeCommand::Bandwidth(args) => args.run(output).await,
        }
    })
}

pub(crate) async fn mode(key: Option<&Path>) -> Result<Mode, CliError> {
    let key = match key {
        Some(path) => Some(read_key(path).await.map_err(failed)?),
        None => key_from_env(KEY_VARIABLE).map_err(failed)?,
    };
    Ok(key.map_or(Mode::Open, Mode::Authenticated))
}

/// What a clock is said to be off by at most; without a word the kernel is asked.
fn clock(error: Option<Span>) -> Option<ErrorEstimate> {
    error.map(|error| ErrorEstimate::synchronised_within(error.micros().saturating_mul(1_000)))
}

pub(crate) fn failed(error: ProbeError) -> CliError {
    match error {
        wrong @ (ProbeError::Count { .. }
        | ProbeError::Size { .. }
        | ProbeError::ReadKey { .. }
        | ProbeError::Key { .. }
        | ProbeError::EnvKey { .. }) => CliError::Usage(format!("{:#}", anyhow::Error::from(wrong))),
        other => CliError::Other(other.into()),
    }
}
