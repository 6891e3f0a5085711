//! The view of this moment: static parts, what is held, who was heard, what was measured.

use crate::{
    desk::Desk,
    error::DeskError,
    hub::{LastReport, Point},
};
use jiff::Timestamp;
use rhumb_federation::{
    View,
    assemble::{Live, LiveEnd, LiveNode, LiveSite},
};
use rhumb_model::{
    Bandwidth, Calendar, LinkId, Node, NodeName, PointName, SiteName, Slots,
    fit::NodeUse,
    quantity::{Bytes, Cores, Share},
    state::SiteState,
};
use rhumb_store::{Holder, Holdings, NodeRecord, OrderRecord, PointRecord, ReplicaHold, Store};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// Decisions on an older sight would mostly lose at the commit.
const OLD: Duration = Duration::from_secs(1);

/// What the store said, for the views of several decisions.
#[derive(Debug)]
pub(crate) struct Sight {
    nodes: Vec<(SiteName, Arc<Node>)>,
    used: BTreeMap<(SiteName, NodeName), NodeUse>,
    reserved: BTreeMap<LinkId, Bandwidth>,
    booked: BTreeMap<LinkId, Calendar>,
    draining: BTreeSet<PointName>,
    /// Orders that are known to end, and what is held then where they hold something.
    ends: Vec<LiveEnd>,
    taken: Instant,
}

impl Sight {
    pub(crate) fn new(
        holdings: &Holdings,
        nodes: Vec<NodeRecord>,
        points: Vec<PointRecord>,
        orders: &[OrderRecord],
    ) -> Self {
        let mut used: BTreeMap<_, NodeUse> = BTreeMap::new();
        for hold in &holdings.replicas {
            take(used.entry((hold.site.clone(), hold.node.clone())).or_default(), hold);
        }
        let mut booked: BTreeMap<LinkId, Calendar> = BTreeMap::new();
        for (link, slot, rate) in &holdings.slots {
            booked.entry(link.clone()).or_default().book(*slot, *rate);
        }
        Self {
            nodes: nodes.into_iter().map(|r| (r.site, Arc::new(r.node))).collect(),
            used,
            reserved: holdings.reserved.iter().map(|(link, reserved, _)| (link.clone(), *reserved)).collect(),
            booked,
            draining: points.into_iter().filter(|p| p.draining).map(|p| p.name).collect(),
            ends: ends(holdings, orders),
            taken: Instant::now(),
        }
    }

    pub(crate) fn is_old(&self) -> bool {
        self.taken.elapsed() > OLD
    }
}

fn take(used: &mut NodeUse, hold: &ReplicaHold) {
    used.add(
        Cores::from_milli(hold.cpu_milli),
        Bytes::from_bytes(hold.memory_bytes),
        &hold.devices,
        Share::from_thousandths(u64::from(hold.share)),
        Bytes::from_bytes(hold.device_memory_bytes),
    );
}

/// Ends looked at, at most: the soonest.
const ENDS: usize = 64;

/// Orders that run to a planned finish: what is held then, where they hold something, by those that do not end before.
fn ends(holdings: &Holdings, orders: &[OrderRecord]) -> Vec<LiveEnd> {
    let ending = |o: &&OrderRecord| o.document.components.iter().all(|c| c.service.is_none());
    let mut soonest: Vec<(Timestamp, &OrderRecord)> =
        orders.iter().filter(ending).filter_map(|o| Some((o.plan.as_ref()?.finish, o))).collect();
    soonest.sort_by(|(a, x), (b, y)| (a, x.id).cmp(&(b, y.id)));
    soonest.truncate(ENDS);
    let mut ended = BTreeSet::new();
    let mut ends = Vec::new();
    for (at, order) in soonest {
        let holder = Holder::Order(order.id);
        ended.insert(holder);
        let mut nodes: BTreeMap<_, NodeUse> = BTreeMap::new();
        for own in holdings.replicas.iter().filter(|h| h.holder == holder) {
            nodes.entry((own.site.clone(), own.node.clone())).or_default();
        }
        for hold in holdings.replicas.iter().filter(|h| !ended.contains(&h.holder)) {
            if let Some(used) = nodes.get_mut(&(hold.site.clone(), hold.node.clone())) {
                take(used, hold);
            }
        }
        let mut free = BTreeMap::new();
        // what is booked in slots is free when they are over: only what is held for good ends with its order
        let standing = || holdings.links.iter().filter(|l| l.slots.is_none());
        for link in standing().filter(|l| l.holder == holder).map(|l| &l.link) {
            let others = standing().filter(|l| l.link == *link && !ended.contains(&l.holder));
            let held = others.fold(Bandwidth::ZERO, |sum, l| sum.checked_add(l.rate).unwrap_or(sum));
            let whole = holdings.reserved.iter().find(|(id, ..)| id == link).map(|(_, _, capacity)| *capacity);
            free.extend(whole.map(|w| (link.clone(), w.saturating_sub(held))));
        }
        if !nodes.is_empty() || !free.is_empty() {
            ends.push(LiveEnd { at, order: order.document.name.clone(), nodes, free });
        }
    }
    ends
}

impl<S: Store> Desk<S> {
    /// What a decision at `now` looks at.
    pub async fn view(&self, now: Timestamp) -> Result<View, DeskError> {
        Ok(self.view_on(&self.sight().await?, now, &BTreeSet::new()))
    }

    pub(crate) async fn sight(&self) -> Result<Sight, DeskError> {
        let store = &self.inner.store;
        let (holdings, nodes, points, orders) =
            tokio::try_join!(store.holdings(), store.nodes(), store.points(), store.live_orders())?;
        Ok(Sight::new(&holdings, nodes, points, &orders))
    }

    /// The order is kept from the sites in `avoid`.
    pub(crate) fn view_on(&self, sight: &Sight, now: Timestamp, avoid: &BTreeSet<SiteName>) -> View {
        let state = self.inner.hub.lock();
        let lost_after = self.inner.config.times.lost_after;
        let site_state = |site: &SiteName| {
            let last = state.points.get(site).and_then(|p| p.last.as_ref());
            LastReport::state(last, lost_after, sight.draining.contains(site))
        };
        let mut sites: BTreeMap<SiteName, LiveSite> = BTreeMap::new();
        for (name, node) in &sight.nodes {
            let used = sight.used.get(&(name.clone(), node.name.clone())).cloned().unwrap_or_default();
            let site = sites.entry(name.clone()).or_insert_with(|| {
                let heard = state.points.get(name).and_then(|p| p.last.as_ref()).map(|last| last.heard.elapsed());
                let micros = |age: std::time::Duration| u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
                let age = heard.map(|age| rhumb_model::Span::from_micros(micros(age)));
                LiveSite { state: site_state(name), age, nodes: Vec::new() }
            });
            site.nodes.push(LiveNode { node: Arc::clone(node), used });
        }
        let heard = |p: &Point| LastReport::state(p.last.as_ref(), lost_after, false) == SiteState::Ready;
        let alive: BTreeSet<_> = state.points.iter().filter(|(_, p)| heard(p)).map(|(name, _)| name.clone()).collect();
        let (generation, figures) = (state.stamp.generation, state.figures.clone());
        drop(state);
        // what is over is free, though its rows may still be there
        let to_come = Slots::from(now);
        let booked = sight.booked.iter().map(|(link, calendar)| (link.clone(), calendar.within(to_come)));
        let booked = booked.filter(|(_, c)| !c.is_empty()).map(|(link, c)| (link, Arc::new(c))).collect();
        let live = Live {
            sites,
            reserved: sight.reserved.clone(),
            booked,
            datasets: BTreeMap::new(),
            ends: sight.ends.iter().filter(|e| e.at > now).cloned().collect(),
            avoid: avoid.clone(),
        };
        let mut view = View::assemble(generation, self.inner.base.fixed(), &live, &figures, now);
        // nobody relays at a point whose agent is silent or missing, however fresh the last figure of a link to it is
        for edge in view.graph.edge_indices() {
            let ends = view.graph.edge_endpoints(edge);
            let carried = ends.is_some_and(|(a, b)| [a, b].iter().all(|n| alive.contains(&view.graph[*n].name)));
            view.graph[edge].stale |= !carried;
        }
        // the overlay seals end to end between agents: any link that agents can measure carries an encrypted flow
        for edge in view.graph.edge_indices() {
            let ends = view.graph.edge_endpoints(edge);
            let agents = ends.is_some_and(|(a, b)| view.graph[a].relay && view.graph[b].relay);
            view.graph[edge].encrypted |= agents;
        }
        view
    }
}
