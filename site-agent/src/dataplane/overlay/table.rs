//! The routes this point has, and making them what they should be.

use super::{
    cell::{RouteCell, Way, lock},
    circuit::{self, SinkEnd, SourceEnd},
    context::Context,
    hop::Hop,
    mux::End,
    relay,
    spec::{self, Admission, Job, Place, RouteSpec, Tuning},
    staging::{Leg, Span, stage_key},
    stream::StreamEnd,
    transfer_sink::TransferSink,
    transfer_source::TransferSource,
};
use rhumb_model::{LinkId, PointName};
use rhumb_wire::{PeerLink, Route, RouteEndState, RouteStatus, report::RouteKey};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub(crate) struct Table {
    routes: Mutex<Routes>,
}

#[derive(Debug, Default)]
struct Routes {
    live: BTreeMap<RouteKey, Live>,
    /// What cannot be served, and why.
    broken: BTreeMap<RouteKey, String>,
    /// Torn down, its task not ended yet.
    closing: Vec<Arc<RouteCell>>,
    /// What routes that are gone have passed.
    gone: Passed,
}

/// Octets sent to next hops by link, and back to previous hops by their name.
#[derive(Debug, Clone, Default)]
struct Passed {
    on: BTreeMap<LinkId, u64>,
    back: BTreeMap<PointName, u64>,
}

impl Passed {
    fn add(&mut self, cell: &RouteCell) {
        if let Some(link) = cell.spec.next() {
            *self.on.entry(link.clone()).or_default() += cell.passed(Way::Forward);
        }
        if let Some(point) = cell.spec.previous() {
            *self.back.entry(point.clone()).or_default() += cell.passed(Way::Back);
        }
    }
}

#[derive(Debug)]
struct Live {
    cell: Arc<RouteCell>,
    tuning: watch::Sender<Tuning>,
    /// Takes the connections of the previous hop; none at the source.
    incoming: Option<mpsc::Sender<Hop>>,
    stop: CancellationToken,
}

impl Table {
    /// Makes the routes of this point `wanted`. The same again changes nothing.
    pub(crate) fn apply(
        self: &Arc<Self>,
        context: &Arc<Context>,
        wanted: &[Route],
        links: &[PeerLink],
        peers: &[PointName],
    ) {
        let links: BTreeMap<&LinkId, &PeerLink> = links.iter().map(|link| (&link.link, link)).collect();
        let peers: BTreeSet<PointName> = peers.iter().cloned().collect();
        let mut asked = BTreeMap::new();
        let mut broken = BTreeMap::new();
        for route in wanted {
            match spec::spec(route) {
                Ok(spec) => {
                    let tuning = spec::tuning(route, &spec, &links, &peers);
                    asked.insert(route.key.clone(), (spec, tuning));
                }
                Err(error) => drop(broken.insert(route.key.clone(), error.to_string())),
            }
        }
        let mut routes = lock(&self.routes);
        routes.tear_down(context, &asked);
        let mut fresh = Vec::new();
        for (key, (spec, tuning)) in asked {
            if let Some(live) = routes.live.get(&key) {
                live.tuning.send_if_modified(|now| {
                    let changed = *now != tuning;
                    *now = tuning;
                    changed
                });
            } else {
                fresh.push(Setup::new(context, spec, tuning));
            }
        }
        // only now, when all legs of a file have joined it, may one of them find it whole
        for setup in fresh {
            let key = setup.cell.spec.key.clone();
            match setup.start(context, self) {
                Ok(live) => drop(routes.live.insert(key, live)),
                Err(why) => drop(broken.insert(key, why)),
            }
        }
        let news = routes.broken != broken;
        routes.broken = broken;
        drop(routes);
        if news {
            context.changed.send_modify(|count| *count += 1);
        }
    }

    /// Every route here, by key.
    pub(crate) fn status(&self) -> Vec<RouteStatus> {
        let routes = lock(&self.routes);
        let mut all = BTreeMap::new();
        for cell in &routes.closing {
            let status = RouteStatus { message: "closing".to_owned(), ..cell.status() };
            all.insert(status.key.clone(), status);
        }
        for (key, message) in &routes.broken {
            let (key, message) = (key.clone(), message.clone());
            let status = RouteStatus { key, state: RouteEndState::Failed, bytes: 0, bytes_back: 0, message };
            all.insert(status.key.clone(), status);
        }
        for (key, live) in &routes.live {
            all.insert(key.clone(), live.cell.status());
        }
        all.into_values().collect()
    }

    /// Octets sent over each link.
    pub(crate) fn passed(&self, links: &[PeerLink]) -> BTreeMap<LinkId, u64> {
        let routes = lock(&self.routes);
        let mut passed = routes.gone.clone();
        routes.live.values().map(|live| &live.cell).chain(&routes.closing).for_each(|cell| passed.add(cell));
        drop(routes);
        for (point, bytes) in passed.back {
            if let Some(link) = links.iter().find(|link| link.to == point) {
                *passed.on.entry(link.link.clone()).or_default() += bytes;
            }
        }
        passed.on
    }

    pub(crate) fn sent_again(&self, key: &RouteKey) -> u64 {
        lock(&self.routes).live.get(key).map_or(0, |live| live.cell.sent_again())
    }

    /// The route `key`, if `from` is its previous hop and may connect, and where to hand the connection over.
    pub(crate) fn expected(&self, from: &PointName, key: &RouteKey) -> Option<(Arc<RouteCell>, mpsc::Sender<Hop>)> {
        let routes = lock(&self.routes);
        let live = routes.live.get(key)?;
        let allowed = live.tuning.borrow().previous == Admission::Allowed;
        let known = allowed && live.cell.spec.previous() == Some(from);
        known.then(|| Some((Arc::clone(&live.cell), live.incoming.clone()?)))?
    }

    fn closed(&self, cell: &Arc<RouteCell>) {
        let mut routes = lock(&self.routes);
        let before = routes.closing.len();
        routes.closing.retain(|closing| !Arc::ptr_eq(closing, cell));
        if routes.closing.len() < before {
            routes.gone.add(cell);
        }
    }
}

impl Routes {
    fn tear_down(&mut self, context: &Context, asked: &BTreeMap<RouteKey, (RouteSpec, Tuning)>) {
        let closing = &mut self.closing;
        self.live.retain(|key, live| {
            if asked.get(key).is_some_and(|(spec, _)| *spec == live.cell.spec) {
                return true;
            }
            live.stop.cancel();
            if let Job::Stream { flow } = live.cell.spec.job {
                context.flows.leg_gone(key.order, key.generation, flow, key.leg);
            }
            closing.push(Arc::clone(&live.cell));
            false
        });
    }
}

/// A route about to be served.
struct Setup {
    cell: Arc<RouteCell>,
    tuning: watch::Sender<Tuning>,
    leg: Option<Arc<Leg>>,
}

impl Setup {
    fn new(context: &Context, spec: RouteSpec, tuning: Tuning) -> Self {
        let leg = match (&spec.place, &spec.job) {
            (Place::Sink { .. }, Job::Transfer { dataset, offset, bytes, fate }) => {
                let span = Span { offset: *offset, bytes: *bytes };
                Some(context.staging.join(stage_key(&spec.key, dataset, *fate), spec.key.leg, span))
            }
            _ => None,
        };
        let cell = Arc::new(RouteCell::new(spec, Arc::clone(&context.changed)));
        Self { cell, tuning: watch::Sender::new(tuning), leg }
    }

    fn start(self, context: &Arc<Context>, table: &Arc<Table>) -> Result<Live, String> {
        let Self { cell, tuning, leg } = self;
        let stop = context.stop.child_token();
        let receive = tuning.subscribe();
        let (sender, incoming) = mpsc::channel(4);
        let (own, shared) = (Arc::clone(&cell), Arc::clone(context));
        let serve: Serve = match (&cell.spec.place, &cell.spec.job) {
            (Place::Relay { .. }, _) => Box::pin(relay::run(shared, own, receive, incoming)),
            (Place::Source { .. }, Job::Transfer { .. }) => {
                let end = TransferSource::new(Arc::clone(context), Arc::clone(&cell)).map(SourceEnd::Transfer);
                Box::pin(circuit::run_source(shared, own, receive, end.ok_or("no transfer")?))
            }
            (Place::Sink { .. }, Job::Transfer { .. }) => {
                let end = leg.clone().and_then(|leg| TransferSink::new(Arc::clone(context), Arc::clone(&cell), leg));
                let end = SinkEnd::Transfer(end.ok_or("no transfer")?);
                Box::pin(circuit::run_sink(shared, own, receive, end, incoming))
            }
            (place, Job::Stream { flow }) => {
                let key = &cell.spec.key;
                let desk = context.flows.desk(key.order, key.generation, *flow);
                let side = if matches!(place, Place::Source { .. }) { End::Source } else { End::Sink };
                let end = StreamEnd::new(&own, side, Arc::clone(&desk), receive.clone(), context, stop.clone())
                    .map_err(|lost| lost.to_string())?;
                if side == End::Source {
                    let take = Arc::clone(&end).take_callers(desk.leg_out(key.leg));
                    let run = circuit::run_source(shared, own, receive, SourceEnd::Stream(end));
                    Box::pin(async move {
                        tokio::join!(take, run);
                    })
                } else {
                    desk.leg_in(key.leg);
                    Box::pin(circuit::run_sink(shared, own, receive, SinkEnd::Stream(end), incoming))
                }
            }
        };
        let (ended, stopped) = (Arc::clone(&cell), stop.clone());
        let (context_then, table) = (Arc::clone(context), Arc::clone(table));
        context.tasks.spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = serve => {}
            }
            close(&context_then, &table, &ended, leg).await;
        });
        let incoming = cell.spec.previous().is_some().then_some(sender);
        Ok(Live { cell, tuning, incoming, stop })
    }
}

type Serve = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// The route's task has ended and with it its connections. What had arrived in part is removed, unless the whole overlay
/// stops: then it goes on from there.
async fn close(context: &Arc<Context>, table: &Table, cell: &Arc<RouteCell>, leg: Option<Arc<Leg>>) {
    if context.stop.is_cancelled() {
        return;
    }
    if let Some(leg) = leg {
        let staging = Arc::clone(context);
        let left = tokio::task::spawn_blocking(move || staging.staging.leave(&leg)).await;
        if let Err(error) = left {
            tracing::warn!(%error, "cannot tidy up after a transfer");
        }
    }
    table.closed(cell);
    context.changed.send_modify(|count| *count += 1);
}
