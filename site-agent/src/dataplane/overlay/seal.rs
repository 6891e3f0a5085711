//! Sealing payloads between the two ends of an encrypted route (ChaCha20-Poly1305, RFC 8439).
//!
//! Every circuit has keys of its own, one per direction, derived (HKDF-SHA256, RFC 5869) from the route's key and random
//! salt of **both** ends. The nonce counts the frames of the circuit. So no key ever meets a nonce twice: what is sent again
//! after a lost connection is sealed anew under another key, and a circuit replayed by a relay opens nothing.

use bytes::BytesMut;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

use super::frame::{Data, SEAL_BYTES, Sealing};
use super::secret::Secret;
use rhumb_wire::report::RouteKey;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Back,
}

/// One direction of one circuit, at either end of it.
#[derive(Debug)]
pub(crate) struct Seal {
    key: LessSafeKey,
    frames: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealError {
    #[error("a payload is not what the other end sealed")]
    Forged,
    #[error("a payload comes sealed where plain ones are agreed, or plain where sealed ones are")]
    Mixed,
}

impl Seal {
    /// `salts`: of the source, then of the sink.
    pub(crate) fn new(key: &Secret, route: &RouteKey, salts: [&[u8; 16]; 2], direction: Direction) -> Self {
        let way: &[u8] = match direction {
            Direction::Forward => b"forward",
            Direction::Back => b"back",
        };
        let (generation, leg) = (route.generation.to_be_bytes(), route.leg.to_be_bytes());
        let info = [b"rhumb overlay 1".as_slice(), route.order.0.as_bytes(), &generation, &leg, way];
        let pseudo_random = Salt::new(HKDF_SHA256, &salts.map(<[u8; 16]>::as_slice).concat()).extract(key.octets());
        let derived =
            pseudo_random.expand(&info, &CHACHA20_POLY1305).expect("HKDF gives up to 255 blocks, one is asked for");
        Self { key: LessSafeKey::new(UnboundKey::from(derived)), frames: 0 }
    }

    /// Seals the payload of the next frame; its header is protected with it.
    pub(crate) fn seal(&mut self, mut data: Data) -> Data {
        data.sealing = Sealing::Sealed;
        let mut body = BytesMut::with_capacity(data.body.len() + SEAL_BYTES);
        body.extend_from_slice(&data.body);
        let nonce = self.nonce();
        self.key
            .seal_in_place_append_tag(nonce, Aad::from(data.header()), &mut body)
            .expect("a payload is far below the cipher's limit of 256 GiB");
        data.body = body.freeze();
        data
    }

    /// Opens the payload of the next frame. Frames left out, doubled, swapped or changed on the way do not open.
    pub(crate) fn open(&mut self, mut data: Data) -> Result<Data, SealError> {
        if data.sealing != Sealing::Sealed {
            return Err(SealError::Mixed);
        }
        let aad = Aad::from(data.header());
        let nonce = self.nonce();
        let mut body = BytesMut::from(data.body);
        let length = self.key.open_in_place(nonce, aad, &mut body).map_err(|_| SealError::Forged)?.len();
        body.truncate(length);
        data.body = body.freeze();
        data.sealing = Sealing::Plain;
        Ok(data)
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.frames.to_be_bytes());
        self.frames += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::overlay::frame::{Part, Position};
    use bytes::Bytes;
    use rhumb_model::OrderId;
    use uuid::Uuid;

    fn pair(salt: u8, direction: Direction) -> (Seal, Seal) {
        let key = Secret::from_octets([7; 32]);
        let route = RouteKey { order: OrderId(Uuid::nil()), generation: 1, leg: 2, path: 0 };
        let make = || Seal::new(&key, &route, [&[salt; 16], &[9; 16]], direction);
        (make(), make())
    }

    fn data(seq: u64, body: &'static [u8]) -> Data {
        let at = Position { seq, offset: 10 * seq };
        Data { at, channel: 1, part: Part::Payload, sealing: Sealing::Plain, body: Bytes::from_static(body) }
    }

    #[test]
    fn what_was_sealed_opens_in_order() {
        let (mut seal, mut open) = pair(1, Direction::Forward);
        for seq in 0..3 {
            let plain = data(seq, b"the marker");
            let sealed = seal.seal(plain.clone());
            assert_eq!(sealed.payload_bytes(), 10);
            assert!(!sealed.body.windows(6).any(|w| w == b"marker"));
            assert_eq!(open.open(sealed), Ok(plain));
        }
    }

    #[test]
    fn a_frame_changed_repeated_or_from_elsewhere_does_not_open() {
        let (mut seal, _) = pair(1, Direction::Forward);
        let sealed = seal.seal(data(0, b"x"));
        let moved = Data { at: Position { seq: 0, offset: 1 }, ..sealed.clone() };
        assert_eq!(pair(1, Direction::Forward).1.open(moved), Err(SealError::Forged));
        assert_eq!(pair(1, Direction::Back).1.open(sealed.clone()), Err(SealError::Forged));
        assert_eq!(pair(2, Direction::Forward).1.open(sealed.clone()), Err(SealError::Forged));
        let mut open = pair(1, Direction::Forward).1;
        assert!(open.open(sealed.clone()).is_ok());
        assert_eq!(open.open(sealed), Err(SealError::Forged));
        assert_eq!(open.open(data(2, b"x")), Err(SealError::Mixed));
    }

    #[test]
    fn the_same_bytes_sealed_for_two_circuits_have_nothing_in_common() {
        let first = pair(1, Direction::Forward).0.seal(data(0, b"again and again")).body;
        let second = pair(2, Direction::Forward).0.seal(data(0, b"again and again")).body;
        assert_ne!(first, second);
    }
}
