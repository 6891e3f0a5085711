//! `rhumb probe reflect`.

use super::{clock, failed, mode};
use crate::{
    exit::{CliError, Exit},
    output::{Format, Output, progress, say},
    server::asked_to_stop,
};
use clap::Args;
use rhumb_model::Span;
use rhumb_probe::{Counting, IpNet, ReflectorConfig, ReflectorCounts, reflect_with};
use std::{net::IpAddr, path::PathBuf};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Args)]
pub struct ReflectArgs {
    /// Where to listen, HOST:PORT
    #[arg(long, default_value = "127.0.0.1:862")]
    listen: String,
    /// File with the key that packets are authenticated by
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Network whose probes are answered, ADDRESS/BITS; may be given more than once
    #[arg(long, value_name = "NETWORK")]
    allow: Vec<IpNet>,
    /// Without a key: address of a peer that may measure bandwidth to here; may be given more than once
    #[arg(long = "peer", value_name = "ADDRESS")]
    peers: Vec<IpAddr>,
    /// Packets per second answered to one source address
    #[arg(long, default_value_t = ReflectorConfig::default().packets_per_second)]
    rate: u32,
    /// Keep no count per session: answers carry the sender's own sequence
    #[arg(long)]
    stateless: bool,
    /// This machine's clock follows UTC and is off by no more than this; otherwise the kernel is asked
    #[arg(long, value_name = "TIME")]
    clock_error: Option<Span>,
}

impl ReflectArgs {
    pub async fn run(self, output: Output) -> Result<Exit, CliError> {
        let config = ReflectorConfig {
            mode: mode(self.key.as_deref()).await?,
            error: clock(self.clock_error),
            packets_per_second: self.rate,
            sources: self.allow,
            counting: if self.stateless { Counting::Stateless } else { Counting::Stateful },
            ..ReflectorConfig::default()
        };
        let until = async {
            if let Err(error) = asked_to_stop(&CancellationToken::new()).await {
                say(&format!("signals cannot be heard: {error}"));
            }
        };
        let bar = progress("waiting for probes");
        let shown = bar.clone();
        let watch = move |counts: ReflectorCounts| shown.set_message(words(&counts));
        let ready = |address| bar.suspend(|| say(&format!("reflecting on {address}")));
        let counts = reflect_with(&self.listen, config, self.peers, ready, watch, until).await;
        bar.finish_and_clear();
        let counts = counts.map_err(failed)?;
        if output.format() == Format::Table {
            say(&words(&counts));
        } else {
            output.show(&counts, |_| String::new())?;
        }
        Ok(Exit::Done)
    }
}

fn words(counts: &ReflectorCounts) -> String {
    format!(
        "answered {}, malformed {}, over the rate {}, from unknown sources {}, replayed {}, answers {}",
        counts.answered, counts.malformed, counts.limited, counts.unknown, counts.replayed, counts.echoed
    )
}
