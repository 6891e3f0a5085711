//! Commands to a demo that runs.

use super::{
    control::{Request, ask},
    layout::Layout,
    wan::Way,
};
use crate::{
    exit::{CliError, Exit},
    output::{Output, Paint, say, table},
    show::{bytes, int, latency, list, ppm, rate, text},
};
use clap::{Args, Subcommand};
use rhumb_emulator::ShapePatch;
use rhumb_model::{Bandwidth, Latency, Ppm};
use serde_json::Value;
use std::{
    path::Path,
    time::{Duration, Instant},
};

const EXIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Subcommand)]
pub enum WanCommand {
    /// Change delay, jitter, loss or rate of a link
    #[command(after_help = "Example:\n  rhumb demo wan set hk-sg --latency 200ms --loss 1% --rate 50Mbps")]
    Set {
        #[command(flatten)]
        link: LinkArgs,
        #[command(flatten)]
        figures: Figures,
    },
    /// Let nothing through a link
    #[command(after_help = "Example:\n  rhumb demo wan cut sh-hk")]
    Cut(LinkArgs),
    /// Make a link whole again, with the figures that the federation file has
    #[command(after_help = "Example:\n  rhumb demo wan heal sh-hk")]
    Heal(LinkArgs),
    /// List the emulated links with their figures and what passed them
    #[command(after_help = "Example:\n  rhumb demo wan list")]
    List,
}

#[derive(Debug, Args)]
pub struct LinkArgs {
    /// Link id; its other half (id~) changes with it
    link: String,
    /// This direction alone
    #[arg(long)]
    one_way: bool,
}

impl LinkArgs {
    fn way(&self) -> Way {
        if self.one_way { Way::One } else { Way::Both }
    }
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct Figures {
    /// One-way delay
    #[arg(long, value_name = "TIME")]
    latency: Option<Latency>,
    /// Each packet's delay is up to this much shorter or longer
    #[arg(long, value_name = "TIME")]
    jitter: Option<Latency>,
    /// Share of packets lost, such as 1%
    #[arg(long, value_name = "SHARE")]
    loss: Option<Ppm>,
    /// Rate of everything that passes
    #[arg(long, value_name = "RATE")]
    rate: Option<Bandwidth>,
}

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Kill an agent (SIGKILL) and leave it down; `server` is the orchestrator
    #[command(after_help = "Example:\n  rhumb demo agent stop shenzhen-cloud")]
    Stop { name: String },
    /// Start a stopped agent again
    #[command(after_help = "Example:\n  rhumb demo agent start shenzhen-cloud")]
    Start { name: String },
}

pub async fn wan(data: &Path, command: WanCommand, output: Output) -> Result<Exit, CliError> {
    let request = match command {
        WanCommand::Set { link, figures } => {
            let patch = ShapePatch {
                latency_us: figures.latency.map(Latency::micros),
                jitter_us: figures.jitter.map(Latency::micros),
                loss_ppm: figures.loss.map(|l| l.ppm() as u32),
                rate_kbps: figures.rate.map(Bandwidth::kbps),
            };
            Request::WanSet { way: link.way(), link: link.link, patch }
        }
        WanCommand::Cut(link) => Request::WanCut { way: link.way(), link: link.link },
        WanCommand::Heal(link) => Request::WanHeal { way: link.way(), link: link.link },
        WanCommand::List => Request::WanList,
    };
    let links = ask(&Layout::at(data), &request).await?;
    output.show(&links, |o| links_table(&links, o))?;
    Ok(Exit::Done)
}

pub async fn agent(data: &Path, command: AgentCommand, output: Output) -> Result<Exit, CliError> {
    let request = match command {
        AgentCommand::Stop { name } => Request::AgentStop { name },
        AgentCommand::Start { name } => Request::AgentStart { name },
    };
    let child = ask(&Layout::at(data), &request).await?;
    output.show(&child, |o| child_row(&child, o).join(" "))?;
    Ok(Exit::Done)
}

pub async fn status(data: &Path, output: Output) -> Result<Exit, CliError> {
    let status = ask(&Layout::at(data), &Request::Status).await?;
    output.show(&status, |o| {
        let rows = list(&status, "/children").iter().map(|c| child_row(c, o));
        format!("{}\n{}", text(&status, "/url"), table(&["NAME", "PID>", "STARTS>", "STATE"], rows))
    })?;
    Ok(Exit::Done)
}

pub async fn stop(data: &Path) -> Result<Exit, CliError> {
    let layout = Layout::at(data);
    ask(&layout, &Request::Stop).await?;
    // its last step is to end itself, which gives the folder free
    let until = Instant::now() + EXIT;
    while layout.is_in_use() {
        if Instant::now() >= until {
            return Err(CliError::Failed(format!(
                "the demo in {} has stopped its children but does not end",
                data.display()
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
    say("the demo has stopped");
    Ok(Exit::Done)
}

fn child_row(child: &Value, output: Output) -> Vec<String> {
    let state = match (child.pointer("/pid").is_some_and(|p| !p.is_null()), child.pointer("/wanted")) {
        (true, _) => output.paint(Paint::Good, "running"),
        (false, Some(Value::Bool(false))) => output.paint(Paint::Warn, "stopped"),
        (false, _) => output.paint(Paint::Bad, "starting"),
    };
    vec![text(child, "/name"), text(child, "/pid"), text(child, "/starts"), state]
}

fn links_table(links: &Value, output: Output) -> String {
    let rows = list(links, "/items").iter().map(|l| {
        let number = |pointer| int(l, pointer).unwrap_or(0);
        let cut = l.pointer("/cut") == Some(&Value::Bool(true));
        vec![
            text(l, "/id"),
            text(l, "/from"),
            text(l, "/to"),
            if cut { output.paint(Paint::Bad, "cut") } else { output.paint(Paint::Good, "up") },
            latency(number("/configured_latency_us")),
            latency(number("/latency_us")),
            latency(number("/jitter_us")),
            ppm(number("/loss_ppm")),
            rate(number("/rate_kbps")),
            bytes(number("/udp/passed_bytes") + number("/tcp/passed_bytes")),
        ]
    });
    let header = ["LINK", "FROM", "TO", "IS", "CONFIGURED>", "DELAY>", "JITTER>", "LOSS>", "RATE>", "PASSED>"];
    table(&header, rows)
}
