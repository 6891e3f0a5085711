//! Where a job goes: the sites that are left to the decision, or single nodes by a score that knows no network.

use crate::{
    dice,
    job::{Class, Part},
    policy::{Keep, Place, Score},
    world::{Host, World},
};
use rhumb_model::SiteName;
use std::{cmp::Reverse, collections::BTreeSet};

/// What the decision may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Choice {
    pub sites: BTreeSet<SiteName>,
    /// Nodes to seat replicas on, best first; empty: the tightest.
    pub hosts: Vec<usize>,
}

/// Sizes of replicas that came so far, for the scores that look at the demand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mix {
    /// By number of devices: jobs seen.
    seen: Vec<u64>,
    jobs: u64,
}

impl Mix {
    pub fn add(&mut self, class: &Class) {
        let widest = class.widest() as usize;
        if self.seen.len() <= widest {
            self.seen.resize(widest + 1, 0);
        }
        self.seen[widest] += 1;
        self.jobs += 1;
    }

    /// Devices of a node with so many free that the next job is expected not to be able to use, in thousandths
    /// (the measure of FGD for whole devices).
    pub fn lost_milli(&self, free: u32) -> u64 {
        let wider: u64 = self.seen.iter().skip(free as usize + 1).sum();
        (u64::from(free) * 1_000 * wider).checked_div(self.jobs).unwrap_or(0)
    }
}

/// The choice of a policy for a job that may fit. `None`: by its score, it does not.
pub(crate) fn choose(world: &World, class: &Class, place: &Place, mix: &Mix, draw: u64) -> Option<Choice> {
    match (place.score, &class.parts[..]) {
        (Score::Cost, [part]) => Some(Choice { sites: kept(world, class, *part, &place.keep), hosts: Vec::new() }),
        (Score::Cost, _) => Some(Choice { sites: class.sites.clone(), hosts: Vec::new() }),
        (score, [part]) if part.devices > 0 => scored(world, class, *part, &Scorer { score, mix, draw }),
        // what is more than one gang of whole devices has no published score
        _ => Some(Choice { sites: class.sites.clone(), hosts: Vec::new() }),
    }
}

/// Sites with room for the part, narrowed down.
fn kept(world: &World, class: &Class, part: Part, keep: &[Keep]) -> BTreeSet<SiteName> {
    let alone: Vec<usize> = world.allowed(class).filter(|s| world.room(*s, part) >= part.replicas).collect();
    if alone.is_empty() || part.devices == 0 {
        return class.sites.clone();
    }
    let narrowed = keep.iter().fold(alone, |sites, keep| {
        let measure = |site: usize| match keep {
            Keep::Node => spare(world, site, part),
            Keep::Site => world.site_hosts(site).len() as u64,
        };
        let least = sites.iter().map(|s| measure(*s)).min();
        sites.into_iter().filter(|s| Some(measure(*s)) == least).collect()
    });
    narrowed.into_iter().map(|s| world.view.sites[s].site.name.clone()).collect()
}

/// What the job leaves at the site: devices of the tightest node for one replica, free nodes for several.
fn spare(world: &World, site: usize, part: Part) -> u64 {
    let fitting = world.site_hosts(site).iter().filter(|h| h.kept.is_none() && h.free >= part.devices);
    if part.replicas == 1 {
        fitting.map(|h| u64::from(h.free - part.devices)).min().unwrap_or(0)
    } else {
        fitting.count() as u64
    }
}

struct Scorer<'a> {
    score: Score,
    mix: &'a Mix,
    draw: u64,
}

impl Scorer<'_> {
    /// Of a node that fits `devices` more; larger is better. `most`: the devices of the largest node.
    fn of(&self, (number, host): (usize, &Host), devices: u32, most: u32) -> i64 {
        let (free, after) = (i64::from(host.free), i64::from(host.free - devices));
        let (wanted, most) = (i64::from(devices), i64::from(most.max(1)));
        match self.score {
            Score::Cost | Score::First => 0,
            // the fraction of the devices left, and of the processors, which none of these jobs takes
            Score::BestFit => 100 - 50 * after / most,
            Score::DotProd => 100 - 100 * free * wanted / (2 * most * most),
            Score::Clustering => {
                let base = match (host.kinds.contains_key(&devices), host.kinds.len()) {
                    (true, 1) => 75,
                    (true, _) => 50,
                    (false, 0) => 25,
                    (false, _) => 0,
                };
                base + 25 * (i64::from(host.size) - free) / i64::from(host.size.max(1))
            }
            Score::Packing if host.free == host.size => 33 - free,
            Score::Packing => (50 - wanted).max(33),
            Score::Fgd => {
                let fall = self.mix.lost_milli(host.free) as f64 - self.mix.lost_milli(host.free - devices) as f64;
                (100.0 / (1.0 + (-fall / 1_000.0).exp())) as i64
            }
            Score::Random => (dice::mix(&[self.draw, number as u64]) >> 32) as i64,
        }
    }
}

/// A site with its hosts that fit, best first.
type Ranked = (usize, Vec<(Reverse<i64>, usize)>);

fn scored(world: &World, class: &Class, part: Part, scorer: &Scorer) -> Option<Choice> {
    let most = world.hosts.iter().map(|h| h.size).max().unwrap_or(0);
    // by site: hosts that fit, best first, ties by place
    let mut sites: Vec<Ranked> = Vec::new();
    for site in world.allowed(class).filter(|s| world.is_up(*s)) {
        let numbers = world.host_numbers(site);
        let fitting = numbers.filter(|n| world.hosts[*n].kept.is_none() && world.hosts[*n].free >= part.devices);
        let mut hosts: Vec<(Reverse<i64>, usize)> =
            fitting.map(|n| (Reverse(scorer.of((n, &world.hosts[n]), part.devices, most)), n)).collect();
        hosts.sort_unstable();
        sites.push((site, hosts));
    }
    let room = |hosts: &[(Reverse<i64>, usize)]| -> u32 {
        hosts.iter().map(|(_, n)| world.hosts[*n].free / part.devices).sum()
    };
    let choice = |sites: &[&Ranked]| Choice {
        sites: sites.iter().map(|(s, _)| world.view.sites[*s].site.name.clone()).collect(),
        hosts: sites.iter().flat_map(|(_, hosts)| hosts.iter().map(|(_, n)| *n)).collect(),
    };
    let gang = part.replicas as usize;
    let alone = sites.iter().filter(|(_, hosts)| room(hosts) >= part.replicas);
    let best = alone.min_by_key(|(site, hosts)| {
        let sum: i64 = hosts.iter().take(gang).map(|(score, _)| score.0).sum();
        (Reverse(sum), *site)
    });
    if let Some(best) = best {
        return Some(choice(&[best]));
    }
    // over several sites: the roomiest first
    let mut by_room: Vec<&Ranked> = sites.iter().collect();
    by_room.sort_by_key(|(site, hosts)| (Reverse(room(hosts)), *site));
    let mut sum = 0;
    let mut taken = Vec::new();
    for site in by_room.into_iter().take(class.max_sites as usize) {
        sum += room(&site.1);
        taken.push(site);
        if sum >= part.replicas {
            return Some(choice(&taken));
        }
    }
    None
}
