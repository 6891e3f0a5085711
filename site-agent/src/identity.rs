//! Who this agent is: its certificate and key, in the data folder, for nobody else to read.
//!
//! An agent joins once with a token, which also says by a fingerprint whom it joins; from then on it comes with its
//! certificate and asks for the next one at half its life. Its key is new each time and never leaves the host.

use crate::{
    carrier::shown,
    config::{AgentConfig, Token},
    durable,
    error::AgentError,
};
use jiff::{SignedDuration, Timestamp};
use reqwest::StatusCode;
use rhumb_identity::{AgentKey, JoinToken, fingerprint};
use rhumb_model::PointName;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::watch;

const FILE: &str = "identity.json";
/// For each of the two calls of joining.
const PATIENCE: Duration = Duration::from_secs(15);
/// Longest answer taken.
const MOST_BYTES: usize = 1 << 20;

/// What an agent is known by.
#[derive(Debug, Clone)]
pub(crate) enum Credential {
    Token(Token),
    Certificate(Held),
}

/// A certificate with its key, as the data folder keeps them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The point that the orchestrator says this agent is.
    pub point: PointName,
    /// Base URL of the orchestrator that signed it.
    pub orchestrator: String,
    key: String,
    certificate: String,
    authorities: String,
    /// By this host's clock.
    received: Timestamp,
    life: SignedDuration,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("point", &self.point).field("life", &self.life).finish_non_exhaustive()
    }
}

/// Answer to joining and renewing.
#[derive(Deserialize)]
struct Enrolled {
    point: PointName,
    certificate: String,
    authorities: String,
    life_s: u64,
}

/// Answer to the question whom the orchestrator trusts.
#[derive(Deserialize)]
struct Trusted {
    authorities: String,
}

/// What refuses has a problem in its body.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

impl Held {
    /// `None`: this agent has not joined.
    pub fn load(data_dir: &Path) -> Result<Option<Self>, AgentError> {
        let path = data_dir.join(FILE);
        durable::read_json(&path).map_err(|source| AgentError::Read { what: "the identity", path, source })
    }

    pub(crate) fn keep(&self, data_dir: &Path) -> io::Result<()> {
        durable::write_private(&data_dir.join(FILE), &serde_json::to_vec(self)?)
    }

    /// How long until the next one is to be asked for.
    pub(crate) fn renew_in(&self, now: Timestamp) -> Duration {
        let due = self.received + self.life / 2;
        // a clock that was set back does not make a certificate last
        let wait = now.duration_until(due).min(self.life / 2);
        Duration::try_from(wait).unwrap_or_default()
    }

    /// Sets up a client that shows the certificate and believes only the federation's authorities.
    pub(crate) fn identify(&self, builder: reqwest::ClientBuilder) -> Result<reqwest::ClientBuilder, AgentError> {
        let pem = format!("{}{}", self.key, self.certificate);
        let identity = reqwest::Identity::from_pem(pem.as_bytes()).map_err(AgentError::Client)?;
        let roots = reqwest::Certificate::from_pem_bundle(self.authorities.as_bytes()).map_err(AgentError::Client)?;
        Ok(builder.tls_certs_only(roots).identity(identity))
    }

    /// The next certificate, for a new key, asked for with the one held.
    pub(crate) async fn renewed(&self) -> Result<Self, AgentError> {
        let key = AgentKey::generate().map_err(failed)?;
        let http = self.identify(plain())?.build().map_err(AgentError::Client)?;
        let body = serde_json::json!({ "request": key.request().map_err(failed)? });
        let answer = post(&http, &self.orchestrator, "renew", &body).await?;
        if answer.point != self.point {
            return Err(join_error(format!(
                "the orchestrator calls this agent {} now, and not {}",
                answer.point, self.point
            )));
        }
        Ok(Self::of(&self.orchestrator, &key, answer))
    }

    fn of(orchestrator: &str, key: &AgentKey, answer: Enrolled) -> Self {
        Self {
            point: answer.point,
            orchestrator: orchestrator.to_owned(),
            key: key.to_pem(),
            certificate: answer.certificate,
            authorities: answer.authorities,
            received: Timestamp::now(),
            life: SignedDuration::from_secs(i64::try_from(answer.life_s).unwrap_or(i64::MAX / 4)),
        }
    }
}

/// The configuration of an agent that starts: from its file, or of one that has joined; it joins where it has not.
pub async fn settle(
    file: Option<&Path>,
    joining: Option<(&str, &str)>,
    data_dir: &Path,
) -> Result<AgentConfig, AgentError> {
    let config = file.map(AgentConfig::read).transpose()?;
    let data_dir = &config.as_ref().map_or_else(|| data_dir.to_owned(), |c| c.data_dir.clone());
    let held = match (joining, Held::load(data_dir)?) {
        (Some((url, token)), None) => {
            let token = token.parse::<JoinToken>().map_err(failed)?;
            let held = join(url, &token, data_dir).await?;
            tracing::info!(point = %held.point, orchestrator = held.orchestrator, "this agent has joined");
            Some(held)
        }
        (_, held) => held,
    };
    match (config, held) {
        (Some(config), _) => Ok(config),
        (None, Some(held)) => Ok(AgentConfig::joined(&held, data_dir.clone())),
        (None, None) => Err(join_error("give it --config FILE, or --join URL with a token".into())),
    }
}

/// Joins the federation: finds the orchestrator whose authority the token names, has a certificate signed, and keeps it in
/// the data folder.
pub async fn join(orchestrator: &str, token: &JoinToken, data_dir: &Path) -> Result<Held, AgentError> {
    let orchestrator = orchestrator.trim_end_matches('/');
    if !orchestrator.starts_with("https://") {
        return Err(AgentError::Setting {
            setting: "--join",
            value: orchestrator.to_owned(),
            remedy: "write the https:// URL of the orchestrator's `tls.listen` address",
        });
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    // nothing is told to whoever answers here, and what is heard counts only with the right fingerprint
    let anyone = plain().tls_danger_accept_invalid_certs(true).build().map_err(AgentError::Client)?;
    let answer = anyone.get(format!("{orchestrator}/agent/v1/authority")).send().await;
    let answer = answer.map_err(|source| AgentError::Reach { url: orchestrator.to_owned(), source })?;
    let trusted: Trusted = serde_json::from_slice(&body(answer, orchestrator).await?)
        .map_err(|_| join_error(format!("{orchestrator} does not answer as an orchestrator does")))?;
    let named = CertificateDer::pem_slice_iter(trusted.authorities.as_bytes())
        .filter_map(Result::ok)
        .find(|der| fingerprint(der) == token.fingerprint);
    let Some(named) = named else {
        return Err(join_error(format!(
            "{orchestrator} is not the orchestrator that made the token: its authority has another fingerprint. Check the \
             URL, and that nobody stands between"
        )));
    };
    let root = reqwest::Certificate::from_der(&named).map_err(AgentError::Client)?;
    let http = plain().tls_certs_only([root]).build().map_err(AgentError::Client)?;
    let key = AgentKey::generate().map_err(failed)?;
    let asked = serde_json::json!({ "secret": token.secret.as_str(), "request": key.request().map_err(failed)? });
    let held = Held::of(orchestrator, &key, post(&http, orchestrator, "join", &asked).await?);
    let folder = |source| AgentError::Folder { path: data_dir.into(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(folder)?;
    held.keep(data_dir).map_err(folder)?;
    Ok(held)
}

/// Asks for the next certificate at half the life of each, and hands it on; what fails is tried again.
pub(crate) fn keep_renewed(held: Held, data_dir: PathBuf) -> watch::Receiver<Held> {
    let (sender, receiver) = watch::channel(held.clone());
    tokio::spawn(async move {
        let mut held = held;
        let mut wait = held.renew_in(Timestamp::now());
        loop {
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let next = match held.renewed().await {
                Ok(next) => next
                    .keep(&data_dir)
                    .map(|()| next)
                    .map_err(|source| AgentError::Folder { path: data_dir.clone(), source }),
                Err(error) => Err(error),
            };
            match next {
                Ok(next) => {
                    tracing::info!(point = %next.point, "the next certificate is here");
                    held = next;
                    wait = held.renew_in(Timestamp::now());
                    sender.send_replace(held.clone());
                }
                Err(error) => {
                    tracing::warn!(error = shown(&error), "no new certificate; asked for again later");
                    wait = Duration::try_from(held.life / 20).unwrap_or_default().clamp(LEAST_PAUSE, MOST_PAUSE);
                }
            }
        }
    });
    receiver
}

/// Between two requests for a certificate, where one was not answered.
const LEAST_PAUSE: Duration = Duration::from_millis(200);
const MOST_PAUSE: Duration = Duration::from_mins(5);

fn plain() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("rhumb-agent/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE)
}

async fn post(
    http: &reqwest::Client,
    orchestrator: &str,
    what: &'static str,
    asked: &serde_json::Value,
) -> Result<Enrolled, AgentError> {
    let answer = http.post(format!("{orchestrator}/agent/v1/{what}")).json(asked).send().await;
    let answer = answer.map_err(|source| AgentError::Reach { url: orchestrator.to_owned(), source })?;
    let status = answer.status();
    let text = body(answer, orchestrator).await?;
    if status != StatusCode::CREATED {
        let detail = serde_json::from_slice(&text).map_or_else(|_| status.to_string(), |p: Problem| p.detail);
        return Err(join_error(detail));
    }
    serde_json::from_slice(&text)
        .map_err(|_| join_error(format!("{orchestrator} does not answer as an orchestrator does")))
}

async fn body(mut answer: reqwest::Response, orchestrator: &str) -> Result<Vec<u8>, AgentError> {
    let mut all = Vec::new();
    let reach = |source| AgentError::Reach { url: orchestrator.to_owned(), source };
    while let Some(piece) = answer.chunk().await.map_err(reach)? {
        if all.len() + piece.len() > MOST_BYTES {
            return Err(join_error(format!("{orchestrator} answers with more than {MOST_BYTES} bytes")));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

#[allow(clippy::needless_pass_by_value)] // callers have just made it
fn join_error(reason: String) -> AgentError {
    AgentError::Identity { reason: reason.escape_debug().to_string() }
}

#[allow(clippy::needless_pass_by_value)] // the shape that map_err wants
fn failed(error: rhumb_identity::IdentityError) -> AgentError {
    join_error(error.to_string())
}
