//! Sites that hold the same: what fits one fits the others, so that it is worked out once.

use crate::index::Index;
use rhumb_federation::View;
use std::collections::HashMap;

#[derive(Debug, Clone)]
pub(crate) struct Alike {
    /// By site.
    pub group: Vec<usize>,
    /// By group: its first site.
    pub first: Vec<usize>,
}

impl Alike {
    /// Told from digests of 128 bits, which the index keeps while a site stays as it is.
    pub fn new(view: &View, index: &Index) -> Self {
        let mut alike = Self { group: Vec::with_capacity(view.sites.len()), first: Vec::new() };
        let mut known: HashMap<u128, usize> = HashMap::new();
        for site in 0..view.sites.len() {
            let group = *known.entry(index.holds(view, site)).or_insert_with(|| {
                alike.first.push(site);
                alike.first.len() - 1
            });
            alike.group.push(group);
        }
        alike
    }
}
