use super::*;
use proptest::prelude::*;
use rhumb_model::OrderId;
use uuid::Uuid;

fn one(frame: &Frame) -> BytesMut {
    let mut out = BytesMut::new();
    put(frame, &mut out);
    out
}

fn position() -> impl Strategy<Value = Position> {
    (0..u64::MAX, 0..u64::MAX - PAYLOAD_BYTES_MAX as u64).prop_map(|(seq, offset)| Position { seq, offset })
}

fn data() -> impl Strategy<Value = Frame> {
    let part = prop_oneof![Just(Part::Payload), Just(Part::Open), Just(Part::Fin), Just(Part::Reset)];
    let body = prop::collection::vec(any::<u8>(), 1..400);
    (position(), any::<u32>(), part, any::<bool>(), body).prop_map(|(at, channel, part, sealed, body)| {
        let sealing = if sealed { Sealing::Sealed } else { Sealing::Plain };
        let seal = if sealed { SEAL_BYTES } else { 0 };
        let mut body = if part == Part::Payload { body } else { Vec::new() };
        body.resize(body.len() + seal, 7);
        Frame::Data(Data { at, channel, part, sealing, body: body.into() })
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    let hello =
        ("[a-z0-9][a-z0-9-]{0,62}", any::<[u8; 16]>(), any::<u64>(), any::<u32>(), any::<u32>(), any::<[u8; 32]>());
    let hello = hello.prop_map(|(from, order, generation, leg, path, nonce)| {
        let route = RouteKey { order: OrderId(Uuid::from_bytes(order)), generation, leg, path };
        Frame::Hello(Hello { from: PointName::new(&from).unwrap(), route, nonce })
    });
    let purpose = prop_oneof![any::<u64>().prop_map(|bytes| Purpose::Transfer { bytes }), Just(Purpose::Stream)];
    let open = (purpose, any::<bool>(), any::<u64>(), any::<u64>(), position(), any::<[u8; 16]>());
    let open = open.prop_map(|(purpose, sealed, source, sink, received, salt)| {
        let sealed = if sealed { Sealing::Sealed } else { Sealing::Plain };
        Frame::Open(Open { purpose, sealed, source, sink, received, salt })
    });
    let opened = (any::<u64>(), any::<bool>(), position(), any::<[u8; 16]>());
    let opened = opened.prop_map(|(sink, resumed, received, salt)| {
        let continuity = if resumed { Continuity::Resumed } else { Continuity::Fresh };
        Frame::Opened(Opened { sink, continuity, received, salt })
    });
    prop_oneof![
        hello,
        (any::<[u8; 32]>(), any::<[u8; 32]>()).prop_map(|(nonce, mac)| Frame::Challenge { nonce, mac }),
        any::<[u8; 32]>().prop_map(|mac| Frame::Proof { mac }),
        open,
        opened,
        data(),
        position().prop_map(Frame::Ack),
        (any::<u32>(), any::<u64>()).prop_map(|(channel, total)| Frame::Credit { channel, total }),
        any::<u64>().prop_map(|bytes| Frame::Fin { bytes }),
        "[ -~]{0,500}".prop_map(Frame::Error),
        Just(Frame::KeepAlive),
        any::<u64>().prop_map(|number| Frame::Probe { number }),
        (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(number, filled, us)| Frame::Echo { number, filled, us }),
        (0..=PAYLOAD_BYTES_MAX as u16).prop_map(Frame::Fill),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(frames in prop::collection::vec(frame(), 1..6), cut in 1_usize..50) {
        let mut all = BytesMut::new();
        for frame in &frames {
            put(frame, &mut all);
        }
        let (mut buffer, mut read) = (BytesMut::new(), Vec::new());
        for piece in all.chunks(cut) {
            buffer.extend_from_slice(piece);
            while let Some(whole) = take(&mut buffer, FRAME_BYTES_MAX).unwrap() {
                read.push(parse(&whole).unwrap());
            }
        }
        prop_assert_eq!(read, frames);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn any_octets_give_a_frame_or_an_error(octets in prop::collection::vec(any::<u8>(), 0..300), kind in 0_u8..17) {
        let mut buffer = BytesMut::from(&octets[..]);
        let _ = take(&mut buffer, FRAME_BYTES_MAX);
        let _ = parse(&Bytes::from(octets.clone()));
        let mut body = vec![0, 0, 0, 0, kind];
        body.extend_from_slice(&octets);
        if let Ok(frame) = parse(&Bytes::from(body)) {
            prop_assert!(one(&frame).len() <= 4 + FRAME_BYTES_MAX);
        }
    }

    #[test]
    fn a_frame_cut_short_is_no_frame(frame in frame(), keep in 0_usize..400) {
        let whole = one(&frame).freeze();
        let keep = keep.min(whole.len() - 1);
        let cut = parse(&whole.slice(..keep));
        // a message or a payload may end anywhere
        if !matches!(frame, Frame::Error(_) | Frame::Data(_) | Frame::Fill(_)) {
            prop_assert!(cut.is_err(), "{:?}", cut);
        }
    }
}

#[test]
fn another_version_is_refused_whatever_follows() {
    let from = PointName::new("a").unwrap();
    let route = RouteKey { order: OrderId(Uuid::nil()), generation: 1, leg: 0, path: 0 };
    let mut octets = one(&Frame::Hello(Hello { from, route, nonce: [0; 32] }));
    octets[10] = 9;
    octets.truncate(12);
    assert_eq!(parse(&octets.freeze()), Err(FrameError::Version(9)));
}

#[test]
fn a_long_frame_is_refused_by_its_length_alone() {
    let mut buffer = BytesMut::from(&[0xff_u8, 0xff, 0xff, 0xff][..]);
    assert!(matches!(take(&mut buffer, FRAME_BYTES_MAX), Err(FrameError::TooLong { .. })));
    let body = Bytes::from(vec![0; PAYLOAD_BYTES_MAX]);
    let at = Position::default();
    let data = Data { at, channel: 0, part: Part::Payload, sealing: Sealing::Plain, body };
    assert!(matches!(take(&mut one(&Frame::Data(data.clone())), FRAME_BYTES_MAX), Ok(Some(_))));
    let longer = Data { body: Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]), ..data };
    assert!(parse(&one(&Frame::Data(longer)).freeze()).is_err());
}
