//! Problem details (RFC 9457). One variant of an error, one `type`.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use rhumb_control::DeskError;
use rhumb_model::{DocumentError, Reason};
use rhumb_store::StoreError;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// A stable identifier of the kind, `https://rhumb.invalid/problems/KIND`.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub refusals: Vec<Reason>,
    #[serde(skip)]
    retry_after_s: Option<u32>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct FieldProblem {
    /// JSON pointer into the body.
    pub pointer: String,
    pub reason: String,
}

impl Problem {
    pub fn new(status: StatusCode, slug: &str, title: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("https://rhumb.invalid/problems/{slug}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
            refusals: Vec::new(),
            retry_after_s: None,
        }
    }

    pub fn unauthorised() -> Self {
        let detail = "send the header Authorization: Bearer TOKEN with a valid token";
        Self::new(StatusCode::UNAUTHORIZED, "credential", "A credential is needed", detail)
    }

    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "not-allowed", "Not allowed", detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    /// Another orchestrator leads, or none does at this moment.
    pub fn not_leading(detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "standby", "This orchestrator does not lead", detail);
        problem.retry_after(1)
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "request", "The request is malformed", detail)
    }

    /// What the framework refused by itself.
    pub fn bare(status: StatusCode) -> Self {
        let (slug, title, detail) = match status {
            StatusCode::NOT_FOUND => ("not-found", "Not found", "there is nothing at this path"),
            StatusCode::METHOD_NOT_ALLOWED => ("method", "Method not allowed", "see /docs for what is offered here"),
            s if s.is_client_error() => ("request", "The request is malformed", "see /docs for what is asked here"),
            _ => ("internal", "An internal step failed", "see the server's log"),
        };
        Self::new(status, slug, title, detail)
    }

    /// A precondition of the request does not hold.
    pub fn stale() -> Self {
        DeskError::Stale.into()
    }

    pub fn document(error: &DocumentError) -> Self {
        let errors: Vec<_> = error
            .problems
            .iter()
            .map(|p| FieldProblem { pointer: p.pointer.clone(), reason: p.reason.clone() })
            .collect();
        let first = errors.first().map_or(String::new(), |e| format!("{}: {}", e.pointer, e.reason));
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "document", "The document is not valid", first);
        problem.errors = errors;
        problem
    }

    /// A single field of a query or path.
    pub fn field(pointer: &str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        let mut problem = Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "document",
            "The document is not valid",
            format!("{pointer}: {reason}"),
        );
        problem.errors.push(FieldProblem { pointer: pointer.to_owned(), reason });
        problem
    }

    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }
}

impl From<DeskError> for Problem {
    fn from(error: DeskError) -> Self {
        let detail = error.to_string();
        match error {
            DeskError::NotFound { .. } => Self::not_found(detail),
            DeskError::Document(e) => Self::document(&e),
            DeskError::Credential(_) => Self { detail, ..Self::unauthorised() },
            DeskError::Forbidden(why) => Self::forbidden(why),
            DeskError::Conflict(_) => Self::new(StatusCode::CONFLICT, "conflict", "In conflict with what is", detail),
            DeskError::KeyReused => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", "Idempotency key was used", detail)
            }
            DeskError::KeyBusy => {
                Self::new(StatusCode::CONFLICT, "key-busy", "A request with this key is in progress", detail)
                    .retry_after(1)
            }
            DeskError::QuoteGone(_) => {
                Self::new(StatusCode::CONFLICT, "quote-gone", "The quote is no longer valid", detail)
            }
            DeskError::Refused(reasons) => {
                let mut problem =
                    Self::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", "The order cannot be placed", detail);
                problem.refusals = reasons;
                problem
            }
            DeskError::Stale => Self::new(StatusCode::PRECONDITION_FAILED, "stale", "It was changed meanwhile", detail),
            DeskError::TooMany { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many", "A limit is reached", detail).retry_after(5)
            }
            DeskError::Store(e) => {
                if let StoreError::Fenced { .. } = e {
                    return Self::not_leading(e.to_string());
                }
                tracing::error!(error = &e as &dyn std::error::Error, "storage failed");
                match e {
                    StoreError::Unavailable { .. } | StoreError::Closed => {
                        Self::new(StatusCode::SERVICE_UNAVAILABLE, "storage", "Storage is not available", detail)
                            .retry_after(1)
                    }
                    StoreError::Range { what, value } => {
                        let detail = format!("{value} of {what} is out of range");
                        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "document", "The document is not valid", detail)
                    }
                    StoreError::Newer { .. }
                    | StoreError::Fenced { .. }
                    | StoreError::Address(_)
                    | StoreError::Database { .. }
                    | StoreError::Corrupt { .. } => Self::bare(StatusCode::INTERNAL_SERVER_ERROR),
                }
            }
            DeskError::Busy => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "Too much is asked at once", detail).retry_after(3)
            }
            DeskError::Stopping => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "The orchestrator is stopping", detail)
                    .retry_after(1)
            }
            DeskError::Internal(_) => {
                tracing::error!(detail, "a use case failed");
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "internal",
                    "An internal step failed",
                    "see the server's log",
                )
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry = self.retry_after_s;
        let mut response = (status, axum::Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
