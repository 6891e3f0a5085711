//! What can go wrong around the sockets.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use rhumb_probe_session::KeyError;

/// Why probing or reflecting could not begin, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The reflector's address could not be bound.
    #[error("cannot reflect probes on {address}; choose a free port, or 0 for any")]
    Bind {
        /// The address tried.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A thread or its wake-up could not be set up.
    #[error("cannot start the {what}")]
    Start {
        /// Which part.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A host name has no address.
    #[error("cannot find an address for `{host}`; give HOST:PORT")]
    Resolve {
        /// What was given.
        host: String,
        /// What the system said, if it failed rather than found nothing.
        #[source]
        source: Option<io::Error>,
    },
    /// Probes could not be sent to a target.
    #[error("cannot probe {target}")]
    Send {
        /// The reflector's address.
        target: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Bandwidth could not be measured.
    #[error("cannot measure the bandwidth to {target}")]
    Measure {
        /// The reflector's address.
        target: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An interface's counter could not be read.
    #[error("cannot read what interface {interface} has sent from {}; name an interface of this host", path.display())]
    Counter {
        /// The interface.
        interface: String,
        /// Where its counter should be.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The budgets could not be read or kept.
    #[error("cannot keep what measuring may send in {}; make it writable, or remove it if it is spoilt", path.display())]
    Ledger {
        /// The file.
        path: PathBuf,
        /// What the system or the format said.
        #[source]
        source: io::Error,
    },
    /// A count or interval outside what one run can do.
    #[error("cannot send {count} probes; one run takes 1 to {most}")]
    Count {
        /// Probes asked for.
        count: u32,
        /// The most.
        most: u32,
    },
    /// The key file could not be read.
    #[error("cannot read the probe key from {}", path.display())]
    ReadKey {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The environment holds no key.
    #[error("{name} holds no usable probe key")]
    EnvKey {
        /// The variable.
        name: &'static str,
        /// What is wrong with it.
        #[source]
        source: KeyError,
    },
    /// A packet of that size cannot be made.
    #[error("cannot send probes of {bytes} octets; give {least} to {most}, or leave out --size")]
    Size {
        /// Octets asked for.
        bytes: usize,
        /// What the packet has anyway.
        least: usize,
        /// The most.
        most: usize,
    },
    /// The key file holds no key.
    #[error("{} holds no usable probe key", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: KeyError,
    },
}
