//! Who asks: bearer tokens, known by their hash only, and certificates of agents.

use crate::{problem::Problem, router::App, tls::Peer};
use axum::{
    extract::FromRequestParts,
    http::{header, request::Parts},
};
use rhumb_control::{Caller, secrets::sha256};
use rhumb_model::{Action, PointName, Role, Scope};
use rhumb_store::{Store, TokenRecord};
use std::time::Duration;

/// A person or program with a good token. What it may do is asked before anything is learnt of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal(Session);

impl Principal {
    /// The caller, if the table of roles lets it do this.
    pub fn may(self, action: Action) -> Result<Caller, Problem> {
        self.session(action).map(|session| session.caller)
    }

    /// As `may`, with what an answer has to know that outlasts the request.
    pub fn session(self, action: Action) -> Result<Session, Problem> {
        self.0.caller.may(action)?;
        Ok(self.0)
    }
}

/// A caller, and until when it is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub caller: Caller,
    pub expires: Option<jiff::Timestamp>,
    hash: [u8; 32],
}

impl Session {
    /// Ends when the token is worth nothing any more although its time is not over.
    pub async fn revoked(&self, app: &App) {
        gone(app, &self.hash).await;
    }
}

/// How often it is looked at whether a token was revoked while something that it opened is open.
const LOOK: Duration = Duration::from_secs(2);

/// Ends when the token is revoked, or its tenant closed.
pub async fn gone(app: &App, hash: &[u8; 32]) {
    loop {
        tokio::time::sleep(LOOK).await;
        // a store that does not answer has revoked nothing
        if let Ok(found) = app.desk.store().token(hash).await
            && found.is_none_or(|token| token.revoked.is_some())
        {
            return;
        }
    }
}

/// The agent of a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub point: PointName,
    /// Accelerators that its site may report; `None`: as many as it has.
    pub most_devices: Option<u32>,
    pub by: By,
}

/// What an agent came with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// The number of its certificate.
    Certificate(String),
    /// The hash of its token.
    Token([u8; 32]),
}

impl Agent {
    /// By the certificate that the connection was opened with, else by a token.
    pub async fn of(parts: &Parts, app: &App) -> Result<Self, Problem> {
        if let Some(Peer(identity)) = parts.extensions.get::<Peer>() {
            let known = app.desk.certified(identity).await?;
            app.limits.check(sha256(known.serial.as_bytes()))?;
            return Ok(Self {
                point: known.point,
                most_devices: known.most_devices,
                by: By::Certificate(known.serial),
            });
        }
        let record = token(parts, app).await?;
        match record.scope {
            Scope::Point(point) if record.role == Role::Agent => {
                Ok(Self { point, most_devices: None, by: By::Token(record.sha256) })
            }
            _ => Err(Problem::forbidden("this needs the credential of an agent")),
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
    if record.revoked.is_some() || record.expires.is_some_and(|at| at <= app.desk.now()) {
        return Err(Problem::unauthorised());
    }
    app.limits.check(hash)?;
    Ok(record)
}

impl FromRequestParts<App> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let record = token(parts, app).await?;
        if record.role == Role::Agent {
            return Err(Problem::forbidden("an agent's token opens /agent/ only"));
        }
        let caller = Caller { token: record.id, role: record.role, scope: record.scope };
        Ok(Self(Session { caller, expires: record.expires, hash: record.sha256 }))
    }
}

impl FromRequestParts<App> for Agent {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Self::of(parts, app).await
    }
}
