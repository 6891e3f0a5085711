//! The two ends of a path: building its circuit, measuring it, and building it again when it is lost.

use super::{
    admission,
    cell::{RouteCell, Way},
    context::Context,
    frame::{Continuity, Frame, Open, Opened, Position, Purpose, Sealing},
    hop::{Hop, Lost},
    leg::LegEnd,
    relay,
    seal::{Direction, Seal},
    secret::random,
    spec::{Go, Job, RouteSpec, Tuning},
    standby,
    stream::StreamEnd,
    transfer_sink::TransferSink,
    transfer_source::TransferSource,
};
use rhumb_wire::Duty;
use std::sync::Arc;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

/// A circuit that stands end to end, as one end sees it.
pub(crate) struct Circuit {
    pub(crate) hop: Hop,
    /// For what this end sends, and for what it gets.
    pub(crate) seal: Option<Seal>,
    pub(crate) unseal: Option<Seal>,
    pub(crate) tuning: watch::Receiver<Tuning>,
    pub(crate) cell: Arc<RouteCell>,
}

#[derive(Debug)]
pub(crate) enum SourceEnd {
    Transfer(TransferSource),
    Stream(Arc<StreamEnd>),
}

#[derive(Debug)]
pub(crate) enum SinkEnd {
    Transfer(TransferSink),
    Stream(Arc<StreamEnd>),
}

/// Builds the circuit, has it ready, carries the leg's bytes over it while it is its turn, and again, until the task is
/// ended.
pub(crate) async fn run_source(
    context: Arc<Context>,
    cell: Arc<RouteCell>,
    mut tuning: watch::Receiver<Tuning>,
    leg: Arc<LegEnd<SourceEnd>>,
) {
    let mut pause = context.limits.retry_first;
    let path = cell.spec.key.path;
    loop {
        let go = tuning.borrow_and_update().go;
        if let SourceEnd::Transfer(transfer) = &leg.end
            && go == Go::Send
            && let Err(why) = transfer.readable().await
        {
            cell.failed(why);
            sleep(context.limits.retry_most).await;
            continue;
        }
        let link = tuning.borrow_and_update().next.clone();
        let attempt = async {
            let mut hop = call(&context, &cell, &tuning).await?;
            standby::prove(&mut hop, &cell, &tuning, &context.limits).await?;
            pause = context.limits.retry_first;
            // one that is to carry is active once it does
            if tuning.borrow().duty != Duty::Carry {
                cell.active();
            }
            leg.shared().is_live(path, true);
            standby::wait(&mut hop, &cell, leg.shared(), &tuning, &context.limits).await?;
            let over = leg.shared().turn_of_another(path);
            tokio::select! {
                lost = carry_from(&context, &cell, &tuning, &leg, hop) => lost,
                () = over => Err(Lost::HandedOver),
            }
        };
        let lost = tokio::select! {
            ended = attempt => ended.err().unwrap_or(Lost::Closed),
            lost = relay::unsettled(tuning.clone(), link) => lost,
        };
        // what was handed over was well; it comes back as one that stands by
        if !matches!(lost, Lost::HandedOver) {
            cell.lost(lost.to_string());
        }
        leg.shared().is_live(path, false);
        // half of the pause is drawn, so that routes over one link do not come back in step
        let drawn = random::<1>().map_or(0, |[octet]| u32::from(octet));
        tokio::select! {
            () = sleep(pause / 2 + pause * drawn / 512) => {}
            changed = tuning.changed() => if changed.is_err() { return },
        }
        pause = (pause * 2).min(context.limits.retry_most);
    }
}

async fn call(context: &Context, cell: &RouteCell, tuning: &watch::Receiver<Tuning>) -> Result<Hop, Lost> {
    let next = tuning.borrow().next.clone().ok_or_else(|| relay::no_link(cell))?;
    admission::call(context, &cell.spec, &next).await
}

/// The leg's one session goes on over this path; ends only with the circuit.
async fn carry_from(
    context: &Context,
    cell: &Arc<RouteCell>,
    tuning: &watch::Receiver<Tuning>,
    leg: &LegEnd<SourceEnd>,
    mut hop: Hop,
) -> Result<(), Lost> {
    let _session = hop.writer.idle_until(leg.shared().session()).await?;
    let (circuit, opened) = open(context, cell, tuning, &leg.end, hop).await?;
    cell.take_over();
    cell.active();
    match &leg.end {
        SourceEnd::Transfer(transfer) => transfer.carry(circuit, opened.received.offset).await,
        SourceEnd::Stream(stream) => stream.carry(circuit).await,
    }
}

async fn open(
    context: &Context,
    cell: &Arc<RouteCell>,
    tuning: &watch::Receiver<Tuning>,
    end: &SourceEnd,
    mut hop: Hop,
) -> Result<(Circuit, Opened), Lost> {
    let spec = &cell.spec;
    let (source, sink, received) = match end {
        SourceEnd::Transfer(_) => (0, 0, Position::default()),
        SourceEnd::Stream(stream) => stream.identity(),
    };
    let salt = salt()?;
    let asked = Open { purpose: purpose(spec), sealed: sealing(spec), source, sink, received, salt };
    hop.writer.frame(&Frame::Open(asked)).await?;
    let answered = timeout(context.limits.open, async {
        loop {
            match hop.reader.frame().await? {
                Frame::Opened(opened) => return Ok(opened),
                // of a probe sent before
                Frame::Echo { .. } => {}
                _ => return Err(Lost::Protocol("a circuit is not opened by that")),
            }
        }
    });
    let opened = hop.writer.idle_until(answered).await?.map_err(|_| Lost::Silent(context.limits.open))??;
    match end {
        SourceEnd::Transfer(_) if opened.continuity == Continuity::Fresh => {
            return Err(Lost::Protocol("a transfer begins where its sink says"));
        }
        SourceEnd::Transfer(_) => {}
        SourceEnd::Stream(stream) => stream.opened(&opened)?,
    }
    let (forward, back) = seals(spec, &salt, &opened.salt);
    Ok((Circuit { hop, seal: forward, unseal: back, tuning: tuning.clone(), cell: Arc::clone(cell) }, opened))
}

/// Answers whoever builds the circuit, until `incoming` closes.
pub(crate) async fn run_sink(
    context: Arc<Context>,
    cell: Arc<RouteCell>,
    tuning: watch::Receiver<Tuning>,
    leg: Arc<LegEnd<SinkEnd>>,
    mut incoming: mpsc::Receiver<Hop>,
) {
    let mut next = incoming.recv().await;
    while let Some(hop) = next {
        let lost = tokio::select! {
            newer = incoming.recv() => {
                next = newer;
                continue;
            }
            ended = serve(&context, &cell, &tuning, &leg, hop) => ended.err().unwrap_or(Lost::Closed),
            lost = relay::unsettled(tuning.clone(), None) => lost,
        };
        if !matches!(lost, Lost::HandedOver) {
            cell.lost(lost.to_string());
        }
        next = incoming.recv().await;
    }
}

async fn serve(
    context: &Context,
    cell: &Arc<RouteCell>,
    tuning: &watch::Receiver<Tuning>,
    leg: &LegEnd<SinkEnd>,
    mut hop: Hop,
) -> Result<(), Lost> {
    let open = standby::answer(&mut hop, cell).await?;
    let path = cell.spec.key.path;
    leg.shared().claim(path);
    let carry = async {
        let _session = hop.writer.idle_until(leg.shared().session()).await?;
        let circuit = answer(context, cell, tuning, &leg.end, hop, &open).await?;
        cell.take_over();
        cell.active();
        match &leg.end {
            SinkEnd::Transfer(transfer) => transfer.carry(circuit).await,
            SinkEnd::Stream(stream) => stream.carry(circuit).await,
        }
    };
    tokio::select! {
        ended = carry => ended,
        () = leg.shared().turn_of_another(path) => Err(Lost::HandedOver),
    }
}

async fn answer(
    context: &Context,
    cell: &Arc<RouteCell>,
    tuning: &watch::Receiver<Tuning>,
    end: &SinkEnd,
    mut hop: Hop,
    open: &Open,
) -> Result<Circuit, Lost> {
    let prepared = async {
        if open.purpose != purpose(&cell.spec) || open.sealed != sealing(&cell.spec) {
            return Err(Lost::Local("the two ends were not told the same route".to_owned()));
        }
        match end {
            SinkEnd::Transfer(transfer) => {
                let received = Position { seq: 0, offset: transfer.begin().await? };
                Ok(Opened { sink: 0, continuity: Continuity::Resumed, received, salt: salt()? })
            }
            SinkEnd::Stream(stream) => stream.answer(open, salt()?),
        }
    };
    let opened = match prepared.await {
        Ok(opened) => opened,
        Err(lost) => {
            hop.writer.farewell(&format!("at {}: {lost}", context.point)).await;
            // nothing is retried in haste: the source waits longer each time
            return Err(lost);
        }
    };
    let (forward, back) = seals(&cell.spec, &open.salt, &opened.salt);
    cell.reached(Way::Forward, opened.received.offset);
    hop.writer.frame(&Frame::Opened(opened)).await?;
    Ok(Circuit { hop, seal: back, unseal: forward, tuning: tuning.clone(), cell: Arc::clone(cell) })
}

fn purpose(spec: &RouteSpec) -> Purpose {
    match &spec.job {
        Job::Transfer { bytes, .. } => Purpose::Transfer { bytes: *bytes },
        Job::Stream { .. } => Purpose::Stream,
    }
}

fn sealing(spec: &RouteSpec) -> Sealing {
    if spec.seal.is_some() { Sealing::Sealed } else { Sealing::Plain }
}

fn salt() -> Result<[u8; 16], Lost> {
    random().ok_or_else(|| Lost::Local("the operating system gives no random numbers".to_owned()))
}

fn seals(spec: &RouteSpec, source: &[u8; 16], sink: &[u8; 16]) -> (Option<Seal>, Option<Seal>) {
    let seal = |direction| spec.seal.as_ref().map(|key| Seal::new(key, &spec.key, [source, sink], direction));
    (seal(Direction::Forward), seal(Direction::Back))
}

impl std::fmt::Debug for Circuit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Circuit").finish_non_exhaustive()
    }
}
