//! What an overlay starts from, and its limits.

use rhumb_model::{DatasetName, OrderId, PointName};
use std::{fmt, fs::File, io, net::SocketAddr, path::Path, path::PathBuf, sync::Arc, time::Duration};

/// Everything [`super::Overlay::start`] needs.
#[derive(Debug, Clone)]
pub struct OverlayConfig {
    /// Name of this point, as its neighbours know it.
    pub point: PointName,
    /// Where neighbours connect; port 0 for any.
    pub listen: SocketAddr,
    /// Holds `inputs/`, `incoming/` and the flows' sockets.
    pub data_dir: PathBuf,
    pub datasets: Arc<dyn DatasetSource>,
    pub limits: Limits,
}

/// The datasets of this point. All calls may block; the overlay makes them off its event loop.
pub trait DatasetSource: Send + Sync + fmt::Debug {
    /// Opens what a transfer that begins here reads.
    fn open(&self, wanted: &DatasetRequest) -> io::Result<File>;

    /// Makes the complete file at `arrived` a dataset of this point, in one step and by moving it. The same one again
    /// replaces it.
    fn store(&self, name: &DatasetName, arrived: &Path, bytes: u64, sha256: &str) -> io::Result<()>;
}

/// Which file a transfer reads at its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetRequest {
    pub order: OrderId,
    pub generation: u64,
    pub dataset: DatasetName,
    pub origin: Origin,
}

/// Where the source looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A dataset this point holds, on its way to an order's work.
    Held,
    /// What the order's work wrote here, on its way to become a dataset elsewhere.
    Produced,
}

/// Bounds of everything that waits, queues or retries.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections that have not yet proved who they are.
    pub greetings: usize,
    /// How long such a connection may take.
    pub greeting: Duration,
    /// How long a neighbour may take to accept and prove itself.
    pub connect: Duration,
    /// How long a circuit may take to stand end to end.
    pub open: Duration,
    /// An idle hop says so this often.
    pub keep_alive: Duration,
    /// A hop not heard of for so long is gone.
    pub silence: Duration,
    /// A hop that takes nothing for so long is gone.
    pub stuck: Duration,
    /// First pause before another attempt; doubles up to `retry_most`.
    pub retry_first: Duration,
    pub retry_most: Duration,
    /// Bytes of a stream on their way in one direction, the most kept for sending again.
    pub stream_window_bytes: u64,
    /// Bytes of a transfer on their way; nobody keeps them, the source reads again.
    pub transfer_window_bytes: u64,
    /// Bytes of a transfer after which the sink makes sure of what it has.
    pub progress_bytes: u64,
    /// Bytes that show, before a path is called active, how fast they come out at its end; sent at the route's rate, but not
    /// within less than `test_time`.
    pub test_bytes: u64,
    pub test_time: Duration,
    /// A path that carries nothing is probed this often.
    pub probe: Duration,
    /// Connections of processes that one leg carries at a time; more are closed.
    pub channels: usize,
    /// Connections of processes that wait for a partner at one flow.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            greetings: 64,
            greeting: Duration::from_secs(5),
            connect: Duration::from_secs(5),
            open: Duration::from_secs(15),
            keep_alive: Duration::from_secs(2),
            silence: Duration::from_secs(8),
            stuck: Duration::from_secs(30),
            retry_first: Duration::from_millis(50),
            retry_most: Duration::from_secs(2),
            stream_window_bytes: 8 << 20,
            // 64 MiB in flight are 1 Gbit/s over half a second
            transfer_window_bytes: 64 << 20,
            progress_bytes: 4 << 20,
            // 256 KiB within 100 ms attest 21 Mbit/s; more bytes would disturb those who pay for the links
            test_bytes: 256 << 10,
            test_time: Duration::from_millis(100),
            probe: Duration::from_secs(1),
            channels: 64,
            waiting: 64,
        }
    }
}

/// Why the overlay could not do what its owner asked.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    #[error("cannot listen for overlay neighbours on {address}; choose a free address")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot prepare the overlay's folder {path}", path = path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(
        "the socket path {path} has {length} bytes, sockets take at most {limit}; choose a shorter data folder",
        path = path.display(),
        length = path.as_os_str().len(),
        limit = super::flows::PATH_BYTES_MAX
    )]
    PathTooLong { path: PathBuf },
    #[error(transparent)]
    Tls(#[from] super::tls::TlsError),
    #[error("cannot open the flow socket {path}", path = path.display())]
    Socket { path: PathBuf, source: io::Error },
}
