//! Where the connections of one flow's processes find their partners.
//!
//! - A connection at the **source** of a flow goes out over one of its legs, in turn, or to a replica of the sink on this
//!   very point, where there is one.
//! - At the **sink** it waits for the next one that comes in. A replica that listens by itself on `flow<n>.listen.sock` is
//!   connected to instead, as soon as something comes in that nobody waits for.
//! - In a flow of a component **with itself** every pair of points has a leg each way. The k-th connection here and the k-th
//!   there become one; what a process writes goes over the leg that begins here, what it reads came over the other. With
//!   several other points the connections of a replica go to them in turn, in the order of the legs. Without legs, replicas
//!   on the same point are joined in pairs.

use super::cell::lock;
use rhumb_model::ComponentName;
use rhumb_wire::{FlowEndpoint, Role};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{RecvFlags, recv},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, mpsc, oneshot},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How often a replica that listens by itself is looked for while something waits for it.
const LOOK: Duration = Duration::from_millis(50);
const CONNECT: Duration = Duration::from_secs(1);

/// What a channel uses of a process's connection.
#[derive(Debug)]
pub(crate) struct Ends {
    /// What the process writes; `None`: this channel does not carry it.
    pub(crate) reader: Option<OwnedReadHalf>,
    /// What the process gets; `None`: not from this channel.
    pub(crate) writer: Option<OwnedWriteHalf>,
}

impl Ends {
    fn whole(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { reader: Some(reader), writer: Some(writer) }
    }
}

/// A replica of one flow here.
pub(crate) type Replica = (ComponentName, u32);

#[derive(Debug)]
pub(crate) struct Desk {
    inner: Mutex<Inner>,
    /// Something came in that nobody waits for.
    unclaimed: Notify,
    tasks: TaskTracker,
    stop: CancellationToken,
    waiting_max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    endpoints: BTreeMap<Replica, Endpoint>,
    /// Legs that begin here, and who takes their connections.
    outs: BTreeMap<u32, mpsc::UnboundedSender<Ends>>,
    /// Legs that end here.
    ins: BTreeSet<u32>,
    callers: VecDeque<Caller>,
    takers: VecDeque<Taker>,
    offers: VecDeque<Offer>,
    turn: usize,
}

#[derive(Debug)]
struct Endpoint {
    wanted: FlowEndpoint,
    listens_at: PathBuf,
    /// Connections joined so far.
    count: usize,
}

/// A connection not joined to anything yet.
#[derive(Debug)]
struct Caller {
    replica: Replica,
    stream: UnixStream,
}

/// A connection that waits for one from the far end.
#[derive(Debug)]
struct Taker {
    replica: Replica,
    ends: Ends,
    /// Only over this leg; else over any, or from this point.
    leg: Option<u32>,
}

/// A connection that wants a taker.
#[derive(Debug)]
enum Offer {
    Channel {
        leg: u32,
        give: oneshot::Sender<Ends>,
    },
    /// Of the flow's source on this very point.
    Process {
        ends: Ends,
    },
}

/// Two connections of processes here.
type Pair = (Ends, Ends);

impl Desk {
    pub(crate) fn new(waiting_max: usize, tasks: TaskTracker, stop: CancellationToken) -> Arc<Self> {
        let desk = Arc::new(Self { inner: Mutex::default(), unclaimed: Notify::new(), tasks, stop, waiting_max });
        let dialler = Arc::clone(&desk);
        desk.tasks.spawn(async move {
            tokio::select! {
                () = dialler.stop.cancelled() => {}
                () = dialler.dial() => {}
            }
        });
        desk
    }

    /// Ends everything that waits or passes here.
    pub(crate) fn close(&self) {
        self.stop.cancel();
        *lock(&self.inner) = Inner::default();
    }

    pub(crate) fn is_idle(&self) -> bool {
        let inner = lock(&self.inner);
        inner.endpoints.is_empty() && inner.outs.is_empty() && inner.ins.is_empty()
    }

    pub(crate) fn set_endpoint(&self, replica: Replica, wanted: FlowEndpoint, listens_at: PathBuf) {
        let mut inner = lock(&self.inner);
        let count = inner.endpoints.get(&replica).map_or(0, |endpoint| endpoint.count);
        inner.endpoints.insert(replica, Endpoint { wanted, listens_at, count });
        self.settle(inner);
    }

    pub(crate) fn remove_endpoint(&self, replica: &Replica) {
        let mut inner = lock(&self.inner);
        inner.endpoints.remove(replica);
        inner.callers.retain(|caller| caller.replica != *replica);
        inner.takers.retain(|taker| taker.replica != *replica);
    }

    /// A leg begins here; its connections go to the receiver.
    pub(crate) fn leg_out(&self, leg: u32) -> mpsc::UnboundedReceiver<Ends> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inner = lock(&self.inner);
        inner.outs.insert(leg, sender);
        self.settle(inner);
        receiver
    }

    /// A leg ends here.
    pub(crate) fn leg_in(&self, leg: u32) {
        let mut inner = lock(&self.inner);
        inner.ins.insert(leg);
        self.settle(inner);
    }

    pub(crate) fn leg_gone(&self, leg: u32) {
        let mut inner = lock(&self.inner);
        inner.outs.remove(&leg);
        inner.ins.remove(&leg);
        inner.offers.retain(|offer| !matches!(offer, Offer::Channel { leg: of, .. } if *of == leg));
        inner.takers.retain(|taker| taker.leg != Some(leg));
    }

    /// A connection came in over `leg`: the receiver gets its partner, once there is one.
    pub(crate) fn offer(&self, leg: u32) -> oneshot::Receiver<Ends> {
        let (give, given) = oneshot::channel();
        let mut inner = lock(&self.inner);
        inner.offers.push_back(Offer::Channel { leg, give });
        self.settle(inner);
        given
    }

    /// A process connected to its socket. Closed at once where too many already wait.
    pub(crate) fn arrive(&self, replica: Replica, stream: UnixStream) {
        let mut inner = lock(&self.inner);
        if inner.callers.len() + inner.takers.len() < self.waiting_max {
            inner.callers.push_back(Caller { replica, stream });
            self.settle(inner);
        }
    }

    fn settle(&self, mut inner: MutexGuard<'_, Inner>) {
        let pairs = inner.settle();
        let unclaimed = !inner.offers.is_empty();
        drop(inner);
        for pair in pairs {
            let stop = self.stop.clone();
            self.tasks.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = bridge(pair) => {}
                }
            });
        }
        if unclaimed {
            self.unclaimed.notify_one();
        }
    }

    /// Looks for replicas that listen by themselves, while something waits for one.
    async fn dial(&self) {
        loop {
            self.unclaimed.notified().await;
            while let Some(listeners) = self.listeners() {
                for (replica, path) in listeners {
                    if let Ok(Ok(stream)) = timeout(CONNECT, UnixStream::connect(&path)).await {
                        let mut inner = lock(&self.inner);
                        inner.takers.push_back(Taker { replica, ends: Ends::whole(stream), leg: None });
                        self.settle(inner);
                        break;
                    }
                }
                sleep(LOOK).await;
            }
        }
    }

    /// Where replicas of the sink may listen, another one first each time; `None` when nothing is unclaimed.
    fn listeners(&self) -> Option<Vec<(Replica, PathBuf)>> {
        let mut inner = lock(&self.inner);
        if inner.offers.is_empty() {
            return None;
        }
        inner.turn = inner.turn.wrapping_add(1);
        let sinks = inner.endpoints.iter().filter(|(_, endpoint)| endpoint.wanted.role == Role::Sink);
        let mut found: Vec<_> =
            sinks.map(|(replica, endpoint)| (replica.clone(), endpoint.listens_at.clone())).collect();
        let first = inner.turn.checked_rem(found.len()).unwrap_or(0);
        found.rotate_left(first);
        Some(found)
    }
}

impl Inner {
    /// Joins whatever can be joined now; gives the pairs that meet on this very point.
    fn settle(&mut self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for caller in std::mem::take(&mut self.callers) {
            if let Some(unplaced) = self.place(caller, &mut pairs) {
                self.callers.push_back(unplaced);
            }
        }
        for offer in std::mem::take(&mut self.offers) {
            if let Some(unclaimed) = self.claim(offer, &mut pairs) {
                self.offers.push_back(unclaimed);
            }
        }
        pairs
    }

    /// Gives the caller back where it has to wait.
    fn place(&mut self, caller: Caller, pairs: &mut Vec<Pair>) -> Option<Caller> {
        let has_sink = self.endpoints.values().any(|endpoint| endpoint.wanted.role == Role::Sink);
        let endpoint = self.endpoints.get_mut(&caller.replica)?;
        let legs = &endpoint.wanted.legs;
        let outs: Vec<u32> = self.outs.keys().copied().filter(|leg| legs.contains(leg)).collect();
        let ins: Vec<u32> = self.ins.iter().copied().filter(|leg| legs.contains(leg)).collect();
        let with_itself = match endpoint.wanted.role {
            Role::Relay => true,
            // where another component's end of the flow were here, it would have an endpoint
            Role::Source => !has_sink && (legs.is_empty() || !ins.is_empty()),
            Role::Sink => false,
        };
        if endpoint.wanted.role == Role::Sink {
            let Caller { replica, stream } = caller;
            self.takers.push_back(Taker { replica, ends: Ends::whole(stream), leg: None });
            return None;
        }
        if with_itself && legs.is_empty() {
            let Some(partner) = self.callers.iter().position(|other| other.replica != caller.replica) else {
                return Some(caller);
            };
            let partner = self.callers.remove(partner)?;
            pairs.push((Ends::whole(partner.stream), Ends::whole(caller.stream)));
            return None;
        }
        if with_itself {
            if outs.len() != ins.len() || outs.len() + ins.len() != legs.len() {
                return Some(caller);
            }
            let turn = endpoint.count % outs.len();
            endpoint.count += 1;
            let (reader, writer) = caller.stream.into_split();
            let sent = self.outs[&outs[turn]].send(Ends { reader: Some(reader), writer: None });
            if sent.is_ok() {
                let ends = Ends { reader: None, writer: Some(writer) };
                self.takers.push_back(Taker { replica: caller.replica, ends, leg: Some(ins[turn]) });
            }
            return None;
        }
        let ways = outs.len() + usize::from(has_sink);
        if ways == 0 {
            return Some(caller);
        }
        let turn = endpoint.count % ways;
        endpoint.count += 1;
        let ends = Ends::whole(caller.stream);
        match outs.get(turn).and_then(|leg| self.outs.get(leg)) {
            // a leg that is being torn down closes it
            Some(leg) => drop(leg.send(ends)),
            None => self.offers.push_back(Offer::Process { ends }),
        }
        None
    }

    /// Gives the offer back where nobody waits for it.
    fn claim(&mut self, offer: Offer, pairs: &mut Vec<Pair>) -> Option<Offer> {
        let leg = match &offer {
            Offer::Channel { give, .. } if give.is_closed() => return None,
            Offer::Channel { leg, .. } => Some(*leg),
            Offer::Process { .. } => None,
        };
        self.takers.retain(|taker| !gone(&taker.ends));
        let fits = |taker: &Taker| taker.leg.is_none() || taker.leg == leg;
        let Some(taker) = self.takers.iter().position(fits) else { return Some(offer) };
        let taker = self.takers.remove(taker)?;
        match offer {
            Offer::Process { ends } => pairs.push((ends, taker.ends)),
            Offer::Channel { give, .. } => {
                if let Err(ends) = give.send(taker.ends) {
                    self.takers.push_front(Taker { ends, ..taker });
                }
            }
        }
        None
    }
}

/// Whether the process has closed the connection for good and left nothing to read.
fn gone(ends: &Ends) -> bool {
    let Some(reader) = &ends.reader else { return false };
    let stream: &UnixStream = reader.as_ref();
    let mut asked = [PollFd::new(stream, PollFlags::IN)];
    let closed = poll(&mut asked, Some(&Timespec::default())).is_ok() && asked[0].revents().contains(PollFlags::HUP);
    closed && matches!(recv(stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT), Ok((0, _)) | Err(_))
}

async fn bridge((a, b): Pair) {
    let there = pass(a.reader, b.writer);
    let back = pass(b.reader, a.writer);
    if let Err(error) = tokio::try_join!(there, back) {
        tracing::trace!(%error, "a process has left its flow");
    }
}

async fn pass(reader: Option<OwnedReadHalf>, writer: Option<OwnedWriteHalf>) -> io::Result<()> {
    if let (Some(mut reader), Some(mut writer)) = (reader, writer) {
        tokio::io::copy(&mut reader, &mut writer).await?;
        writer.shutdown().await?;
    }
    Ok(())
}
