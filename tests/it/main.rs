//! The federation of `rhumb demo` as its users meet it: real processes, measured links, work that runs, faults that come.

mod contention;
mod documents;
mod enrolment;
mod examples;
mod leaders;
mod lost_agent;
mod lost_orchestrator;
mod measured;
mod restarted;
mod routes;
mod streams;
