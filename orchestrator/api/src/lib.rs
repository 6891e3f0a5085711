//! The REST interface: routes by noun, credentials on every route, problem details, OpenAPI, events, the console.
//!
//! Invariants
//! - Deny by default: a route without a credential is one of `PUBLIC`, and a test walks all routes.
//! - Handlers parse, authorise, call one use case, render. No SQL, no decision.
//! - Every error is `application/problem+json` with a type that `problem` lists.

mod auth;
mod body;
mod console;
mod gate;
mod guard;
mod limit;
mod problem;
mod router;
mod routes;
mod serve;
pub mod tls;
mod views;

pub use auth::{Agent, Principal};
pub use gate::{Gate, Term};
pub use guard::Hosts;
pub use problem::Problem;
pub use router::{App, PUBLIC, openapi, router};
pub use serve::{serve, serve_tls};
pub use views::telemetry::device_metrics;
