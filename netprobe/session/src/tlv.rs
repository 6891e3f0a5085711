//! The extensions after a packet's base (RFC 8972): a chain of flags, type, length and value.

use crate::Key;
use crate::key::TAG_BYTES;

/// Octets before a value.
pub(crate) const HEADER_BYTES: usize = 4;
/// Not understood.
pub(crate) const UNRECOGNISED: u8 = 0x80;
/// Its length cannot be.
pub(crate) const MALFORMED: u8 = 0x40;
/// The chain's tag is wrong.
pub(crate) const INTEGRITY: u8 = 0x20;
const RESERVED_FLAGS: u8 = 0x1f;

/// Types understood here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Octets that mean nothing (section 4.1).
    Padding,
    /// What the far clock follows, and how it takes its times (section 4.3).
    ClockSource,
    /// Class of service there and back (section 4.4).
    Service,
    /// Packet counters of both ends (section 4.5).
    Direct,
    /// Tag over the sequence and what stands before it (section 4.8).
    Tag,
    /// What a reflector of this program has counted; of the types set aside for experiments.
    Counters,
}

/// Where one extension stands in the octets after the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: usize,
    pub(crate) flags: u8,
    pub(crate) kind: Option<Kind>,
    value_bytes: usize,
}

/// Extensions in order, up to the first that is malformed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chain {
    pub(crate) spans: Vec<Span>,
    /// Offset of the first one that is malformed; nothing after it can be read.
    pub(crate) malformed: Option<usize>,
}

/// Whether the tag of a chain belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integrity {
    /// No tag, and none is needed.
    Unprotected,
    Proven,
    Broken,
}

impl Kind {
    const ALL: [Self; 6] = [Self::Padding, Self::ClockSource, Self::Service, Self::Direct, Self::Tag, Self::Counters];

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Padding => 1,
            Self::ClockSource => 3,
            Self::Service => 4,
            Self::Direct => 5,
            Self::Tag => 8,
            Self::Counters => 240,
        }
    }

    /// Octets of its value; `None` if there may be any number.
    pub(crate) fn value_bytes(self) -> Option<usize> {
        match self {
            Self::Padding => None,
            Self::ClockSource | Self::Service => Some(4),
            Self::Direct => Some(12),
            Self::Tag => Some(TAG_BYTES),
            Self::Counters => Some(16),
        }
    }

    fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl Span {
    pub(crate) fn value(self) -> std::ops::Range<usize> {
        let start = self.at + HEADER_BYTES;
        start..start + self.value_bytes
    }

    fn end(self) -> usize {
        self.value().end
    }
}

impl Chain {
    /// Reads what follows a base; `None` if it is padding rather than a chain. What a TWAMP-Light peer appends is padding: zeros,
    /// or octets that neither begin nor add up as a chain does.
    pub(crate) fn read(tail: &[u8]) -> Option<Self> {
        let (first, code) = (tail.first()?, tail.get(1)?);
        let chain = Self::walk(tail);
        let looks_so = first & RESERVED_FLAGS == 0 || chain.malformed.is_none();
        (*code != 0 && looks_so).then_some(chain)
    }

    fn walk(tail: &[u8]) -> Self {
        let mut chain = Self::default();
        let mut at = 0;
        while at < tail.len() {
            let Some(span) = Self::span(tail, at) else {
                chain.malformed = Some(at);
                break;
            };
            at = span.end();
            chain.spans.push(span);
        }
        chain
    }

    fn span(tail: &[u8], at: usize) -> Option<Span> {
        let [flags, code, high, low] = *tail.get(at..at + HEADER_BYTES)? else { return None };
        let value_bytes = usize::from(u16::from_be_bytes([high, low]));
        let kind = Kind::of(code);
        let expected = kind.and_then(Kind::value_bytes).unwrap_or(value_bytes);
        let span = Span { at, flags, kind, value_bytes };
        (expected == value_bytes && span.end() <= tail.len()).then_some(span)
    }

    pub(crate) fn find(&self, kind: Kind) -> Option<Span> {
        self.spans.iter().copied().find(|span| span.kind == Some(kind))
    }

    /// Checks the tag: over the sequence of the base and all extensions before the tag, which only padding may follow. With a
    /// key, extensions other than one of padding need a tag; without one, a tag cannot be believed.
    pub(crate) fn integrity(&self, tail: &[u8], sequence: u32, key: Option<&Key>) -> Integrity {
        let mut tags = self.spans.iter().filter(|span| span.kind == Some(Kind::Tag));
        let tag = (tags.next(), tags.next());
        let alone = self.spans.len() == 1 && self.malformed.is_none();
        match (tag, key) {
            ((None, _), None) => Integrity::Unprotected,
            ((None, _), Some(_)) if alone && self.find(Kind::Padding).is_some() => Integrity::Unprotected,
            ((Some(tag), None), Some(key)) => {
                let after = self.spans.iter().filter(|span| span.at > tag.at);
                let in_place = after.clone().all(|span| span.kind == Some(Kind::Padding));
                let right = key.matches(&signed(tail, tag.at, sequence), &tail[tag.value()]);
                if in_place && right { Integrity::Proven } else { Integrity::Broken }
            }
            _ => Integrity::Broken,
        }
    }

    /// Writes the tag that a changed chain needs.
    pub(crate) fn sign(&self, tail: &mut [u8], sequence: u32, key: &Key) {
        if let Some(tag) = self.find(Kind::Tag) {
            let octets = key.tag(&signed(tail, tag.at, sequence));
            tail[tag.value()].copy_from_slice(&octets);
        }
    }
}

/// Appends an extension as a sender does: not understood until the reflector says otherwise.
pub(crate) fn append(tail: &mut Vec<u8>, kind: Kind, value: &[u8]) {
    tail.extend_from_slice(&[UNRECOGNISED, kind.code()]);
    // callers' values are a packet's at most, far below 64 kB
    tail.extend_from_slice(&(value.len() as u16).to_be_bytes());
    tail.extend_from_slice(value);
}

fn signed(tail: &[u8], until: usize, sequence: u32) -> Vec<u8> {
    [&sequence.to_be_bytes(), &tail[..until]].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chain(parts: &[(Kind, &[u8])]) -> Vec<u8> {
        let mut tail = Vec::new();
        for (kind, value) in parts {
            append(&mut tail, *kind, value);
        }
        tail
    }

    fn key() -> Key {
        Key::new(b"sixteen octets or more").unwrap()
    }

    #[test]
    fn a_chain_is_told_from_padding() {
        assert_eq!(Chain::read(&[]), None);
        for padding in [vec![0; 27], vec![0xab; 40], vec![0xff; 3]] {
            assert_eq!(Chain::read(&padding), None, "{padding:?}");
        }
        let tail = chain(&[(Kind::Service, &[0; 4]), (Kind::Padding, &[9; 5])]);
        let read = Chain::read(&tail).unwrap();
        assert_eq!(read.spans.iter().map(|span| (span.at, span.value())).collect::<Vec<_>>(), [(0, 4..8), (8, 12..17)]);
        assert_eq!(read.malformed, None);
    }

    #[test]
    fn a_length_that_cannot_be_ends_the_chain() {
        let mut tail = chain(&[(Kind::Padding, &[1, 2]), (Kind::Service, &[0; 4])]);
        tail[9] = 5;
        let read = Chain::read(&tail).unwrap();
        assert_eq!((read.spans.len(), read.malformed), (1, Some(6)));
        let cut = Chain::read(&tail[..8]).unwrap();
        assert_eq!((cut.spans.len(), cut.malformed), (1, Some(6)));
    }

    #[test]
    fn tags_stand_after_all_but_padding() {
        let mut tail = chain(&[(Kind::Service, &[0; 4]), (Kind::Tag, &[0; 16]), (Kind::Padding, &[0; 8])]);
        let read = Chain::read(&tail).unwrap();
        assert_eq!(read.integrity(&tail, 7, Some(&key())), Integrity::Broken);
        read.sign(&mut tail, 7, &key());
        assert_eq!(read.integrity(&tail, 7, Some(&key())), Integrity::Proven);
        assert_eq!(read.integrity(&tail, 8, Some(&key())), Integrity::Broken, "another packet's");
        assert_eq!(read.integrity(&tail, 7, None), Integrity::Broken, "nobody can tell");
        let mut misplaced = chain(&[(Kind::Tag, &[0; 16]), (Kind::Service, &[0; 4])]);
        let read = Chain::read(&misplaced).unwrap();
        read.sign(&mut misplaced, 7, &key());
        assert_eq!(read.integrity(&misplaced, 7, Some(&key())), Integrity::Broken);
        let padding = chain(&[(Kind::Padding, &[0; 8])]);
        let read = Chain::read(&padding).unwrap();
        assert_eq!(read.integrity(&padding, 7, Some(&key())), Integrity::Unprotected);
    }

    proptest! {
        #[test]
        fn any_octets_are_walked_to_an_end(tail in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(chain) = Chain::read(&tail) {
                let end = chain.malformed.unwrap_or(tail.len());
                let read: usize = chain.spans.iter().map(|span| span.end() - span.at).sum();
                prop_assert_eq!(read, end);
            }
        }
    }
}
