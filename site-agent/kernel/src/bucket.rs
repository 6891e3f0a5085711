//! The token bucket of a shaper, as the kernel counts it.

use crate::object::Shaper;
use rhumb_model::Bandwidth;

/// Octets of the Ethernet header that the shaper sees of each packet.
const FRAME: u64 = 14;
/// A burst lasts this long at the rate, and is at least one piece that a host hands over at once.
const BURST_MS: u64 = 10;
const LEAST_BURST: u64 = 65_536;
/// The longest that a packet waits; more is dropped.
const QUEUE_MS: u64 = 80;
const LEAST_QUEUE: u64 = 65_536;
const MOST_QUEUE: u64 = 64 << 20;
/// Nanoseconds of one tick of the kernel's packet scheduler.
const TICK_NS: u64 = 64;

/// A rate of IP octets, as the shaper counts them: with the Ethernet header that it sees of every full packet.
pub(crate) fn shaper(link: &str, rate: Bandwidth, mtu: u32) -> Shaper {
    // kbit/s x 125 = octets/s
    let octets_a_second = u128::from(rate.kbps()) * 125;
    let framed = octets_a_second * u128::from(u64::from(mtu) + FRAME) / u128::from(mtu.max(1));
    let rate = u64::try_from(framed).unwrap_or(u64::MAX).max(1);
    let lasting = |ms: u64| rate.saturating_mul(ms) / 1_000;
    let burst = lasting(BURST_MS).clamp(LEAST_BURST, u64::from(u32::MAX / 2)) as u32;
    let queue = lasting(QUEUE_MS).clamp(LEAST_QUEUE, MOST_QUEUE) as u32;
    // as it reads back
    Shaper { link: link.to_owned(), rate, burst: octets(ticks(burst, rate), rate), queue }
}

/// How long `octets` take at `rate` octets a second, in ticks, rounded up.
pub(crate) fn ticks(octets: u32, rate: u64) -> u32 {
    let ns = u128::from(octets) * 1_000_000_000;
    u32::try_from(ns.div_ceil(u128::from(rate.max(1)) * u128::from(TICK_NS))).unwrap_or(u32::MAX)
}

/// Octets that pass in `ticks` at `rate`.
pub(crate) fn octets(ticks: u32, rate: u64) -> u32 {
    u32::try_from(u128::from(ticks) * u128::from(TICK_NS) * u128::from(rate) / 1_000_000_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_promise_counts_ip_octets() {
        let shaper = shaper("rh1", Bandwidth::from_mbps(50), 1_450);
        // 50 Mbit/s are 6.25 MB/s of IP, and 1464 of each 1450 octets on the wire
        assert_eq!(shaper.rate, 6_250_000 * 1_464 / 1_450);
        // 80 ms of it may wait
        assert_eq!(shaper.queue, 504_827);
    }

    proptest! {
        #[test]
        fn a_bucket_reads_back_as_it_was_written(kbps in 1_u64..100_000_000, mtu in 68_u32..9_000) {
            let made = shaper("rh1", Bandwidth::from_kbps(kbps), mtu);
            prop_assert_eq!(octets(ticks(made.burst, made.rate), made.rate), made.burst);
        }
    }
}
