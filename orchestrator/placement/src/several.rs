//! Legs on more than one path: with a backup that shares no link and no risk, or divided over several.

mod flow;
mod joint;
mod pair;
mod parts;
mod settle;
mod simplex;

pub(crate) use pair::{Key, Pairs, Two, protected};
pub(crate) use parts::{divides, split};
pub(crate) use settle::{concerns, settle};

use crate::{
    network::Price,
    option::Choice,
    path::{Ask, Tree},
};
use std::{collections::BTreeMap, rc::Rc};

/// What a leg takes beside one path.
#[derive(Debug, Clone)]
pub(crate) struct More {
    /// The backup's links, from the leg's first point to its last.
    pub backup: Vec<u32>,
    /// Of a leg that divides: its paths, cheapest first.
    pub parts: Vec<Part>,
    /// kbit/s asked of each link, every link once.
    loads: Vec<(u32, u64)>,
}

/// One of several paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub edges: Vec<u32>,
    pub kbps: u64,
    /// Microseconds, without a region's access.
    pub latency: u64,
}

/// Choices of a leg, cheapest first.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub choices: Vec<Choice>,
    /// Everything that was left out costs as much and takes as long as one of these, at the least. Empty: nothing that
    /// matters was left out.
    pub floors: Vec<Choice>,
}

impl More {
    pub fn backup(primary: &[u32], backup: Vec<u32>, kbps: u64) -> Self {
        let loads = primary.iter().chain(&backup).map(|e| (*e, kbps)).collect();
        Self { backup, parts: Vec::new(), loads }
    }

    pub fn parts(parts: Vec<Part>) -> Self {
        let mut loads: BTreeMap<u32, u64> = BTreeMap::new();
        for part in &parts {
            part.edges.iter().for_each(|e| *loads.entry(*e).or_default() += part.kbps);
        }
        Self { backup: Vec::new(), parts, loads: loads.into_iter().collect() }
    }
}

impl Choice {
    /// Rate asked of each link, every link once.
    pub fn loads(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let (plain, several): (&[u32], &[(u32, u64)]) = match &self.more {
            None => (&self.edges, &[]),
            Some(more) => (&[], &more.loads),
        };
        plain.iter().map(|e| (*e, self.kbps)).chain(several.iter().copied())
    }

    /// Links of all paths, a backup's too.
    pub fn links(&self) -> usize {
        self.edges.len() + self.more.as_ref().map_or(0, |m| m.backup.len())
    }

    /// The same, to put choices in order by.
    pub fn ids(&self) -> Rc<[u32]> {
        match &self.more {
            Some(more) if !more.backup.is_empty() => self.edges.iter().chain(&more.backup).copied().collect(),
            _ => Rc::clone(&self.edges),
        }
    }
}

fn tree(ask: &Ask, roots: &[u32]) -> Tree {
    Tree::new(ask, roots)
}

/// How a backup pays: it holds its rate, and no byte takes it.
fn held(price: Price) -> Price {
    if price == Price::Free { Price::Free } else { Price::Rate }
}
