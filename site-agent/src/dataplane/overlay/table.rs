//! The routes this point has, and making them what they should be.

use super::{
    cell::{RouteCell, Way, lock},
    circuit::{self, SinkEnd, SourceEnd},
    context::Context,
    hop::Hop,
    leg::{LegEnd, Shared},
    mux::End,
    relay,
    spec::{self, Admission, Job, Place, RouteSpec, Tuning},
    staging::{Span, stage_key},
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
    /// Where the leg begins or ends here; none at a relay.
    end: Option<EndOfLeg>,
    stop: CancellationToken,
}

/// What the paths of one leg have in common here.
#[derive(Debug, Clone)]
enum EndOfLeg {
    Source(Arc<LegEnd<SourceEnd>>),
    Sink(Arc<LegEnd<SinkEnd>>),
}

impl EndOfLeg {
    fn shared(&self) -> &Arc<Shared> {
        match self {
            Self::Source(end) => end.shared(),
            Self::Sink(end) => end.shared(),
        }
    }
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
                if let Some(end) = &live.end {
                    end.shared().put(&live.cell, &live.tuning.borrow());
                }
            } else {
                let known =
                    routes.live.values().map(|l| (&l.cell, l.end.as_ref())).chain(fresh.iter().map(Setup::known));
                let mut ends = known.filter_map(|(cell, end)| end.filter(|_| Shared::takes(&cell.spec, &spec)));
                let end = ends.next().cloned();
                match Setup::new(context, spec, tuning, end) {
                    Ok(setup) => fresh.push(setup),
                    Err((key, why)) => drop(broken.insert(key, why)),
                }
            }
        }
        // only now, when all legs of a file have joined it, may one of them find it whole
        for setup in fresh {
            let key = setup.cell.spec.key.clone();
            routes.live.insert(key, setup.start(context, self));
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
            let state = RouteEndState::Failed;
            let status = RouteStatus { key, state, bytes: 0, bytes_back: 0, message, figures: None, carrying: false };
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
            // the leg goes with its last path: the route's task looks whether it does as soon as it is told to end
            if let Some(end) = &live.end
                && end.shared().leave(key.path)
            {
                end.shared().stop.cancel();
                if let Job::Stream { flow } = live.cell.spec.job {
                    context.flows.leg_gone(key.order, key.generation, flow, key.leg);
                }
            }
            live.stop.cancel();
            closing.push(Arc::clone(&live.cell));
            false
        });
    }
}

/// A route about to be served.
struct Setup {
    cell: Arc<RouteCell>,
    tuning: watch::Sender<Tuning>,
    end: Option<EndOfLeg>,
}

impl Setup {
    /// `end`: of the leg, where it has another path here already. An error names the route.
    fn new(
        context: &Arc<Context>,
        spec: RouteSpec,
        tuning: Tuning,
        end: Option<EndOfLeg>,
    ) -> Result<Self, (RouteKey, String)> {
        let changed = Arc::clone(&context.changed);
        if matches!(spec.place, Place::Relay { .. }) {
            let cell = Arc::new(RouteCell::new(spec, changed));
            return Ok(Self { cell, tuning: watch::Sender::new(tuning), end: None });
        }
        let shared = end.as_ref().map_or_else(|| share(context, &spec, &tuning), |end| Arc::clone(end.shared()));
        let cell = Arc::new(RouteCell::at_end(spec, changed, Arc::clone(&shared.counters)));
        shared.put(&cell, &tuning);
        let end = match end {
            Some(end) => end,
            None => self::end(context, &cell, shared).map_err(|why| (cell.spec.key.clone(), why))?,
        };
        Ok(Self { cell, tuning: watch::Sender::new(tuning), end: Some(end) })
    }

    fn known(&self) -> (&Arc<RouteCell>, Option<&EndOfLeg>) {
        (&self.cell, self.end.as_ref())
    }

    fn start(self, context: &Arc<Context>, table: &Arc<Table>) -> Live {
        let Self { cell, tuning, end } = self;
        let stop = context.stop.child_token();
        let receive = tuning.subscribe();
        let (sender, incoming) = mpsc::channel(4);
        let (own, shared) = (Arc::clone(&cell), Arc::clone(context));
        let serve: Serve = match end.clone() {
            None => Box::pin(relay::run(shared, own, receive, incoming)),
            Some(EndOfLeg::Source(end)) => Box::pin(circuit::run_source(shared, own, receive, end)),
            Some(EndOfLeg::Sink(end)) => Box::pin(circuit::run_sink(shared, own, receive, end, incoming)),
        };
        let (ended, stopped) = (Arc::clone(&cell), stop.clone());
        let (context_then, table) = (Arc::clone(context), Arc::clone(table));
        let leg = end.as_ref().map(|end| Arc::clone(end.shared()));
        context.tasks.spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = serve => {}
            }
            close(&context_then, &table, &ended, leg).await;
        });
        let incoming = cell.spec.previous().is_some().then_some(sender);
        Live { cell, tuning, incoming, end, stop }
    }
}

/// What all paths of a leg that is new here will share.
fn share(context: &Context, spec: &RouteSpec, tuning: &Tuning) -> Arc<Shared> {
    let staged = match (&spec.place, &spec.job) {
        (Place::Sink { .. }, Job::Transfer { dataset, offset, bytes, fate }) => {
            let span = Span { offset: *offset, bytes: *bytes };
            Some(context.staging.join(stage_key(&spec.key, dataset, *fate), spec.key.leg, span))
        }
        _ => None,
    };
    Shared::new(tuning.clone(), context.stop.child_token(), staged)
}

/// A leg's end, new here.
fn end(context: &Arc<Context>, cell: &Arc<RouteCell>, shared: Arc<Shared>) -> Result<EndOfLeg, String> {
    let is_source = matches!(cell.spec.place, Place::Source { .. });
    let (own, all) = (Arc::clone(cell), Arc::clone(context));
    Ok(match cell.spec.job {
        Job::Transfer { .. } if is_source => {
            let end = TransferSource::new(all, own).map(SourceEnd::Transfer);
            EndOfLeg::Source(LegEnd::new(end.ok_or("no transfer")?, shared))
        }
        Job::Transfer { .. } => {
            let staged = shared.staged.clone();
            let end = staged.and_then(|leg| TransferSink::new(all, own, leg)).map(SinkEnd::Transfer);
            EndOfLeg::Sink(LegEnd::new(end.ok_or("no transfer")?, shared))
        }
        Job::Stream { flow } => {
            let key = &cell.spec.key;
            let desk = context.flows.desk(key.order, key.generation, flow);
            let (tuning, stop) = (shared.tuning.subscribe(), shared.stop.clone());
            let side = if is_source { End::Source } else { End::Sink };
            let end = StreamEnd::new(cell, side, Arc::clone(&desk), tuning, context, stop.clone())
                .map_err(|lost| lost.to_string())?;
            if is_source {
                let take = Arc::clone(&end).take_callers(desk.leg_out(key.leg));
                context.tasks.spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = take => {}
                    }
                });
                EndOfLeg::Source(LegEnd::new(SourceEnd::Stream(end), shared))
            } else {
                desk.leg_in(key.leg);
                EndOfLeg::Sink(LegEnd::new(SinkEnd::Stream(end), shared))
            }
        }
    })
}

type Serve = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// The route's task has ended and with it its connections. What had arrived in part is removed once the leg's last path
/// is gone, unless the whole overlay stops: then it goes on from there.
async fn close(context: &Arc<Context>, table: &Table, cell: &Arc<RouteCell>, leg: Option<Arc<Shared>>) {
    if context.stop.is_cancelled() {
        return;
    }
    if let Some(leg) = leg.filter(|leg| leg.stop.is_cancelled()).and_then(|leg| leg.staged.clone()) {
        let staging = Arc::clone(context);
        let left = tokio::task::spawn_blocking(move || staging.staging.leave(&leg)).await;
        if let Err(error) = left {
            tracing::warn!(%error, "cannot tidy up after a transfer");
        }
    }
    table.closed(cell);
    context.changed.send_modify(|count| *count += 1);
}
