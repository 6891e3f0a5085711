//! One end of a stream route: joins the connections of local processes to the circuit, and carries them over its loss.

use super::{
    bucket::frame_bytes,
    cell::{RouteCell, Way, lock},
    circuit::Circuit,
    context::Context,
    desk::{Desk, Ends},
    frame::{Continuity, Data, Frame, Open, Opened, PAYLOAD_BYTES_MAX, Position, Sealing},
    hop::{Hop, HopReader, HopWriter, Lost},
    mux::{Chunk, End, Event, Mux, MuxError, Outgoing, Room},
    pace::{Pace, Pacer},
    seal::{Seal, SealError},
    secret::random,
    spec::Tuning,
};
use bytes::Bytes;
use rhumb_model::Bandwidth;
use std::{
    collections::BTreeMap,
    io,
    pin::pin,
    sync::{Arc, Mutex},
};
use tokio::{
    io::AsyncWriteExt,
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::{Notify, mpsc, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[derive(Debug)]
pub(crate) struct StreamEnd {
    cell: Arc<RouteCell>,
    end: End,
    desk: Arc<Desk>,
    tuning: watch::Receiver<Tuning>,
    mux: Mutex<Mux>,
    window_most: u64,
    /// There may be something to send.
    wake: Notify,
    /// There may be room for more from the processes.
    room: Notify,
    channels: Mutex<BTreeMap<u32, Tasks>>,
    identity: Mutex<Identity>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Who the two ends are: a resumed circuit needs both to remember the other.
#[derive(Debug, Clone, Copy)]
struct Identity {
    own: u64,
    far: u64,
}

#[derive(Debug, Clone)]
struct Tasks {
    stop: CancellationToken,
    arrived: Arc<Notify>,
}

impl StreamEnd {
    pub(crate) fn new(
        cell: &Arc<RouteCell>,
        end: End,
        desk: Arc<Desk>,
        tuning: watch::Receiver<Tuning>,
        context: &Context,
        stop: CancellationToken,
    ) -> Result<Arc<Self>, Lost> {
        let unrandom = || Lost::Local("the operating system gives no random numbers".to_owned());
        // 0 means: none known
        let own = u64::from_be_bytes(random().ok_or_else(unrandom)?) | 1;
        let limits = &context.limits;
        let window = window_bytes(tuning.borrow().rate, limits.stream_window_bytes);
        Ok(Arc::new(Self {
            cell: Arc::clone(cell),
            end,
            desk,
            tuning,
            mux: Mutex::new(Mux::new(end, window, limits.channels)),
            window_most: limits.stream_window_bytes,
            wake: Notify::new(),
            room: Notify::new(),
            channels: Mutex::default(),
            identity: Mutex::new(Identity { own, far: 0 }),
            tasks: context.tasks.clone(),
            stop,
        }))
    }

    /// For [`Open`]: own number, the sink's, and what has come back.
    pub(crate) fn identity(&self) -> (u64, u64, Position) {
        let identity = *lock(&self.identity);
        (identity.own, identity.far, lock(&self.mux).received())
    }

    /// The sink answered.
    pub(crate) fn opened(&self, opened: &Opened) -> Result<(), Lost> {
        let before = std::mem::replace(&mut lock(&self.identity).far, opened.sink);
        match opened.continuity {
            Continuity::Resumed => lock(&self.mux).resume(opened.received).map_err(protocol),
            // what processes said before the first circuit stood has not been said to anyone yet
            Continuity::Fresh if before == 0 => lock(&self.mux).resume(Position::default()).map_err(protocol),
            Continuity::Fresh => {
                self.begin_anew();
                Ok(())
            }
        }
    }

    /// The source asks.
    pub(crate) fn answer(&self, open: &Open, salt: [u8; 16]) -> Result<Opened, Lost> {
        let known = {
            let mut identity = lock(&self.identity);
            let known = identity.far == open.source && identity.own == open.sink;
            identity.far = open.source;
            known
        };
        let continuity = if known {
            lock(&self.mux).resume(open.received).map_err(protocol)?;
            Continuity::Resumed
        } else {
            self.begin_anew();
            Continuity::Fresh
        };
        let sink = lock(&self.identity).own;
        Ok(Opened { sink, continuity, received: lock(&self.mux).received(), salt })
    }

    fn begin_anew(&self) {
        for tasks in std::mem::take(&mut *lock(&self.channels)).into_values() {
            tasks.stop.cancel();
        }
        lock(&self.mux).reset();
        self.cell.new_session();
    }

    /// Joins the connections of processes here to channels, until the route is torn down.
    pub(crate) async fn take_callers(self: Arc<Self>, mut callers: mpsc::UnboundedReceiver<Ends>) {
        while let Some(ends) = callers.recv().await {
            let opened = lock(&self.mux).open();
            // where there are too many, dropping the ends closes the connection
            if let Some(id) = opened {
                self.wake.notify_one();
                self.start(id, async move { Some(ends) });
            }
        }
    }

    /// Carries messages both ways; ends only with the circuit.
    pub(crate) async fn carry(self: &Arc<Self>, circuit: Circuit) -> Result<(), Lost> {
        let Circuit { hop: Hop { mut reader, writer }, seal, unseal, tuning, .. } = circuit;
        // what the far end has by now may be news to those who wait for room
        self.room.notify_waiters();
        tokio::select! {
            lost = self.listen(&mut reader, unseal) => lost,
            lost = self.send(writer, seal, tuning) => lost,
        }
    }

    async fn listen(self: &Arc<Self>, reader: &mut HopReader, mut unseal: Option<Seal>) -> Result<(), Lost> {
        loop {
            match reader.frame().await? {
                Frame::Ack(position) => {
                    lock(&self.mux).acked(position).map_err(protocol)?;
                    self.room.notify_waiters();
                }
                Frame::Credit { channel, total } => {
                    lock(&self.mux).credited(channel, total);
                    self.room.notify_waiters();
                }
                Frame::Data(data) => {
                    let data = match &mut unseal {
                        Some(seal) => seal.open(data)?,
                        None if data.sealing == Sealing::Plain => data,
                        None => return Err(SealError::Mixed.into()),
                    };
                    self.take(&data)?;
                }
                // of a probe sent before it carried
                Frame::Echo { .. } => {}
                _ => return Err(Lost::Protocol("a stream consists of data")),
            }
        }
    }

    fn take(self: &Arc<Self>, data: &Data) -> Result<(), Lost> {
        let event = lock(&self.mux).receive(data).map_err(protocol)?;
        let way = match self.end {
            End::Source => Way::Back,
            End::Sink => Way::Forward,
        };
        self.cell.pass(way, data.at.offset, data.body.len() as u64);
        match event {
            Event::Opened(id) => {
                let given = self.desk.offer(self.cell.spec.key.leg);
                self.start(id, async move { given.await.ok() });
            }
            Event::Arrived(id) => {
                if let Some(tasks) = lock(&self.channels).get(&id) {
                    tasks.arrived.notify_one();
                }
            }
            Event::Reset(id) => {
                if let Some(tasks) = lock(&self.channels).remove(&id) {
                    tasks.stop.cancel();
                }
            }
            Event::Nothing => {}
        }
        self.wake.notify_one();
        Ok(())
    }

    async fn send(
        &self,
        mut writer: HopWriter,
        mut seal: Option<Seal>,
        tuning: watch::Receiver<Tuning>,
    ) -> Result<(), Lost> {
        let mut pacer = Pacer::new(Pace::Source, tuning);
        let way = match self.end {
            End::Source => Way::Forward,
            End::Sink => Way::Back,
        };
        loop {
            let next = {
                let mut mux = lock(&self.mux);
                mux.set_window(window_bytes(pacer.rate(), self.window_most));
                mux.outgoing()
            };
            match next {
                None => writer.idle_until(self.wake.notified()).await?,
                Some(Outgoing::Ack(position)) => writer.frame(&Frame::Ack(position)).await?,
                Some(Outgoing::Credit { channel, total }) => writer.frame(&Frame::Credit { channel, total }).await?,
                Some(Outgoing::Data(data)) => {
                    let (offset, bytes) = (data.at.offset, data.body.len());
                    if bytes > 0 {
                        pacer.take(bytes, &mut writer).await?;
                    }
                    let data = match &mut seal {
                        Some(seal) => seal.seal(data),
                        None => data,
                    };
                    writer.frame(&Frame::Data(data)).await?;
                    self.cell.pass(way, offset, bytes as u64);
                }
            }
        }
    }

    /// Serves a channel with the connection that `partner` gives, until either side is done.
    fn start(self: &Arc<Self>, id: u32, partner: impl Future<Output = Option<Ends>> + Send + 'static) {
        let tasks = Tasks { stop: self.stop.child_token(), arrived: Arc::default() };
        lock(&self.channels).insert(id, tasks.clone());
        let stream = Arc::clone(self);
        self.tasks.spawn(async move {
            let serve = async {
                match partner.await {
                    Some(ends) => stream.serve(id, ends, &tasks.arrived).await,
                    None => stream.abort(id),
                }
                lock(&stream.channels).remove(&id);
            };
            tokio::select! {
                () = tasks.stop.cancelled() => {}
                () = serve => {}
            }
        });
    }

    async fn serve(&self, id: u32, ends: Ends, arrived: &Notify) {
        let outward = async {
            match ends.reader {
                Some(reader) => self.read_from(id, reader).await,
                None => Ok(()),
            }
        };
        let inward = self.write_to(id, ends.writer, arrived);
        let outward = async {
            outward.await?;
            lock(&self.mux).finish(id);
            self.wake.notify_one();
            Ok::<(), io::Error>(())
        };
        if let Err(error) = tokio::try_join!(outward, inward) {
            tracing::trace!(channel = id, %error, "a process has left its flow");
            self.abort(id);
        }
    }

    fn abort(&self, id: u32) {
        lock(&self.mux).abort(id);
        self.wake.notify_one();
    }

    /// From the process to the route, until the process sends no more.
    async fn read_from(&self, id: u32, reader: OwnedReadHalf) -> io::Result<()> {
        let mut scratch = vec![0; PAYLOAD_BYTES_MAX];
        loop {
            reader.readable().await?;
            let Some(room) = self.wait_for_room(id).await else { return Ok(()) };
            let most = room.min(frame_bytes(self.tuning.borrow().rate));
            match reader.try_read(&mut scratch[..most]) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    lock(&self.mux).send(id, Bytes::copy_from_slice(&scratch[..read]));
                    self.wake.notify_one();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// `None`: the channel is gone.
    async fn wait_for_room(&self, id: u32) -> Option<usize> {
        loop {
            let mut changed = pin!(self.room.notified());
            changed.as_mut().enable();
            match lock(&self.mux).room(id) {
                Room::Bytes(bytes) => return Some(bytes),
                Room::Gone => return None,
                Room::Full => {}
            }
            changed.await;
        }
    }

    /// From the route to the process, until the far process sends no more. Without a process to write to, what comes is
    /// dropped.
    async fn write_to(&self, id: u32, mut writer: Option<OwnedWriteHalf>, arrived: &Notify) -> io::Result<()> {
        loop {
            let chunk = lock(&self.mux).take(id);
            match chunk {
                Chunk::Bytes(bytes) => {
                    // in pieces: what a slow process has not taken yet earns no credit
                    for piece in bytes.chunks(PAYLOAD_BYTES_MAX) {
                        if let Some(writer) = &mut writer {
                            writer.write_all(piece).await?;
                        }
                        lock(&self.mux).consumed(id, piece.len() as u64);
                        self.wake.notify_one();
                    }
                }
                Chunk::Wait => arrived.notified().await,
                Chunk::End => {
                    if let Some(writer) = &mut writer {
                        writer.shutdown().await?;
                    }
                    return Ok(());
                }
                Chunk::Gone => return Ok(()),
            }
        }
    }
}

/// Two seconds of the rate, so that a long way does not slow it.
fn window_bytes(rate: Bandwidth, most: u64) -> u64 {
    rate.kbps().saturating_mul(2 * 1_000 / 8).min(most)
}

fn protocol(error: MuxError) -> Lost {
    Lost::Told(error.to_string())
}
