//! One direction of one connection.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc, watch};

use crate::link::{Link, segments};
use crate::timer::Timer;

/// How far a stream may be scheduled ahead of the wire: covers a late wake-up without letting a queue build up.
const HORIZON_NS: u64 = 5_000_000;
/// Every piece counts for at least this much of the window, so that many tiny pieces are bounded too.
const LEAST_PIECE_BYTES: usize = 512;
/// More than a full window of the smallest pieces never waits in the channel.
const MOST_PIECES: usize = 32_768;

/// Whether both directions of a connection are whole: a stream needs its acknowledgements, so one cut link stops both.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    forward: watch::Receiver<bool>,
    reverse: watch::Receiver<bool>,
}

/// What one direction passes through.
#[derive(Debug)]
pub(crate) struct Lane {
    link: Arc<Link>,
    path: Path,
    timer: Timer,
    /// Octets read and not yet written, tiny pieces rounded up.
    held: AtomicUsize,
    /// The same without rounding, for the counters.
    undelivered: AtomicUsize,
    drained: Notify,
}

struct Piece {
    due_at: u64,
    bytes: Vec<u8>,
}

impl Path {
    pub(crate) fn new(forward: &Link, reverse: &Link) -> Self {
        Self { forward: forward.watch_cut(), reverse: reverse.watch_cut() }
    }

    pub(crate) fn is_broken(&self) -> bool {
        *self.forward.borrow() || *self.reverse.borrow()
    }

    /// Returns once a link is cut. (The links outlive every watcher: whoever watches holds them.)
    pub(crate) async fn broken(&mut self) {
        tokio::select! {
            _ = self.forward.wait_for(|cut| *cut) => {}
            _ = self.reverse.wait_for(|cut| *cut) => {}
        }
    }

    pub(crate) async fn healed(&mut self) {
        while self.is_broken() {
            let _ = self.forward.wait_for(|cut| !*cut).await;
            let _ = self.reverse.wait_for(|cut| !*cut).await;
        }
    }

    /// Returns once the path has been broken for `period` without a break in the break.
    pub(crate) async fn broken_for(mut self, period: Duration) {
        loop {
            self.broken().await;
            if tokio::time::timeout(period, self.healed()).await.is_err() {
                return;
            }
        }
    }
}

impl Lane {
    pub(crate) fn new(link: &Arc<Link>, path: &Path, timer: &Timer) -> Self {
        Self {
            link: Arc::clone(link),
            path: path.clone(),
            timer: timer.clone(),
            held: AtomicUsize::new(0),
            undelivered: AtomicUsize::new(0),
            drained: Notify::new(),
        }
    }

    async fn room(&self) {
        let mut drained = pin!(self.drained.notified());
        loop {
            drained.as_mut().enable();
            if self.held.load(Ordering::Relaxed) < self.link.stream_window() {
                return;
            }
            drained.as_mut().await;
            drained.set(self.drained.notified());
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let lost = *self.undelivered.get_mut();
        if lost > 0 {
            self.link.tcp.dropped(segments(lost), lost);
        }
    }
}

/// Carries bytes until `from` ends, then closes `to`; the end travels like a byte.
pub(crate) async fn pump(from: ReadHalf<'_>, to: WriteHalf<'_>, lane: &Lane) -> io::Result<()> {
    let (pieces, due_pieces) = mpsc::channel(MOST_PIECES);
    tokio::try_join!(read(from, lane, pieces), write(to, lane, due_pieces))?;
    Ok(())
}

async fn read(mut from: ReadHalf<'_>, lane: &Lane, pieces: mpsc::Sender<Piece>) -> io::Result<()> {
    let mut path = lane.path.clone();
    let mut last_due = 0;
    loop {
        lane.room().await;
        path.healed().await;
        let mut bytes = vec![0; lane.link.stream_quantum()];
        let length = from.read(&mut bytes).await?;
        bytes.truncate(length);
        bytes.shrink_to_fit();
        let passage = lane.link.accept_piece(length, lane.timer.now());
        last_due = passage.due_at.max(last_due);
        lane.held.fetch_add(length.max(LEAST_PIECE_BYTES), Ordering::Relaxed);
        lane.undelivered.fetch_add(length, Ordering::Relaxed);
        if pieces.send(Piece { due_at: last_due, bytes }).await.is_err() || length == 0 {
            return Ok(());
        }
        lane.timer.until(passage.sent_at.saturating_sub(HORIZON_NS)).await;
    }
}

async fn write(mut to: WriteHalf<'_>, lane: &Lane, mut pieces: mpsc::Receiver<Piece>) -> io::Result<()> {
    let mut path = lane.path.clone();
    while let Some(piece) = pieces.recv().await {
        lane.timer.until(piece.due_at).await;
        let mut rest = piece.bytes.as_slice();
        while !rest.is_empty() {
            path.healed().await;
            let mut watched = path.clone();
            tokio::select! {
                biased;
                () = watched.broken() => {}
                written = to.write(rest) => {
                    let written = written?;
                    rest = &rest[written..];
                    lane.link.tcp.passed(segments(written), written);
                    lane.undelivered.fetch_sub(written, Ordering::Relaxed);
                }
            }
        }
        lane.held.fetch_sub(piece.bytes.len().max(LEAST_PIECE_BYTES), Ordering::Relaxed);
        lane.drained.notify_one();
    }
    path.healed().await;
    to.shutdown().await
}
