//! The console's files, embedded at build time.

use axum::{
    body::Body,
    http::{HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
struct Files;

const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; \
                      base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

const MISSING: &str = "<!doctype html><title>Rhumb</title><p>The console was not built into this binary: \
                       run <code>npm ci &amp;&amp; npm run build</code> in <code>web/</code> and build again.";

/// `/` and every file of the console; where there is none, there is nothing, whatever the method.
pub async fn file(method: Method, uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let found = Files::get(path);
    if method != Method::GET && method != Method::HEAD && (found.is_some() || path == "index.html") {
        return crate::problem::Problem::bare(StatusCode::METHOD_NOT_ALLOWED).into_response();
    }
    let Some(found) = found else {
        if path == "index.html" {
            return page(Body::from(MISSING), "text/html; charset=utf-8", "no-store");
        }
        return crate::problem::Problem::not_found(format!("there is nothing at {}", uri.path())).into_response();
    };
    // hashed names never change their content
    let cache = if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    page(Body::from(found.data.into_owned()), found.metadata.mimetype(), cache)
}

fn page(body: Body, kind: &str, cache: &'static str) -> Response {
    let mut response = (StatusCode::OK, body).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_str(kind).unwrap_or(HeaderValue::from_static("application/octet-stream")),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
