//! What one answered probe says.

use serde::{Deserialize, Serialize};

use crate::{ErrorEstimate, NtpTime, ReflectorPacket};

/// No path on Earth takes longer; what claims to is an error of a clock or of a program.
pub(crate) const LONGEST_NS: u64 = 60_000_000_000;

const CLOCK_RESOLUTION_NS: u64 = 1_000;
/// Clocks are slewed by at most one part in this many (`adjtime` allows 500 ppm).
const MOST_SLEW: u64 = 1_000;

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// (T4 - T1) - (T3 - T2): the round trip without the time the reflector took, in nanoseconds.
    pub rtt_ns: u64,
    /// What the far clock was good for.
    pub far_clock: FarClock,
    /// One-way delays, if both clocks follow UTC well enough to tell.
    pub one_way: Option<OneWay>,
    /// What the two clocks make of each direction; good for differences only. `None` without the far end's times.
    pub apparent: Option<Apparent>,
}

/// Receive time less send time of each direction in nanoseconds, each on its own clock: true but for a constant and a drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Apparent {
    /// T2 - T1.
    pub forward_ns: i64,
    /// T4 - T3.
    pub backward_ns: i64,
}

/// What could be taken from the reflector's time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FarClock {
    /// It says that it follows UTC.
    Synchronised,
    /// It runs free: good for the time the reflector took, not for a one-way delay.
    Unsynchronised,
    /// No time stamps: the round trip includes the time the reflector took.
    Absent,
}

/// Delay of each direction in nanoseconds (RFC 7679).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneWay {
    /// T2 - T1.
    pub forward_ns: u64,
    /// T4 - T3.
    pub backward_ns: u64,
}

/// Why an answer gave no measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It came before its probe was sent, or over a minute after.
    #[error("a round trip of {elapsed_ns} ns cannot be")]
    RoundTrip {
        /// T4 - T1.
        elapsed_ns: i128,
    },
    /// The reflector claims a time that is negative or longer than the whole round trip.
    #[error("the reflector claims to have taken {claimed_ns} ns of a round trip of {elapsed_ns} ns")]
    Processing {
        /// T3 - T2.
        claimed_ns: i64,
        /// T4 - T1.
        elapsed_ns: u64,
    },
}

/// The sender's side of a round trip.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NearSide {
    pub(crate) sent_ns: u64,
    pub(crate) received_ns: u64,
    pub(crate) received: NtpTime,
    pub(crate) error: ErrorEstimate,
}

impl Sample {
    pub(crate) fn new(near: &NearSide, reply: &ReflectorPacket) -> Result<Self, Refused> {
        let elapsed = i128::from(near.received_ns) - i128::from(near.sent_ns);
        let elapsed_ns = u64::try_from(elapsed)
            .ok()
            .filter(|elapsed_ns| *elapsed_ns <= LONGEST_NS)
            .ok_or(Refused::RoundTrip { elapsed_ns: elapsed })?;
        if reply.received.is_unset() || reply.sent.is_unset() {
            return Ok(Self { rtt_ns: elapsed_ns, far_clock: FarClock::Absent, one_way: None, apparent: None });
        }
        let claimed_ns = reply.sent.since_ns(reply.received, reply.error.format());
        let rtt_ns = u64::try_from(claimed_ns)
            .ok()
            .and_then(|taken_ns| less(elapsed_ns, taken_ns))
            .ok_or(Refused::Processing { claimed_ns, elapsed_ns })?;
        let far_clock = if reply.error.is_synchronised() { FarClock::Synchronised } else { FarClock::Unsynchronised };
        let (near_format, far_format) = (near.error.format(), reply.error.format());
        let apparent = Apparent {
            forward_ns: reply.received.apart_ns(far_format, reply.sender_sent, near_format),
            backward_ns: near.received.apart_ns(near_format, reply.sent, far_format),
        };
        Ok(Self { rtt_ns, far_clock, one_way: one_way(near, reply), apparent: Some(apparent) })
    }
}

/// What the path took of a round trip. Two clocks that are slewed differ by up to a thousandth, and by their resolution: that
/// much too little is nothing.
fn less(elapsed_ns: u64, taken_ns: u64) -> Option<u64> {
    let slack_ns = CLOCK_RESOLUTION_NS + elapsed_ns / MOST_SLEW;
    (taken_ns <= elapsed_ns + slack_ns).then(|| elapsed_ns.saturating_sub(taken_ns))
}

/// Only if both ends say they follow UTC, write the same format, and their errors together stay below a tenth of the delay.
fn one_way(near: &NearSide, reply: &ReflectorPacket) -> Option<OneWay> {
    let format = near.error.format();
    if !near.error.is_synchronised() || !reply.error.is_synchronised() || reply.error.format() != format {
        return None;
    }
    let forward_ns = u64::try_from(reply.received.since_ns(reply.sender_sent, format)).ok()?;
    let backward_ns = u64::try_from(near.received.since_ns(reply.sent, format)).ok()?;
    let error_ns = near.error.error_ns()?.checked_add(reply.error.error_ns()?)?;
    (error_ns < forward_ns.min(backward_ns) / 10).then_some(OneWay { forward_ns, backward_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNCHRONISED: ErrorEstimate = ErrorEstimate::from_bits(0x8000 | (14 << 8) | 1);

    fn at(milliseconds: f64) -> NtpTime {
        if milliseconds == 0.0 {
            return NtpTime::default();
        }
        NtpTime::from_unix_ns((milliseconds * 1_000_000.0) as u128)
    }

    /// Times in milliseconds; `t1` and `t4` on the near clock, `t2` and `t3` on the far one.
    fn sample(t: [f64; 4], near: ErrorEstimate, far: ErrorEstimate) -> Result<Sample, Refused> {
        let [t1, t2, t3, t4] = t;
        let ns = |milliseconds: f64| (milliseconds * 1_000_000.0) as u64;
        let near = NearSide { sent_ns: ns(t1), received_ns: ns(t4), received: at(t4), error: near };
        let reply = ReflectorPacket {
            sequence: 0,
            sent: at(t3),
            error: far,
            ssid: 0,
            received: at(t2),
            sender_sequence: 0,
            sender_sent: at(t1),
            sender_error: near.error,
            sender_ttl: 255,
        };
        Sample::new(&near, &reply)
    }

    const FREE: ErrorEstimate = ErrorEstimate::UNSYNCHRONISED;

    /// Case H-O17, its first sample (perfsonar/owamp#66).
    #[test]
    fn an_unsynchronised_far_clock_gives_no_one_way_delay() {
        let sample = sample([1_000_000.0, 999_733.0, 999_734.0, 1_000_009.1], FREE, FREE).unwrap();
        assert!(sample.rtt_ns.abs_diff(8_100_000) < 10, "{sample:?}");
        assert_eq!((sample.far_clock, sample.one_way), (FarClock::Unsynchronised, None));
    }

    /// Case H-O17, its second sample.
    #[test]
    fn a_far_end_without_time_stamps_is_flagged() {
        let sample = sample([1_000_000.0, 0.0, 0.0, 1_000_025.0], FREE, FREE).unwrap();
        assert_eq!((sample.rtt_ns, sample.far_clock), (25_000_000, FarClock::Absent));
        assert_eq!((sample.one_way, sample.apparent), (None, None));
    }

    /// Fault F58. Both ends on one machine.
    #[test]
    fn no_delay_at_all_is_a_measurement() {
        assert_eq!(sample([1_000.0, 1_000.0, 1_000.0, 1_000.0], FREE, FREE).unwrap().rtt_ns, 0);
        let rounded = sample([1_000.0, 1_000.0, 1_000.010_5, 1_000.01], FREE, FREE).unwrap();
        assert_eq!(rounded.rtt_ns, 0, "half a microsecond of two clocks' difference");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |t| sample(t, FREE, FREE).unwrap_err();
        assert!(matches!(refused([2_000.0, 2_001.0, 2_001.0, 1_000.0]), Refused::RoundTrip { .. }));
        assert!(matches!(refused([1_000.0, 1_001.0, 1_001.0, 61_001.0]), Refused::RoundTrip { .. }));
        assert!(matches!(refused([1_000.0, 1_005.0, 1_004.0, 1_010.0]), Refused::Processing { .. }));
        assert!(matches!(refused([1_000.0, 1_005.0, 1_016.0, 1_010.0]), Refused::Processing { .. }));
    }

    #[test]
    fn synchronised_clocks_give_both_directions() {
        let t = [1_000.0, 1_020.0, 1_021.0, 1_031.0];
        let both = sample(t, SYNCHRONISED, SYNCHRONISED).unwrap();
        let one_way = both.one_way.unwrap();
        assert!(one_way.forward_ns.abs_diff(20_000_000) < 10 && one_way.backward_ns.abs_diff(10_000_000) < 10);
        assert_eq!(sample(t, SYNCHRONISED, FREE).unwrap().one_way, None);
        let vague = ErrorEstimate::from_bits(0x8000 | (24 << 8) | 1);
        assert_eq!(sample(t, SYNCHRONISED, vague).unwrap().one_way, None, "an error of 4 ms on 10 ms");
    }
}
