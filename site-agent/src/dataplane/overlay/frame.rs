//! The frames hops exchange: pure codec, no sockets.
//!
//! ```text
//! length u32 | kind u8 | body          big-endian; length counts kind and body
//! ```
//! A frame longer than its reader's limit is refused before a byte of it is stored, so that a length field allocates
//! nothing. Every body is read with checks: any octets give a frame or an error, never a panic.

mod read;

pub use read::parse;

use bytes::{BufMut, Bytes, BytesMut};
use rhumb_model::PointName;
use rhumb_wire::report::RouteKey;

/// Version of this protocol; a hop of another one is refused.
pub const VERSION: u16 = 3;
/// Most payload one DATA frame carries.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 10;
/// What sealing adds to a payload: the tag of ChaCha20-Poly1305 (RFC 8439).
pub const SEAL_BYTES: usize = 16;
/// Most a frame's length field may say: kind, DATA header, payload, seal.
pub const FRAME_BYTES_MAX: usize = 1 + DATA_HEADER_BYTES + PAYLOAD_BYTES_MAX + SEAL_BYTES;
/// The same before the other side has proved who it is: a HELLO with the longest name.
pub const GREETING_BYTES_MAX: usize = 160;
/// seq, offset, channel, flags.
pub const DATA_HEADER_BYTES: usize = 8 + 8 + 4 + 1;

const LENGTH_BYTES: usize = 4;
const MAGIC: [u8; 4] = *b"RHMB";
const ERROR_BYTES_MAX: usize = 512;
const SEALED: u8 = 0x80;

/// Why octets are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {found} bytes exceeds the limit of {limit}")]
    TooLong { found: usize, limit: usize },
    #[error("a frame of kind {kind} is cut short")]
    Short { kind: u8 },
    #[error("a frame of kind {kind} has {extra} bytes too many")]
    Trailing { kind: u8, extra: usize },
    #[error("frame kind {0} is unknown")]
    Kind(u8),
    #[error("overlay version {0} is not spoken here: run the same release on both ends")]
    Version(u16),
    #[error("{0} in a frame is not valid")]
    Field(&'static str),
}

/// What a hop says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub from: PointName,
    pub route: RouteKey,
    pub nonce: [u8; 32],
}

/// What the two ends of an [`Open`] must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// So many bytes in one direction.
    Transfer {
        bytes: u64,
    },
    Stream,
}

/// Source to sink, once per circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    pub purpose: Purpose,
    pub sealed: Sealing,
    /// New whenever the source forgot what it had sent.
    pub source: u64,
    /// The sink's number as the source last heard it; 0 if never.
    pub sink: u64,
    /// What the source has of the backward direction.
    pub received: Position,
    pub salt: [u8; 16],
}

/// Sink to source: the circuit stands end to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub sink: u64,
    pub continuity: Continuity,
    /// What the sink has of the forward direction; the source goes on from there.
    pub received: Position,
    pub salt: [u8; 16],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealing {
    Plain,
    Sealed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuity {
    Resumed,
    /// One end lost what it knew: both begin at nothing.
    Fresh,
}

/// How far one direction has come: messages and payload bytes before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    pub seq: u64,
    pub offset: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Payload,
    /// A connection of the source's side wants a partner.
    Open,
    /// No more payload in this direction.
    Fin,
    /// Neither direction goes on.
    Reset,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    pub at: Position,
    pub channel: u32,
    pub part: Part,
    pub sealing: Sealing,
    pub body: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Hello(Hello),
    Challenge {
        nonce: [u8; 32],
        mac: [u8; 32],
    },
    Proof {
        mac: [u8; 32],
    },
    Open(Open),
    Opened(Opened),
    Data(Data),
    /// All before this position has arrived.
    Ack(Position),
    /// So many bytes in all may be sent on the channel.
    Credit {
        channel: u32,
        total: u64,
    },
    /// Sink to source: all bytes of the transfer are safe.
    Fin {
        bytes: u64,
    },
    Error(String),
    KeepAlive,
    /// Source to sink over a path that carries nothing: answered by an echo of the same number.
    Probe {
        number: u64,
    },
    /// Sink to source. What has come of fill since the echo before: bytes after the first frame's, and how long they took.
    Echo {
        number: u64,
        filled: u64,
        us: u64,
    },
    /// Source to sink: so many bytes of nothing, to see how fast they come.
    Fill(u16),
}

impl Data {
    /// Payload bytes without what sealing added.
    pub fn payload_bytes(&self) -> u64 {
        let seal = if self.sealing == Sealing::Sealed { SEAL_BYTES } else { 0 };
        self.body.len().saturating_sub(seal) as u64
    }

    /// The header as it is sent, which sealing also protects.
    pub fn header(&self) -> [u8; DATA_HEADER_BYTES] {
        let part = match self.part {
            Part::Payload => 0,
            Part::Open => 1,
            Part::Fin => 2,
            Part::Reset => 3,
        };
        let sealed = if self.sealing == Sealing::Sealed { SEALED } else { 0 };
        let mut header = [0; DATA_HEADER_BYTES];
        header[..8].copy_from_slice(&self.at.seq.to_be_bytes());
        header[8..16].copy_from_slice(&self.at.offset.to_be_bytes());
        header[16..20].copy_from_slice(&self.channel.to_be_bytes());
        header[20] = part | sealed;
        header
    }
}

/// Takes the next whole frame, its length in front, off `buffer`; `None` until enough has arrived.
pub fn take(buffer: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(length) = buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let found = u32::from_be_bytes(*length) as usize;
    if found > limit {
        return Err(FrameError::TooLong { found, limit });
    }
    if buffer.len() < LENGTH_BYTES + found {
        return Ok(None);
    }
    Ok(Some(buffer.split_to(LENGTH_BYTES + found).freeze()))
}

/// Appends `frame` to `out`.
pub fn put(frame: &Frame, out: &mut BytesMut) {
    let start = out.len();
    out.put_u32(0);
    match frame {
        Frame::Hello(hello) => {
            out.put_u8(1);
            out.put_slice(&MAGIC);
            out.put_u16(VERSION);
            let name = hello.from.as_str().as_bytes();
            out.put_u8(u8::try_from(name.len()).expect("a point name has at most 63 bytes"));
            out.put_slice(name);
            out.put_slice(hello.route.order.0.as_bytes());
            out.put_u64(hello.route.generation);
            out.put_u32(hello.route.leg);
            out.put_u32(hello.route.path);
            out.put_slice(&hello.nonce);
        }
        Frame::Challenge { nonce, mac } => {
            out.put_u8(2);
            out.put_slice(nonce);
            out.put_slice(mac);
        }
        Frame::Proof { mac } => {
            out.put_u8(3);
            out.put_slice(mac);
        }
        Frame::Open(open) => {
            out.put_u8(4);
            let (kind, bytes) = match open.purpose {
                Purpose::Transfer { bytes } => (0, bytes),
                Purpose::Stream => (1, 0),
            };
            out.put_u8(kind);
            out.put_u64(bytes);
            out.put_u8(u8::from(open.sealed == Sealing::Sealed));
            out.put_u64(open.source);
            out.put_u64(open.sink);
            put_position(open.received, out);
            out.put_slice(&open.salt);
        }
        Frame::Opened(opened) => {
            out.put_u8(5);
            out.put_u64(opened.sink);
            out.put_u8(u8::from(opened.continuity == Continuity::Resumed));
            put_position(opened.received, out);
            out.put_slice(&opened.salt);
        }
        Frame::Data(data) => {
            out.put_u8(6);
            out.put_slice(&data.header());
            out.put_slice(&data.body);
        }
        Frame::Ack(position) => {
            out.put_u8(7);
            put_position(*position, out);
        }
        Frame::Credit { channel, total } => {
            out.put_u8(8);
            out.put_u32(*channel);
            out.put_u64(*total);
        }
        Frame::Fin { bytes } => {
            out.put_u8(9);
            out.put_u64(*bytes);
        }
        Frame::Error(text) => {
            out.put_u8(10);
            out.put_slice(&text.as_bytes()[..text.floor_char_boundary(ERROR_BYTES_MAX)]);
        }
        Frame::KeepAlive => out.put_u8(11),
        Frame::Probe { number } => {
            out.put_u8(12);
            out.put_u64(*number);
        }
        Frame::Echo { number, filled, us } => {
            out.put_u8(13);
            out.put_u64(*number);
            out.put_u64(*filled);
            out.put_u64(*us);
        }
        Frame::Fill(bytes) => {
            out.put_u8(14);
            out.put_bytes(0, usize::from(*bytes));
        }
    }
    let length = u32::try_from(out.len() - start - LENGTH_BYTES).expect("a frame is far below 4 GiB");
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
}

fn put_position(position: Position, out: &mut BytesMut) {
    out.put_u64(position.seq);
    out.put_u64(position.offset);
}

#[cfg(test)]
mod tests;
