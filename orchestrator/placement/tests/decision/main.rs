//! Decisions against the cost model's text: rules by hand, whole decisions by a placer that tries everything, refusals
//! and explanations by making good what they say.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that fails stops

mod brute;
mod changes;
mod devices;
mod examples;
mod explained;
mod federation;
mod full_links;
mod gangs;
mod huge;
mod in_time;
mod optimal;
mod packing;
mod planner;
mod reasons;
mod rules;
mod scheduler_cases;
mod several;
mod six;
mod wide;
mod world;
