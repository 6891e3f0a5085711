//! The file one leg writes into, and its progress on the disk.

use super::{Span, durable};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

#[derive(Debug)]
pub(crate) struct LegFile {
    /// `None`: all has arrived and was taken away.
    file: Option<File>,
    span: Span,
    progress: PathBuf,
    received: Arc<AtomicU64>,
}

/// `<dataset>.leg<n>`
#[derive(Debug, Serialize, Deserialize)]
struct Progress {
    offset: u64,
    bytes: u64,
    received: u64,
}

impl LegFile {
    pub(super) fn open(path: &Path, progress: PathBuf, span: Span, received: Arc<AtomicU64>) -> io::Result<Self> {
        let fresh = !path.exists();
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let known =
            if fresh { 0 } else { saved(&progress).filter(|(of, _)| *of == span).map_or(0, |(_, bytes)| bytes) };
        received.store(known, Ordering::Relaxed);
        Ok(Self { file: Some(file), span, progress, received })
    }

    pub(super) fn taken(span: Span, received: Arc<AtomicU64>) -> Self {
        received.store(span.bytes, Ordering::Relaxed);
        Self { file: None, span, progress: PathBuf::new(), received }
    }

    /// Bytes of this leg that are there, from its first on.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// `from` is where the last write ended.
    pub(crate) fn write(&self, from: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.write_all_at(bytes, self.span.offset + from)?;
        self.received.store(from + bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Makes sure of what was written: it survives the loss of power.
    pub(crate) fn save(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        // taken first: what is written meanwhile may not be on the disk
        let received = self.received();
        file.sync_data()?;
        let Span { offset, bytes } = self.span;
        durable(&self.progress, &Progress { offset, bytes, received })
    }
}

/// Part and progress of a leg as its file says; `None` where there is none or it cannot be read.
pub(super) fn saved(progress: &Path) -> Option<(Span, u64)> {
    let Progress { offset, bytes, received } = serde_json::from_slice(&fs::read(progress).ok()?).ok()?;
    (received <= bytes).then_some((Span { offset, bytes }, received))
}
