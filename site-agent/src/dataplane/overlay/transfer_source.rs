//! Where a transfer begins: reads the dataset and sends it at the route's rate.

use super::{
    bucket::frame_bytes,
    cell::{RouteCell, Way, lock},
    circuit::Circuit,
    config::{DatasetRequest, Origin},
    context::Context,
    frame::{Data, Frame, Part, Position, Sealing},
    hop::{HopReader, HopWriter, Lost},
    pace::{Pace, Pacer},
    seal::Seal,
    spec::{Fate, Go, Job, Tuning},
};
use bytes::Bytes;
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex},
};
use tokio::{
    sync::{Notify, watch},
    task::{JoinHandle, spawn_blocking},
};

/// Read from the file at a time.
const BLOCK_BYTES: u64 = 256 << 10;

#[derive(Debug)]
pub(crate) struct TransferSource {
    context: Arc<Context>,
    request: DatasetRequest,
    offset: u64,
    bytes: u64,
    cell: Arc<RouteCell>,
}

/// What the sink has said it has.
#[derive(Debug, Default)]
struct Acked {
    offset: Mutex<u64>,
    moved: Notify,
}

impl TransferSource {
    /// `None`: the route is no transfer.
    pub(crate) fn new(context: Arc<Context>, cell: Arc<RouteCell>) -> Option<Self> {
        let Job::Transfer { dataset, offset, bytes, fate } = &cell.spec.job else { return None };
        let origin = match fate {
            Fate::Input => Origin::Held,
            Fate::Dataset => Origin::Produced,
        };
        let key = &cell.spec.key;
        let request = DatasetRequest { order: key.order, generation: key.generation, dataset: dataset.clone(), origin };
        let (offset, bytes) = (*offset, *bytes);
        Some(Self { context, request, offset, bytes, cell })
    }

    /// Whether all that is to be sent can be read; else why not.
    pub(crate) async fn readable(&self) -> Result<Arc<File>, String> {
        let (datasets, request) = (Arc::clone(&self.context.datasets), self.request.clone());
        let opened = spawn_blocking(move || {
            let file = datasets.open(&request)?;
            let length = file.metadata()?.len();
            Ok::<_, io::Error>((file, length))
        });
        let name = &self.request.dataset;
        let (file, length) = match opened.await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return Err(format!("cannot open dataset {name}: {error}")),
            Err(_) => return Err(format!("cannot open dataset {name}: its driver failed")),
        };
        let end = self.offset + self.bytes;
        if length < end {
            return Err(format!("dataset {name} has {length} bytes, the transfer needs {end}"));
        }
        Ok(Arc::new(file))
    }

    /// Sends from `received` on; ends only with the circuit.
    pub(crate) async fn carry(&self, circuit: Circuit, received: u64) -> Result<(), Lost> {
        if received > self.bytes {
            return Err(Lost::Protocol("the sink has more than there is"));
        }
        self.cell.reached(Way::Forward, received);
        let Circuit { hop, seal, tuning, cell, .. } = circuit;
        let (mut reader, writer) = (hop.reader, hop.writer);
        let acked = Acked { offset: Mutex::new(received), moved: Notify::new() };
        tokio::select! {
            lost = self.listen(&mut reader, &acked, &cell) => lost,
            lost = self.send(writer, seal, tuning, received, &acked) => lost,
        }
    }

    async fn listen(&self, reader: &mut HopReader, acked: &Acked, cell: &RouteCell) -> Result<(), Lost> {
        loop {
            match reader.frame().await? {
                Frame::Ack(position) if position.offset <= self.bytes => {
                    *lock(&acked.offset) = position.offset;
                    acked.moved.notify_one();
                }
                Frame::Fin { bytes } if bytes == self.bytes => {
                    self.cell.reached(Way::Forward, bytes);
                    cell.done();
                }
                // of a probe sent before it carried
                Frame::Echo { .. } => {}
                _ => return Err(Lost::Protocol("a transfer is not answered by that")),
            }
        }
    }

    async fn send(
        &self,
        mut writer: HopWriter,
        mut seal: Option<Seal>,
        mut tuning: watch::Receiver<Tuning>,
        received: u64,
        acked: &Acked,
    ) -> Result<(), Lost> {
        let go = tuning.clone();
        let told = async { tuning.wait_for(|now| now.go == Go::Send).await.is_ok() };
        if !writer.idle_until(told).await? {
            return Err(Lost::Changed);
        }
        let file = writer.idle_until(self.readable()).await?.map_err(Lost::Local)?;
        let mut pacer = Pacer::new(Pace::Source, go);
        let mut at = received;
        let mut ahead = self.read(&file, at);
        while at < self.bytes {
            let mut block = match writer.idle_until(ahead).await? {
                Ok(read) => read.map_err(|error| Lost::Local(format!("cannot read the dataset: {error}")))?,
                Err(_) => return Err(Lost::Local("reading the dataset failed".to_owned())),
            };
            ahead = self.read(&file, at + block.len() as u64);
            while !block.is_empty() {
                let body = block.split_to(block.len().min(frame_bytes(pacer.rate())));
                let bytes = body.len() as u64;
                writer.idle_until(self.room(at + bytes, acked)).await?;
                pacer.take(body.len(), &mut writer).await?;
                let at_position = Position { seq: 0, offset: at };
                let data = Data { at: at_position, channel: 0, part: Part::Payload, sealing: Sealing::Plain, body };
                let data = match &mut seal {
                    Some(seal) => seal.seal(data),
                    None => data,
                };
                writer.frame(&Frame::Data(data)).await?;
                self.cell.pass(Way::Forward, at, bytes);
                at += bytes;
            }
        }
        writer.idle_until(std::future::pending::<()>()).await
    }

    async fn room(&self, end: u64, acked: &Acked) {
        while end > lock(&acked.offset).saturating_add(self.context.limits.transfer_window_bytes) {
            acked.moved.notified().await;
        }
    }

    fn read(&self, file: &Arc<File>, at: u64) -> JoinHandle<io::Result<Bytes>> {
        let (file, from) = (Arc::clone(file), self.offset + at);
        let length = BLOCK_BYTES.min(self.bytes - at) as usize;
        spawn_blocking(move || {
            let mut block = vec![0; length];
            file.read_exact_at(&mut block, from)?;
            Ok(Bytes::from(block))
        })
    }
}
