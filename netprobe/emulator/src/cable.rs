//! Cables between network namespaces: a network device at each end, and what one takes comes out of the other with the
//! shape of the link in between. Needs root; kernels without a delaying queue discipline get distance by it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use nix::sched::{CloneFlags, setns};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::config::unknown;
use crate::link::Link;
use crate::polled::Polled;
use crate::timer::{Datagram, Exit, Timer, TimerThread, wake_on_time};
use crate::{EmulatorError, LinkShape, ShapePatch};

/// Packets that a device holds before they are read.
const DEVICE_QUEUE: u32 = 2_000;
/// The largest packet a device can hand over.
const MOST_PACKET_BYTES: usize = 65_535;
/// Packets taken from one device before the others have their turn.
const TURN: usize = 64;
const STOP: Token = Token(usize::MAX);

/// A cable: the same shape both ways.
#[derive(Debug, Clone)]
pub struct Cable {
    /// Unique name.
    pub id: String,
    /// Its two ends.
    pub ends: [CableEnd; 2],
    /// One way.
    pub shape: LinkShape,
    /// Octets of the largest packet.
    pub mtu: u16,
}

/// A device that is made in a namespace, up and without an address.
#[derive(Debug, Clone)]
pub struct CableEnd {
    /// Such as `/run/netns/a`.
    pub namespace: PathBuf,
    /// Its name there.
    pub device: String,
}

/// Cables in use. Their devices go when it is dropped.
#[derive(Debug)]
pub struct Cables {
    timer: Timer,
    cables: BTreeMap<String, [Arc<Link>; 2]>,
    _reader: Polled,
    // after the reader: no packet is accepted once the release has ended
    _release: TimerThread,
}

/// A network device of ours.
pub(crate) struct Device(SyncDevice);

impl Device {
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<usize> {
        self.0.send(packet)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.0.as_raw_fd()).finish()
    }
}

struct Entrance {
    from: Arc<Device>,
    to: Arc<Device>,
    link: Arc<Link>,
}

impl Cables {
    /// Makes every cable's devices and begins to carry. `seed` is the source of all loss and jitter.
    pub fn start(seed: u64, cables: &[Cable]) -> Result<Self, EmulatorError> {
        let (timer, release) = Timer::start()?;
        let mut made = BTreeMap::new();
        let mut entrances = Vec::new();
        for cable in cables {
            cable.shape.check(&cable.id)?;
            let [a, b] = [0, 1].map(|end| device(&cable.ends[end], cable.mtu));
            let (a, b) = (Arc::new(a?), Arc::new(b?));
            let link = |way| Arc::new(Link::new(&format!("{} {way}", cable.id), cable.shape, seed));
            let links = [link("there"), link("back")];
            entrances.push(Entrance { from: Arc::clone(&a), to: Arc::clone(&b), link: Arc::clone(&links[0]) });
            entrances.push(Entrance { from: b, to: a, link: Arc::clone(&links[1]) });
            if made.insert(cable.id.clone(), links).is_some() {
                return Err(EmulatorError::DuplicateLink { id: cable.id.clone() });
            }
        }
        let reader = reader(entrances, timer.clone())?;
        Ok(Self { timer, cables: made, _reader: reader, _release: release })
    }

    /// Changes a cable's shape both ways. What is on its way keeps its old delay.
    pub fn set(&self, id: &str, patch: ShapePatch) -> Result<LinkShape, EmulatorError> {
        let links = self.cable(id)?;
        let shape = patch.apply(links[0].shape());
        shape.check(id)?;
        for link in links {
            link.set_shape(shape, self.timer.now());
        }
        Ok(shape)
    }

    /// Nothing passes from now on, either way; nobody is told.
    pub fn cut(&self, id: &str) -> Result<(), EmulatorError> {
        self.cable(id)?.iter().for_each(|link| link.set_cut(true));
        Ok(())
    }

    /// Ends a cut.
    pub fn heal(&self, id: &str) -> Result<(), EmulatorError> {
        self.cable(id)?.iter().for_each(|link| link.set_cut(false));
        Ok(())
    }

    fn cable(&self, id: &str) -> Result<&[Arc<Link>; 2], EmulatorError> {
        self.cables.get(id).ok_or_else(|| unknown(id, self.cables.keys().map(String::as_str)))
    }
}

/// Makes the device on a thread of its namespace: it stays there, its descriptor is the whole process's.
fn device(end: &CableEnd, mtu: u16) -> Result<Device, EmulatorError> {
    let failed = |source| EmulatorError::Cable { namespace: end.namespace.clone(), device: end.device.clone(), source };
    let inside = || {
        setns(File::open(&end.namespace)?, CloneFlags::CLONE_NEWNET)?;
        let device = DeviceBuilder::new().name(&end.device).mtu(mtu).build_sync()?;
        device.set_tx_queue_len(DEVICE_QUEUE)?;
        device.set_nonblocking(true)?;
        Ok(Device(device))
    };
    let made = std::thread::scope(|scope| scope.spawn(inside).join());
    made.unwrap_or_else(|_| Err(io::Error::other("the thread that makes devices panicked"))).map_err(failed)
}

fn reader(entrances: Vec<Entrance>, timer: Timer) -> Result<Polled, EmulatorError> {
    let failed = |source| EmulatorError::Thread { what: "thread of cables", source };
    let poll = Poll::new().map_err(failed)?;
    for (token, entrance) in entrances.iter().enumerate() {
        let descriptor = entrance.from.0.as_raw_fd();
        poll.registry().register(&mut SourceFd(&descriptor), Token(token), Interest::READABLE).map_err(failed)?;
    }
    let stop = Waker::new(poll.registry(), STOP).map_err(failed)?;
    Polled::start("emulator-cables", stop, move || read(poll, &entrances, &timer)).map_err(failed)
}

fn read(mut poll: Poll, entrances: &[Entrance], timer: &Timer) {
    wake_on_time();
    let mut events = Events::with_capacity(64);
    let mut buffer = vec![0; MOST_PACKET_BYTES];
    let mut ready = BTreeSet::new();
    loop {
        let wait = if ready.is_empty() { None } else { Some(std::time::Duration::ZERO) };
        match poll.poll(&mut events, wait) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::error!(%error, "the emulator can no longer read its cables");
                return;
            }
            Ok(()) => {}
        }
        for event in &events {
            if event.token() == STOP {
                return;
            }
            ready.insert(event.token().0);
        }
        ready.retain(|token| entrances.get(*token).is_some_and(|entrance| take_turn(entrance, timer, &mut buffer)));
    }
}

/// Takes up to a turn's packets from one device; whether there may be more.
fn take_turn(entrance: &Entrance, timer: &Timer, buffer: &mut [u8]) -> bool {
    for _ in 0..TURN {
        let Ok(bytes) = entrance.from.0.recv(buffer) else { return false };
        let now = timer.now();
        if let Some(transit) = entrance.link.accept_datagram(bytes, now) {
            let (link, exit) = (Arc::clone(&entrance.link), Exit::Device(Arc::clone(&entrance.to)));
            timer.send(Datagram { link, transit, exit, payload: buffer[..bytes].into() });
        }
    }
    true
}
