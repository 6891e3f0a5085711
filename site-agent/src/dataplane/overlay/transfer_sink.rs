//! Where a transfer ends: writes what arrives at its place in the staged file.

use super::{
    cell::{RouteCell, Way},
    circuit::Circuit,
    context::Context,
    frame::{Frame, Part, Position, Sealing},
    hop::{Hop, HopReader, Lost},
    seal::{Seal, SealError},
    spec::Job,
    staging::{Leg, LegFile},
};
use bytes::BytesMut;
use std::{io, sync::Arc};
use tokio::{sync::Mutex, task::spawn_blocking};

/// Written to the file at a time.
const BATCH_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct TransferSink {
    context: Arc<Context>,
    cell: Arc<RouteCell>,
    leg: Arc<Leg>,
    bytes: u64,
    /// Stays open between circuits, so that the next one goes on where the last was lost.
    file: Mutex<Option<Arc<LegFile>>>,
}

impl TransferSink {
    /// `None`: the route is no transfer.
    pub(crate) fn new(context: Arc<Context>, cell: Arc<RouteCell>, leg: Arc<Leg>) -> Option<Self> {
        let Job::Transfer { bytes, .. } = &cell.spec.job else { return None };
        Some(Self { bytes: *bytes, context, cell, leg, file: Mutex::new(None) })
    }

    /// Opens the file; gives how much of this route's part is already there.
    pub(crate) async fn begin(&self) -> Result<u64, Lost> {
        Ok(self.open().await?.received())
    }

    /// Takes what comes; ends only with the circuit.
    pub(crate) async fn carry(&self, circuit: Circuit) -> Result<(), Lost> {
        let file = self.open().await?;
        let Circuit { hop: Hop { mut reader, mut writer }, mut unseal, cell, .. } = circuit;
        let mut at = file.received();
        let mut saved = at;
        while at < self.bytes {
            let batch = writer.idle_until(self.batch(&mut reader, &mut unseal, at)).await??;
            let (from, bytes) = (at, batch.len() as u64);
            at += bytes;
            let sure = at - saved >= self.context.limits.progress_bytes && at < self.bytes;
            if sure {
                saved = at;
            }
            let target = Arc::clone(&file);
            let written = blocking(move || {
                target.write(from, &batch)?;
                if sure { target.save() } else { Ok(()) }
            });
            writer.idle_until(written).await??;
            self.cell.pass(Way::Forward, from, bytes);
            writer.frame(&Frame::Ack(Position { seq: 0, offset: at })).await?;
        }
        let leg = Arc::clone(&self.leg);
        writer.idle_until(blocking(move || leg.complete(&file))).await??;
        cell.done();
        writer.frame(&Frame::Fin { bytes: self.bytes }).await?;
        // the circuit stays: it tells hops that come back that the route is done
        writer.idle_until(reader.frame()).await??;
        Err(Lost::Protocol("something follows the last byte"))
    }

    /// What comes next and directly after `at`, sealed no more.
    async fn batch(&self, reader: &mut HopReader, unseal: &mut Option<Seal>, at: u64) -> Result<BytesMut, Lost> {
        let mut batch = BytesMut::new();
        loop {
            let Frame::Data(data) = reader.frame().await? else {
                return Err(Lost::Protocol("a transfer consists of data"));
            };
            let data = match unseal {
                Some(seal) => seal.open(data)?,
                None if data.sealing == Sealing::Plain => data,
                None => return Err(SealError::Mixed.into()),
            };
            let next = at + batch.len() as u64;
            if data.part != Part::Payload || data.at.offset != next || self.bytes - next < data.body.len() as u64 {
                return Err(Lost::Protocol("the data is not what comes next"));
            }
            batch.extend_from_slice(&data.body);
            if batch.len() >= BATCH_BYTES || !reader.has_frame() {
                return Ok(batch);
            }
        }
    }

    async fn open(&self) -> Result<Arc<LegFile>, Lost> {
        let mut file = self.file.lock().await;
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        let leg = Arc::clone(&self.leg);
        let opened = Arc::new(blocking(move || leg.open()).await?);
        Ok(Arc::clone(file.insert(opened)))
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, Lost> {
    match spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| Lost::Local(format!("cannot keep what arrives: {error}"))),
        Err(_) => Err(Lost::Local("keeping what arrives failed".to_owned())),
    }
}
