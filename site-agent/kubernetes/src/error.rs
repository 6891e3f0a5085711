//! What went wrong with the cluster, in words for people.

use rhumb_runtimes::RuntimeError;
use std::{error::Error, time::Duration};

/// Longest wait for what a call needs.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) const SITE: &str = "the Kubernetes API server";

/// The whole chain: what went wrong stands at its end.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let word = inner.to_string();
        if !text.contains(&word) {
            text = format!("{text}: {word}");
        }
        source = inner.source();
    }
    text.chars().take(500).collect()
}

pub(crate) fn answered(what: &'static str, answer: impl Into<String>) -> RuntimeError {
    RuntimeError::Site { what, site: SITE.into(), answer: answer.into() }
}

pub(crate) fn failed(what: &'static str, error: &kube::Error) -> RuntimeError {
    match error {
        kube::Error::Api(status) => answered(what, format!("{} {}: {}", status.code, status.reason, status.message)),
        error => answered(what, chain(error)),
    }
}

/// Whether the server answered with this code.
pub(crate) fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// The answer, or that there was none in time.
pub(crate) async fn in_time<T>(
    what: &'static str,
    answer: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    let silent = || answered(what, format!("nothing within {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(silent()))
}
