//! The decision: where an order's components run and how its bytes get there, as one question with one answer.
//!
//! A `Planner` keeps what the links and sites of a view look like to a decision (`network`, `index`) from one decision to
//! the next. Bounds of all stands at once (`field`, `sketch`, `pricing`) pick the few that matter (`narrow`, `near`); these
//! and exact paths (`path`, `trees`) feed a branch and bound over sites, models and
//! replicas (`search`, with `bound`), which settles the legs of each placement (`settle`, and `joint` where legs share a
//! full link) and prices it exactly (`cost`, `window`). `verdict` says what every other site would cost or lack,
//! `refusal` and `counterfactual` why there is no plan and what would help; `audit` checks any plan by other means. `paths` answers questions about paths
//! alone: lists of them, pairs, the largest flow, and whole demand matrices.
//!
//! Invariants
//! - Pure: view, order, submission time and policy go in; nothing else is read. The same question has the same answer,
//!   whatever the order of sites and links in the input.
//! - No float. Costs and times are exact; each term is rounded once.
//! - A plan never takes more than the view has free, and a bound is never above what it bounds.

mod alike;
mod answer;
pub mod audit;
pub mod batch;
pub mod between;
pub mod booking;
mod bound;
mod cost;
mod counterfactual;
pub mod decision;
mod dice;
mod fan;
mod field;
mod gang;
pub mod generate;
mod index;
mod inquest;
mod joint;
mod legs;
mod load;
mod lost;
mod mask;
pub mod measure;
mod narrow;
mod near;
mod network;
mod option;
pub mod output;
mod part;
mod path;
pub mod paths;
pub mod planner;
pub mod policy;
mod pricing;
mod problem;
mod reach;
mod refusal;
mod room;
mod search;
mod selection;
mod settle;
mod several;
mod sieve;
mod sketch;
mod stand;
mod starts;
mod streams;
mod telling;
mod totals;
mod trees;
mod verdict;
mod window;

pub use audit::{Sequence, Violation, audit};
pub use batch::{Batch, place_batch};
pub use between::{Between, path_between};
pub use decision::{ApplyError, Decision, Stats, apply, apply_by, decide, explain, never_fits, place};
pub use output::{batch_json, decision_json};
pub use planner::{LinkNow, Planner};
pub use policy::{DemandEntry, Policy, Request};
