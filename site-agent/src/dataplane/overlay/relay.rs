//! A point in the middle of a route: what comes from one side goes to the other.
//!
//! A relay keeps no bytes. When either side is lost it gives up the other, and the source builds the circuit anew; what had
//! not arrived is sent again by the ends.

use super::{
    admission,
    cell::{RouteCell, Way},
    context::Context,
    frame::{self, Frame},
    hop::{Hop, HopReader, HopWriter, Lost},
    pace::{Pace, Pacer},
    spec::{Admission, Place, Tuning},
};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Serves the route until `incoming` closes.
pub(crate) async fn run(
    context: Arc<Context>,
    cell: Arc<RouteCell>,
    tuning: watch::Receiver<Tuning>,
    mut incoming: mpsc::Receiver<Hop>,
) {
    let mut next = incoming.recv().await;
    while let Some(upstream) = next {
        let lost = tokio::select! {
            // the previous hop calls again: it has given the old connection up
            newer = incoming.recv() => {
                next = newer;
                continue;
            }
            lost = circuit(&context, &cell, &tuning, upstream) => lost,
        };
        cell.lost(lost.to_string());
        next = incoming.recv().await;
    }
}

async fn circuit(context: &Context, cell: &RouteCell, tuning: &watch::Receiver<Tuning>, mut upstream: Hop) -> Lost {
    let link = tuning.borrow().next.clone();
    let called = match &link {
        Some(next) => upstream.writer.idle_until(admission::call(context, &cell.spec, next)).await,
        None => Ok(Err(no_link(cell))),
    };
    let mut downstream = match called {
        Ok(Ok(hop)) => hop,
        Ok(Err(lost)) | Err(lost) => {
            upstream.writer.farewell(&format!("at {}: {lost}", context.point)).await;
            return lost;
        }
    };
    let forward = pump(&mut upstream.reader, &mut downstream.writer, cell, Way::Forward, tuning);
    let back = pump(&mut downstream.reader, &mut upstream.writer, cell, Way::Back, tuning);
    let (lost, told) = tokio::select! {
        lost = forward => (lost, "the previous hop is gone".to_owned()),
        lost = back => {
            let told = format!("at {}: {lost}", context.point);
            (lost, told)
        }
        lost = unsettled(tuning.clone(), link) => (lost, format!("at {}: the way on changed", context.point)),
    };
    tokio::join!(upstream.writer.farewell(&told), downstream.writer.farewell(&told));
    lost
}

pub(crate) fn no_link(cell: &RouteCell) -> Lost {
    match &cell.spec.place {
        Place::Source { next } | Place::Relay { next, .. } => Lost::NoLink { link: next.to_string() },
        Place::Sink { .. } => Lost::Protocol("a sink has no next hop"),
    }
}

/// Returns once the next hop is reached elsewhere than by `link`, or the previous one may not connect any more.
pub(crate) async fn unsettled(mut tuning: watch::Receiver<Tuning>, link: Option<rhumb_wire::PeerLink>) -> Lost {
    let moved = tuning.wait_for(|now| now.next != link || now.previous == Admission::Barred).await.is_ok();
    if !moved {
        // the route is being torn down, which ends this task
        std::future::pending::<()>().await;
    }
    Lost::Changed
}

async fn pump(
    from: &mut HopReader,
    to: &mut HopWriter,
    cell: &RouteCell,
    way: Way,
    tuning: &watch::Receiver<Tuning>,
) -> Lost {
    let mut pacer = Pacer::new(Pace::Relay, tuning.clone());
    loop {
        if let Err(lost) = pass(from, to, cell, way, &mut pacer).await {
            return lost;
        }
    }
}

async fn pass(
    from: &mut HopReader,
    to: &mut HopWriter,
    cell: &RouteCell,
    way: Way,
    pacer: &mut Pacer,
) -> Result<(), Lost> {
    let whole = to.idle_until(from.whole()).await??;
    match (frame::parse(&whole)?, way) {
        (Frame::KeepAlive, _) => return Ok(()),
        (Frame::Error(text), _) => return Err(Lost::Told(text)),
        (Frame::Data(data), _) => {
            let bytes = data.payload_bytes();
            if data.at.offset > cell.session_offset(way) {
                return Err(Lost::Protocol("bytes are missing before those that came"));
            }
            if bytes > 0 {
                pacer.take(bytes as usize, to).await?;
            }
            to.raw(&whole).await?;
            cell.pass(way, data.at.offset, bytes);
            return Ok(());
        }
        (Frame::Open(open), Way::Forward) => cell.reached(Way::Back, open.received.offset),
        (Frame::Opened(opened), Way::Back) => {
            if opened.continuity == frame::Continuity::Fresh {
                cell.new_session();
            }
            cell.reached(Way::Forward, opened.received.offset);
            cell.active();
        }
        (Frame::Fin { bytes }, Way::Back) => {
            cell.reached(Way::Forward, bytes);
            cell.done();
        }
        (Frame::Ack(_) | Frame::Credit { .. }, _) | (Frame::Probe { .. }, Way::Forward) => {}
        (Frame::Echo { .. }, Way::Back) => cell.active(),
        (Frame::Fill(bytes), Way::Forward) => pacer.take(usize::from(bytes).max(1), to).await?,
        (
            Frame::Hello(_)
            | Frame::Challenge { .. }
            | Frame::Proof { .. }
            | Frame::Open(_)
            | Frame::Opened(_)
            | Frame::Fin { .. }
            | Frame::Probe { .. }
            | Frame::Echo { .. }
            | Frame::Fill(_),
            _,
        ) => return Err(Lost::Protocol("a frame came from the wrong side")),
    }
    to.raw(&whole).await
}
