//! Selections of one choice for each leg.

use crate::option::{Choice, Matter};
use rhumb_model::ratio::Ratio;
use std::rc::Rc;

/// One choice for each leg of one span, by index.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub picks: Vec<usize>,
}

/// Selections worth trying: for each time that some choice takes, the cheapest choices within it; where later may be
/// better, with each choice of each leg in turn as the slowest.
pub(crate) fn selections(options: &[Rc<[Choice]>], legs: &[usize], matter: Matter) -> Vec<Selection> {
    if matter == Matter::None || legs.is_empty() {
        return vec![Selection { picks: vec![0; legs.len()] }];
    }
    let within = |leg: usize, limit: &Ratio| options[leg].iter().position(|c| c.time <= *limit);
    let mut found: Vec<Selection> = Vec::new();
    for (index, leg) in legs.iter().enumerate() {
        for (pick, choice) in options[*leg].iter().enumerate() {
            let picks: Option<Vec<usize>> = legs
                .iter()
                .enumerate()
                .map(|(i, other)| if i == index { Some(pick) } else { within(*other, &choice.time) })
                .collect();
            if let Some(picks) = picks {
                found.push(Selection { picks });
            }
        }
    }
    found.sort_by(|a, b| a.picks.cmp(&b.picks));
    found.dedup_by(|a, b| a.picks == b.picks);
    found
}
