//! What went wrong with a call to a site's own services, in words for people.

use crate::runtime::RuntimeError;
use std::time::Duration;

/// Longest wait for one answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A client that goes where it is told and nowhere else.
pub(crate) fn client() -> reqwest::ClientBuilder {
    // an error says that one is set already
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().timeout(PATIENCE).redirect(reqwest::redirect::Policy::none())
}

/// Enough of an answer for people.
pub(crate) fn begin(text: &str) -> String {
    text.trim().chars().take(300).collect()
}

pub(crate) fn answered(site: &str, what: &'static str, answer: String) -> RuntimeError {
    RuntimeError::Site { what, site: site.to_owned(), answer }
}

pub(crate) fn failed(site: &str, what: &'static str, error: &reqwest::Error) -> RuntimeError {
    // what went wrong stands at the end of the chain
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    answered(site, what, text)
}
