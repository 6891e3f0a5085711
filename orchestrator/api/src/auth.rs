//! Who asks: bearer tokens, known by their hash only, and certificates of agents.

use crate::{problem::Problem, router::App, tls::Peer};
use axum::{
    extract::FromRequestParts,
    http::{header, request::Parts},
};
use rhumb_control::{Caller, secrets::sha256};
use rhumb_model::{PointName, TenantName};
use rhumb_store::{Store, TokenKind, TokenRecord};

/// A person or program acting for a tenant, or an administrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal(pub Caller);

impl Principal {
    pub fn admin(&self) -> Result<(), Problem> {
        match self.0.kind {
            TokenKind::Admin => Ok(()),
            TokenKind::Tenant | TokenKind::Agent => {
                Err(Problem::forbidden("this needs the token of a platform administrator"))
            }
        }
    }
}

/// As `Principal`, with the instant at which the credential ends: for answers that outlast it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub caller: Caller,
    pub expires: Option<jiff::Timestamp>,
}

/// The agent of a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub point: PointName,
    /// Accelerators that its site may report; `None`: as many as it has.
    pub most_devices: Option<u32>,
    /// The certificate that it came with, if it came with one.
    pub serial: Option<String>,
}

impl Agent {
    /// By the certificate that the connection was opened with, else by a token.
    pub async fn of(parts: &Parts, app: &App) -> Result<Self, Problem> {
        if let Some(Peer(identity)) = parts.extensions.get::<Peer>() {
            let known = app.desk.certified(identity).await?;
            app.limits.check(sha256(known.serial.as_bytes()))?;
            return Ok(Self { point: known.point, most_devices: known.most_devices, serial: Some(known.serial) });
        }
        let record = token(parts, app).await?;
        match record.kind {
            TokenKind::Agent => {
                let point = PointName::new(&record.subject).map_err(|_| Problem::unauthorised())?;
                Ok(Self { point, most_devices: None, serial: None })
            }
            TokenKind::Tenant | TokenKind::Admin => Err(Problem::forbidden("this needs the credential of an agent")),
        }
    }
}

async fn token(parts: &Parts, app: &App) -> Result<TokenRecord, Problem> {
    let header = parts.headers.get(header::AUTHORIZATION).and_then(|h| h.to_str().ok());
    let token = header.and_then(|h| h.strip_prefix("Bearer ")).map(str::trim).ok_or_else(Problem::unauthorised)?;
    if token.is_empty() || token.len() > 256 {
        return Err(Problem::unauthorised());
    }
    let hash = sha256(token.as_bytes());
    let found = app.desk.store().token(&hash).await.map_err(|e| Problem::from(rhumb_control::DeskError::from(e)))?;
    let record = found.ok_or_else(Problem::unauthorised)?;
    if record.expires.is_some_and(|at| at <= app.desk.now()) {
        return Err(Problem::unauthorised());
    }
    app.limits.check(hash)?;
    Ok(record)
}

impl FromRequestParts<App> for Session {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let record = token(parts, app).await?;
        match record.kind {
            TokenKind::Tenant | TokenKind::Admin => {
                let tenant = TenantName::new(&record.subject).map_err(|_| Problem::unauthorised())?;
                Ok(Self { caller: Caller { kind: record.kind, tenant }, expires: record.expires })
            }
            TokenKind::Agent => Err(Problem::forbidden("an agent's token opens /agent/ only")),
        }
    }
}

impl FromRequestParts<App> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Session::from_request_parts(parts, app).await.map(|session| Self(session.caller))
    }
}

impl FromRequestParts<App> for Agent {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Self::of(parts, app).await
    }
}
