//! What the routes answer: domain values rendered with units in the names.

pub mod device;
mod link;
mod order;
mod pair;
mod quote;
mod route;
pub mod site;
pub mod telemetry;
mod usage;

pub use link::{LinkView, WindowView, links};
pub use order::{EventView, ExplainView, LogView, OrderView};
pub use pair::{PairView, pairs};
pub use quote::QuoteView;
pub use route::RouteView;
pub use usage::{UsageTotals, UsageView};

use serde::Serialize;
use utoipa::ToSchema;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct List<T: ToSchema> {
    pub items: Vec<T>,
    /// Give it as `cursor` for the next page.
    pub next: Option<String>,
}

impl<T: ToSchema> List<T> {
    pub fn all(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}
