//! Nodes kept for jobs that wait too long.
//!
//! A site (or for a job larger than all, the roomiest few) is picked for the job that has waited the longest; whatever
//! becomes free there is kept for it until it has enough. Nothing that runs is stopped for it.

use super::{Engine, ReplayError};
use crate::{job::Part, policy::Reserve, time::Micros};
use rhumb_model::quantity::Share;
use std::{cmp::Reverse, collections::BTreeMap};

/// By job: the sites, and what is kept there.
#[derive(Debug, Default)]
pub(super) struct Reservations(BTreeMap<usize, Kept>);

#[derive(Debug)]
struct Kept {
    part: Part,
    sites: Vec<usize>,
    hosts: Vec<usize>,
}

/// Jobs that are looked at for a reservation at one moment.
const LOOKED_AT: usize = 16;

impl Engine<'_> {
    /// Keeps what has become free, and starts those that have enough.
    pub(super) fn serve_reservations(&mut self) -> Result<(), ReplayError> {
        let Some(rules) = self.setup.policy.queue.reserve else { return Ok(()) };
        self.reserve(rules);
        let jobs: Vec<usize> = self.reservations.0.keys().copied().collect();
        for job in jobs {
            self.keep_more(job);
            let Some(kept) = self.reservations.0.get(&job) else { continue };
            if self.kept_replicas(kept) < kept.part.replicas {
                continue;
            }
            let hosts = kept.hosts.clone();
            hosts.iter().for_each(|host| self.world.keep(*host, None));
            if self.start(job)? {
                self.reservations.0.remove(&job);
            } else {
                hosts.iter().for_each(|host| self.world.keep(*host, Some(job)));
            }
        }
        Ok(())
    }

    /// Picks sites for those that have waited long enough.
    fn reserve(&mut self, rules: Reserve) {
        let after = Micros(rules.after.micros() as i64);
        let waiting: Vec<usize> = self.queue.oldest().take(LOOKED_AT).collect();
        self.reservations.0.retain(|job, kept| {
            let waits = waiting.contains(job);
            if !waits {
                kept.hosts.iter().for_each(|host| self.world.keep(*host, None));
                self.state += 1;
            }
            waits
        });
        for job in waiting {
            if self.reservations.0.len() >= rules.most as usize {
                break;
            }
            let this = &self.setup.workload.jobs[job];
            let class = &self.classes[this.class];
            let [part] = class.parts[..] else { continue };
            if self.now - this.submit < after || part.devices == 0 || self.reservations.0.contains_key(&job) {
                continue;
            }
            if let Some(sites) = self.sites_for(job, part, rules.ready) {
                self.reservations.0.insert(job, Kept { part, sites, hosts: Vec::new() });
            }
        }
    }

    fn sites_for(&self, job: usize, part: Part, ready: Share) -> Option<Vec<usize>> {
        let class = &self.classes[self.setup.workload.jobs[job].class];
        let whole = |site: usize| -> u32 { self.world.site_hosts(site).iter().map(|h| h.size / part.devices).sum() };
        let mut sites: Vec<usize> = self.world.allowed(class).filter(|s| self.world.is_up(*s) && whole(*s) > 0).collect();
        sites.sort_by_key(|site| (Reverse(self.world.room(*site, part)), Reverse(whole(*site)), *site));
        let alone = sites.iter().copied().find(|site| whole(*site) >= part.replicas);
        let sites = match alone {
            Some(site) => vec![site],
            None => sites.into_iter().take(class.max_sites as usize).collect(),
        };
        if sites.iter().map(|s| whole(*s)).sum::<u32>() < part.replicas {
            return None;
        }
        let free: u32 = sites.iter().map(|s| self.world.room(*s, part)).sum();
        let enough = u64::from(part.replicas) * ready.thousandths();
        (u64::from(free) * 1_000 >= enough).then_some(sites)
    }

    fn kept_replicas(&self, kept: &Kept) -> u32 {
        kept.hosts.iter().map(|h| self.world.hosts[*h].free / kept.part.devices).sum()
    }

    fn keep_more(&mut self, job: usize) {
        let Some(kept) = self.reservations.0.get(&job) else { return };
        let (part, sites) = (kept.part, kept.sites.clone());
        let mut have = self.kept_replicas(kept);
        let mut more = Vec::new();
        for host in sites.into_iter().flat_map(|site| self.world.host_numbers(site)) {
            let this = &self.world.hosts[host];
            if have < part.replicas && this.kept.is_none() && this.free >= part.devices && self.world.is_up(this.site) {
                have += this.free / part.devices;
                more.push(host);
            }
        }
        more.iter().for_each(|host| self.world.keep(*host, Some(job)));
        if let Some(kept) = self.reservations.0.get_mut(&job) {
            kept.hosts.extend(more);
        }
    }
}
