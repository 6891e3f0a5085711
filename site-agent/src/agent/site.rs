//! What the runtime says of the site: runs that nobody here knows, work of others, and nodes by the word of its scheduler.

use super::{Agent, Entry, SiteNodes, wait};
use crate::{
    durable,
    host::BootTime,
    lease::Claim,
    record::{Phase, Record},
};
use rhumb_model::{
    Bytes, Cores,
    site::{Device, Health, Piece},
};
use rhumb_runtimes::{NodeStock, Observed, Runtime, Usage};
use rhumb_wire::{Assignment, NodeReport, report::AssignmentKey};
use std::collections::{BTreeMap, BTreeSet};

/// How often it is asked, in microseconds.
const EVERY_US: u64 = 5_000_000;

#[derive(Debug, Default)]
pub(super) struct Site {
    /// Nodes as their source has them.
    /// `None`: nobody knows yet.
    pub(super) found: Option<Vec<NodeReport>>,
    pub(super) unmanaged: Vec<Usage>,
    /// Whether there is something to tell of the nodes since somebody asked.
    pub(super) is_news: bool,
    looked: Option<BootTime>,
    trouble: String,
}

impl Site {
    pub(super) fn new(found: Option<Vec<NodeReport>>) -> Self {
        Self { found, ..Self::default() }
    }

    /// The nodes less what others hold. Which devices those are is theirs to say only where none of them is leased: their count
    /// is what is right.
    pub(super) fn judged(&self, claims: &BTreeMap<AssignmentKey, Claim>) -> Option<Vec<NodeReport>> {
        let mut nodes = self.found.clone()?;
        for node in &mut nodes {
            let others: Vec<&Usage> = self.unmanaged.iter().filter(|held| held.node == node.name).collect();
            let leased: BTreeSet<u32> = claims
                .values()
                .filter(|claim| claim.node == node.name)
                .flat_map(|claim| &claim.devices)
                .map(|number| Piece::of(*number).device())
                .collect();
            let named: BTreeSet<u32> = others.iter().flat_map(|held| &held.devices).copied().collect();
            let count: Option<u32> = others.iter().map(|held| held.count).sum();
            let mut free: Vec<&mut Device> =
                node.devices.iter_mut().filter(|d| d.health == Health::Ok && !leased.contains(&d.index)).collect();
            free.sort_by_key(|device| (!named.contains(&device.index), std::cmp::Reverse(device.index)));
            let (health, count) = count.map_or((Health::Unknown, free.len()), |n| (Health::Unmanaged, n as usize));
            free.into_iter().take(count).for_each(|device| device.health = health);
            for held in others {
                node.cpu = node.cpu.checked_sub(held.cpu).unwrap_or(Cores::ZERO);
                node.memory = node.memory.saturating_sub(held.memory);
            }
        }
        Some(nodes)
    }
}

impl<R: Runtime> Agent<R> {
    /// Asks the runtime what there is, from time to time. Without an answer what was known stays.
    pub(super) fn look_at_site(&mut self, now: BootTime) {
        if self.site.looked.is_some_and(|at| now.since(at) < EVERY_US) {
            return;
        }
        self.site.looked = Some(now);
        let listing = match wait(self.base.runtime.list_owned()) {
            Ok(listing) => listing,
            Err(error) => {
                let trouble = crate::carrier::shown(&error);
                if self.site.trouble != trouble {
                    tracing::warn!(error = trouble, "the runtime does not say what there is");
                    self.site.trouble = trouble;
                }
                return;
            }
        };
        self.site.trouble.clear();
        self.orphans = listing.owned.into_iter().filter(|key| !self.entries.contains_key(key)).collect();
        for key in &self.orphans {
            // what runs here bars what came before it, also after the records were lost
            self.allocator.see(key);
        }
        self.site.unmanaged = listing.unmanaged;
        if let Some(settings) = &self.base.site_nodes {
            self.site.found = Some(nodes(&listing.nodes, settings));
        }
        self.judge();
    }

    /// Whether there is something to tell of the nodes since this was asked last.
    pub(crate) fn has_new_nodes(&mut self) -> bool {
        std::mem::take(&mut self.site.is_news)
    }

    /// Takes over a run that is wanted and that there is no record of: it is this very one, by its generation.
    pub(super) fn adopt(&mut self, wanted: &Assignment) {
        let key = wanted.key.clone();
        let claim = Claim {
            node: wanted.node.clone(),
            devices: wanted.devices.iter().copied().collect(),
            part: wanted.part,
            cpu: wanted.cpu,
            memory: wanted.memory,
            slices: BTreeMap::new(),
        };
        let claim = self.allocator.as_it_is(claim);
        let (lease_ms, grace_ms, phase) = (wanted.lease_ms, wanted.grace_ms, Phase::Started);
        let record = Record { key: key.clone(), claim, lease_ms, grace_ms, phase };
        if let Err(error) = self.records.save(&record) {
            tracing::warn!(order = %key.order, %error, "a run that was found cannot be recorded");
            return;
        }
        tracing::info!(order = %key.order, generation = key.generation, component = %key.component, "a run is adopted");
        self.allocator.restore(&key, &record.claim);
        let hold = self.base.runtime.folder(&key).hold().unwrap_or_default();
        let entry = Entry { adopted: true, ..Entry::new(record, Some(wanted.clone()), hold) };
        self.orphans.remove(&key);
        self.entries.insert(key, entry);
    }

    /// Ends what runs here and nobody wants. Before the first word of the orchestrator nobody knows that.
    pub(super) fn end_orphans(&mut self) {
        if self.desired.is_none() {
            return;
        }
        for key in self.orphans.clone() {
            let runtime = &mut self.base.runtime;
            let ended = wait(async {
                runtime.stop(&key, "nobody knows of it").await?;
                runtime.observe(&key).await
            });
            match ended {
                Ok(Observed::Ended(_) | Observed::NotStarted) => {
                    let folder = self.base.runtime.folder(&key);
                    let gone = durable::remove_folder(folder.path()).and_then(|()| self.records.remove(&key));
                    if gone.is_ok() {
                        self.orphans.remove(&key);
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(order = %key.order, %error, "a run without a record cannot be ended");
                }
            }
        }
    }
}

/// Nodes by the word of the site's scheduler, in the names of orders. Which device is next to which it does not say.
fn nodes(stock: &[NodeStock], settings: &SiteNodes) -> Vec<NodeReport> {
    let node = |node: &NodeStock| {
        let health = if node.is_up { Health::Ok } else { Health::Unknown };
        let kinds = node.devices.iter().flatten().flat_map(|(kind, count)| (0..*count).map(move |_| kind));
        let device = |(index, kind): (usize, &String)| {
            let model = settings.models.get(kind)?;
            let memory = settings.kinds.get(model).map_or(Bytes::ZERO, |kind| kind.memory);
            Some(Device {
                index: index as u32,
                model: model.clone(),
                memory,
                island: None,
                numa: None,
                pcie: None,
                health,
                mig: None,
            })
        };
        NodeReport {
            name: node.name.clone(),
            devices: kinds.enumerate().filter_map(device).collect(),
            cpu: node.cpu,
            memory: node.memory,
            rack: node.rack.clone(),
            nvl_domain: node.nvl_domain.clone(),
            unknown: Vec::new(),
            ports: Vec::new(),
        }
    };
    stock.iter().map(node).collect()
}
