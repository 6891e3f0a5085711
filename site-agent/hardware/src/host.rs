//! One host from all sources at hand.

use crate::sysfs;
use rhumb_devices::{Catalogue, ReadError, Snapshot};
use rhumb_model::{Bytes, Cores};
use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// What a host has.
#[derive(Debug, Clone)]
pub struct Host {
    pub cpu: Cores,
    pub memory: Bytes,
    pub shown: Snapshot,
}

impl Host {
    /// `first` knows the devices best; the kernel fills in what it does not say, and stands alone where there is no better.
    /// What of processors and memory the kernel does not tell is 0.
    pub fn new(root: &Path, first: Option<Snapshot>, catalogue: &Catalogue) -> Self {
        let kernel = sysfs::look(root, catalogue);
        let shown = match first {
            Some(first) => first.or(kernel),
            None => kernel,
        };
        let (cpu, memory) = (sysfs::cores(root), sysfs::memory(root));
        Self { cpu: cpu.unwrap_or(Cores::ZERO), memory: memory.unwrap_or(Bytes::ZERO), shown }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error("cannot run {0}; check that the tool is installed")]
    Run(String, #[source] std::io::Error),
    #[error("{0} gave no output within {1:?}")]
    NoAnswer(String, Duration),
    #[error("cannot read {path}; check that it exists and may be read", path = .0.display())]
    File(PathBuf, #[source] std::io::Error),
    #[error("the output of {0} is not understood")]
    Read(String, #[source] ReadError),
}

/// The output of a maker's tool, such as `["nvidia-smi", "-q", "-x"]`, within a time.
pub fn output_of(command: &[String], limit: Duration) -> Result<Snapshot, OutputError> {
    let shown = command.join(" ");
    let run = |source| OutputError::Run(shown.clone(), source);
    let (program, arguments) = command.split_first().ok_or_else(|| run(std::io::ErrorKind::InvalidInput.into()))?;
    let mut tool = Command::new(program);
    tool.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = tool.spawn().map_err(run)?;
    let Some(mut output) = child.stdout.take() else { return Err(run(std::io::ErrorKind::BrokenPipe.into())) };
    let (tell, told) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.by_ref().take(rhumb_devices::read::MOST as u64 + 1).read_to_end(&mut bytes);
        _ = tell.send(read.map(|_| bytes));
    });
    let told = told.recv_timeout(limit);
    end(child);
    let bytes = told.map_err(|_| OutputError::NoAnswer(shown.clone(), limit))?.map_err(run)?;
    let read = rhumb_devices::read(&bytes).map_err(|e| OutputError::Read(shown.clone(), e))?;
    Ok(read.together())
}

/// A tool that hangs in the kernel cannot be waited for: that is left to a thread.
fn end(mut child: Child) {
    thread::spawn(move || {
        _ = child.kill();
        _ = child.wait();
    });
}

/// Output that was written to a file.
pub fn output_in(path: &Path) -> Result<Snapshot, OutputError> {
    let bytes = std::fs::read(path).map_err(|e| OutputError::File(path.to_owned(), e))?;
    let read = rhumb_devices::read(&bytes).map_err(|e| OutputError::Read(path.display().to_string(), e))?;
    Ok(read.together())
}
