//! Shapers: a hierarchical token bucket with one class and a queue of finite length. The packet library knows no HTB, so its
//! attributes (`linux/pkt_sched.h`) are written and read here, octet by octet.

use super::{Mode, Socket};
use crate::{
    bucket::{octets, ticks},
    object::Shaper,
};
use netlink_packet_core::{DefaultNla, Nla, NlasIterator};
use netlink_packet_route::{
    RouteNetlinkMessage,
    tc::{TcAttribute, TcHandle, TcHeader, TcMessage, TcOption, TcStats2},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

const ROOT: u32 = 0xFFFF_FFFF;
/// `1:`
const QDISC: u32 = 0x0001_0000;
/// `1:10`, where everything goes by default.
const CLASS: u32 = 0x0001_0010;
/// `10:`
const QUEUE: u32 = 0x0010_0000;
const DEFAULT_CLASS: u32 = 0x10;

const TCA_OPTIONS: u16 = 2;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
/// Version of the interface.
const HTB_VERSION: u32 = 3;
const RATE_TO_QUANTUM: u32 = 10;
/// One full frame a turn: there is one class only.
const QUANTUM: u32 = 1_514;
/// Ethernet; with it set the kernel needs no rate tables.
const LINKLAYER_ETHERNET: u8 = 1;

/// What a shaper counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ClassCounts {
    pub(crate) octets: u64,
    pub(crate) packets: u64,
    pub(crate) dropped: u64,
    pub(crate) waiting: u64,
}

/// The shapers of the links of `names`, by index. One that is incomplete has zeros.
pub(crate) async fn shapers(
    socket: &mut Socket,
    names: &BTreeMap<u32, String>,
) -> io::Result<Vec<(Shaper, ClassCounts)>> {
    let mut queues: BTreeMap<i32, u32> = BTreeMap::new();
    let mut roots: BTreeSet<i32> = BTreeSet::new();
    for message in socket.dump(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default())).await? {
        let RouteNetlinkMessage::NewQueueDiscipline(message) = message else { continue };
        let handle = number(message.header.handle);
        match kind(&message) {
            Some("htb") if handle == QDISC => {
                roots.insert(message.header.index);
            }
            Some("bfifo") if handle == QUEUE => drop(queues.insert(message.header.index, limit(&message))),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for (index, link) in names {
        let index = *index as i32;
        if !roots.contains(&index) {
            continue;
        }
        let mut ask = TcMessage::default();
        ask.header.index = index;
        let mut shaper = Shaper { link: link.clone(), rate: 0, burst: 0, queue: 0 };
        let mut counts = ClassCounts::default();
        for message in socket.dump(RouteNetlinkMessage::GetTrafficClass(ask)).await? {
            let RouteNetlinkMessage::NewTrafficClass(message) = message else { continue };
            if message.header.index == index && number(message.header.handle) == CLASS {
                (shaper.rate, shaper.burst) = rate(&message);
                shaper.queue = queues.get(&index).copied().unwrap_or(0);
                counts = count(&message);
            }
        }
        found.push((shaper, counts));
    }
    Ok(found)
}

impl Socket {
    /// Makes the shaper or gives it these figures, whatever of it is there.
    pub(crate) async fn put_shaper(&mut self, index: u32, shaper: &Shaper) -> io::Result<()> {
        let new = RouteNetlinkMessage::NewQueueDiscipline;
        let init = [HTB_VERSION, RATE_TO_QUANTUM, DEFAULT_CLASS, 0, 0];
        let init = vec![option(TCA_HTB_INIT, init.iter().flat_map(|word| word.to_ne_bytes()).collect())];
        let root = message(index, ROOT, QDISC, "htb", TcAttribute::Options(init));
        // what is there is not made anew: that would drop what waits in it
        super::there(self.ask(new(root), Mode::New).await)?;
        let class = message(index, QDISC, CLASS, "htb", TcAttribute::Options(class(shaper)));
        self.ask(RouteNetlinkMessage::NewTrafficClass(class), Mode::Put).await?;
        // the option of a FIFO is the bare number, not a list of attributes
        let limit = TcAttribute::Other(DefaultNla::new(TCA_OPTIONS, shaper.queue.to_ne_bytes().to_vec()));
        self.ask(new(message(index, CLASS, QUEUE, "bfifo", limit)), Mode::Put).await
    }

    pub(crate) async fn delete_shaper(&mut self, index: u32) -> io::Result<()> {
        let mut root = TcMessage::default();
        root.header = header(index, ROOT, QDISC);
        super::gone(self.ask(RouteNetlinkMessage::DelQueueDiscipline(root), Mode::Act).await)
    }
}

fn header(index: u32, parent: u32, handle: u32) -> TcHeader {
    let (parent, handle) = (TcHandle::from(parent), TcHandle::from(handle));
    TcHeader { index: index as i32, parent, handle, ..TcHeader::default() }
}

fn message(index: u32, parent: u32, handle: u32, kind: &str, options: TcAttribute) -> TcMessage {
    let mut message = TcMessage::default();
    message.header = header(index, parent, handle);
    message.attributes = vec![TcAttribute::Kind(kind.to_owned()), options];
    message
}

fn option(kind: u16, value: Vec<u8>) -> TcOption {
    TcOption::Other(DefaultNla::new(kind, value))
}

/// `struct tc_htb_opt`: two rates (what is promised and the most), their buffers, and a few words that a lone class needs not.
fn class(shaper: &Shaper) -> Vec<TcOption> {
    let buffer = ticks(shaper.burst, shaper.rate);
    let mut octets = Vec::new();
    for _ in 0..2 {
        octets.extend([0, LINKLAYER_ETHERNET]);
        // overhead, cell alignment, smallest packet
        octets.extend(0_u16.to_ne_bytes());
        octets.extend((-1_i16).to_ne_bytes());
        octets.extend(0_u16.to_ne_bytes());
        octets.extend(u32::try_from(shaper.rate).unwrap_or(u32::MAX).to_ne_bytes());
    }
    for word in [buffer, buffer, QUANTUM, 0, 0] {
        octets.extend(word.to_ne_bytes());
    }
    let mut options = vec![option(TCA_HTB_PARMS, octets)];
    if u32::try_from(shaper.rate).is_err() {
        options.push(option(TCA_HTB_RATE64, shaper.rate.to_ne_bytes().to_vec()));
        options.push(option(TCA_HTB_CEIL64, shaper.rate.to_ne_bytes().to_vec()));
    }
    options
}

fn kind(message: &TcMessage) -> Option<&str> {
    message.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind.as_str()),
        _ => None,
    })
}

fn number(handle: TcHandle) -> u32 {
    (u32::from(handle.major) << 16) | u32::from(handle.minor)
}

/// The one option of what the library does not know, whole.
fn raw(message: &TcMessage) -> Vec<u8> {
    let options = message.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Options(options) => options.first(),
        _ => None,
    });
    let Some(TcOption::Other(nla)) = options else { return Vec::new() };
    let mut value = vec![0; nla.value_len()];
    nla.emit_value(&mut value);
    value
}

fn limit(message: &TcMessage) -> u32 {
    raw(message).get(..4).and_then(|octets| octets.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// Rate and burst of a class.
fn rate(message: &TcMessage) -> (u64, u32) {
    let value = raw(message);
    let (mut rate, mut wide, mut buffer) = (0_u64, None, 0);
    for nla in NlasIterator::new(value.as_slice()).flatten() {
        let word = |at: usize| nla.value().get(at..at + 4).and_then(|octets| octets.try_into().ok());
        match nla.kind() {
            // two rate specifications of twelve octets, whose last four are the rate
            TCA_HTB_PARMS => {
                rate = word(8).map_or(0, |octets| u64::from(u32::from_ne_bytes(octets)));
                buffer = word(24).map_or(0, u32::from_ne_bytes);
            }
            TCA_HTB_RATE64 => wide = nla.value().try_into().ok().map(u64::from_ne_bytes),
            _ => {}
        }
    }
    let rate = wide.unwrap_or(rate);
    (rate, octets(buffer, rate))
}

fn count(message: &TcMessage) -> ClassCounts {
    let mut counts = ClassCounts::default();
    for attribute in &message.attributes {
        let TcAttribute::Stats2(stats) = attribute else { continue };
        for stat in stats {
            match stat {
                TcStats2::Basic(basic) => {
                    (counts.octets, counts.packets) = (basic.bytes, u64::from(basic.packets));
                }
                TcStats2::Queue(queue) => {
                    (counts.dropped, counts.waiting) = (u64::from(queue.drops), u64::from(queue.backlog));
                }
                _ => {}
            }
        }
    }
    counts
}
