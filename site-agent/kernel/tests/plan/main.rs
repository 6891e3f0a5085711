//! What is to be done about what is there, on a model of the kernel: any legs, any crash, any damage.
#![allow(clippy::unwrap_used)] // helpers of tests stand outside of test functions here

mod model;
mod refused;
mod world;

use model::{apply, covered, selectors};
use proptest::prelude::*;
use rhumb_kernel::{Object, Objects, Operation, diff};
use std::collections::BTreeSet;
use world::{legs, objects};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_set_of_legs_becomes_any_other_and_then_nothing_is_left_to_do(before in legs(), after in legs()) {
        let (mut state, wanted) = (objects(&before), objects(&after));
        for operation in diff(&state, &wanted) {
            apply(&mut state, &operation);
        }
        prop_assert_eq!(&state, &wanted);
        prop_assert_eq!(diff(&state, &wanted), vec![]);
    }

    #[test]
    fn a_crash_at_any_step_is_made_good_and_can_be_undone(before in legs(), after in legs(), at in any::<prop::sample::Index>()) {
        let (mut state, wanted) = (objects(&before), objects(&after));
        let operations = diff(&state, &wanted);
        for operation in operations.iter().take(at.index(operations.len() + 1)) {
            apply(&mut state, operation);
        }
        for goal in [wanted, objects(&before), Objects::new()] {
            let mut state = state.clone();
            for operation in diff(&state, &goal) {
                apply(&mut state, &operation);
            }
            prop_assert_eq!(state, goal);
        }
    }

    #[test]
    fn what_somebody_took_away_is_put_back_and_nothing_else_is_touched(legs in legs(), gone in any::<u64>()) {
        let wanted = objects(&legs);
        let mut state: Objects =
            wanted.iter().enumerate().filter(|(at, _)| gone >> (at % 64) & 1 == 0).map(|(_, o)| o.clone()).collect();
        let links: BTreeSet<String> = links(&state);
        state.retain(|object| object.rides().is_none_or(|link| !link.starts_with("rh") || links.contains(link)));
        let kept = state.clone();
        let operations = diff(&state, &wanted);
        for operation in &operations {
            prop_assert!(matches!(operation, Operation::Create(_)), "{operation:?} of {kept:?}");
            apply(&mut state, operation);
        }
        prop_assert_eq!(state, wanted);
    }

    #[test]
    fn whoever_is_carried_before_and_after_is_carried_all_the_time(before in legs(), after in legs()) {
        let (mut state, wanted) = (objects(&before), objects(&after));
        let operations = diff(&state, &wanted);
        // a tunnel that is made anew under its number has to be away for a moment; a new path takes a new number
        let anew = operations.iter().any(|operation| {
            matches!(operation, Operation::Delete(Object::Link(link)) if links(&wanted).contains(&link.name))
        });
        let both: Vec<_> = selectors(&state).into_iter().filter(|way| selectors(&wanted).contains(way)).collect();
        for operation in operations {
            apply(&mut state, &operation);
            for way in &both {
                prop_assert!(anew || covered(&state, way), "{way:?} is left alone after {operation:?}");
            }
        }
    }

    #[test]
    fn the_order_in_which_legs_are_stated_changes_nothing(stated in legs()) {
        let mut other = stated.clone();
        other.reverse();
        prop_assert_eq!(objects(&stated), objects(&other));
    }
}

fn links(objects: &Objects) -> BTreeSet<String> {
    let names = objects.iter().filter_map(|object| match object {
        Object::Link(link) => Some(link.name.clone()),
        _ => None,
    });
    names.collect()
}
