//! Times on the wire and how far they can be trusted.

const NS_PER_S: u128 = 1_000_000_000;
/// Seconds from 1900 to 1970.
const UNIX_IN_NTP_S: u64 = 2_208_988_800;

/// One reading of both clocks of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds on a clock that only ever runs forward; its zero means nothing.
    pub monotonic_ns: u64,
    /// Time of day as it goes onto the wire.
    pub wall: NtpTime,
}

/// A 64-bit NTP time stamp: seconds since 1900 and a binary fraction of 32 bits (RFC 5905, section 6). Wraps in 2036.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NtpTime(u64);

/// How the 64 bits of a time stamp are to be read: the Z bit of the error estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampFormat {
    /// Seconds and a binary fraction.
    Ntp,
    /// Seconds and nanoseconds (truncated PTPv2).
    Ptp,
}

/// What a sender or reflector says about its clock (RFC 8762, section 4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorEstimate(u16);

impl NtpTime {
    /// The time that many nanoseconds after 1970.
    pub fn from_unix_ns(unix_ns: u128) -> Self {
        let seconds = (unix_ns / NS_PER_S) as u64 + UNIX_IN_NTP_S;
        // rounded up, so that reading it back gives the same nanosecond
        let fraction = ((unix_ns % NS_PER_S) << 32).div_ceil(NS_PER_S) as u64;
        Self((seconds << 32) + fraction)
    }

    /// The time stamp with these bits.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Whether it was never set: the field is zero.
    pub fn is_unset(self) -> bool {
        self.0 == 0
    }

    /// Nanoseconds from `earlier` to this one, negative if the order is the other way round. True across the wrap.
    pub fn since_ns(self, earlier: Self, format: StampFormat) -> i64 {
        match format {
            StampFormat::Ntp => {
                let difference = self.0.wrapping_sub(earlier.0) as i64;
                ((i128::from(difference) * NS_PER_S as i128) >> 32) as i64
            }
            StampFormat::Ptp => {
                let seconds = (self.high().wrapping_sub(earlier.high())) as i32;
                i64::from(seconds) * NS_PER_S as i64 + i64::from(self.low()) - i64::from(earlier.low())
            }
        }
    }

    /// Nanoseconds from `earlier` to this one where the two may be of different formats. PTP counts leap seconds and NTP does not:
    /// across formats the result is good for differences only.
    pub(crate) fn apart_ns(self, format: StampFormat, earlier: Self, earlier_format: StampFormat) -> i64 {
        if format == earlier_format {
            return self.since_ns(earlier, format);
        }
        (self.unix_ns(format) - earlier.unix_ns(earlier_format)) as i64
    }

    fn unix_ns(self, format: StampFormat) -> i128 {
        let seconds = i128::from(self.high());
        match format {
            StampFormat::Ntp => {
                let fraction = (i128::from(self.low()) * NS_PER_S as i128) >> 32;
                (seconds - i128::from(UNIX_IN_NTP_S)) * NS_PER_S as i128 + fraction
            }
            StampFormat::Ptp => seconds * NS_PER_S as i128 + i128::from(self.low()),
        }
    }

    fn high(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn low(self) -> u32 {
        self.0 as u32
    }
}

impl ErrorEstimate {
    /// A clock that nobody vouches for, NTP format, error of a second.
    pub const UNSYNCHRONISED: Self = Self((32 << 8) | 1);

    /// A clock that follows UTC and is off by at most that many nanoseconds: the least estimate of the format that is not below.
    pub fn synchronised_within(error_ns: u64) -> Self {
        let fits = |scale: u32| {
            let units = (u128::from(error_ns.max(1)) << 32).div_ceil(NS_PER_S << scale);
            (units <= 0xff).then_some(0x8000 | ((scale as u16) << 8) | units as u16)
        };
        Self((0..64).find_map(fits).unwrap_or(0xbfff))
    }

    /// The estimate with these bits.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Whether the clock follows UTC by an external source (the S bit).
    pub fn is_synchronised(self) -> bool {
        self.0 & 0x8000 != 0
    }

    /// How its time stamps are to be read.
    pub fn format(self) -> StampFormat {
        if self.0 & 0x4000 == 0 { StampFormat::Ntp } else { StampFormat::Ptp }
    }

    /// Multiplier x 2^(Scale - 32) seconds, in nanoseconds; `None` for a multiplier of zero, which is not a valid estimate.
    pub fn error_ns(self) -> Option<u64> {
        let scale = u32::from(self.0 >> 8) & 0x3f;
        let multiplier = u128::from(self.0 & 0xff);
        let error = ((multiplier * NS_PER_S) << scale) >> 32;
        (multiplier > 0).then(|| u64::try_from(error).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntp_time_of_a_known_day() {
        // 2024-01-01T00:00:00.5Z: 1704067200 after 1970, era 0 of NTP
        let time = NtpTime::from_unix_ns(1_704_067_200_500_000_000);
        assert_eq!(time.bits(), (3_913_056_000_u64 << 32) | 0x8000_0000);
    }

    #[test]
    fn differences_keep_their_nanoseconds_and_cross_the_wrap() {
        let start = NtpTime::from_unix_ns(1_704_067_200_123_456_789);
        let end = NtpTime::from_unix_ns(1_704_067_200_123_457_890);
        assert!((1_100..=1_102).contains(&end.since_ns(start, StampFormat::Ntp)));
        let before = NtpTime::from_bits(u64::MAX - (1 << 31));
        let after = NtpTime::from_bits(1 << 31);
        assert_eq!(after.since_ns(before, StampFormat::Ntp), 1_000_000_000);
        assert_eq!(before.since_ns(after, StampFormat::Ntp), -1_000_000_001);
        let ptp = |seconds: u64, ns: u64| NtpTime::from_bits((seconds << 32) | ns);
        assert_eq!(ptp(8, 100).since_ns(ptp(7, 999_999_900), StampFormat::Ptp), 200);
    }

    #[test]
    fn a_stated_error_is_never_understated() {
        for error_ns in [0, 1, 250, 1_000, 999_999, 1_000_000, 60_000_000_000, u64::MAX >> 1] {
            let estimate = ErrorEstimate::synchronised_within(error_ns);
            let read = estimate.error_ns().unwrap();
            assert!(estimate.is_synchronised() && estimate.format() == StampFormat::Ntp);
            // the format has eight bits of precision, and rounds down what it reads by less than a nanosecond
            assert!(read + 1 >= error_ns && read <= error_ns.saturating_add(error_ns / 100) + 1, "{error_ns} {read}");
        }
    }

    #[test]
    fn error_estimates_read_as_the_rfc_says() {
        let estimate = ErrorEstimate::UNSYNCHRONISED;
        assert!(!estimate.is_synchronised());
        assert_eq!((estimate.format(), estimate.error_ns()), (StampFormat::Ntp, Some(1_000_000_000)));
        let good = ErrorEstimate::from_bits(0xc000 | (22 << 8) | 2);
        assert!(good.is_synchronised());
        assert_eq!((good.format(), good.error_ns()), (StampFormat::Ptp, Some(1_953_125)));
        assert_eq!(ErrorEstimate::from_bits(0x3f00).error_ns(), None);
        assert_eq!(ErrorEstimate::from_bits(0x3fff).error_ns(), Some(u64::MAX));
    }
}
