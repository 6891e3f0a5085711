use super::*;
use proptest::prelude::*;

const WINDOW: u64 = 300 << 10;

/// Two ends and a circuit that now and then loses what is on its way.
struct World {
    source: Mux,
    sink: Mux,
    forward: VecDeque<Outgoing>,
    back: VecDeque<Outgoing>,
}

impl World {
    fn new() -> Self {
        let end = |end| Mux::new(end, WINDOW, 4);
        Self { source: end(End::Source), sink: end(End::Sink), forward: VecDeque::new(), back: VecDeque::new() }
    }

    fn lose_circuit(&mut self) {
        self.forward.clear();
        self.back.clear();
        let (at_source, at_sink) = (self.source.received(), self.sink.received());
        self.source.resume(at_sink).unwrap();
        self.sink.resume(at_source).unwrap();
    }

    /// Moves up to `steps` messages each way.
    fn carry(&mut self, steps: usize) {
        for _ in 0..steps {
            self.forward.extend(self.source.outgoing());
            self.back.extend(self.sink.outgoing());
            if let Some(message) = self.forward.pop_front() {
                deliver(&mut self.sink, message);
            }
            if let Some(message) = self.back.pop_front() {
                deliver(&mut self.source, message);
            }
        }
    }
}

fn deliver(to: &mut Mux, message: Outgoing) {
    match message {
        Outgoing::Ack(position) => to.acked(position).unwrap(),
        Outgoing::Credit { channel, total } => to.credited(channel, total),
        Outgoing::Data(data) => {
            to.receive(&data).unwrap();
        }
    }
}

fn offer(mux: &mut Mux, id: u32, rest: &mut &[u8]) {
    if let Room::Bytes(room) = mux.room(id) {
        let (now, later) = rest.split_at(rest.len().min(room).min(7_000));
        mux.send(id, Bytes::copy_from_slice(now));
        *rest = later;
        if rest.is_empty() {
            mux.finish(id);
        }
    }
}

fn drink(mux: &mut Mux, id: u32, into: &mut Vec<u8>) -> Chunk {
    let chunk = mux.take(id);
    if let Chunk::Bytes(bytes) = &chunk {
        into.extend_from_slice(bytes);
        mux.consumed(id, bytes.len() as u64);
    }
    chunk
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn every_byte_arrives_once_and_in_order_whatever_is_lost(
        lengths in prop::collection::vec(1_usize..900_000, 1..4),
        steps in prop::collection::vec((1_usize..60, any::<bool>()), 1..30),
    ) {
        let mut world = World::new();
        let payload: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(n, len)| (0..*len).map(|i| (i * (n + 3) % 251) as u8).collect()).collect();
        let ids: Vec<u32> = payload.iter().map(|_| world.source.open().unwrap()).collect();
        let mut there: Vec<&[u8]> = payload.iter().map(Vec::as_slice).collect();
        let mut back = there.clone();
        let (mut got, mut got_back) = (vec![Vec::new(); ids.len()], vec![Vec::new(); ids.len()]);
        let mut ended = 0;
        let plan = steps.iter().copied().chain(std::iter::repeat((50, false)));
        for (round, (count, lose)) in plan.enumerate() {
            prop_assert!(round < 5_000, "the world stands still");
            for (n, id) in ids.iter().enumerate() {
                offer(&mut world.source, *id, &mut there[n]);
                offer(&mut world.sink, *id, &mut back[n]);
                ended += usize::from(drink(&mut world.sink, *id, &mut got[n]) == Chunk::End);
                ended += usize::from(drink(&mut world.source, *id, &mut got_back[n]) == Chunk::End);
            }
            world.carry(count);
            if lose {
                world.lose_circuit();
            }
            if ended == 2 * ids.len() {
                break;
            }
        }
        prop_assert!(got == payload && got_back == payload);
        world.carry(100);
        prop_assert!(world.source.channels.is_empty() && world.sink.channels.is_empty());
        prop_assert!(world.source.outbox.is_empty() && world.sink.outbox.is_empty());
    }
}

#[test]
fn a_process_that_does_not_read_holds_up_its_own_channel_only() {
    let mut world = World::new();
    let (slow, quick) = (world.source.open().unwrap(), world.source.open().unwrap());
    let all = vec![1; 4 << 20];
    let (mut for_slow, mut for_quick) = (&all[..], &all[..]);
    let mut got = Vec::new();
    for _ in 0..4_000 {
        offer(&mut world.source, slow, &mut for_slow);
        offer(&mut world.source, quick, &mut for_quick);
        world.carry(4);
        drink(&mut world.sink, quick, &mut got);
    }
    assert_eq!(got.len(), all.len());
    let kept = world.sink.channels[&slow].inbox.len() as u64;
    assert_eq!(kept, FIRST_CREDIT_BYTES);
    assert_eq!(world.source.room(slow), Room::Full);
}

#[test]
fn what_is_on_its_way_never_exceeds_the_window() {
    let mut source = Mux::new(End::Source, WINDOW, 4);
    let ids = [source.open().unwrap(), source.open().unwrap()];
    let all = vec![1; 4 << 20];
    let mut rest = [&all[..], &all[..]];
    for _ in 0..1_000 {
        for (id, rest) in ids.iter().zip(&mut rest) {
            offer(&mut source, *id, rest);
        }
    }
    assert_eq!(source.outbox.iter().map(|data| data.body.len() as u64).sum::<u64>(), WINDOW);
}

#[test]
fn a_far_end_that_breaks_the_protocol_is_noticed() {
    let mut sink = Mux::new(End::Sink, WINDOW, 1);
    let data = |seq, offset, channel, part, length| Data {
        at: Position { seq, offset },
        channel,
        part,
        sealing: Sealing::Plain,
        body: vec![0; length].into(),
    };
    assert_eq!(sink.receive(&data(0, 0, 7, Part::Open, 0)), Ok(Event::Opened(7)));
    assert_eq!(sink.receive(&data(2, 0, 7, Part::Fin, 0)), Err(MuxError::Sequence));
    assert_eq!(sink.receive(&data(1, 5, 7, Part::Fin, 0)), Err(MuxError::Sequence));
    // one too many is turned away, the rest goes on
    assert_eq!(sink.receive(&data(1, 0, 8, Part::Open, 0)), Ok(Event::Nothing));
    let offset = |n: u64| n * 16_384;
    for n in 0..16 {
        assert_eq!(sink.receive(&data(2 + n, offset(n), 7, Part::Payload, 16_384)), Ok(Event::Arrived(7)));
    }
    assert_eq!(sink.receive(&data(18, offset(16), 7, Part::Payload, 1)), Err(MuxError::Credit));
    assert_eq!(sink.acked(Position { seq: 9, offset: 0 }), Err(MuxError::Ack));
    let mut source = Mux::new(End::Source, WINDOW, 1);
    assert_eq!(source.receive(&data(0, 0, 0, Part::Open, 0)), Err(MuxError::Open));
}

#[test]
fn a_channel_given_up_is_gone_on_both_sides() {
    let mut world = World::new();
    let id = world.source.open().unwrap();
    world.source.send(id, Bytes::from_static(b"x"));
    world.carry(5);
    world.sink.abort(id);
    world.carry(5);
    assert_eq!(world.source.room(id), Room::Gone);
    assert_eq!(world.source.take(id), Chunk::Gone);
    assert_eq!(world.sink.take(id), Chunk::Gone);
    assert_eq!(world.source.open(), Some(id + 1));
}
