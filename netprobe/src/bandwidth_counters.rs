//! Bandwidth without a packet sent: what an interface's own counter saw pass.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rhumb_probe_session::{CounterReading, Residual, residual};

use crate::ProbeError;

/// What to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterConfig {
    /// A network interface of this host.
    pub interface: String,
    /// The committed rate of the link behind it, in kbit/s.
    pub committed_kbps: u64,
    /// Time between readings.
    pub every: Duration,
    /// How many readings; at least six say something.
    pub readings: u32,
}

/// What the link behind the interface has left: its committed rate less the 95th percentile of what passed. `None` where the
/// readings were too few, or the interface was made anew meanwhile.
pub async fn counters(config: &CounterConfig) -> Result<Option<Residual>, ProbeError> {
    let start = Instant::now();
    let mut timer = tokio::time::interval(config.every);
    let mut readings = Vec::new();
    for _ in 0..config.readings {
        timer.tick().await;
        let bytes = interface_bytes(&config.interface).await?;
        readings.push(CounterReading { at_us: start.elapsed().as_micros() as u64, bytes });
    }
    Ok(residual(config.committed_kbps, &readings))
}

/// Octets that an interface has sent since it was made.
pub async fn interface_bytes(interface: &str) -> Result<u64, ProbeError> {
    let path = PathBuf::from("/sys/class/net").join(interface).join("statistics/tx_bytes");
    let failed = |source| ProbeError::Counter { interface: interface.to_owned(), path: path.clone(), source };
    // a name with a slash in it would lead elsewhere
    if interface.is_empty() || interface.contains('/') || interface.starts_with('.') {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    }
    let text = tokio::fs::read_to_string(&path).await.map_err(failed)?;
    text.trim().parse().map_err(|_| failed(io::ErrorKind::InvalidData.into()))
}
