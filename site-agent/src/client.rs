//! The one call: posts a report, gets the answer.

use crate::{
    config::{SyncConfig, duration},
    error::AgentError,
    identity::Credential,
};
use reqwest::{StatusCode, header};
use rhumb_wire::{Report, SyncReply};
use std::time::Duration;

/// Part of an error's body that is shown.
const SHOWN_BYTES: usize = 300;

#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    /// `None`: the connection says who this is.
    bearer: Option<header::HeaderValue>,
    reply_bytes: usize,
    timeout: Duration,
}

/// Why a report was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    #[error("cannot reach the orchestrator at {url}")]
    Reach { url: String, source: reqwest::Error },
    #[error("the orchestrator refused the report with {status}: {text}")]
    Refused { status: StatusCode, text: String },
    #[error("the orchestrator's answer is longer than {limit} bytes; raise limits.reply")]
    Long { limit: usize },
    #[error("the orchestrator's answer is not one to a report")]
    Form(#[source] serde_json::Error),
    #[error("the orchestrator answered report {found} instead of {asked}")]
    Other { asked: u64, found: u64 },
}

impl Client {
    pub(crate) fn new(
        url: &str,
        credential: &Credential,
        sync: &SyncConfig,
        reply_bytes: usize,
    ) -> Result<Self, AgentError> {
        // whoever else is in this process may have chosen a provider already
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder()
            .user_agent(concat!("rhumb-agent/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(5));
        let (builder, bearer) = match credential {
            Credential::Certificate(held) => (held.identify(builder)?, None),
            Credential::Token(token) => {
                let text = format!("Bearer {}", token.0);
                let mut bearer = header::HeaderValue::from_str(&text).map_err(|_| AgentError::Setting {
                    setting: "token",
                    value: String::new(),
                    remedy: "it must be printable text without line ends",
                })?;
                bearer.set_sensitive(true);
                (builder, Some(bearer))
            }
        };
        let http = builder.build().map_err(AgentError::Client)?;
        let url = format!("{}/agent/v1/sync", url.trim_end_matches('/'));
        Ok(Self { http, url, bearer, reply_bytes, timeout: duration(sync.timeout) })
    }

    pub(crate) async fn sync(&self, report: &Report) -> Result<SyncReply, SyncError> {
        let reach = |source| SyncError::Reach { url: self.url.clone(), source };
        let mut request = self.http.post(&self.url);
        if let Some(bearer) = &self.bearer {
            request = request.header(header::AUTHORIZATION, bearer.clone());
        }
        let mut response = request
            .timeout(self.timeout + Duration::from_millis(report.wait_ms))
            .json(report)
            .send()
            .await
            .map_err(reach)?;
        let status = response.status();
        let limit = if status.is_success() { self.reply_bytes } else { SHOWN_BYTES };
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(reach)? {
            let room = limit - body.len();
            if piece.len() > room && status.is_success() {
                return Err(SyncError::Long { limit });
            }
            body.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body).escape_debug().to_string();
            return Err(SyncError::Refused { status, text });
        }
        let reply: SyncReply = serde_json::from_slice(&body).map_err(SyncError::Form)?;
        if reply.seq != report.seq {
            return Err(SyncError::Other { asked: report.seq, found: reply.seq });
        }
        Ok(reply)
    }
}
