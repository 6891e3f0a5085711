//! What the emulator says about itself.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::LinkShape;

/// State of all links and control channels at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Directed links, by id.
    pub links: Vec<LinkStatus>,
    /// Control channels, by point.
    pub controls: Vec<ControlStatus>,
}

/// One directed link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkStatus {
    /// Its name.
    pub id: String,
    /// Its shape now.
    pub shape: LinkShape,
    /// Whether nothing passes.
    pub cut: bool,
    /// Datagrams.
    pub udp: Traffic,
    /// Streams, counted in segments of at most 1448 octets.
    pub tcp: Traffic,
}

/// One control channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlStatus {
    /// The point it belongs to.
    pub point: String,
    /// Where the point's agent connects to.
    pub address: SocketAddr,
    /// Delay toward the orchestrator in microseconds; the last one known while cut.
    pub up_latency_us: u64,
    /// Delay from the orchestrator in microseconds; the last one known while cut.
    pub down_latency_us: u64,
    /// Whether no un-cut path is left in one of the directions.
    pub cut: bool,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Traffic {
    /// Packets handed to the far end.
    pub passed_packets: u64,
    /// Payload octets handed to the far end.
    pub passed_bytes: u64,
    /// Packets lost, dropped at a full queue, or stopped by a cut.
    pub dropped_packets: u64,
    /// Payload octets of those.
    pub dropped_bytes: u64,
    /// Copies handed to the far end beyond the first; not among the passed ones.
    pub duplicated_packets: u64,
    /// Packets handed over after one that came later (RFC 4737); copies do not count.
    pub reordered_packets: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    passed_packets: AtomicU64,
    passed_bytes: AtomicU64,
    dropped_packets: AtomicU64,
    dropped_bytes: AtomicU64,
    duplicated_packets: AtomicU64,
    reordered_packets: AtomicU64,
}

impl Counters {
    pub(crate) fn passed(&self, packets: u64, bytes: usize) {
        self.passed_packets.fetch_add(packets, Ordering::Relaxed);
        self.passed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self, packets: u64, bytes: usize) {
        self.dropped_packets.fetch_add(packets, Ordering::Relaxed);
        self.dropped_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn duplicated(&self) {
        self.duplicated_packets.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reordered(&self) {
        self.reordered_packets.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Traffic {
        Traffic {
            passed_packets: self.passed_packets.load(Ordering::Relaxed),
            passed_bytes: self.passed_bytes.load(Ordering::Relaxed),
            dropped_packets: self.dropped_packets.load(Ordering::Relaxed),
            dropped_bytes: self.dropped_bytes.load(Ordering::Relaxed),
            duplicated_packets: self.duplicated_packets.load(Ordering::Relaxed),
            reordered_packets: self.reordered_packets.load(Ordering::Relaxed),
        }
    }
}
