//! The order desk: state shared by use cases and loops, and the reads.

use crate::{
    base::Base,
    caller::Caller,
    config::ServerConfig,
    enrolment::{self, Trust},
    error::DeskError,
    hub::{Hub, Point},
    judgement::Decide,
    mesh::{self, Known},
    roll::Roll,
    sagas::{self, Mail},
    secrets::Secret,
};
use jiff::Timestamp;
use rhumb_federation::FigureBook;
use rhumb_model::{Action, OrderId, PointName, QuoteId, SiteName};
use rhumb_provision::Stamp;
use rhumb_store::{
    DecisionRecord, EventRecord, Intent, OrderFilter, OrderRecord, Page, PointRecord, QuoteRecord, Store, UsageRecord,
    record::LogRecord,
};
use rhumb_wire::PeerLink;
use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What a loop has to end in.
const ENDING: Duration = Duration::from_secs(15);
/// Pause before a loop that failed is begun anew.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Desk<S> {
    pub(crate) inner: Arc<Inner<S>>,
}

impl<S> Clone for Desk<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

/// What an order that is placed again keeps away from, and until when. Forgotten by a restart, which does no harm.
#[derive(Debug, Default)]
pub(crate) struct Avoid {
    pub(crate) sites: BTreeMap<SiteName, Timestamp>,
    pub(crate) not_before: Option<Timestamp>,
}

impl Avoid {
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.sites.values().chain(&self.not_before).all(|until| *until <= now)
    }
}

#[derive(Debug)]
pub(crate) struct Inner<S> {
    pub(crate) store: S,
    pub(crate) base: Base,
    pub(crate) hub: Hub,
    pub(crate) config: ServerConfig,
    pub(crate) secret: Secret,
    pub(crate) mail: mpsc::Sender<Mail>,
    avoid: Mutex<BTreeMap<OrderId, Avoid>>,
    roll: Mutex<Roll>,
    pub(crate) decide: Decide,
    /// Turns at decisions that requests ask for.
    pub(crate) turns: Arc<Semaphore>,
    /// `None`: not read yet.
    pub(crate) trust: watch::Sender<Option<Arc<Trust>>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl<S: Store> Desk<S> {
    /// Takes up what the store holds and starts the loops. Nobody else leads from then on.
    pub async fn start(store: S, base: Base, config: ServerConfig, secret: Secret) -> Result<Self, DeskError> {
        Self::start_with(store, base, config, secret, rhumb_placement::decide).await
    }

    /// As `start`, for who leads the epoch already.
    pub async fn lead(
        store: &S,
        epoch: u64,
        base: Base,
        config: ServerConfig,
        secret: Secret,
    ) -> Result<Self, DeskError> {
        Self::lead_with(store, epoch, base, config, secret, rhumb_placement::decide).await
    }

    /// As `start`, with another way to decide.
    pub async fn start_with(
        store: S,
        base: Base,
        config: ServerConfig,
        secret: Secret,
        decide: Decide,
    ) -> Result<Self, DeskError> {
        let epoch = store.next_epoch().await?;
        Self::lead_with(&store, epoch, base, config, secret, decide).await
    }

    async fn lead_with(
        store: &S,
        epoch: u64,
        base: Base,
        config: ServerConfig,
        secret: Secret,
        decide: Decide,
    ) -> Result<Self, DeskError> {
        // from here on nothing is committed but in this epoch
        let store = store.as_leader(epoch);
        configure(&store, &base).await?;
        let live = store.live_orders().await?;
        let quotes = store.live_quotes().await?;
        let figures = FigureBook::new(config.times.stale_after);
        let points = points(&base, &config, Stamp { epoch, generation: 1 });
        let hub = Hub::new(epoch, figures, secret.probe_base64(), points);
        let (mail, inbox) = mpsc::channel(1_024);
        let turns = Arc::new(Semaphore::new(config.limits.decisions.max(1)));
        let inner = Arc::new(Inner {
            store,
            base,
            hub,
            config,
            secret,
            mail,
            avoid: Mutex::default(),
            roll: Mutex::default(),
            decide,
            turns,
            trust: watch::Sender::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        let desk = Self { inner };
        desk.look_at_trust().await?;
        desk.roll().replace_orders(&live, None);
        desk.roll().add_quotes(&quotes);
        sagas::Sagas::take_up(desk.clone(), live).spawn(inbox);
        crate::placer::spawn(&desk);
        crate::reconcile::spawn(&desk);
        mesh::spawn(&desk);
        desk.keep_running("trust", enrolment::follow);
        tracing::info!(epoch, "orchestrator has taken up its orders");
        Ok(desk)
    }

    /// Ends the loops; what is in progress goes on at the next start.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        if tokio::time::timeout(ENDING, self.inner.tasks.wait()).await.is_err() {
            tracing::warn!("a loop did not end in time: what it was at goes on at the next start");
        }
    }

    /// Runs a loop until the desk stops; one that panics is begun anew.
    pub(crate) fn keep_running<F>(&self, name: &'static str, body: fn(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let desk = self.clone();
        self.inner.tasks.spawn(async move {
            while let Err(error) = tokio::spawn(body(desk.clone())).await {
                if !error.is_panic() || desk.inner.stop.is_cancelled() {
                    return;
                }
                metrics::counter!(crate::metrics::FAULTS, "in" => name).increment(1);
                tracing::error!(name, "a loop failed: it is begun anew");
                tokio::select! {
                    () = desk.inner.stop.cancelled() => return,
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        });
    }

    /// The order with the volumes of its datasets written out.
    pub(crate) fn sized(&self, order: &rhumb_model::Order) -> rhumb_model::Order {
        let datasets = &self.inner.base.file.datasets;
        rhumb_provision::sized(order, |name| datasets.iter().find(|d| &d.name == name).map(|d| d.size))
    }

    // a panic while holding one of these leaves maps that are still whole: go on

    pub(crate) fn roll(&self) -> MutexGuard<'_, Roll> {
        self.inner.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn avoid(&self) -> MutexGuard<'_, BTreeMap<OrderId, Avoid>> {
        self.inner.avoid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the order is live and another tenant's.
    pub fn is_anothers(&self, caller: &Caller, order: OrderId) -> bool {
        self.roll().owner(order).is_some_and(|t| !caller.sees(t))
    }

    /// Whether the order is one that the caller may see, as far as this process knows.
    pub fn may_name(&self, caller: &Caller, order: OrderId) -> bool {
        caller.sees_all() || self.roll().owner(order).is_some_and(|t| caller.sees(t))
    }

    pub fn stopping(&self) -> CancellationToken {
        self.inner.stop.clone()
    }

    pub fn base(&self) -> &Base {
        &self.inner.base
    }

    pub fn hub(&self) -> &Hub {
        &self.inner.hub
    }

    pub fn config(&self) -> &ServerConfig {
        &self.inner.config
    }

    pub fn store(&self) -> &S {
        &self.inner.store
    }

    pub fn now(&self) -> Timestamp {
        // stores keep microseconds
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }

    /// An order that the caller may see; another tenant's does not exist for him.
    pub async fn order(&self, caller: &Caller, id: OrderId) -> Result<OrderRecord, DeskError> {
        caller.may(Action::ReadWork)?;
        match self.inner.store.order(id).await? {
            Some(order) if caller.sees(&order.tenant) => Ok(order),
            _ => Err(DeskError::NotFound { kind: "order", id: id.to_string() }),
        }
    }

    pub async fn orders(&self, caller: &Caller, mut filter: OrderFilter) -> Result<Page<OrderRecord>, DeskError> {
        caller.may(Action::ReadWork)?;
        if !caller.sees_all() {
            filter.tenant = Some(caller.tenant()?.clone());
        }
        filter.limit = filter.limit.clamp(1, 200);
        Ok(self.inner.store.orders(&filter).await?)
    }

    pub async fn decision(
        &self,
        caller: &Caller,
        id: OrderId,
    ) -> Result<(OrderRecord, Option<DecisionRecord>), DeskError> {
        let order = self.order(caller, id).await?;
        let decision = match (self.inner.store.decision(id).await?, order.quote_id) {
            // its quote decided for it
            (None, Some(quote)) => self.inner.store.quote(quote).await?.map(|q| q.decision),
            (found, _) => found,
        };
        Ok((order, decision))
    }

    pub async fn events(
        &self,
        caller: &Caller,
        id: OrderId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<EventRecord>, DeskError> {
        self.order(caller, id).await?;
        Ok(self.inner.store.order_events(id, after, limit.clamp(1, 200)).await?)
    }

    pub async fn usage(&self, caller: &Caller, id: OrderId) -> Result<Vec<UsageRecord>, DeskError> {
        self.order(caller, id).await?;
        Ok(self.inner.store.usage(id).await?)
    }

    pub async fn logs(
        &self,
        caller: &Caller,
        id: OrderId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<LogRecord>, DeskError> {
        self.order(caller, id).await?;
        Ok(self.inner.store.logs(id, after, limit.clamp(1, 1 << 20)).await?)
    }

    pub async fn quote(&self, caller: &Caller, id: QuoteId) -> Result<QuoteRecord, DeskError> {
        caller.may(Action::ReadWork)?;
        match self.inner.store.quote(id).await? {
            Some(quote) if caller.sees(&quote.tenant) => Ok(quote),
            _ => Err(DeskError::NotFound { kind: "quote", id: id.to_string() }),
        }
    }

    /// Nothing new starts at a draining site; what runs there runs on.
    pub async fn drain(&self, caller: &Caller, site: &SiteName, draining: bool) -> Result<(), DeskError> {
        caller.operates(site)?;
        if !self.inner.base.is_site(site) {
            return Err(DeskError::NotFound { kind: "site", id: site.to_string() });
        }
        let action = if draining { "site.drain" } else { "site.undrain" };
        let entry = caller.entry(self.now(), action, site, None);
        self.administer(Intent::Drain { site: site.clone(), draining }, entry).await?;
        self.inner.hub.wake_placer_for_all();
        self.inner.hub.pulse(crate::hub::Pulse::Site(site.clone()));
        Ok(())
    }
}

/// Tells the store of every point and link, so that capacity can be guarded there.
async fn configure<S: Store>(store: &S, base: &Base) -> Result<(), DeskError> {
    let point = |name: &PointName| PointRecord { name: name.clone(), draining: false, boot: None, seq: 0, heard: None };
    let sites = base.file.sites.iter().map(|s| &s.name);
    let transit = base.file.transit.iter().map(|t| &t.name);
    let points = sites.chain(transit).map(point).collect();
    let links = base.links.values().map(|l| (l.id.clone(), l.capacity)).collect();
    match store.commit(vec![Intent::Configure { points, links }]).await?.pop() {
        Some(rhumb_store::Outcome::Refused(why)) => Err(DeskError::Conflict(why.to_string())),
        _ => Ok(()),
    }
}

/// Every point with an agent, with whom it probes and reaches.
fn points(base: &Base, config: &ServerConfig, stamp: Stamp) -> Vec<(PointName, Point)> {
    let mut targets = mesh::targets(base, config, &Known::default());
    base.agents()
        .map(|name| {
            let outgoing = || base.links.values().filter(|l| &l.from == name);
            let crate::hub::Targets { probes, pairs } = targets.remove(name).unwrap_or_default();
            let links = outgoing()
                .filter_map(|l| {
                    let overlay = config.endpoints.get(&l.id)?.overlay.clone();
                    Some(PeerLink { link: l.id.clone(), to: l.to.clone(), overlay })
                })
                .collect();
            let mut peers: Vec<_> = base.links.values().filter(|l| &l.to == name).map(|l| l.from.clone()).collect();
            peers.sort();
            peers.dedup();
            let (desired, _) = watch::channel(stamp);
            (name.clone(), Point { desired, probes, pairs, links, peers, last: None, unsaved: false })
        })
        .collect()
}
