//! The view of this moment: static parts, what is held, who was heard, what was measured.

use crate::{
    desk::Desk,
    error::DeskError,
    hub::{LastReport, Point},
};
use jiff::Timestamp;
use rhumb_federation::{
    View,
    assemble::{Live, LiveNode, LiveSite},
};
use rhumb_model::{
    Bandwidth, Calendar, LinkId, Node, NodeName, PointName, SiteName, Slots,
    fit::NodeUse,
    quantity::{Bytes, Cores, Share},
    state::SiteState,
};
use rhumb_store::{Holdings, NodeRecord, PointRecord, Store};
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
    taken: Instant,
}

impl Sight {
    pub(crate) fn new(holdings: &Holdings, nodes: Vec<NodeRecord>, points: Vec<PointRecord>) -> Self {
        let mut used: BTreeMap<_, NodeUse> = BTreeMap::new();
        for hold in &holdings.replicas {
            used.entry((hold.site.clone(), hold.node.clone())).or_default().add(
                Cores::from_milli(hold.cpu_milli),
                Bytes::from_bytes(hold.memory_bytes),
                &hold.devices,
                Share::from_thousandths(u64::from(hold.share)),
                Bytes::from_bytes(hold.device_memory_bytes),
            );
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
            taken: Instant::now(),
        }
    }

    pub(crate) fn is_old(&self) -> bool {
        self.taken.elapsed() > OLD
    }
}

impl<S: Store> Desk<S> {
    /// What a decision at `now` looks at.
    pub async fn view(&self, now: Timestamp) -> Result<View, DeskError> {
        Ok(self.view_on(&self.sight().await?, now, &BTreeSet::new()))
    }

    pub(crate) async fn sight(&self) -> Result<Sight, DeskError> {
        let store = &self.inner.store;
        let (holdings, nodes, points) = tokio::try_join!(store.holdings(), store.nodes(), store.points())?;
        Ok(Sight::new(&holdings, nodes, points))
    }

    /// Sites in `avoid` take no work.
    pub(crate) fn view_on(&self, sight: &Sight, now: Timestamp, avoid: &BTreeSet<SiteName>) -> View {
        let state = self.inner.hub.lock();
        let lost_after = self.inner.config.times.lost_after;
        let site_state = |site: &SiteName| {
            let last = state.points.get(site).and_then(|p| p.last.as_ref());
            LastReport::state(last, lost_after, sight.draining.contains(site) || avoid.contains(site))
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
        let booked = booked.filter(|(_, calendar)| !calendar.is_empty()).collect();
        let live = Live { sites, reserved: sight.reserved.clone(), booked, datasets: BTreeMap::new() };
        let mut view = View::assemble(generation, self.inner.base.fixed(), &live, &figures, now);
        // nobody relays at a point whose agent is silent or missing, however fresh the last figure of a link to it is
        for edge in view.graph.edge_indices() {
            let ends = view.graph.edge_endpoints(edge);
            let carried = ends.is_some_and(|(a, b)| [a, b].iter().all(|n| alive.contains(&view.graph[*n].name)));
            view.graph[edge].stale |= !carried;
        }
        // the overlay seals end to end between agents: any measured link carries an encrypted flow
        for link in view.graph.edge_weights_mut() {
            link.encrypted |= !link.estimated;
        }
        view
    }
}
