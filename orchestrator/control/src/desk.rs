//! The order desk: state shared by use cases and loops, and the reads.

use crate::{
    base::Base,
    config::ServerConfig,
    error::DeskError,
    hub::{Hub, Point},
    sagas::{self, Mail},
    secrets::Secret,
};
use jiff::Timestamp;
use rhumb_federation::FigureBook;
use rhumb_model::{OrderId, PointName, QuoteId, SiteName, TenantName};
use rhumb_provision::Stamp;
use rhumb_store::{
    DecisionRecord, EventRecord, Intent, OrderFilter, OrderRecord, Page, PointRecord, QuoteRecord, Store, TokenKind,
    UsageRecord, record::LogRecord,
};
use rhumb_wire::{PeerLink, ProbeTarget};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub kind: TokenKind,
    pub tenant: TenantName,
}

impl Caller {
    fn sees(&self, tenant: &TenantName) -> bool {
        self.kind == TokenKind::Admin || &self.tenant == tenant
    }
}

#[derive(Debug)]
pub struct Desk<S> {
    pub(crate) inner: Arc<Inner<S>>,
}

impl<S> Clone for Desk<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
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
    /// Sites that failed an order, and until when they are not tried for it.
    pub(crate) avoid: Mutex<BTreeMap<OrderId, BTreeMap<SiteName, Timestamp>>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl<S: Store> Desk<S> {
    /// Takes up what the store holds and starts the loops.
    pub async fn start(store: S, base: Base, config: ServerConfig, secret: Secret) -> Result<Self, DeskError> {
        let epoch = store.next_epoch().await?;
        configure(&store, &base).await?;
        let figures = FigureBook::new(config.times.stale_after);
        let hub = Hub::new(epoch, figures, points(&base, &config, Stamp { epoch, generation: 1 }));
        let (mail, inbox) = mpsc::channel(1_024);
        let inner = Arc::new(Inner {
            store,
            base,
            hub,
            config,
            secret,
            mail,
            avoid: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        let desk = Self { inner };
        let live = desk.inner.store.live_orders().await?;
        sagas::Sagas::take_up(desk.clone(), live).spawn(inbox);
        crate::placer::spawn(&desk);
        crate::reconcile::spawn(&desk);
        tracing::info!(epoch, "orchestrator has taken up its orders");
        Ok(desk)
    }

    /// Ends the loops; what is in progress goes on at the next start.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
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
        match self.inner.store.order(id).await? {
            Some(order) if caller.sees(&order.tenant) => Ok(order),
            _ => Err(DeskError::NotFound { kind: "order", id: id.to_string() }),
        }
    }

    pub async fn orders(&self, caller: &Caller, mut filter: OrderFilter) -> Result<Page<OrderRecord>, DeskError> {
        if caller.kind != TokenKind::Admin {
            filter.tenant = Some(caller.tenant.clone());
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
        Ok((order, self.inner.store.decision(id).await?))
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
        match self.inner.store.quote(id).await? {
            Some(quote) if caller.sees(&quote.tenant) => Ok(quote),
            _ => Err(DeskError::NotFound { kind: "quote", id: id.to_string() }),
        }
    }

    pub async fn point_records(&self) -> Result<Vec<PointRecord>, DeskError> {
        Ok(self.inner.store.points().await?)
    }

    /// Nothing new starts at a draining site; what runs there runs on.
    pub async fn drain(&self, caller: &Caller, site: &SiteName, draining: bool) -> Result<(), DeskError> {
        if caller.kind != TokenKind::Admin {
            return Err(DeskError::Forbidden("only a platform administrator may drain a site".into()));
        }
        if !self.inner.base.is_site(site) {
            return Err(DeskError::NotFound { kind: "site", id: site.to_string() });
        }
        self.inner.store.commit(vec![Intent::Drain { site: site.clone(), draining }]).await?;
        self.inner.hub.place.notify_one();
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
    base.agents()
        .map(|name| {
            let outgoing = || base.links.values().filter(|l| &l.from == name);
            let probes = outgoing()
                .filter_map(|l| {
                    Some(ProbeTarget {
                        link: l.id.clone(),
                        address: config.endpoints.get(&l.id)?.probe.clone(),
                        interval_ms: config.times.probe_interval.micros() / 1_000,
                    })
                })
                .collect();
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
            (name.clone(), Point { desired, probes, links, peers, last: None })
        })
        .collect()
}
