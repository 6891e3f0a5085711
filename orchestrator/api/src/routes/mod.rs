//! Handlers by noun.

pub mod admin;
pub mod agent;
pub mod events;
pub mod federation;
pub mod ops;
pub mod orders;
pub mod paths;
pub mod quotes;

use crate::problem::Problem;
use axum::http::HeaderMap;
use rhumb_control::intake::Idempotency;
use std::str::FromStr;

/// An id out of a path.
pub fn id<T: FromStr>(kind: &str, text: &str) -> Result<T, Problem> {
    let shown: String = text.chars().take(40).flat_map(char::escape_default).collect();
    text.parse().map_err(|_| Problem::not_found(format!("{kind} {shown} does not exist")))
}

/// The `Idempotency-Key` header: 1 to 128 visible ASCII characters.
pub fn idempotency(headers: &HeaderMap, body_sha256: [u8; 32]) -> Result<Option<Idempotency>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if !key.is_empty() && key.len() <= 128 && key.bytes().all(|c| c.is_ascii_graphic()) => {
            Ok(Some(Idempotency { key: key.to_owned(), body_sha256 }))
        }
        _ => Err(Problem::bad_request("the Idempotency-Key header is not 1 to 128 visible ASCII characters")),
    }
}

/// The caller's W3C trace context, or one made here, so that every order has one.
pub fn traceparent(headers: &HeaderMap) -> Option<String> {
    let given = headers.get("traceparent").and_then(|v| v.to_str().ok()).filter(|v| well_formed(v));
    given.map(str::to_owned).or_else(|| {
        let (trace, span) = (uuid::Uuid::now_v7().simple().to_string(), uuid::Uuid::new_v4().simple().to_string());
        Some(format!("00-{trace}-{}-01", &span[..16]))
    })
}

/// `00-<32 hex>-<16 hex>-<2 hex>`, W3C Trace Context section 3.2.
fn well_formed(value: &str) -> bool {
    let parts: Vec<&str> = value.split('-').collect();
    let hex = |s: &str, n: usize| s.len() == n && s.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    matches!(parts[..], [v, t, s, f] if v == "00" && hex(t, 32) && hex(s, 16) && hex(f, 2))
}
