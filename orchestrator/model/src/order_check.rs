//! Checks of an order that its types cannot express. Everything wrong is collected, each with its pointer and remedy.

mod component;
mod flow;
mod terms;

use crate::{
    document::{DocumentError, Problem},
    money::Amount,
    order::Order,
};
use std::collections::BTreeMap;

pub(crate) const MAX_COMPONENTS: usize = 64;
pub(crate) const MAX_FLOWS: usize = 256;

pub(crate) fn check(order: &Order) -> Result<(), DocumentError> {
    let mut found = Found::default();
    match order.components.len() {
        0 => found.add("/components", "the order has no component: add one"),
        1..=MAX_COMPONENTS => {}
        n => found.add("/components", format!("{n} components are too many: use at most {MAX_COMPONENTS}")),
    }
    if order.flows.len() > MAX_FLOWS {
        found.add("/flows", format!("{} flows are too many: use at most {MAX_FLOWS}", order.flows.len()));
    }
    let mut first = BTreeMap::new();
    for (i, c) in order.components.iter().enumerate().take(MAX_COMPONENTS) {
        if let Some(j) = first.insert(&c.name, i) {
            found.add(
                format!("/components/{i}/name"),
                format!("\"{}\" is the name of component {j} too: rename one", c.name),
            );
        }
        component::check(&mut found, order, c, &format!("/components/{i}"));
    }
    for (i, f) in order.flows.iter().enumerate().take(MAX_FLOWS) {
        flow::check(&mut found, order, f, &format!("/flows/{i}"));
    }
    terms::check_constraints(&mut found, &order.constraints);
    terms::check(&mut found, &order.terms);
    DocumentError::unless_empty(found.0)
}

/// What has been found so far.
#[derive(Default)]
struct Found(Vec<Problem>);

impl Found {
    fn add(&mut self, pointer: impl Into<String>, reason: impl Into<String>) {
        self.0.push(Problem::new(pointer, reason));
    }

    fn add_if(&mut self, wrong: bool, pointer: impl Into<String>, reason: impl Into<String>) {
        if wrong {
            self.add(pointer, reason);
        }
    }

    fn amount(&mut self, amount: Option<Amount>, pointer: &str) {
        if let Some(reason) = amount.and_then(Amount::out_of_range) {
            self.add(pointer, reason);
        }
    }
}
