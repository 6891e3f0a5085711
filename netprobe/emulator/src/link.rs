//! One directed link: decides when a packet comes out at the far end, if at all.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;

use crate::status::Counters;
use crate::{Faults, LinkShape};

/// Payload of a full TCP segment over Ethernet with time stamps.
const SEGMENT_BYTES: usize = 1_448;
/// The smallest tail-drop queue, so that a slow link still takes a burst of full-size datagrams.
const LEAST_QUEUE_BYTES: u64 = 64_000;
/// A queue holds this much time at the link's rate.
const QUEUE_MS: u64 = 100;
/// Datagrams a link without a rate may hold in its delay line.
const MOST_IN_FLIGHT_BYTES: usize = 16 << 20;
/// Stream octets one direction of one connection may hold beyond what the link itself holds.
const STREAM_SLACK_BYTES: u64 = 256 << 10;
/// The same for links whose rate is not limited or large.
const STREAM_MOST_BYTES: u64 = 8 << 20;
/// Largest piece of a stream that is scheduled as one.
const MOST_QUANTUM_BYTES: u64 = 64 << 10;
/// A piece is at most this long on the wire, so that connections and datagrams share a link finely.
const QUANTUM_MS: u64 = 2;
/// Extra wait for a lost segment on a link without delay.
const LEAST_RETRANSMIT_NS: u64 = 1_000_000;

const NS_PER_US: u64 = 1_000;

/// State of one directed link. Times are nanoseconds since the emulator's start.
#[derive(Debug)]
pub(crate) struct Link {
    id: String,
    state: Mutex<State>,
    cut: watch::Sender<bool>,
    pub(crate) udp: Counters,
    pub(crate) tcp: Counters,
}

#[derive(Debug)]
struct State {
    shape: LinkShape,
    faults: Faults,
    /// Datagrams accepted so far: the number of the next.
    accepted: u64,
    /// Highest number that has come out.
    newest_out: Option<u64>,
    /// When the transmitter has sent all it has accepted.
    idle_at: u64,
    /// When the last datagram comes out: nothing may come out before it.
    last_due: u64,
    in_flight_bytes: usize,
    loss: StdRng,
    jitter: StdRng,
    segments: StdRng,
    trouble: StdRng,
}

/// A datagram's way through a link, decided as it enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transit {
    /// When it comes out.
    pub(crate) due_at: u64,
    /// Its place among the datagrams the link has accepted.
    pub(crate) number: u64,
    /// Whether it comes out twice.
    pub(crate) twice: bool,
}

/// When a piece of a stream leaves the transmitter, and when it comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) sent_at: u64,
    pub(crate) due_at: u64,
}

impl Link {
    pub(crate) fn new(id: &str, shape: LinkShape, seed: u64) -> Self {
        let stream = |purpose: u64| StdRng::seed_from_u64(stream_seed(seed, id, purpose));
        let state = State {
            shape,
            faults: Faults::default(),
            accepted: 0,
            newest_out: None,
            idle_at: 0,
            last_due: 0,
            in_flight_bytes: 0,
            loss: stream(1),
            jitter: stream(2),
            segments: stream(3),
            trouble: stream(4),
        };
        Self {
            id: id.to_owned(),
            state: Mutex::new(state),
            cut: watch::Sender::new(false),
            udp: Counters::default(),
            tcp: Counters::default(),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn shape(&self) -> LinkShape {
        self.lock().shape
    }

    pub(crate) fn latency_ns(&self) -> u64 {
        self.lock().shape.latency_us * NS_PER_US
    }

    /// Gives the link a new shape. What waits for the transmitter is taken to leave at the new rate.
    pub(crate) fn set_shape(&self, shape: LinkShape, now: u64) {
        let mut state = self.lock();
        let waiting = state.waiting_bytes(now);
        state.shape = shape;
        state.idle_at = now.saturating_add(transmit_ns(waiting, shape.rate_kbps));
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    pub(crate) fn set_cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }

    pub(crate) fn is_cut(&self) -> bool {
        *self.cut.borrow()
    }

    pub(crate) fn watch_cut(&self) -> watch::Receiver<bool> {
        self.cut.subscribe()
    }

    /// What becomes of a datagram that comes now; `None` if it never comes out. What is accepted must be given to `datagram_left`.
    pub(crate) fn accept_datagram(&self, bytes: usize, now: u64) -> Option<Transit> {
        let transit = if self.is_cut() { None } else { self.lock().accept_datagram(bytes, now) };
        if transit.is_none() {
            self.udp.dropped(1, bytes);
        }
        transit
    }

    /// Takes a datagram out of the link; how many copies are to be handed to the far end.
    pub(crate) fn datagram_left(&self, bytes: usize, transit: Transit) -> usize {
        let mut state = self.lock();
        state.in_flight_bytes -= bytes;
        if self.is_cut() {
            drop(state);
            self.udp.dropped(1, bytes);
            return 0;
        }
        let late = state.newest_out > Some(transit.number);
        state.newest_out = state.newest_out.max(Some(transit.number));
        drop(state);
        self.udp.passed(1, bytes);
        if late {
            self.udp.reordered();
        }
        if transit.twice {
            self.udp.duplicated();
        }
        1 + usize::from(transit.twice)
    }

    /// When a piece of a stream accepted now leaves the transmitter and comes out.
    pub(crate) fn accept_piece(&self, bytes: usize, now: u64) -> Passage {
        self.lock().accept_piece(bytes, now)
    }

    /// Octets one direction of a connection may hold: the link's own content and some slack.
    pub(crate) fn stream_window(&self) -> usize {
        let shape = self.lock().shape;
        let held = match shape.rate_kbps {
            0 => STREAM_MOST_BYTES,
            // kbit/s x us / 8000 = octets
            rate => u128::from(rate)
                .saturating_mul(u128::from(shape.latency_us + shape.jitter_us))
                .div_euclid(8_000)
                .min(u128::from(STREAM_MOST_BYTES)) as u64,
        };
        (held + STREAM_SLACK_BYTES) as usize
    }

    /// Octets of a stream to schedule as one piece.
    pub(crate) fn stream_quantum(&self) -> usize {
        match self.lock().shape.rate_kbps {
            0 => MOST_QUANTUM_BYTES as usize,
            // kbit/s x ms / 8 = octets
            rate => (rate * QUANTUM_MS / 8).clamp(SEGMENT_BYTES as u64, MOST_QUANTUM_BYTES) as usize,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn accept_datagram(&mut self, bytes: usize, now: u64) -> Option<Transit> {
        if self.shape.loss_ppm > 0 && self.loss.random_range(0..1_000_000) < self.shape.loss_ppm {
            return None;
        }
        if self.faults.most_bytes > 0 && bytes > self.faults.most_bytes {
            return None;
        }
        let rate = self.shape.rate_kbps;
        let queue_bytes = LEAST_QUEUE_BYTES.max(rate * QUEUE_MS / 8);
        let over_full = rate > 0 && self.waiting_bytes(now) + bytes as u64 > queue_bytes;
        if over_full || self.in_flight_bytes + bytes > MOST_IN_FLIGHT_BYTES {
            return None;
        }
        self.in_flight_bytes += bytes;
        let number = self.accepted;
        self.accepted += 1;
        let sent_at = self.transmit(bytes, now);
        let due_at = sent_at + self.delay_ns();
        let twice = self.strikes(self.faults.duplicate_ppm);
        if self.strikes(self.faults.reorder_ppm) {
            // held back on its own: those behind it keep to their time
            return Some(Transit { due_at: due_at + self.faults.reorder_us * NS_PER_US, number, twice });
        }
        self.last_due = self.last_due.max(due_at);
        Some(Transit { due_at: self.last_due, number, twice })
    }

    fn strikes(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.trouble.random_range(0..1_000_000) < ppm
    }

    fn accept_piece(&mut self, bytes: usize, now: u64) -> Passage {
        let sent_at = self.transmit(bytes, now);
        let mut due_at = sent_at + self.delay_ns();
        if self.shape.loss_ppm > 0 {
            let lost = (0..segments(bytes)).any(|_| self.segments.random_range(0..1_000_000) < self.shape.loss_ppm);
            if lost {
                due_at += (2 * self.shape.latency_us * NS_PER_US).max(LEAST_RETRANSMIT_NS);
            }
        }
        Passage { sent_at, due_at }
    }

    /// Octets accepted but not yet sent.
    fn waiting_bytes(&self, now: u64) -> u64 {
        // kbit/s x ns / 8e6 = octets
        let waiting_ns = self.idle_at.saturating_sub(now);
        (u128::from(waiting_ns) * u128::from(self.shape.rate_kbps) / 8_000_000) as u64
    }

    fn transmit(&mut self, bytes: usize, now: u64) -> u64 {
        self.idle_at = self.idle_at.max(now).saturating_add(transmit_ns(bytes as u64, self.shape.rate_kbps));
        self.idle_at
    }

    fn delay_ns(&mut self) -> u64 {
        let latency = self.shape.latency_us * NS_PER_US;
        match self.shape.jitter_us * NS_PER_US {
            0 => latency,
            jitter => self.jitter.random_range(latency.saturating_sub(jitter)..=latency + jitter),
        }
    }
}

/// Segments of a piece of a stream.
pub(crate) fn segments(bytes: usize) -> u64 {
    bytes.div_ceil(SEGMENT_BYTES) as u64
}

fn transmit_ns(bytes: u64, rate_kbps: u64) -> u64 {
    // octets x 8e6 / kbit/s = ns
    u128::from(bytes)
        .saturating_mul(8_000_000)
        .checked_div(u128::from(rate_kbps))
        .unwrap_or(0)
        .min(u128::from(u64::MAX)) as u64
}

/// FNV-1a over the id, folded with seed and purpose: stable across runs and builds, and a link keeps its stream when others
/// come and go.
fn stream_seed(seed: u64, id: &str, purpose: u64) -> u64 {
    let hash =
        id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash ^ seed.rotate_left(17) ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn link(shape: LinkShape) -> Link {
        Link::new("ab", shape, 7)
    }

    fn due(link: &Link, bytes: usize, now: u64) -> Option<u64> {
        link.accept_datagram(bytes, now).map(|transit| transit.due_at)
    }

    #[test]
    fn faults_are_counted_as_they_come_out() {
        let link = link(LinkShape::delay(1_000));
        link.set_faults(Faults { reorder_ppm: 1_000_000, reorder_us: 5_000, ..Faults::default() });
        let held = link.accept_datagram(44, 0).unwrap();
        link.set_faults(Faults { duplicate_ppm: 1_000_000, most_bytes: 100, ..Faults::default() });
        let doubled = link.accept_datagram(44, MS).unwrap();
        assert_eq!((held.due_at, doubled.due_at), (6 * MS, 2 * MS));
        assert_eq!(link.accept_datagram(101, MS), None, "a hole for large ones");
        assert_eq!((link.datagram_left(44, doubled), link.datagram_left(44, held)), (2, 1));
        let counts = link.udp.read();
        assert_eq!((counts.passed_packets, counts.dropped_packets), (2, 1));
        assert_eq!((counts.duplicated_packets, counts.reordered_packets), (1, 1));
    }

    #[test]
    fn delay_alone_is_exact() {
        let link = link(LinkShape::delay(20_000));
        assert_eq!(due(&link, 100, 5 * MS), Some(25 * MS));
    }

    #[test]
    fn jitter_stays_in_its_band_and_keeps_order() {
        let link = link(LinkShape { latency_us: 20_000, jitter_us: 2_000, ..LinkShape::default() });
        let mut last = 0;
        let mut offsets = Vec::new();
        for packet in 0..2_000 {
            let now = packet * MS;
            let due = due(&link, 44, now).expect("no loss, no rate");
            assert!(due >= last, "reordered");
            last = due;
            assert!((18 * MS..=22 * MS).contains(&(due - now)), "{}", due - now);
            offsets.push(due - now);
        }
        assert!(offsets.iter().max() > Some(&(21 * MS)) && offsets.iter().min() < Some(&(19 * MS)));
    }

    #[test]
    fn loss_follows_the_seed_and_the_rate() {
        let shape = LinkShape { loss_ppm: 50_000, ..LinkShape::delay(1_000) };
        let fates = |link: &Link| (0..20_000).map(|_| link.accept_datagram(44, 0).is_some()).collect::<Vec<_>>();
        let first = fates(&link(shape));
        assert_eq!(first, fates(&link(shape)), "the same seed loses the same packets");
        let lost = first.iter().filter(|arrived| !**arrived).count();
        // binomial: mean 1000, deviation 31; five deviations either way
        assert!((845..=1_155).contains(&lost), "{lost}");
    }

    #[test]
    fn a_full_queue_drops_at_the_tail_and_drains_at_the_rate() {
        // 8 Mbit/s is 1000 octets per millisecond; the queue is 100 ms
        let link = link(LinkShape { rate_kbps: 8_000, ..LinkShape::default() });
        let accepted = (0..200).filter(|_| link.accept_datagram(1_000, 0).is_some()).count();
        assert_eq!(accepted, 100);
        assert_eq!(link.accept_datagram(1_000, 0), None);
        assert_eq!(due(&link, 1_000, 10 * MS), Some(101 * MS));
        assert_eq!(link.udp.read().dropped_packets, 101);
    }

    #[test]
    fn streams_and_datagrams_share_the_rate() {
        let link = link(LinkShape { rate_kbps: 8_000, latency_us: 1_000, ..LinkShape::default() });
        assert_eq!(link.accept_piece(5_000, 0), Passage { sent_at: 5 * MS, due_at: 6 * MS });
        assert_eq!(due(&link, 1_000, 0), Some(7 * MS));
    }

    #[test]
    fn a_higher_rate_frees_the_queue() {
        let link = link(LinkShape { rate_kbps: 800, ..LinkShape::default() });
        for _ in 0..50 {
            link.accept_datagram(1_000, 0);
        }
        link.set_shape(LinkShape { rate_kbps: 8_000, ..LinkShape::default() }, 0);
        assert_eq!(link.lock().idle_at, 50 * MS);
    }

    #[test]
    fn a_lost_segment_costs_a_round_trip_and_no_byte() {
        let link = link(LinkShape { loss_ppm: 1_000_000, ..LinkShape::delay(10_000) });
        assert_eq!(link.accept_piece(100, 0).due_at, 30 * MS);
    }

    #[test]
    fn a_cut_stops_what_is_on_its_way() {
        let link = link(LinkShape::delay(10_000));
        let stopped = link.accept_datagram(44, 0).unwrap();
        link.set_cut(true);
        assert_eq!(link.datagram_left(44, stopped), 0);
        assert_eq!(link.accept_datagram(44, 0), None);
        link.set_cut(false);
        let passing = link.accept_datagram(44, 0).unwrap();
        assert_eq!(link.datagram_left(44, passing), 1);
        let counts = link.udp.read();
        assert_eq!((counts.passed_packets, counts.dropped_packets), (1, 2));
    }

    #[test]
    fn windows_hold_the_links_content() {
        // 20 Mbit/s x 200 ms = 500 kB
        let slow = link(LinkShape { rate_kbps: 20_000, ..LinkShape::delay(200_000) });
        assert_eq!(slow.stream_window(), 500_000 + (256 << 10));
        let fast = link(LinkShape { rate_kbps: 100_000_000, ..LinkShape::delay(200_000) });
        assert_eq!(fast.stream_window(), (8 << 20) + (256 << 10));
    }
}
