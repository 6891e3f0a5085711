//! `rhumb probe`: the standalone prober.

use crate::{
    bandwidth::BandwidthArgs,
    exit::{CliError, Exit},
    output::{Output, progress, say},
    server::asked_to_stop,
    show::{latency, or_dash},
};
use clap::Subcommand;
use rhumb_model::Span;
use rhumb_probe::{Mode, ProbeError, SendConfig, SendSummary, read_key, reflect, send};
use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Subcommand)]
pub enum ProbeCommand {
    /// Send probes to a reflector and sum up
    #[command(after_help = "Example:\n  rhumb probe send 192.0.2.1:862 --count 100 --interval 10ms -o json")]
    Send {
        /// The reflector, HOST:PORT
        target: String,
        /// Number of probes
        #[arg(long, default_value_t = 10)]
        count: u32,
        /// Time between probes
        #[arg(long, default_value = "100ms", value_name = "TIME")]
        interval: Span,
        /// File with the key that packets are authenticated by
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// Session identifier (RFC 8972), 0 for none
        #[arg(long, default_value_t = 0)]
        ssid: u16,
    },
    /// Answer probes until stopped
    #[command(after_help = "Example:\n  rhumb probe reflect --listen 0.0.0.0:862")]
    Reflect {
        /// Where to listen, HOST:PORT
        #[arg(long, default_value = "127.0.0.1:862")]
        listen: String,
        /// File with the key that packets are authenticated by
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// Without a key: address of a peer that may measure bandwidth to here; may be given several times
        #[arg(long = "peer", value_name = "ADDRESS")]
        peers: Vec<IpAddr>,
    },
    /// Measure the bandwidth to a reflector
    #[command(after_help = "Example:\n  rhumb probe bandwidth 192.0.2.1:862 --key probe.key -o json")]
    Bandwidth(BandwidthArgs),
}

pub fn main(command: ProbeCommand, output: Output) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(anyhow::Error::from)?;
    runtime.block_on(run(command, output))
}

async fn run(command: ProbeCommand, output: Output) -> Result<Exit, CliError> {
    match command {
        ProbeCommand::Send { target, count, interval, key, ssid } => {
            let interval = Duration::from_micros(interval.micros());
            let mode = mode(key.as_deref()).await?;
            let bar = progress(format!("probing {target}, {count} times"));
            let found = send(SendConfig { target, count, interval, ssid, mode }).await;
            bar.finish_and_clear();
            let found = found.map_err(failed)?;
            output.show(&found, |_| table(&found))?;
            // nothing came back: what was asked for was not found out
            Ok(if found.received > 0 { Exit::Done } else { Exit::Failed })
        }
        ProbeCommand::Bandwidth(args) => args.run(output).await,
        ProbeCommand::Reflect { listen, key, peers } => {
            let mode = mode(key.as_deref()).await?;
            let until = async {
                if let Err(error) = asked_to_stop(&CancellationToken::new()).await {
                    say(&format!("signals cannot be heard: {error}"));
                }
            };
            let counts = reflect(&listen, mode, peers, |address| say(&format!("reflecting on {address}")), until).await;
            let counts = counts.map_err(failed)?;
            say(&format!(
                "answered {}, malformed {}, over the rate {}",
                counts.answered, counts.malformed, counts.limited
            ));
            Ok(Exit::Done)
        }
    }
}

pub(crate) async fn mode(key: Option<&Path>) -> Result<Mode, CliError> {
    match key {
        Some(path) => Ok(Mode::Authenticated(read_key(path).await.map_err(failed)?)),
        None => Ok(Mode::Open),
    }
}

pub(crate) fn failed(error: ProbeError) -> CliError {
    match error {
        wrong @ (ProbeError::Count { .. } | ProbeError::ReadKey { .. } | ProbeError::Key { .. }) => {
            CliError::Usage(format!("{:#}", anyhow::Error::from(wrong)))
        }
        other => CliError::Other(other.into()),
    }
}

fn table(found: &SendSummary) -> String {
    let time = |us: Option<u64>| or_dash(us.map(|us| latency(us as i64)));
    format!(
        "sent {}, received {}, lost {} on the way and {} on the way back, {} twice, {} out of order\n\
         round trip min {}, p50 {}, p95 {}, p99 {}; variation {}, successive {}",
        found.sent,
        found.received,
        found.lost_forward,
        found.lost_backward,
        found.duplicates,
        found.reordered,
        time(found.rtt_min_us),
        time(found.rtt_p50_us),
        time(found.rtt_p95_us),
        time(found.rtt_p99_us),
        time(found.pdv_us),
        time(found.ipdv_us)
    )
}
