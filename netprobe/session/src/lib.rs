//! The measuring half of a probe without its sockets: STAMP packets, sender and reflector sessions, and what the round trips
//! of a sliding window say about a link.
//!
//! Formats follow RFC 8762 (STAMP, unauthenticated and authenticated) and the session identifier of RFC 8972; a TWAMP-Light
//! peer (RFC 5357, appendix I) is understood too. Metrics follow RFC 2681 (round trip), RFC 7680 (loss) and RFC 3393 (delay
//! variation).
//!
//! Invariants:
//! - pure: bytes and times come in as arguments, bytes go out; no socket, no clock;
//! - a window is a function of the probes sent in it, so that a late answer takes back its own loss and no other, and loss is
//!   never negative;
//! - a probe in flight is neither received nor lost;
//! - a round trip is measured on the sender's monotonic clock alone; the far clock only tells how long the reflector took, and
//!   what it says is refused when it cannot be true;
//! - no answer is longer than its question.

mod bandwidth;
mod bandwidth_budget;
mod bandwidth_run;
mod bandwidth_trust;
mod clock;
mod figures;
mod key;
mod packet;
mod reflector;
mod sample;
mod sender;
mod train;

pub use bandwidth::{MOST_CREDIBLE_KBPS, TrainRate, train_rate};
pub use bandwidth_budget::{BandwidthBudget, USUAL_SHARE_PPM, USUAL_SPAN_US};
pub use bandwidth_run::{BandwidthRun, Confidence, Ended, Found, Next, RunConfig};
pub use bandwidth_trust::{BandwidthEstimate, BandwidthMethod, CounterReading, most_trusted, residual};
pub use clock::{ErrorEstimate, Now, NtpTime, StampFormat};
pub use figures::{Figures, RoundTrips};
pub use key::{Key, KeyError};
pub use packet::{AUTHENTICATED_BYTES, BASE_BYTES, Mode, PacketError, ReflectorPacket, SHORTEST_BYTES, SenderPacket};
pub use reflector::{Reflector, ReflectorConfig, ReflectorCounts, Unanswered};
pub use sample::{FarClock, OneWay, Refused, Sample};
pub use sender::{Answered, ReplyError, Sender, SenderConfig};
pub use train::{
    Arrival, MOST_TRAIN_PACKETS, TRAIN_HEADER_BYTES, TrainCount, TrainError, TrainHeader, TrainKind, TrainReceiver,
    arrivals, is_train,
};
