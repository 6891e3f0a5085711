//! Handlers by noun.

pub mod admin;
pub mod agent;
pub mod enrolment;
pub mod events;
pub mod federation;
pub mod ops;
pub mod orders;
pub mod paths;
pub mod quotes;
pub mod tenants;
pub mod tokens;

use crate::{problem::Problem, views::List};
use axum::{
    Json,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use rhumb_control::{intake::Idempotency, secrets::sha256};
use std::str::FromStr;

/// What was made and is shown this once: nobody on the way keeps it.
pub fn shown_once<T: serde::Serialize>(view: T) -> Response {
    let mut response = (StatusCode::CREATED, Json(view)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An id out of a path.
pub fn id<T: FromStr>(kind: &str, text: &str) -> Result<T, Problem> {
    let shown: String = text.chars().take(40).flat_map(char::escape_default).collect();
    text.parse().map_err(|_| Problem::not_found(format!("{kind} {shown} does not exist")))
}

/// The `next` of a page, whatever its lines are known by.
pub fn cursor<T: FromStr>(text: Option<&str>) -> Result<Option<T>, Problem> {
    let before = text.map(str::parse::<T>).transpose();
    before.map_err(|_| Problem::field("/cursor", "it is not the `next` of a page"))
}

/// A page of at most `limit` lines; a full one may have another behind its last line.
pub fn page<R, V: From<R> + utoipa::ToSchema>(found: Vec<R>, limit: u32, known_by: impl Fn(&R) -> String) -> List<V> {
    let next = found.last().filter(|_| found.len() == limit as usize).map(known_by);
    List { items: found.into_iter().map(V::from).collect(), next }
}

/// How many of a page: 1 to 200.
pub fn limit(asked: Option<u32>, usual: u32) -> Result<u32, Problem> {
    let limit = asked.unwrap_or(usual);
    if (1..=200).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::field("/limit", format!("{limit} is out of range: use 1 to 200")))
}

/// The `Idempotency-Key` header: 1 to 128 visible ASCII characters. `asked` is the route with its query: the same key for
/// another question is another body.
pub fn idempotency(headers: &HeaderMap, asked: &str, body_sha256: [u8; 32]) -> Result<Option<Idempotency>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if !key.is_empty() && key.len() <= 128 && key.bytes().all(|c| c.is_ascii_graphic()) => {
            let all = [asked.as_bytes(), &body_sha256].concat();
            Ok(Some(Idempotency { key: key.to_owned(), body_sha256: sha256(&all) }))
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
    let set = |s: &str| s.bytes().any(|c| c != b'0');
    matches!(parts[..], [v, t, s, f] if v == "00" && hex(t, 32) && set(t) && hex(s, 16) && set(s) && hex(f, 2))
}

/// What `If-Match` asks of a version (RFC 9110, section 13.1.1); weak tags match nothing.
pub fn if_match(headers: &HeaderMap, version: i64) -> Result<Option<i64>, Problem> {
    let mut given = headers.get_all(header::IF_MATCH).iter().peekable();
    if given.peek().is_none() {
        return Ok(None);
    }
    let own = format!("\"{version}\"");
    let mut tags = given.filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')).map(str::trim);
    match tags.find(|tag| *tag == "*" || *tag == own) {
        Some("*") => Ok(None),
        Some(_) => Ok(Some(version)),
        None => Err(Problem::stale()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_context_of_nothing_is_not_taken_over() {
        assert!(well_formed("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
        for wrong in [
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        ] {
            assert!(!well_formed(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_version_matches_its_own_strong_tag_or_the_star() {
        let asked = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_MATCH, axum::http::HeaderValue::from_static(value));
            if_match(&headers, 5).map_err(|p| p.status)
        };
        assert_eq!(if_match(&HeaderMap::new(), 5).unwrap(), None);
        assert_eq!(asked("\"5\""), Ok(Some(5)));
        assert_eq!(asked("\"4\", \"5\""), Ok(Some(5)));
        assert_eq!(asked("*"), Ok(None));
        assert_eq!(asked("\"4\""), Err(412));
        assert_eq!(asked("W/\"5\""), Err(412));
    }
}
