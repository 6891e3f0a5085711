//! One end of a stream: many connections of processes over one route, both ways, exactly once. Pure.
//!
//! Messages of one direction are numbered. The sender keeps each until the far end has acknowledged it, so that a new
//! circuit goes on where the last was lost. What may be on its way is bounded by the window; what one channel may have
//! waiting at the far end is bounded by the credit given for it, so that a process that does not read holds up itself only.

use super::frame::{Data, Part, Position, Sealing};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a new channel may send before any credit has come: both ends take it for granted.
const FIRST_CREDIT_BYTES: u64 = 256 << 10;
/// Messages on their way at most: small ones cost memory beyond their payload.
const MESSAGES_MAX: usize = 4_096;

/// How the far end broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MuxError {
    #[error("a message is not the one that comes next")]
    Sequence,
    #[error("an acknowledgement is of what was never sent")]
    Ack,
    #[error("a channel sent more than it has credit for")]
    Credit,
    #[error("a channel is opened from the wrong side or twice")]
    Open,
}

/// Which end: only the source opens channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Sink,
}

/// What a received message calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The source's side has a new connection.
    Opened(u32),
    /// The channel has something for its process.
    Arrived(u32),
    /// The channel is gone.
    Reset(u32),
    Nothing,
}

/// What goes out next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outgoing {
    Ack(Position),
    Credit { channel: u32, total: u64 },
    Data(Data),
}

/// What a channel's process gets next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chunk {
    Bytes(BytesMut),
    /// Nothing yet.
    Wait,
    /// The far process sends no more.
    End,
    /// The channel is gone.
    Gone,
}

/// How much a channel may take from its process now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Bytes(usize),
    Full,
    Gone,
}

#[derive(Debug)]
pub(crate) struct Mux {
    end: End,
    window_bytes: u64,
    channels_max: usize,
    channels: BTreeMap<u32, Channel>,
    next_channel: u32,
    /// Not acknowledged yet, in order.
    outbox: VecDeque<Data>,
    /// How many of them went out on this circuit.
    sent: usize,
    acked: Position,
    next: Position,
    received: Position,
    ack_due: bool,
    credits_due: BTreeSet<u32>,
}

#[derive(Debug)]
struct Channel {
    out: Half,
    /// Payload taken from the process.
    taken: u64,
    /// Payload the far end lets it send in all.
    allowed: u64,
    in_: Half,
    inbox: BytesMut,
    arrived: u64,
    consumed: u64,
    granted: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Open,
    /// The last byte is known.
    Ended,
    /// And the process has it.
    Closed,
}

impl Mux {
    pub(crate) fn new(end: End, window_bytes: u64, channels_max: usize) -> Self {
        Self {
            end,
            window_bytes: window_bytes.max(FIRST_CREDIT_BYTES),
            channels_max,
            channels: BTreeMap::new(),
            next_channel: 0,
            outbox: VecDeque::new(),
            sent: 0,
            acked: Position::default(),
            next: Position::default(),
            received: Position::default(),
            ack_due: false,
            credits_due: BTreeSet::new(),
        }
    }

    /// A new circuit to a far end that has all before `received`: what it has not is sent again.
    pub(crate) fn resume(&mut self, received: Position) -> Result<(), MuxError> {
        self.acknowledge(received, self.next)?;
        self.sent = 0;
        self.ack_due = false;
        self.credits_due = self.channels.keys().copied().collect();
        Ok(())
    }

    /// Begins anew, with a far end that knows nothing. All channels are gone.
    pub(crate) fn reset(&mut self) {
        // numbers go on: what still works for an old channel never meets a new one
        let next_channel = self.next_channel;
        *self = Self { next_channel, ..Self::new(self.end, self.window_bytes, self.channels_max) };
    }

    /// What may be on its way; never below the first credit of one channel.
    pub(crate) fn set_window(&mut self, bytes: u64) {
        self.window_bytes = bytes.max(FIRST_CREDIT_BYTES);
    }

    pub(crate) fn received(&self) -> Position {
        self.received
    }

    /// A new channel; `None` when there are too many.
    pub(crate) fn open(&mut self) -> Option<u32> {
        if self.channels.len() >= self.channels_max {
            return None;
        }
        let id = self.next_channel;
        self.next_channel = id.checked_add(1)?;
        self.channels.insert(id, Channel::new());
        self.queue(id, Part::Open, Bytes::new());
        Some(id)
    }

    pub(crate) fn room(&self, id: u32) -> Room {
        let Some(channel) = self.channels.get(&id) else { return Room::Gone };
        if channel.out != Half::Open {
            return Room::Gone;
        }
        let window = self.window_bytes.saturating_sub(self.next.offset - self.acked.offset);
        let bytes = window.min(channel.allowed - channel.taken);
        if bytes == 0 || self.outbox.len() >= MESSAGES_MAX { Room::Full } else { Room::Bytes(bytes as usize) }
    }

    /// Takes payload from the channel's process, within its room.
    pub(crate) fn send(&mut self, id: u32, body: Bytes) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if channel.out != Half::Open || body.is_empty() {
            return;
        }
        channel.taken += body.len() as u64;
        self.queue(id, Part::Payload, body);
    }

    /// The channel's process sends no more.
    pub(crate) fn finish(&mut self, id: u32) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if channel.out == Half::Open {
            channel.out = Half::Closed;
            self.queue(id, Part::Fin, Bytes::new());
            self.drop_if_over(id);
        }
    }

    /// The channel's process is gone.
    pub(crate) fn abort(&mut self, id: u32) {
        if self.channels.remove(&id).is_some() {
            self.queue(id, Part::Reset, Bytes::new());
        }
    }

    /// The next payload for the channel's process. It is consumed by being taken.
    pub(crate) fn take(&mut self, id: u32) -> Chunk {
        let Some(channel) = self.channels.get_mut(&id) else { return Chunk::Gone };
        if !channel.inbox.is_empty() {
            return Chunk::Bytes(channel.inbox.split());
        }
        match channel.in_ {
            Half::Open => Chunk::Wait,
            Half::Ended => {
                channel.in_ = Half::Closed;
                self.drop_if_over(id);
                Chunk::End
            }
            Half::Closed => Chunk::Gone,
        }
    }

    /// The channel's process has taken so much more: the far end may send as much again.
    pub(crate) fn consumed(&mut self, id: u32, bytes: u64) {
        let share = self.share();
        let Some(channel) = self.channels.get_mut(&id) else { return };
        channel.consumed += bytes;
        let total = channel.consumed + share;
        // told in steps, not for every byte
        if channel.in_ == Half::Open && total >= channel.granted + share / 4 {
            channel.granted = total;
            self.credits_due.insert(id);
        }
    }

    pub(crate) fn acked(&mut self, position: Position) -> Result<(), MuxError> {
        let sent = self.outbox.get(self.sent).map_or(self.next, |data| data.at);
        self.acknowledge(position, sent)
    }

    pub(crate) fn credited(&mut self, id: u32, total: u64) {
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.allowed = channel.allowed.max(total);
        }
    }

    pub(crate) fn receive(&mut self, data: &Data) -> Result<Event, MuxError> {
        if data.at != self.received {
            return Err(MuxError::Sequence);
        }
        let bytes = data.body.len() as u64;
        self.received = Position { seq: data.at.seq + 1, offset: data.at.offset + bytes };
        self.ack_due = true;
        let id = data.channel;
        if data.part == Part::Open {
            if self.end == End::Source || self.channels.contains_key(&id) {
                return Err(MuxError::Open);
            }
            if self.channels.len() >= self.channels_max {
                self.queue(id, Part::Reset, Bytes::new());
                return Ok(Event::Nothing);
            }
            self.channels.insert(id, Channel::new());
            return Ok(Event::Opened(id));
        }
        // of a channel that was given up here while this was on its way
        let Some(channel) = self.channels.get_mut(&id) else { return Ok(Event::Nothing) };
        match data.part {
            Part::Reset => {
                self.channels.remove(&id);
                return Ok(Event::Reset(id));
            }
            _ if channel.in_ != Half::Open => return Err(MuxError::Sequence),
            Part::Fin => channel.in_ = Half::Ended,
            Part::Payload | Part::Open => {
                channel.arrived += bytes;
                if channel.arrived > channel.granted {
                    return Err(MuxError::Credit);
                }
                channel.inbox.extend_from_slice(&data.body);
            }
        }
        Ok(Event::Arrived(id))
    }

    /// What goes out next on this circuit.
    pub(crate) fn outgoing(&mut self) -> Option<Outgoing> {
        if std::mem::take(&mut self.ack_due) {
            return Some(Outgoing::Ack(self.received));
        }
        while let Some(id) = self.credits_due.pop_first() {
            if let Some(channel) = self.channels.get(&id) {
                return Some(Outgoing::Credit { channel: id, total: channel.granted });
            }
        }
        let data = self.outbox.get(self.sent)?.clone();
        self.sent += 1;
        Some(Outgoing::Data(data))
    }

    /// Credit of one channel: its part of the window, so that all together do not keep much more than one window.
    fn share(&self) -> u64 {
        (self.window_bytes / self.channels.len().max(1) as u64).max(FIRST_CREDIT_BYTES)
    }

    fn queue(&mut self, channel: u32, part: Part, body: Bytes) {
        let at = self.next;
        self.next = Position { seq: at.seq + 1, offset: at.offset + body.len() as u64 };
        self.outbox.push_back(Data { at, channel, part, sealing: Sealing::Plain, body });
    }

    fn acknowledge(&mut self, position: Position, most: Position) -> Result<(), MuxError> {
        let first = self.acked.seq;
        if position.seq < first || position.seq > most.seq {
            return Err(MuxError::Ack);
        }
        let count = (position.seq - first) as usize;
        let at = self.outbox.get(count).map_or(self.next, |data| data.at);
        if at != position {
            return Err(MuxError::Ack);
        }
        self.outbox.drain(..count);
        self.sent = self.sent.saturating_sub(count);
        self.acked = position;
        Ok(())
    }

    fn drop_if_over(&mut self, id: u32) {
        let over = |channel: &Channel| channel.out == Half::Closed && channel.in_ == Half::Closed;
        if self.channels.get(&id).is_some_and(over) {
            self.channels.remove(&id);
        }
    }
}

impl Channel {
    fn new() -> Self {
        Self {
            out: Half::Open,
            taken: 0,
            allowed: FIRST_CREDIT_BYTES,
            in_: Half::Open,
            inbox: BytesMut::new(),
            arrived: 0,
            consumed: 0,
            granted: FIRST_CREDIT_BYTES,
        }
    }
}

#[cfg(test)]
mod tests;
