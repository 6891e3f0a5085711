//! The measuring half of a probe without its sockets: STAMP packets, sender and reflector sessions, and what the round trips
//! of a sliding window, and the windows of a link, say about it.
//!
//! Formats follow RFC 8762 (STAMP, unauthenticated and authenticated) and RFC 8972 (session identifier and extensions); a
//! TWAMP-Light peer (RFC 5357, appendix I) is understood too. Metrics follow RFC 2681 (round trip), RFC 7679 (one-way delay),
//! RFC 7680 (loss), RFC 3393 and RFC 5481 (delay variation), RFC 4737 (reordering) and RFC 5560 (duplicates).
//!
//! Invariants:
//! - pure: bytes and times come in as arguments, bytes go out; no socket, no clock;
//! - a window is a function of the probes sent in it, so that a late answer takes back its own loss and no other, and loss is
//!   never negative;
//! - a probe in flight is neither received nor lost;
//! - a round trip is measured on the sender's monotonic clock alone; the far clock only tells how long the reflector took, and
//!   what it says is refused when it cannot be true; a one-way delay needs two synchronised clocks, its variation none;
//! - no answer is longer than its question, and nothing that is an answer gets one.

mod bandwidth;
mod bandwidth_available;
mod bandwidth_budget;
mod bandwidth_counters;
mod bandwidth_run;
mod clock;
mod directions;
mod extensions;
mod figures;
mod key;
mod packet;
mod record;
mod reflection;
mod reflector;
mod sample;
mod sender;
mod spread;
mod tally;
mod tlv;
mod train;
mod trend;
mod variation;

pub use bandwidth::{MOST_CREDIBLE_KBPS, TrainRate, train_rate};
pub use bandwidth_available::{Available, AvailableConfig, AvailableNext, AvailableRun, Sent};
pub use bandwidth_budget::{BandwidthBudget, USUAL_SHARE_PPM, USUAL_SPAN_US};
pub use bandwidth_counters::{CounterReading, Residual, residual};
pub use bandwidth_run::{BandwidthRun, Ended, Found, Next, RunConfig};
pub use clock::{ErrorEstimate, Now, NtpTime, StampFormat};
pub use extensions::{ClockSource, Counted, DirectCounts, Extensions, Reported, Service};
pub use figures::{ClockOffset, Figures, OneWayDelays, PathSeen, RoundTrips};
pub use ipnet::IpNet;
pub use key::{Key, KeyError};
pub use packet::{AUTHENTICATED_BYTES, BASE_BYTES, Mode, PacketError, ReflectorPacket, SHORTEST_BYTES, SenderPacket};
pub use record::{Record, Way};
pub use reflection::FarCount;
pub use reflector::{Counting, Incoming, Reflector, ReflectorConfig, ReflectorCounts, Reply, Unanswered};
pub use rhumb_model::{BandwidthMethod, Confidence};
pub use sample::{Apparent, FarClock, OneWay, Refused, Sample};
pub use sender::{Answered, Received, ReplyError, Sender, SenderConfig};
pub use spread::{BadSpread, Spread};
pub use train::{
    Arrival, MOST_TRAIN_PACKETS, TRAIN_HEADER_BYTES, TrainCount, TrainError, TrainHeader, TrainKind, TrainReceiver,
    arrivals, is_train,
};
pub use trend::{Change, Trend, WindowView};
pub use variation::Variation;
