//! The reading half of the codec.

use super::{
    Continuity, Data, ERROR_BYTES_MAX, Frame, FrameError, Hello, LENGTH_BYTES, MAGIC, Open, Opened, PAYLOAD_BYTES_MAX,
    Part, Position, Purpose, SEAL_BYTES, SEALED, Sealing, VERSION,
};
use bytes::{Buf, Bytes};
use rhumb_model::{OrderId, PointName};
use rhumb_wire::report::RouteKey;
use uuid::Uuid;

/// Reads what [`take`] gave. A payload shares the frame's memory.
pub fn parse(whole: &Bytes) -> Result<Frame, FrameError> {
    let mut body = whole.clone();
    body.advance(LENGTH_BYTES.min(body.len()));
    let kind = body.try_get_u8().map_err(|_| FrameError::Short { kind: 0 })?;
    let mut reader = Reader { kind, body };
    let frame = reader.frame()?;
    match reader.body.len() {
        0 => Ok(frame),
        extra => Err(FrameError::Trailing { kind, extra }),
    }
}

struct Reader {
    kind: u8,
    body: Bytes,
}

impl Reader {
    fn frame(&mut self) -> Result<Frame, FrameError> {
        Ok(match self.kind {
            1 => Frame::Hello(self.hello()?),
            2 => Frame::Challenge { nonce: self.array()?, mac: self.array()? },
            3 => Frame::Proof { mac: self.array()? },
            4 => {
                let kind = self.u8()?;
                let bytes = self.u64()?;
                let purpose = match kind {
                    0 => Purpose::Transfer { bytes },
                    1 if bytes == 0 => Purpose::Stream,
                    _ => return Err(FrameError::Field("the purpose")),
                };
                let sealed = if self.flag("the sealing")? { Sealing::Sealed } else { Sealing::Plain };
                let (source, sink) = (self.u64()?, self.u64()?);
                Frame::Open(Open { purpose, sealed, source, sink, received: self.position()?, salt: self.array()? })
            }
            5 => {
                let sink = self.u64()?;
                let resumed = self.flag("the continuity")?;
                let continuity = if resumed { Continuity::Resumed } else { Continuity::Fresh };
                Frame::Opened(Opened { sink, continuity, received: self.position()?, salt: self.array()? })
            }
            6 => Frame::Data(self.data()?),
            7 => Frame::Ack(self.position()?),
            8 => Frame::Credit { channel: self.u32()?, total: self.u64()? },
            9 => Frame::Fin { bytes: self.u64()? },
            10 => {
                let text = self.rest();
                if text.len() > ERROR_BYTES_MAX {
                    return Err(FrameError::Field("the length of a message"));
                }
                Frame::Error(String::from_utf8_lossy(&text).into_owned())
            }
            11 => Frame::KeepAlive,
            12 => Frame::Probe { number: self.u64()? },
            13 => Frame::Echo { number: self.u64()?, filled: self.u64()?, us: self.u64()? },
            14 => {
                let filled = self.rest().len();
                if filled > PAYLOAD_BYTES_MAX {
                    return Err(FrameError::Field("the length of fill"));
                }
                Frame::Fill(filled as u16)
            }
            kind => return Err(FrameError::Kind(kind)),
        })
    }

    fn hello(&mut self) -> Result<Hello, FrameError> {
        if self.array::<4>()? != MAGIC {
            return Err(FrameError::Field("the magic number"));
        }
        // before all that follows: another version may lay it out otherwise
        let version = self.body.try_get_u16().map_err(|_| self.short())?;
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let length = usize::from(self.u8()?);
        if self.body.len() < length {
            return Err(self.short());
        }
        let name = self.body.split_to(length);
        let name = std::str::from_utf8(&name).map_err(|_| FrameError::Field("the point name"))?;
        let from = PointName::new(name).map_err(|_| FrameError::Field("the point name"))?;
        let order = OrderId(Uuid::from_bytes(self.array()?));
        let route = RouteKey { order, generation: self.u64()?, leg: self.u32()?, path: self.u32()? };
        Ok(Hello { from, route, nonce: self.array()? })
    }

    fn data(&mut self) -> Result<Data, FrameError> {
        let at = self.position()?;
        let channel = self.u32()?;
        let flags = self.u8()?;
        let part = match flags & !SEALED {
            0 => Part::Payload,
            1 => Part::Open,
            2 => Part::Fin,
            3 => Part::Reset,
            _ => return Err(FrameError::Field("the part")),
        };
        let sealing = if flags & SEALED == 0 { Sealing::Plain } else { Sealing::Sealed };
        let data = Data { at, channel, part, sealing, body: self.rest() };
        let seal = if sealing == Sealing::Sealed { SEAL_BYTES } else { 0 };
        if data.body.len() < seal {
            return Err(self.short());
        }
        let payload = data.body.len() - seal;
        if payload > PAYLOAD_BYTES_MAX || (payload == 0) != (part != Part::Payload) {
            return Err(FrameError::Field("the payload's length"));
        }
        if at.offset.checked_add(payload as u64).is_none() || at.seq == u64::MAX {
            return Err(FrameError::Field("the position"));
        }
        Ok(data)
    }

    fn short(&self) -> FrameError {
        FrameError::Short { kind: self.kind }
    }

    fn rest(&mut self) -> Bytes {
        self.body.split_off(0)
    }

    fn u8(&mut self) -> Result<u8, FrameError> {
        self.body.try_get_u8().map_err(|_| self.short())
    }

    fn u32(&mut self) -> Result<u32, FrameError> {
        self.body.try_get_u32().map_err(|_| self.short())
    }

    fn u64(&mut self) -> Result<u64, FrameError> {
        self.body.try_get_u64().map_err(|_| self.short())
    }

    fn flag(&mut self, what: &'static str) -> Result<bool, FrameError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(FrameError::Field(what)),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let mut array = [0; N];
        self.body.try_copy_to_slice(&mut array).map_err(|_| self.short())?;
        Ok(array)
    }

    fn position(&mut self) -> Result<Position, FrameError> {
        Ok(Position { seq: self.u64()?, offset: self.u64()? })
    }
}
