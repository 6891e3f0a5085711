//! `rhumb probe send`.

use super::{clock, failed, mode};
use crate::{
    exit::{CliError, Exit},
    output::{Output, progress},
    show::{latency, or_dash},
};
use clap::{Args, ValueEnum};
use rhumb_model::Span;
use rhumb_probe::{Extensions, FarCount, SendConfig, SendSummary, WaySummary, send, send_watched};
use std::{path::PathBuf, time::Duration};

#[derive(Debug, Args)]
pub struct SendArgs {
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
    /// Class to send in: 0 to 63, or EF, CS1, AF11 and so on
    #[arg(long, default_value = "0", value_parser = class)]
    dscp: u8,
    /// Octets of a probe without IP and UDP headers, filled up with padding; 44 or 112 if not given
    #[arg(long, value_name = "OCTETS")]
    size: Option<usize>,
    /// What else to ask of the reflector (RFC 8972), separated by commas
    #[arg(long, value_delimiter = ',')]
    ask: Vec<Ask>,
    /// The reflector keeps no count: losses cannot be told apart
    #[arg(long)]
    stateless: bool,
    /// This machine's clock follows UTC and is off by no more than this, for one-way delays; otherwise the kernel is asked
    #[arg(long, value_name = "TIME")]
    clock_error: Option<Span>,
}

/// Extensions of every probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ask {
    /// Which class the probes arrive in
    Class,
    /// How many packets each end has sent and received
    Counts,
    /// What the far clock follows
    Clock,
    /// Distinct, doubled and reordered probes as a rhumb reflector counts them: exact also where all happens at once
    Counters,
}

impl SendArgs {
    pub async fn run(self, output: Output) -> Result<Exit, CliError> {
        let asks = |what| self.ask.contains(&what);
        let config = SendConfig {
            count: self.count,
            interval: Duration::from_micros(self.interval.micros()),
            ssid: self.ssid,
            mode: mode(self.key.as_deref()).await?,
            dscp: self.dscp,
            extensions: Extensions {
                packet_bytes: self.size.unwrap_or(0),
                service: asks(Ask::Class).then_some(self.dscp),
                direct: asks(Ask::Counts),
                clock_source: asks(Ask::Clock),
                counters: asks(Ask::Counters),
            },
            far_count: if self.stateless { FarCount::Absent } else { FarCount::Assumed },
            clock: clock(self.clock_error),
            ..SendConfig::new(self.target.clone())
        };
        let (target, count) = (self.target, self.count);
        let bar = progress(format!("probing {target}, {count} times"));
        let shown = bar.clone();
        let watch = move |so_far: &SendSummary| shown.set_message(glance(&target, count, so_far));
        // nobody looks: the run need not stop to sum up
        let found = if bar.is_hidden() { send(config).await } else { send_watched(config, watch).await };
        bar.finish_and_clear();
        let found = found.map_err(failed)?;
        output.show(&found, |_| table(&found))?;
        // nothing came back: what was asked for was not found out
        Ok(if found.received > 0 { Exit::Done } else { Exit::Failed })
    }
}

/// One line while it runs.
fn glance(target: &str, count: u32, so_far: &SendSummary) -> String {
    format!(
        "probing {target}: {} of {count}, {} in flight, lost {} there and {} back, round trip min {}, p50 {}, p99 {}",
        so_far.sent,
        so_far.pending,
        so_far.lost_forward,
        so_far.lost_backward,
        time(so_far.rtt_min_us),
        time(so_far.rtt_p50_us),
        time(so_far.rtt_p99_us)
    )
}

fn table(found: &SendSummary) -> String {
    let mut lines = vec![
        format!(
            "sent {}, received {}, lost {} on the way and {} on the way back, {} twice, {} out of order",
            found.sent, found.received, found.lost_forward, found.lost_backward, found.duplicates, found.reordered
        ),
        format!(
            "round trip min {}, p50 {}, p95 {}, p99 {}, max {}; variation {} (p95), {} (p99), successive {}",
            time(found.rtt_min_us),
            time(found.rtt_p50_us),
            time(found.rtt_p95_us),
            time(found.rtt_p99_us),
            time(found.rtt_max_us),
            time(found.pdv_us),
            time(found.pdv_p99_us),
            time(found.ipdv_us)
        ),
    ];
    if found.received > 0 {
        lines.push(way("there", &found.forward));
        lines.push(way("back ", &found.backward));
    }
    if let Some(counts) = found.counts {
        lines.push(format!(
            "counted: {} sent here, {} received and {} answered there",
            counts.sent, counts.received, counts.answered
        ));
    }
    if let Some(clock) = found.clock_source {
        lines.push(format!("far clock: {}", clock_source(clock.follows)));
    }
    if found.refused + found.strays > 0 {
        lines.push(format!("{} answers with times that cannot be, {} strays", found.refused, found.strays));
    }
    lines.join("\n")
}

fn way(name: &str, way: &WaySummary) -> String {
    format!(
        "{name}: one-way delay {}, variation {} (p95), successive {}; {} twice, {} out of order; ttl {}, class {}",
        time(way.delay_p50_us),
        time(way.pdv_us),
        time(way.ipdv_us),
        way.duplicates,
        way.reordered,
        or_dash(way.ttl.map(|ttl| ttl.to_string())),
        or_dash(way.dscp.map(|dscp| dscp.to_string()))
    )
}

/// By the registry of RFC 8972, section 5.4.
fn clock_source(code: u8) -> &'static str {
    match code {
        1 => "follows NTP",
        2 => "follows PTP",
        3 => "follows a carrier's timing (SSU/BITS)",
        4 => "follows a satellite system",
        5 => "follows nothing",
        _ => "does not say what it follows",
    }
}

fn time(us: Option<u64>) -> String {
    or_dash(us.map(|us| latency(us as i64)))
}

/// A class by number, or by the names of RFC 2474 (CS), RFC 2597 (AF) and RFC 3246 (EF).
fn class(text: &str) -> Result<u8, String> {
    let wrong = || format!("cannot send in class `{text}`; give 0 to 63, EF, CS0 to CS7, or AF11 to AF43");
    if let Ok(number) = text.parse::<u8>() {
        return if number < 64 { Ok(number) } else { Err(wrong()) };
    }
    match text.to_ascii_uppercase().as_bytes() {
        b"EF" => Ok(46),
        [b'C', b'S', precedence @ b'0'..=b'7'] => Ok((precedence - b'0') << 3),
        [b'A', b'F', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => Ok(((class - b'0') << 3) + ((drop - b'0') << 1)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_numbers_and_names() {
        let found: Vec<_> = ["0", "63", "ef", "CS6", "AF11", "af43"].map(class).into_iter().collect();
        assert_eq!(found, [0, 63, 46, 48, 10, 38].map(Ok));
        for wrong in ["64", "AF44", "CS8", "-1", ""] {
            assert!(class(wrong).unwrap_err().contains(&format!("class `{wrong}`")));
        }
    }
}
