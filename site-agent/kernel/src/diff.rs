//! From what is there to what should be: one function for building, changing, repairing, removing and rolling back.

use crate::object::{Key, Object, Objects};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Create(Object),
    /// Without a moment in which it is not there.
    Change {
        from: Object,
        to: Object,
    },
    Delete(Object),
}

impl Operation {
    /// What it is about.
    pub fn object(&self) -> &Object {
        match self {
            Self::Create(object) | Self::Delete(object) | Self::Change { to: object, .. } => object,
        }
    }
}

/// The operations that make `wanted` of `observed`, in order. Whatever replaces something is there before that goes;
/// what cannot stand beside its replacement (a link of the same name) goes first, with all that rides on it.
pub fn diff(observed: &Objects, wanted: &Objects) -> Vec<Operation> {
    let there: BTreeMap<Key, &Object> = observed.iter().map(|object| (object.key(), object)).collect();
    let asked: BTreeMap<Key, &Object> = wanted.iter().map(|object| (object.key(), object)).collect();
    let mut first = Vec::new();
    let mut doomed: BTreeSet<&str> = BTreeSet::new();
    let mut leaving: BTreeSet<&str> = BTreeSet::new();
    for (key, now) in &there {
        let Object::Link(link) = now else { continue };
        match asked.get(key) {
            Some(then) if now.can_become(then) => {}
            Some(_) => {
                doomed.insert(&link.name);
                first.push(Operation::Delete((*now).clone()));
            }
            None => drop(leaving.insert(&link.name)),
        }
    }
    let lost = |object: &Object| object.rides().is_some_and(|link| doomed.contains(link));
    let mut build = Vec::new();
    for then in wanted {
        let now = there.get(&then.key()).copied();
        let gone = now
            .is_some_and(|now| lost(now) || matches!(now, Object::Link(link) if doomed.contains(link.name.as_str())));
        match now {
            Some(now) if !gone && now.same(then) => {}
            Some(now) if !gone && now.can_become(then) => {
                build.push(Operation::Change { from: now.clone(), to: then.clone() });
            }
            // an address with another prefix: the kernel takes no second one
            Some(now) if !gone => {
                build.push(Operation::Delete(now.clone()));
                build.push(Operation::Create(then.clone()));
            }
            _ => build.push(Operation::Create(then.clone())),
        }
    }
    let superfluous = observed.iter().rev().filter(|now| {
        let rides_away = now.rides().is_some_and(|link| leaving.contains(link));
        !asked.contains_key(&now.key()) && !rides_away && !lost(now)
    });
    let remove: Vec<Operation> = superfluous
        .filter(|now| !matches!(now, Object::Link(link) if doomed.contains(link.name.as_str())))
        .map(|now| Operation::Delete(now.clone()))
        .collect();
    first.into_iter().chain(build).chain(remove).collect()
}
