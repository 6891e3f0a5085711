//! `rhumb probe bandwidth`.

use crate::{
    exit::{CliError, Exit},
    output::{Output, progress},
    probe::{failed, mode},
    show::{bytes, or_dash, rate},
};
use clap::{Args, ValueEnum};
use rhumb_model::{Bandwidth, Bytes, Span};
use rhumb_probe::{
    ActiveMethod, BandwidthConfig, BandwidthLedger, BandwidthSummary, CounterConfig, Residual, bandwidth, counters,
};
use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

#[derive(Debug, Args)]
pub struct BandwidthArgs {
    /// The reflector, HOST:PORT; none for counters
    #[arg(required_unless_present = "interface")]
    target: Option<String>,
    /// How to measure by sending
    #[arg(long, value_enum, default_value_t = Method::Trains)]
    method: Method,
    /// File with the key that packets are authenticated by
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Most that may be sent
    #[arg(long, default_value = "10MB", value_name = "SIZE")]
    budget: Bytes,
    /// Committed rate of the link; with --state, 0.1 % of it in ten minutes is the most that is sent
    #[arg(long, value_name = "RATE")]
    committed: Option<Bandwidth>,
    /// File that keeps what was sent from run to run
    #[arg(long, value_name = "FILE", requires = "committed")]
    state: Option<PathBuf>,
    /// Send nothing: read what passes this interface of this host, and take it off the committed rate
    #[arg(long, value_name = "NAME", requires = "committed", conflicts_with_all = ["target", "state", "key"])]
    interface: Option<String>,
    /// Time between readings of the interface, of which there are eleven
    #[arg(long, default_value = "1s", value_name = "TIME")]
    every: Span,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Method {
    /// Packet trains: what the link carries
    Trains,
    /// Packet trains, then streams that find what others leave free
    Available,
    /// A TCP connection for two seconds
    Tcp,
}

/// Readings of a counter: ten rates.
const READINGS: u32 = 11;

impl BandwidthArgs {
    pub async fn run(self, output: Output) -> Result<Exit, CliError> {
        if let (Some(interface), Some(committed)) = (self.interface, self.committed) {
            let every = Duration::from_micros(self.every.micros().max(1));
            let config = CounterConfig { interface, committed_kbps: committed.kbps(), every, readings: READINGS };
            let bar = progress(format!("reading what {} sends", config.interface));
            let found = counters(&config).await;
            bar.finish_and_clear();
            let found = found.map_err(failed)?;
            let left =
                |f: Residual| format!("{} left, {} used (p95)", rate(f.rate_kbps as i64), rate(f.used_p95_kbps as i64));
            output.show(&found, |_| or_dash(found.map(left)))?;
            return Ok(if found.is_some() { Exit::Done } else { Exit::Failed });
        }
        let Some(target) = self.target else {
            return Err(CliError::Usage("name a reflector, HOST:PORT".into()));
        };
        let mut account = Account::open(self.state, &target, self.committed)?;
        let budget_bytes = account.as_mut().map_or(Ok(self.budget.bytes()), |a| a.take(self.budget.bytes()))?;
        let method = match self.method {
            Method::Trains => ActiveMethod::Trains,
            Method::Available => ActiveMethod::Available,
            Method::Tcp => ActiveMethod::Tcp,
        };
        let mode = mode(self.key.as_deref()).await?;
        let bar = progress(format!("measuring the bandwidth to {target}"));
        let found =
            bandwidth(&target, BandwidthConfig { mode, method, budget_bytes, label: 0, overhead_bytes: None }).await;
        bar.finish_and_clear();
        let found = found.map_err(failed)?;
        if let Some(account) = &mut account {
            account.give_back(budget_bytes.saturating_sub(found.sent_bytes))?;
        }
        output.show(&found, |_| table(&found))?;
        Ok(if found.rate_kbps.is_some() { Exit::Done } else { Exit::Failed })
    }
}

/// What may be sent to one target, kept in a file.
struct Account {
    ledger: BandwidthLedger,
    link: String,
    kbps: u64,
}

impl Account {
    fn open(state: Option<PathBuf>, target: &str, committed: Option<Bandwidth>) -> Result<Option<Self>, CliError> {
        let (Some(path), Some(committed)) = (state, committed) else { return Ok(None) };
        let ledger = BandwidthLedger::open(path).map_err(failed)?;
        Ok(Some(Self { ledger, link: target.to_owned(), kbps: committed.kbps() }))
    }

    /// All that is left, at most `most`.
    fn take(&mut self, most: u64) -> Result<u64, CliError> {
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64);
        let left = self.ledger.left_bytes(&self.link, self.kbps, self.kbps, now_us).min(most);
        let taken = self.ledger.spend(&self.link, self.kbps, self.kbps, left, now_us).map_err(failed)?;
        Ok(if taken { left } else { 0 })
    }

    fn give_back(&mut self, octets: u64) -> Result<(), CliError> {
        self.ledger.refund(&self.link, octets).map_err(failed)
    }
}

fn table(found: &BandwidthSummary) -> String {
    let word = |value: serde_json::Result<serde_json::Value>| {
        value.ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    };
    format!(
        "{} by {}, confidence {}, ended by {}; {} free\n{} trains, {} packets, {} lost, {} sent in {} ms; burst {}",
        or_dash(found.rate_kbps.map(|kbps| rate(kbps as i64))),
        word(serde_json::to_value(found.method)),
        word(serde_json::to_value(found.confidence)),
        word(serde_json::to_value(found.ended)),
        or_dash(found.available_kbps.map(|kbps| rate(kbps as i64))),
        found.trains,
        found.packets,
        found.lost,
        bytes(found.sent_bytes as i64),
        found.took_ms,
        or_dash(found.burst_bytes.map(|b| bytes(b as i64))),
    )
}
