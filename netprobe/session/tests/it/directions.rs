//! Counts by direction against what a simulated link knows it did.

use proptest::prelude::*;
use rhumb_probe_session::{
    Counting, Extensions, FarCount, Figures, Key, Mode, Reflector, ReflectorConfig, Sender, SenderConfig,
};

use crate::path::{MS, far, near, source};

/// Probes at the end that meet no trouble, so that the fate of all before them is known.
const CALM: usize = 5;
const INTERVAL: u64 = 20 * MS;

/// What one direction does to a packet.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    lost: bool,
    copies: u64,
    /// Kept back by this many milliseconds.
    late_ms: u64,
}

/// What a direction has done, as its own counters say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Truth {
    lost: u64,
    duplicates: u64,
    reordered: u64,
}

/// A direction: hands over packets with the time they come out, in order, and counts.
fn cross(packets: Vec<(u64, Vec<u8>)>, fates: &[Fate]) -> (Vec<(u64, Vec<u8>)>, Truth) {
    let mut truth = Truth::default();
    let mut out = Vec::new();
    for (number, (at, packet)) in packets.into_iter().enumerate() {
        let fate = fates.get(number).copied().unwrap_or_default();
        if fate.lost {
            truth.lost += 1;
            continue;
        }
        truth.duplicates += fate.copies;
        for copy in 0..=fate.copies {
            // no two come out at one moment: a far end without a count has only its times
            let moment = copy + 4 * number as u64;
            out.push((at + (10 + fate.late_ms) * MS + moment, number, copy, packet.clone()));
        }
    }
    out.sort();
    let mut newest = 0;
    for (_, number, copy, _) in &out {
        truth.reordered += u64::from(*copy == 0 && *number < newest);
        newest = newest.max(*number);
    }
    (out.into_iter().map(|(at, .., packet)| (at, packet)).collect(), truth)
}

struct Run {
    there: Vec<Fate>,
    back: Vec<Fate>,
    extensions: Extensions,
    mode: Mode,
    counting: Counting,
    far_count: FarCount,
}

impl Run {
    fn new(there: Vec<Fate>, back: Vec<Fate>) -> Self {
        let (counting, far_count) = (Counting::Stateful, FarCount::Assumed);
        Self { there, back, extensions: Extensions::default(), mode: Mode::Open, counting, far_count }
    }

    fn go(&self) -> (Figures, Truth, Truth) {
        let config = SenderConfig {
            window_ns: u64::MAX,
            mode: self.mode.clone(),
            extensions: self.extensions,
            far_count: self.far_count,
            ..SenderConfig::default()
        };
        let limits = ReflectorConfig {
            packets_per_second: 1_000_000,
            mode: self.mode.clone(),
            counting: self.counting,
            ..ReflectorConfig::default()
        };
        let (mut sender, mut reflector) = (Sender::new(config), Reflector::new(limits));
        let count = self.there.len() + CALM;
        let packets = (0..count as u64).map(|probe| (probe * INTERVAL, sender.send(near(probe * INTERVAL)))).collect();
        let (arrived, there) = cross(packets, &self.there);
        let replies: Vec<_> = arrived
            .into_iter()
            .map(|(at, packet)| (at + 1, reflector.reflect(source(1), &packet, far(at), || far(at + 1).wall).unwrap()))
            .collect();
        // the calm ones' answers are the last
        let troubled = replies.len() - CALM;
        let back_fates = &self.back[..self.back.len().min(troubled)];
        let (returned, back) = cross(replies, back_fates);
        for (at, reply) in &returned {
            sender.on_reply(reply, near(*at)).unwrap();
        }
        (sender.figures(3_600_000 * MS), there, back)
    }
}

fn of_forward(figures: &Figures) -> Truth {
    Truth { lost: figures.lost_forward, duplicates: figures.duplicates_forward, reordered: figures.reordered_forward }
}

fn of_backward(figures: &Figures) -> Truth {
    Truth {
        lost: figures.replies_lost.unwrap(),
        duplicates: figures.duplicates_backward,
        reordered: figures.reordered_backward,
    }
}

fn fates(lost: u32, copies: u32, late: u32) -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        60 => Just(Fate::default()),
        lost => Just(Fate { lost: true, ..Fate::default() }),
        copies => (1_u64..3).prop_map(|copies| Fate { copies, ..Fate::default() }),
        late => (20_u64..90).prop_map(|late_ms| Fate { late_ms, ..Fate::default() }),
        late.min(copies) => (20_u64..90).prop_map(|late_ms| Fate { late_ms, copies: 1, ..Fate::default() }),
    ];
    prop::collection::vec(fate, 1..80)
}

fn counted() -> Extensions {
    Extensions { counters: true, ..Extensions::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// All troubles at once, both ways: with the reflector's counters every count is the link's own.
    #[test]
    fn counters_make_every_count_exact(there in fates(10, 10, 10), back in fates(10, 10, 10), tagged: bool) {
        let mode = if tagged { Mode::Authenticated(Key::new(&[7; 16]).unwrap()) } else { Mode::Open };
        let run = Run { extensions: counted(), mode, ..Run::new(there, back) };
        let (figures, there, back) = run.go();
        prop_assert_eq!((of_forward(&figures), of_backward(&figures)), (there, back));
        prop_assert_eq!(figures.sent, figures.received + figures.lost());
    }

    /// The bare packet tells losses apart while nothing is doubled or overtaken,
    #[test]
    fn the_bare_packet_tells_losses_apart(there in fates(20, 0, 0), back in fates(20, 0, 0)) {
        let (figures, there, back) = Run::new(there, back).go();
        prop_assert_eq!((of_forward(&figures), of_backward(&figures)), (there, back));
        prop_assert_eq!((figures.lost_forward, figures.lost_backward), (there.lost, back.lost));
    }

    /// and copies and reordering while nothing is lost.
    #[test]
    fn the_bare_packet_tells_copies_and_order_apart(there in fates(0, 20, 20), back in fates(0, 20, 20)) {
        let (figures, there, back) = Run::new(there, back).go();
        prop_assert_eq!((of_forward(&figures), of_backward(&figures)), (there, back));
        prop_assert_eq!((figures.lost(), figures.duplicates), (0, there.duplicates + back.duplicates));
    }

    /// Without a count at the far end: copies and order by the times of the answers, losses in sum.
    #[test]
    fn a_stateless_reflector_gives_sums(there in fates(10, 10, 10), back in fates(0, 10, 10)) {
        let stateless = |run| Run { counting: Counting::Stateless, far_count: FarCount::Absent, ..run };
        let (figures, there, back) = stateless(Run::new(there, back)).go();
        prop_assert_eq!((figures.lost_backward, figures.replies_lost), (0, None));
        prop_assert_eq!((of_forward(&figures), figures.sent), (there, figures.received + there.lost));
        prop_assert_eq!((figures.duplicates_backward, figures.reordered_backward), (back.duplicates, back.reordered));
    }
}

/// Case H-O16: of six probes three and four come late (esnet/iperf#914).
#[test]
fn gaps_are_no_loss_and_late_ones_are_taken_back() {
    let late = |late_ms| Fate { late_ms, ..Fate::default() };
    let calm = Fate::default();
    let (figures, ..) = Run::new(vec![calm; 6], vec![calm, calm, late(60), late(60), calm, calm]).go();
    assert_eq!((figures.lost(), figures.reordered, figures.duplicates), (0, 2, 0));
    assert_eq!((figures.reordered_forward, figures.reordered_backward), (0, 2));
    let twice = Fate { copies: 1, ..late(60) };
    let (figures, ..) = Run::new(vec![calm; 6], vec![calm, calm, twice, late(60), calm, calm]).go();
    assert_eq!((figures.lost(), figures.reordered, figures.duplicates), (0, 2, 1));
    // three more answers than probes are no negative loss
    let doubled = Fate { copies: 1, ..calm };
    let mut back = vec![doubled; 3];
    back.resize(20, calm);
    let (figures, ..) = Run::new(vec![calm; 20], back).go();
    assert_eq!((figures.received, figures.lost(), figures.duplicates), (figures.sent, 0, 3));
}

/// Each direction is an edge of its own: what one of them does says nothing of the other.
#[test]
fn a_way_that_loses_all_is_told_from_the_way_back() {
    let lost = Fate { lost: true, ..Fate::default() };
    let (there, ..) = Run::new(vec![lost; 30], vec![]).go();
    assert_eq!((there.lost_forward, there.lost_backward), (30, 0));
    let (back, ..) = Run::new(vec![Fate::default(); 30], vec![lost; 30]).go();
    assert_eq!((back.lost_forward, back.lost_backward), (0, 30));
}
