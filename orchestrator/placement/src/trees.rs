//! Trees that outlive a decision, and what makes them wrong.
//!
//! A tree is over the links that carry a rung of 1, 2, 5, 10, ... kbit/s, the greatest up to the rate asked. So one tree
//! serves all rates between two rungs, and only a change of free capacity that passes that very rung can touch it. It is
//! mended when a link that lies on some cheapest or quickest way went, or one that shortens some way came; and the tree of
//! a rate is mended from that of another, from which it differs by the links that carry only one of the two.

use crate::{
    mask::Mask,
    network::{Direction, Network, Price},
    path::{Ask, Passing, Tree},
};
use std::{collections::HashMap, sync::Arc};

#[derive(Debug)]
pub(crate) struct Trees {
    /// Numbers of the sets of roots.
    roots: HashMap<Box<[u32]>, u32>,
    kept: HashMap<(Family, u8), Kept>,
    classes: HashMap<Family, Vec<u8>>,
    /// By class: links whose free capacity passed its rung.
    passed: Vec<Passed>,
    latency_epoch: u32,
    most: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Family {
    mask: u32,
    roots: u32,
    walk: Direction,
    price: Price,
}

#[derive(Debug)]
struct Kept {
    tree: Arc<Tree>,
    mask_epoch: u32,
    latency_epoch: u32,
    passed_epoch: u32,
    /// How many of the class's passings are taken into account.
    passed: usize,
}

#[derive(Debug, Default)]
struct Passed {
    list: Vec<u32>,
    epoch: u32,
}

/// Passings of one class that are remembered: beyond them its trees are worked out anew.
const REMEMBERED: usize = 4_096;

/// Bytes that trees may take in all.
const ROOM: usize = 384 << 20;

/// Rungs of kbit/s, ascending; a class is an index here.
const RUNGS: [u64; 58] = {
    let mut rungs = [0; 58];
    let (mut at, mut power) = (1, 1);
    while at < rungs.len() {
        rungs[at] = power;
        rungs[at + 1] = 2 * power;
        rungs[at + 2] = 5 * power;
        (at, power) = (at + 3, power * 10);
    }
    rungs
};

/// The greatest rung up to the rate.
fn class(kbps: u64) -> u8 {
    (RUNGS.partition_point(|rung| *rung <= kbps) - 1) as u8
}

impl Trees {
    pub fn new(points: usize) -> Self {
        let passed = RUNGS.iter().map(|_| Passed::default()).collect();
        let most = ROOM / (points.max(1) * 32);
        Self { roots: HashMap::new(), kept: HashMap::new(), classes: HashMap::new(), passed, latency_epoch: 0, most }
    }

    pub fn of(&mut self, net: &Network, mask: &Mask, ask: &Ask, roots: &[u32]) -> Arc<Tree> {
        let roots_number = if let Some(number) = self.roots.get(roots) {
            *number
        } else {
            let number = self.roots.len() as u32;
            self.roots.insert(roots.into(), number);
            number
        };
        let class = class(ask.kbps);
        let family = Family { mask: mask.number, roots: roots_number, walk: ask.walk, price: ask.price };
        if let Some(tree) = self.known(net, mask, ask, (family, class)) {
            return tree;
        }
        if self.kept.len() >= self.most {
            self.kept.clear();
            self.classes.clear();
        }
        // the tree of another rate differs only by the links between the two
        let known = self.classes.get(&family).into_iter().flatten();
        let nearest = known.copied().min_by_key(|other| (other.abs_diff(class), *other));
        let ask = Ask { kbps: RUNGS[usize::from(class)], ..*ask };
        let tree = nearest.and_then(|other| {
            let tree = self.known(net, mask, &ask, (family, other))?;
            let (own, theirs) = (ask.kbps, RUNGS[usize::from(other)]);
            let links = net.between(own.min(theirs), own.max(theirs)).collect();
            let passing = if own > theirs {
                Passing { gone: links, came: Vec::new() }
            } else {
                Passing { gone: Vec::new(), came: links }
            };
            Some(tree.mended(net, &ask, &passing).map_or(tree, Arc::new))
        });
        let tree = tree.unwrap_or_else(|| Arc::new(Tree::new(&ask, roots)));
        let kept = self.now(mask, class, Arc::clone(&tree));
        self.kept.insert((family, class), kept);
        self.classes.entry(family).or_default().push(class);
        tree
    }

    fn now(&self, mask: &Mask, class: u8, tree: Arc<Tree>) -> Kept {
        let passed = &self.passed[usize::from(class)];
        Kept {
            tree,
            mask_epoch: mask.epoch,
            latency_epoch: self.latency_epoch,
            passed_epoch: passed.epoch,
            passed: passed.list.len(),
        }
    }

    /// A tree that is kept, as it is now. `None`: there is none, or too much has changed.
    fn known(&mut self, net: &Network, mask: &Mask, ask: &Ask, key: (Family, u8)) -> Option<Arc<Tree>> {
        let class = usize::from(key.1);
        let ask = Ask { kbps: RUNGS[class], ..*ask };
        let passed = &self.passed[class];
        let kept = self.kept.get(&key)?;
        if kept.mask_epoch != mask.epoch || kept.passed_epoch != passed.epoch {
            self.kept.remove(&key);
            self.classes.entry(key.0).or_default().retain(|c| *c != key.1);
            return None;
        }
        if kept.passed == passed.list.len() && kept.latency_epoch == self.latency_epoch {
            return Some(Arc::clone(&kept.tree));
        }
        let mut passing = Passing::default();
        for edge in &passed.list[kept.passed..] {
            let there = net.edges[*edge as usize].free >= ask.kbps;
            if there { passing.came.push(*edge) } else { passing.gone.push(*edge) }
        }
        let mut tree = Arc::clone(&kept.tree);
        if kept.latency_epoch != self.latency_epoch {
            tree = Arc::new(tree.without_latencies());
        }
        if let Some(mended) = tree.mended(net, &ask, &passing) {
            tree = Arc::new(mended);
        }
        let now = self.now(mask, key.1, Arc::clone(&tree));
        self.kept.insert(key, now);
        Some(tree)
    }

    pub fn free_changed(&mut self, edge: u32, old: u64, new: u64) {
        // a class's rung lies in (less, more] exactly for the classes above that of the less, up to that of the more
        for class in class(old.min(new)) + 1..=class(old.max(new)) {
            let passed = &mut self.passed[usize::from(class)];
            if passed.list.len() >= REMEMBERED {
                passed.list.clear();
                passed.epoch += 1;
            }
            passed.list.push(edge);
        }
    }

    pub fn latency_changed(&mut self) {
        self.latency_epoch += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::Signature;
    use proptest::prelude::*;
    use rhumb_federation::View;
    use rhumb_model::FederationFile;
    use serde_json::{Value, json};

    const POINTS: usize = 7;

    /// From, to, free (Mbit/s), latency (us), price.
    type Link = (usize, usize, u64, u64, u64);

    fn view(links: &[Link]) -> View {
        let sites: Vec<Value> =
            (0..POINTS).map(|i| json!({"name": format!("p{i}"), "prices": {}, "nodes": []})).collect();
        let link = |(i, (from, to, free, latency, price)): (usize, &Link)| {
            json!({"id": format!("l{i:02}"), "from": format!("p{from}"), "to": format!("p{to}"),
                "capacity": format!("{free}Mbps"), "latency": format!("{latency}us"), "per_mbps_hour": format!("{price} CNY")})
        };
        let links: Vec<Value> = links.iter().enumerate().map(link).collect();
        let file = json!({"currency": "CNY", "sites": sites, "links": links});
        View::from_file(&FederationFile::read(&file.to_string()).unwrap()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn mended_trees_are_those_that_would_be_worked_out_anew(
            links in prop::collection::vec((0..POINTS, 0..POINTS, 1_u64..9, 0_u64..4, 0_u64..4), 4..24),
            changes in prop::collection::vec((0_usize..24, 0_u64..9), 1..24),
            root in 0..POINTS as u32,
        ) {
            let links: Vec<Link> = links.into_iter().filter(|l| l.0 != l.1).collect();
            let view = view(&links);
            let mut net = Network::new(&view);
            let signature = Signature { within: None, encrypted: false, stale: true };
            for (link, mbps) in changes {
                for (walk, rate) in [Direction::Along, Direction::Against].into_iter().zip([2_000, 5_000, 1_000]).chain([
                    (Direction::Along, 0),
                    (Direction::Against, 7_000),
                ]) {
                    let mask = net.mask(&view, signature.clone());
                    let ask = Ask { allowed: &mask.allowed, kbps: rate, price: Price::Rate, walk, labels: None };
                    let kept = net.tree(&mask, &ask, &[root]);
                    let rung = RUNGS[usize::from(class(rate))];
                    let ask = Ask { kbps: rung, ..ask };
                    let fresh = Tree::new(&ask, &[root]);
                    for point in 0..POINTS as u32 {
                        prop_assert_eq!(kept.cheapest(&net, &ask, point), fresh.cheapest(&net, &ask, point));
                        prop_assert_eq!(kept.quickest(&net, &ask, point), fresh.quickest(&net, &ask, point));
                    }
                }
                if let Some(edge) = view.links.values().nth(link) {
                    net.set_free(edge.index(), mbps * 1_000);
                }
            }
        }
    }
}
