//! The external dispatcher of MultiKueue as a program: `rhumb-dispatcher FILE`.

use anyhow::Context;
use rhumb_kubernetes::multikueue::{DispatcherSettings, dispatch};
use std::{fs, io::IsTerminal, path::PathBuf, process::ExitCode};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let (Some(file), None) = (words.next().map(PathBuf::from), words.next()) else {
        eprintln!("usage: rhumb-dispatcher FILE, such as deploy/kubernetes/dispatcher.yaml describes it");
        return ExitCode::from(2);
    };
    match start(&file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rhumb-dispatcher: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(file: &PathBuf) -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_env("RHUMB_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let colour = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(std::io::stderr).init();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let settings: DispatcherSettings = rhumb_model::document::read(&text)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            done = dispatch(settings) => Ok(done?),
            asked = tokio::signal::ctrl_c() => asked.context("cannot listen for signals"),
        }
    })
}
