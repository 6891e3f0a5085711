//! Nodes kept for gangs that would never find enough of them free at one moment.
//!
//! The site that is expected to have enough room first (for a job larger than all, the few sites) is picked for the job
//! that takes the least from others; whatever becomes free there is kept for it until it has enough,
//! and lent to what should be done before. Nothing that runs is stopped.

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
    /// When there should be enough, as far as is known; for what nodes may be lent until then.
    at: Micros,
}

impl Engine<'_> {
    /// Keeps what has become free, and starts those that have enough.
    pub(super) fn serve_reservations(&mut self) -> Result<(), ReplayError> {
        let Some(rules) = self.setup.policy.queue.reserve else { return Ok(()) };
        self.reserve(rules);
        let jobs: Vec<usize> = self.reservations.0.keys().copied().collect();
        for job in jobs {
            self.keep_more(job);
            if rules.backfill > Share::ZERO {
                self.expect_anew(job);
            }
            let Some(kept) = self.reservations.0.get(&job) else { continue };
            if self.kept_replicas(kept) < kept.part.replicas {
                continue;
            }
            let hosts = kept.hosts.clone();
            for host in &hosts {
                self.world.keep(*host, None);
            }
            if self.start(job)? {
                self.reservations.0.remove(&job);
                self.state += 1;
            } else {
                for host in &hosts {
                    self.world.keep(*host, Some(job));
                }
            }
        }
        Ok(())
    }

    fn reserve(&mut self, rules: Reserve) {
        self.reservations.0.retain(|job, kept| {
            let waits = self.queue.waits(*job);
            if !waits {
                kept.hosts.iter().for_each(|host| self.world.keep(*host, None));
                self.state += 1;
            }
            waits
        });
        while self.reservations.0.len() < rules.most as usize {
            let Some((job, part)) = self.most_worth_it(rules) else { break };
            let Some(sites) = self.sites_for(job, part) else { break };
            self.reservations.0.insert(job, Kept { part, sites, hosts: Vec::new(), at: self.now });
        }
    }

    /// The gang that takes the least from others, if that is little enough, or one that has waited for too long.
    fn most_worth_it(&self, rules: Reserve) -> Option<(usize, Part)> {
        let (sizes, mean) = self.queue.waiting(&self.history);
        let enough = mean * i128::from(rules.worth.thousandths()) / 1_000;
        let sites = 0..self.world.view.sites.len();
        let largest = sites.map(|site| self.world.site_hosts(site).len() as u64).max().unwrap_or(0);
        let mut best: Option<(i128, Micros, usize, Part)> = None;
        for job in self.queue.heads().filter(|job| !self.reservations.0.contains_key(job)) {
            let this = &self.setup.workload.jobs[job];
            let class = &self.classes[this.class];
            let [part] = class.parts[..] else { continue };
            if part.replicas < 2 || u64::from(part.replicas) * 1_000 < largest * rules.at_least.thousandths() {
                continue;
            }
            let mates = sizes.get(&class.devices).copied().unwrap_or(1).max(1);
            let takes = self.queue.estimate(job, &self.history).0 + rules.drain.micros() as i64 / mates;
            let overdue = rules.at_most.is_some_and(|most| (self.now - this.submit).0 > most.micros() as i64);
            let takes = if overdue { 0 } else { i128::from(takes) * i128::from(class.devices) };
            if takes <= enough && best.is_none_or(|b| (takes, this.submit, job) < (b.0, b.1, b.2)) {
                best = Some((takes, this.submit, job, part));
            }
        }
        best.map(|(.., job, part)| (job, part))
    }

    /// Where there should be room for the part the soonest: one site, or as many as the job may use.
    fn sites_for(&self, job: usize, part: Part) -> Option<Vec<usize>> {
        let class = &self.classes[self.setup.workload.jobs[job].class];
        let until = self.expected_free();
        // by site: until when it takes for one replica after the other
        let mut sites: Vec<(usize, Vec<Micros>)> = Vec::new();
        for site in self.world.allowed(class).filter(|s| self.world.is_up(*s)) {
            let free = self.world.host_numbers(site).filter(|h| self.world.hosts[*h].kept.is_none());
            sites.push((site, self.each(free, part, &until)));
        }
        let gang = part.replicas as usize;
        let alone =
            sites.iter().filter(|(_, each)| each.len() >= gang).min_by_key(|(site, each)| (each[gang - 1], *site));
        if let Some((site, _)) = alone {
            return Some(vec![*site]);
        }
        let mut instants: Vec<Micros> = sites.iter().flat_map(|(_, each)| each.iter().copied()).collect();
        instants.sort_unstable();
        instants.dedup();
        instants.into_iter().find_map(|at| {
            let mut rooms: Vec<(Reverse<usize>, usize)> =
                sites.iter().map(|(site, each)| (Reverse(each.partition_point(|e| *e <= at)), *site)).collect();
            rooms.sort_unstable();
            rooms.truncate(class.max_sites as usize);
            (rooms.iter().map(|r| r.0.0).sum::<usize>() >= gang).then(|| rooms.into_iter().map(|r| r.1).collect())
        })
    }

    /// When the sites that were picked should have enough, as things are now.
    fn expect_anew(&mut self, job: usize) {
        let until = self.expected_free();
        let Some(kept) = self.reservations.0.get(&job) else { return };
        let part = kept.part;
        let hosts = kept.sites.iter().flat_map(|site| self.world.host_numbers(*site));
        let mine = hosts.filter(|h| self.world.hosts[*h].kept.is_none_or(|owner| owner == job));
        let each = self.each(mine, part, &until);
        let at = each.get(part.replicas as usize - 1).copied().unwrap_or(self.now);
        if let Some(kept) = self.reservations.0.get_mut(&job) {
            kept.at = at;
        }
    }

    /// Until when it takes for one replica after the other to have room on the hosts, each free from `until` on.
    fn each(&self, hosts: impl Iterator<Item = usize>, part: Part, until: &[Micros]) -> Vec<Micros> {
        let room = |h: usize| (self.world.hosts[h].size / part.devices.max(1)) as usize;
        let mut each: Vec<Micros> = hosts.flat_map(|h| std::iter::repeat_n(until[h], room(h))).collect();
        each.sort_unstable();
        each
    }

    /// By host: when nothing of what runs there should be left.
    fn expected_free(&self) -> Vec<Micros> {
        let mut until = vec![self.now; self.world.hosts.len()];
        for run in self.runs.values() {
            let end = run.expected_end(self.now);
            run.hosts().for_each(|host| until[host] = until[host].max(end));
        }
        until
    }

    /// What should end before the gang that nodes are kept for has all it needs may use them until then.
    pub(super) fn backfill(&mut self, job: usize) -> Result<bool, ReplayError> {
        let Some(Reserve { backfill, .. }) = self.setup.policy.queue.reserve else { return Ok(false) };
        let estimate = self.queue.estimate(job, &self.history);
        let lent = |kept: &Kept| i128::from((kept.at - self.now).0.max(0)) * i128::from(backfill.thousandths()) / 1_000;
        let due = |(owner, kept): (&usize, &Kept)| {
            let hosts: Vec<(usize, usize)> = kept.hosts.iter().map(|host| (*host, *owner)).collect();
            (lent(kept) >= i128::from(estimate.0)).then_some(hosts)
        };
        let hosts: Vec<(usize, usize)> = self.reservations.0.iter().filter_map(due).flatten().collect();
        if hosts.is_empty() {
            return Ok(false);
        }
        for (host, _) in &hosts {
            self.world.keep(*host, None);
        }
        let started = self.start(job);
        for (host, owner) in hosts {
            self.world.keep(host, Some(owner));
        }
        started
    }

    fn kept_replicas(&self, kept: &Kept) -> u32 {
        kept.hosts.iter().map(|h| self.world.hosts[*h].free / kept.part.devices.max(1)).sum()
    }

    fn keep_more(&mut self, job: usize) {
        let Some(kept) = self.reservations.0.get(&job) else { return };
        let (part, sites) = (kept.part, kept.sites.clone());
        let mut have = self.kept_replicas(kept);
        let mut more = Vec::new();
        for host in sites.into_iter().flat_map(|site| self.world.host_numbers(site)) {
            let this = &self.world.hosts[host];
            let fits = this.kept.is_none() && this.free >= part.devices.max(1) && self.world.is_up(this.site);
            if have < part.replicas && fits {
                have += this.free / part.devices.max(1);
                more.push(host);
            }
        }
        for host in &more {
            self.world.keep(*host, Some(job));
        }
        if let Some(kept) = self.reservations.0.get_mut(&job) {
            kept.hosts.extend(more);
        }
    }
}
