//! Documents as views and orders.

use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Order};

/// 20:17 in Shanghai.
pub const SUBMIT: &str = "2026-11-30T12:17:00Z";

pub fn submit() -> Timestamp {
    SUBMIT.parse().unwrap()
}

pub fn view(text: &str) -> View {
    View::from_file(&FederationFile::read(text).unwrap()).unwrap()
}

pub fn order(text: &str) -> Order {
    Order::read(text).unwrap()
}
