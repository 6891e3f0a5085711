//! The federation as it stands at one moment of a replay: single nodes with what runs on them, and links with what they
//! carry. The view that decisions look at is kept in step with it.

mod host;
mod seat;
mod wan;

pub(crate) use host::Host;
pub(crate) use seat::Seat;
pub(crate) use wan::Load;

use crate::job::{Class, Part};
use rhumb_federation::View;
use rhumb_model::{fit::group_nodes, state::SiteState};
use std::ops::Range;
use wan::Wire;

#[derive(Debug, Clone)]
pub(crate) struct World {
    /// As policies see it: what is kept for a waiting gang counts as taken, and delays are as last probed.
    pub view: View,
    /// By site, in order of name.
    pub hosts: Vec<Host>,
    of_site: Vec<Range<usize>>,
    /// By site: how many hosts have so many devices free and are kept for nobody.
    free: Vec<Vec<u32>>,
    /// Sites whose nodes in the view are not up to date.
    stale: Vec<bool>,
    up: Vec<bool>,
    /// In order of id.
    wires: Vec<Wire>,
    /// The number of each link, by its edge in the view's graph.
    numbers: Vec<usize>,
}

impl World {
    pub fn new(view: View) -> Self {
        let mut world = Self {
            hosts: Vec::new(),
            of_site: Vec::new(),
            free: Vec::new(),
            stale: vec![true; view.sites.len()],
            up: view.sites.iter().map(|s| s.site.state == SiteState::Ready).collect(),
            numbers: Wire::numbers(&view),
            wires: Wire::all(&view),
            view,
        };
        for (site, entry) in world.view.sites.iter().enumerate() {
            let first = world.hosts.len();
            for nodes in &entry.nodes {
                world.hosts.extend((0..nodes.count).map(|_| Host::new(site, &nodes.shape)));
            }
            world.of_site.push(first..world.hosts.len());
            let most = world.hosts[first..].iter().map(|h| h.size).max().unwrap_or(0);
            let mut free = vec![0; most as usize + 1];
            world.hosts[first..].iter().for_each(|h| free[h.free as usize] += 1);
            world.free.push(free);
        }
        for (site, range) in world.of_site.iter().enumerate() {
            world.view.sites[site].whole = group_nodes(world.hosts[range.clone()].iter().map(|h| (h.shape.clone(), 1)));
        }
        world.refresh();
        world
    }

    /// Whole devices that there are.
    pub fn devices(&self) -> u64 {
        self.hosts.iter().map(|h| u64::from(h.size)).sum()
    }

    pub fn site_hosts(&self, site: usize) -> &[Host] {
        &self.hosts[self.of_site[site].clone()]
    }

    pub fn host_numbers(&self, site: usize) -> Range<usize> {
        self.of_site[site].clone()
    }

    pub fn is_up(&self, site: usize) -> bool {
        self.up[site]
    }

    /// False: it was so before.
    pub fn set_site(&mut self, site: usize, up: bool) -> bool {
        if self.up[site] == up {
            return false;
        }
        self.up[site] = up;
        self.view.sites[site].site.state = if up { SiteState::Ready } else { SiteState::Lost };
        true
    }

    /// Brings the view's nodes up to date.
    pub fn refresh(&mut self) {
        for site in 0..self.stale.len() {
            if !std::mem::take(&mut self.stale[site]) {
                continue;
            }
            let here = self.hosts[self.of_site[site].clone()].iter().filter(|h| h.kept.is_none());
            self.view.sites[site].nodes = group_nodes(here.map(|h| (h.shape.clone(), 1)));
        }
    }

    /// Changes a host, and what follows from it.
    fn change<T>(&mut self, host: usize, how: impl FnOnce(&mut Host) -> T) -> T {
        let this = &mut self.hosts[host];
        let counts = &mut self.free[this.site];
        if this.kept.is_none() {
            counts[this.free as usize] -= 1;
        }
        let result = how(this);
        if this.kept.is_none() {
            counts[this.free as usize] += 1;
        }
        self.stale[this.site] = true;
        result
    }

    /// Keeps a host for a waiting job alone, or for nobody.
    pub fn keep(&mut self, host: usize, job: Option<usize>) {
        self.change(host, |h| h.kept = job);
    }

    /// Replicas of a part that the site's devices are enough for, up to what it asks.
    pub fn room(&self, site: usize, part: Part) -> u32 {
        if !self.up[site] {
            return 0;
        }
        if part.devices == 0 {
            return part.replicas;
        }
        let counts = self.free[site].iter().enumerate().skip(part.devices as usize);
        let sum: u64 = counts.map(|(free, hosts)| u64::from(free as u32 / part.devices) * u64::from(*hosts)).sum();
        sum.min(u64::from(part.replicas)) as u32
    }

    /// Whether the devices that are free could be enough: where not, no decision is needed.
    pub fn may_fit(&self, class: &Class) -> bool {
        class.parts.iter().all(|part| {
            let mut rooms: Vec<u32> =
                self.allowed(class).map(|site| self.room(site, *part)).filter(|room| *room > 0).collect();
            rooms.sort_unstable_by(|a, b| b.cmp(a));
            let most = rooms.iter().take(class.max_sites as usize).fold(0_u32, |sum, r| sum.saturating_add(*r));
            most >= part.replicas
        })
    }

    /// Sites that the class may use, by index.
    pub fn allowed<'a>(&'a self, class: &'a Class) -> impl Iterator<Item = usize> + 'a {
        let named = class.sites.iter().filter_map(|name| self.view.site_index(name));
        let all = if class.sites.is_empty() { 0..self.view.sites.len() } else { 0..0 };
        named.chain(all)
    }
}
