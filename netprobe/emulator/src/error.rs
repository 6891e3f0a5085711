//! What can go wrong while starting or changing the emulator.

use std::io;
use std::net::SocketAddr;

/// Why the emulator could not start or a change was refused.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// No link has that id; `nearest` is the id that looks most like it.
    #[error("no emulated link is called `{id}`{}", nearest.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    UnknownLink {
        /// What was asked for.
        id: String,
        /// The closest known id, if there is any link.
        nearest: Option<String>,
    },
    /// Two links share an id.
    #[error("two emulated links are called `{id}`; give each directed link an id of its own")]
    DuplicateLink {
        /// The id in question.
        id: String,
    },
    /// A reverse link does not run between the same points the other way round.
    #[error("link `{id}` names `{reverse}` as its reverse, which does not run from `{to}` to `{from}`")]
    NotReverse {
        /// The forward link.
        id: String,
        /// The link named as its reverse.
        reverse: String,
        /// Where the forward link starts.
        from: String,
        /// Where the forward link ends.
        to: String,
    },
    /// A figure lies outside what a link can have.
    #[error("link `{id}` cannot have {what} {value}; the most is {most}")]
    OutOfRange {
        /// The link in question.
        id: String,
        /// The figure, with its unit.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// A front's address could not be bound.
    #[error("cannot listen on {address} for `{id}`; choose a free port, or 0 for any")]
    Bind {
        /// Link or control point the front belongs to.
        id: String,
        /// The address tried.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The threads behind the emulator could not be set up.
    #[error("cannot start the emulator's {what}")]
    Thread {
        /// Which part.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// One end of a cable could not be made.
    #[error("cannot make the device {device} in {namespace}; root and a kernel with TUN are needed", namespace = namespace.display())]
    Cable {
        /// Where it was to be.
        namespace: std::path::PathBuf,
        /// Its name.
        device: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
