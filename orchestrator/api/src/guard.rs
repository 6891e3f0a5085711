//! Host and Origin: a browser that was led here by a foreign page or name gets nothing.

use crate::problem::Problem;
use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

/// Host names under which this server may be asked.
#[derive(Debug, Clone)]
pub struct Hosts(Arc<BTreeSet<String>>);

impl Hosts {
    pub fn new(listen: SocketAddr, more: &[String]) -> Self {
        let port = listen.port();
        let mut names: BTreeSet<String> = more.iter().map(|name| name.to_ascii_lowercase()).collect();
        names.insert(listen.to_string());
        for name in ["localhost", "127.0.0.1", "[::1]"] {
            names.insert(format!("{name}:{port}"));
        }
        Self(Arc::new(names))
    }

    fn allows(&self, host: &str) -> bool {
        self.0.contains(&host.to_ascii_lowercase())
    }
}

/// Refuses foreign hosts and origins for every method.
pub async fn guard(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    if let Err(problem) = check(&hosts, &request) {
        return problem.into_response();
    }
    let mut response = worded(next.run(request).await);
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Errors that the framework words in plain text become problems like all others.
fn worded(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if !(status.is_client_error() || status.is_server_error()) || kind == Some(b"application/problem+json") {
        return response;
    }
    let allow = response.headers().get(header::ALLOW).cloned();
    let mut response = Problem::bare(status).into_response();
    if let Some(allow) = allow {
        response.headers_mut().insert(header::ALLOW, allow);
    }
    response
}

fn check(hosts: &Hosts, request: &Request) -> Result<(), Problem> {
    let header = |name| request.headers().get(name).map(|v| v.to_str().unwrap_or("?").to_owned());
    let host = header(header::HOST).or_else(|| request.uri().authority().map(ToString::to_string));
    if !host.as_deref().is_some_and(|h| hosts.allows(h)) {
        let detail = "the Host header names no host of this server: add it to `hosts` in the configuration";
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "host", "Unknown host", detail));
    }
    let Some(origin) = header(header::ORIGIN) else { return Ok(()) };
    let own = origin.split_once("://").is_some_and(|(_, authority)| hosts.allows(authority));
    if own { Ok(()) } else { Err(Problem::forbidden("the Origin header names a foreign page")) }
}
