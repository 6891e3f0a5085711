//! The view of this moment: static parts, what is held, who was heard, what was measured.

use crate::{desk::Desk, error::DeskError, hub::State};
use jiff::Timestamp;
use rhumb_federation::{
    View,
    assemble::{Live, LiveNode, LiveSite},
};
use rhumb_model::{
    PointName, SiteName,
    fit::NodeUse,
    quantity::{Bytes, Cores, Share},
    state::SiteState,
};
use rhumb_store::{Holdings, NodeRecord, PointRecord, Store};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl<S: Store> Desk<S> {
    /// What a decision at `now` looks at. Sites in `avoid` take no work.
    pub async fn view(&self, now: Timestamp, avoid: &[SiteName]) -> Result<View, DeskError> {
        let picture = self.inner.store.picture().await?;
        let state = self.inner.hub.lock();
        let live = self.live(&state, &picture.holdings, picture.nodes, &picture.points, avoid);
        let generation = state.stamp.generation;
        let mut view = View::assemble(generation, self.inner.base.fixed(), &live, &state.figures, now);
        drop(state);
        // the overlay seals end to end between agents: any measured link carries an encrypted flow
        for link in view.graph.edge_weights_mut() {
            link.encrypted |= !link.estimated;
        }
        Ok(view)
    }

    fn live(
        &self,
        state: &State,
        holdings: &Holdings,
        nodes: Vec<NodeRecord>,
        points: &[PointRecord],
        avoid: &[SiteName],
    ) -> Live {
        let draining: BTreeSet<&PointName> = points.iter().filter(|p| p.draining).map(|p| &p.name).collect();
        let lost_after_us = self.inner.config.times.lost_after.micros();
        let site_state = |site: &SiteName| match state.points.get(site).and_then(|p| p.last.as_ref()) {
            None => SiteState::NeverSeen,
            Some(last) if last.heard.elapsed().as_micros() as u64 > lost_after_us => SiteState::Lost,
            Some(_) if draining.contains(site) || avoid.contains(site) => SiteState::Draining,
            Some(_) => SiteState::Ready,
        };
        let mut used: BTreeMap<_, NodeUse> = BTreeMap::new();
        for hold in &holdings.replicas {
            used.entry((&hold.site, &hold.node)).or_default().add(
                Cores::from_milli(hold.cpu_milli),
                Bytes::from_bytes(hold.memory_bytes),
                &hold.devices,
                Share::from_thousandths(u64::from(hold.share)),
                Bytes::from_bytes(hold.device_memory_bytes),
            );
        }
        let mut sites: BTreeMap<SiteName, LiveSite> = BTreeMap::new();
        for record in nodes {
            let used = used.get(&(&record.site, &record.node.name)).cloned().unwrap_or_default();
            let site = sites
                .entry(record.site.clone())
                .or_insert_with(|| LiveSite { state: site_state(&record.site), nodes: Vec::new() });
            site.nodes.push(LiveNode { node: Arc::new(record.node), used });
        }
        let reserved = holdings.reserved.iter().map(|(link, reserved, _)| (link.clone(), *reserved)).collect();
        Live { sites, reserved, datasets: BTreeMap::new() }
    }
}
