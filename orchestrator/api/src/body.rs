//! Bodies: read whole within a limit, as text; documents may be JSON or YAML.

use crate::problem::Problem;
use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{StatusCode, header},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::time::Duration;

/// Most that a document may have; larger is 413.
pub const MAX_DOCUMENT: usize = 1 << 20;
/// Most that an agent's report may have.
pub const MAX_REPORT: usize = 8 << 20;
const READ_TIME: Duration = Duration::from_secs(20);

/// The text of a document, with its hash for idempotency.
#[derive(Debug, Clone)]
pub struct Document {
    pub text: String,
    pub sha256: [u8; 32],
}

pub async fn read(body: Body, max: usize) -> Result<bytes::Bytes, Problem> {
    let whole = tokio::time::timeout(READ_TIME, Limited::new(body, max).collect()).await;
    match whole {
        Ok(Ok(bytes)) => Ok(bytes.to_bytes()),
        Ok(Err(e)) if e.is::<LengthLimitError>() => {
            let detail = format!("the body has more than {max} octets");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The body is too large", detail))
        }
        Ok(Err(_)) => Err(Problem::bad_request("the body ended early")),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout",
            "The body did not arrive in time",
            format!("send it within {} s", READ_TIME.as_secs()),
        )),
    }
}

impl<S: Send + Sync> FromRequest<S> for Document {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if request
            .headers()
            .get(header::CONTENT_ENCODING)
            .is_some_and(|v| !v.as_bytes().eq_ignore_ascii_case(b"identity"))
        {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "media-type",
                "Unknown media type",
                "compressed bodies are not taken: send it plain",
            ));
        }
        let kind =
            request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("application/json");
        let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        let known = ["application/json", "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];
        if !known.contains(&kind.as_str()) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "media-type",
                "Unknown media type",
                "send application/json or application/yaml",
            ));
        }
        let bytes = read(request.into_body(), MAX_DOCUMENT).await?;
        let sha256 = rhumb_control::secrets::sha256(&bytes);
        let text = String::from_utf8(bytes.to_vec()).map_err(|e| {
            Problem::bad_request(format!("the body is not UTF-8 from octet {} on", e.utf8_error().valid_up_to()))
        })?;
        Ok(Self { text, sha256 })
    }
}
