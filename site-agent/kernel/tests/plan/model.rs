//! The kernel, as far as operations go.

use ipnet::IpNet;
use rhumb_kernel::{Object, Objects, Operation, Rule};

/// Does what the kernel would, and takes nothing that it would not.
pub fn apply(state: &mut Objects, operation: &Operation) {
    match operation {
        Operation::Create(object) => {
            assert!(state.iter().all(|other| other.key() != object.key()), "{object:?} is there already");
            stands(state, object);
            state.insert(object.clone());
        }
        Operation::Change { from, to } => {
            assert!(state.remove(from), "{from:?} is not there");
            stands(state, to);
            assert!(from.can_become(to) && from.key() == to.key(), "{from:?} cannot become {to:?}");
            state.insert(to.clone());
        }
        Operation::Delete(object) => {
            assert!(state.remove(object), "{object:?} is not there");
            if let Object::Link(link) = object {
                state.retain(|other| other.rides() != Some(link.name.as_str()));
            }
            if *object == Object::Gates {
                assert!(!state.iter().any(|other| matches!(other, Object::Gate(_))), "gates are left in their table");
            }
        }
    }
}

fn stands(state: &Objects, object: &Object) {
    let there = |name: &str| state.iter().any(|other| matches!(other, Object::Link(link) if link.name == name));
    if let Some(link) = object.rides().filter(|link| link.starts_with("rh")) {
        assert!(there(link), "{object:?} stands on nothing");
    }
    if matches!(object, Object::Gate(_)) {
        assert!(state.contains(&Object::Gates), "a gate without a table");
    }
}

/// Who is carried: from where to where.
pub fn selectors(state: &Objects) -> Vec<(Option<IpNet>, Option<IpNet>)> {
    let mut ways: Vec<_> =
        rules(state).filter(|rule| rule.arriving.is_none()).map(|rule| (rule.from, rule.to)).collect();
    ways.sort();
    ways.dedup();
    ways
}

/// Whether the first rule for a way leads to a table that knows how to go on.
pub fn covered(state: &Objects, way: &(Option<IpNet>, Option<IpNet>)) -> bool {
    let first = rules(state).filter(|rule| (rule.from, rule.to) == *way).min_by_key(|rule| rule.priority);
    first.is_some_and(|rule| {
        state.iter().any(|object| {
            matches!(object, Object::Route(route) if route.table == rule.table && Some(route.destination) == rule.to)
        })
    })
}

fn rules(state: &Objects) -> impl Iterator<Item = &Rule> {
    state.iter().filter_map(|object| match object {
        Object::Rule(rule) => Some(rule),
        _ => None,
    })
}
