//! `lab up`, `lab down`, `lab status`: the laboratory by one command.

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::{Pid, setsid},
};
use rhumb_lab::{Lab, Namespace};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// Four sites and two transit routers in network namespaces of this host. Needs root and iproute2.
#[derive(Debug, Parser)]
#[command(name = "lab", version, after_help = "Example: lab up; ip netns exec lab-ha ping 10.11.0.1; lab down")]
struct Arguments {
    /// Begins the names of all its namespaces.
    #[arg(long, default_value = "lab")]
    prefix: String,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum What {
    /// Build it anew and leave it up.
    Up,
    /// Remove it, however it ended.
    Down,
    /// Say what there is.
    Status,
    /// Keep it up in the foreground until told to end.
    Hold,
}

/// How long the laboratory may take to come or go.
const PATIENCE: Duration = Duration::from_secs(20);
const READY: &str = "up";

fn main() -> anyhow::Result<()> {
    let Arguments { prefix, what } = Arguments::parse();
    match what {
        What::Up => up(&prefix),
        What::Down => down(&prefix),
        What::Status => {
            for space in Namespace::all(&format!("{prefix}-")) {
                println!("{}", space.name());
            }
            Ok(())
        }
        What::Hold => hold(&prefix),
    }
}

fn up(prefix: &str) -> anyhow::Result<()> {
    down(prefix)?;
    let mut holder = Command::new(std::env::current_exe().context("cannot find this program")?);
    // it says in one line how it went; nothing of the caller's stays open in it
    holder.args(["--prefix", prefix, "hold"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut holder = holder.spawn().context("cannot start the process that holds the laboratory")?;
    let answer = holder.stdout.take().map(BufReader::new).context("it has no output")?;
    match answer.lines().next() {
        Some(Ok(line)) if line == READY => {}
        Some(Ok(reason)) => bail!("{reason}"),
        _ => bail!("the process that holds the laboratory ended without a word"),
    }
    println!(
        "up: sites {prefix}-a to {prefix}-d, hosts {prefix}-ha to {prefix}-hd, routers {prefix}-r1 and {prefix}-r2"
    );
    Ok(())
}

fn hold(prefix: &str) -> anyhow::Result<()> {
    let end = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    // before any thread is made: they all inherit it
    end.thread_block().context("cannot wait for signals")?;
    // not with the terminal; who leads a session already stays in it
    let _ = setsid();
    let lab = Lab::up(prefix).inspect_err(|error| println!("{error}"))?;
    fs::write(pid_file(prefix), std::process::id().to_string()).context("cannot say who holds the laboratory")?;
    println!("{READY}");
    end.wait().context("cannot wait for signals")?;
    drop(lab);
    let _ = fs::remove_file(pid_file(prefix));
    Ok(())
}

fn down(prefix: &str) -> anyhow::Result<()> {
    if let Ok(text) = fs::read_to_string(pid_file(prefix))
        && let Ok(number) = text.trim().parse::<i32>()
        && is_holder(number)
    {
        let end = Instant::now() + PATIENCE;
        kill(Pid::from_raw(number), Signal::SIGTERM).context("cannot end the process that holds the laboratory")?;
        while is_holder(number) {
            if Instant::now() > end {
                bail!("process {number} does not end; end it by hand");
            }
            sleep(Duration::from_millis(20));
        }
    }
    let _ = fs::remove_file(pid_file(prefix));
    Ok(Lab::sweep(prefix)?)
}

/// Whether that process is one of ours and lives.
fn is_holder(number: i32) -> bool {
    let command = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    command.split(|octet| *octet == 0).any(|word| word == b"hold")
}

fn pid_file(prefix: &str) -> PathBuf {
    PathBuf::from(format!("/run/rhumb-{prefix}.pid"))
}
