//! Sites that hold the same: what fits one fits the others, so that it is worked out once.

use rhumb_federation::{View, ViewSite};
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

#[derive(Debug, Clone)]
pub(crate) struct Alike {
    /// By site.
    pub group: Vec<usize>,
    /// By group: its first site.
    pub first: Vec<usize>,
}

impl Alike {
    pub fn new(view: &View) -> Self {
        let mut alike = Self { group: Vec::with_capacity(view.sites.len()), first: Vec::new() };
        let mut known: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, site) in view.sites.iter().enumerate() {
            let groups = known.entry(digest(site)).or_default();
            let same = groups.iter().copied().find(|g| holds_the_same(site, &view.sites[alike.first[*g]]));
            alike.group.push(same.unwrap_or_else(|| {
                groups.push(alike.first.len());
                alike.first.push(index);
                alike.first.len() - 1
            }));
        }
        alike
    }
}

fn digest(site: &ViewSite) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&site.nodes, site.whole.len()).hash(&mut hasher);
    site.site.prices.devices.keys().for_each(|model| model.hash(&mut hasher));
    hasher.finish()
}

fn holds_the_same(a: &ViewSite, b: &ViewSite) -> bool {
    a.nodes == b.nodes && a.whole == b.whole && a.site.prices.devices.keys().eq(b.site.prices.devices.keys())
}
