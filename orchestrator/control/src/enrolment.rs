//! Agents' identity: who may join, whose certificate is signed, and who is believed.
//!
//! Invariants
//! - A join token makes one certificate, for the point it was made for.
//! - A certificate is believed as long as it is known, not revoked, and its time is not over.
//! - All orchestrators of one database trust the same authorities; their keys are kept under the common secret.

use crate::{
    caller::Caller,
    config::signed,
    desk::Desk,
    error::DeskError,
    secrets::{octets, sha256},
};
use jiff::Timestamp;
use rhumb_identity::{Authority, Identity, IdentityError, Issued, JoinSecret, JoinToken, Serial};
use rhumb_model::{Action, DocumentError, PointName, Role, Span};
use rhumb_store::{AuditEntry, AuthorityRecord, CertificateRecord, Conflict, Intent, JoinTokenRecord, Outcome, Store};
use rhumb_wire::{Hearer, Report};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::watch;

/// How long it takes at most until what another orchestrator revoked or made is known here.
const LOOK: Duration = Duration::from_secs(2);
/// Longest life of a join token.
const JOIN_MOST: Span = Span::from_micros(7 * 86_400 * 1_000_000);

/// Whom this federation trusts.
#[derive(Debug)]
pub struct Trust {
    pub domain: String,
    /// It signs agents' certificates: the newest.
    pub authority: Authority,
    /// It signs orchestrators' certificates: the oldest that is trusted, which all agents know.
    pub eldest: Authority,
    /// Certificates of all authorities that are trusted, PEM, the signing one first.
    pub bundle: String,
    /// Numbers of certificates that are worth nothing although their time is not over.
    pub revoked: BTreeSet<String>,
}

/// What an agent gets that has joined, or asks for its next certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolled {
    pub point: PointName,
    pub certificate: String,
    pub authorities: String,
    pub expires: Timestamp,
    /// Seconds until then.
    pub life_s: u64,
}

impl<S: Store> Desk<S> {
    /// Whom the federation trusts now; changes are told.
    pub fn trust(&self) -> watch::Receiver<Option<Arc<Trust>>> {
        self.inner.trust.subscribe()
    }

    fn trusted(&self) -> Result<Arc<Trust>, DeskError> {
        let known = self.inner.trust.borrow().clone();
        known.ok_or_else(|| DeskError::Internal("the certificate authority is not known yet".into()))
    }

    /// A token by which the agent of a point may join once within `life`.
    pub async fn create_join_token(
        &self,
        caller: &Caller,
        point: &PointName,
        life: Span,
        most_devices: Option<u32>,
    ) -> Result<(JoinToken, Timestamp), DeskError> {
        caller.operates(point)?;
        if !self.inner.base.agents().any(|p| p == point) {
            let reason = format!("point {point} has no agent in the federation: add it there first");
            return Err(DocumentError::one("/point", reason).into());
        }
        if life.micros() == 0 || life > JOIN_MOST {
            let reason =
                format!("{life} is not between 1s and {JOIN_MOST}: choose how long the agent may take to join");
            return Err(DocumentError::one("/life", reason).into());
        }
        let trust = self.trusted()?;
        let secret = JoinSecret::new(octets().map_err(|e| DeskError::Internal(e.to_string()))?);
        let created = self.now();
        let expires = created + signed(life);
        let sha256 = sha256(secret.as_str().as_bytes());
        let record = JoinTokenRecord { sha256, point: point.clone(), most_devices, created, expires, used: None };
        let mut entry = caller.entry(created, "join-token.create", point, None);
        entry.detail = serde_json::json!({ "expires": expires, "most_accelerators": most_devices });
        self.administer(Intent::PutJoinToken(record), entry).await?;
        tracing::info!(%point, %expires, "a join token was made");
        Ok((JoinToken { secret, fingerprint: trust.eldest.fingerprint().to_owned() }, expires))
    }

    /// Signs the request of an agent that holds a join token, and uses the token up.
    pub async fn join(&self, secret: &JoinSecret, request: &str) -> Result<Enrolled, DeskError> {
        const REFUSED: &str =
            "the join token is unknown, used or expired: ask for a new one with `rhumb site token SITE --join`";
        let hash = sha256(secret.as_str().as_bytes());
        let now = self.now();
        let known = self.inner.store.join_token(&hash).await?;
        let Some(token) = known.filter(|t| t.used.is_none() && t.expires > now) else {
            metrics::counter!(crate::metrics::JOINS_REFUSED).increment(1);
            tracing::warn!("an agent was refused: its join token is unknown, used or expired");
            return Err(DeskError::Credential(REFUSED));
        };
        let trust = self.trusted()?;
        let issued = self.sign(&trust, request, &token.point)?;
        let certificate = record(&issued, &token.point, token.most_devices, now);
        let entry = AuditEntry {
            at: now,
            actor: format!("agent {}", token.point),
            role: Role::Agent.to_string(),
            action: "certificate.create".into(),
            target: certificate.serial.clone(),
            tenant: None,
            detail: serde_json::json!({ "point": token.point, "expires": certificate.expires }),
        };
        let enrol = Intent::Enrol { token: hash, certificate, at: now };
        let enrol = Intent::Administer { change: Box::new(enrol), entry };
        match self.inner.store.commit(vec![enrol]).await?.pop() {
            Some(Outcome::Refused(Conflict::JoinToken)) => {
                metrics::counter!(crate::metrics::JOINS_REFUSED).increment(1);
                tracing::warn!(point = %token.point, "an agent was refused: another one used its join token");
                return Err(DeskError::Credential(REFUSED));
            }
            Some(Outcome::Refused(why)) => return Err(DeskError::refused(&why)),
            _ => {}
        }
        tracing::info!(point = %token.point, serial = %issued.serial, "an agent has joined");
        Ok(enrolled(&trust, issued, token.point, now))
    }

    /// Signs the next certificate of an agent that has a good one.
    pub async fn renew_certificate(&self, identity: &Identity, request: &str) -> Result<Enrolled, DeskError> {
        let former = self.certified(identity).await?;
        let trust = self.trusted()?;
        let issued = self.sign(&trust, request, &former.point)?;
        let now = self.now();
        let certificate = record(&issued, &former.point, former.most_devices, now);
        let renew = Intent::Renew { former: former.serial, certificate };
        if let Some(Outcome::Refused(_)) = self.inner.store.commit(vec![renew]).await?.pop() {
            // it was revoked in this moment
            return Err(DeskError::Credential(REVOKED));
        }
        tracing::info!(point = %former.point, serial = %issued.serial, "an agent's certificate was renewed");
        Ok(enrolled(&trust, issued, former.point, now))
    }

    fn sign(&self, trust: &Trust, request: &str, point: &PointName) -> Result<Issued, DeskError> {
        let life = self.inner.config.identity.life();
        let serial = Serial::new(octets().map_err(|e| DeskError::Internal(e.to_string()))?);
        trust.authority.sign_agent(request, point, serial, self.now(), life).map_err(|error| match error {
            IdentityError::Request(_) => DocumentError::one("/request", error.to_string()).into(),
            other => DeskError::Internal(other.to_string()),
        })
    }

    /// The record of a certificate that a connection was opened with, if it may be believed now.
    pub async fn certified(&self, identity: &Identity) -> Result<CertificateRecord, DeskError> {
        let serial = identity.serial.to_string();
        if self.inner.trust.borrow().as_ref().is_some_and(|t| t.revoked.contains(&serial)) {
            return Err(DeskError::Credential(REVOKED));
        }
        // a connection may outlive the certificate that opened it
        if identity.not_after <= self.now() {
            return Err(DeskError::Credential("the certificate has expired: join again with a new join token"));
        }
        match self.inner.store.certificate(&serial).await? {
            Some(known) if known.point != identity.point => {
                Err(DeskError::Credential("the certificate is not one of this federation"))
            }
            Some(known) if known.revoked.is_some() => Err(DeskError::Credential(REVOKED)),
            Some(known) => Ok(known),
            None => Err(DeskError::Credential("the certificate is not one of this federation")),
        }
    }

    /// Accelerators that the reporting point would have once the report is taken in.
    pub fn accelerators_after(&self, report: &Report) -> usize {
        let state = self.inner.hub.lock();
        let known = state.points.get(&report.point).and_then(|p| p.last.as_ref());
        known.map_or_else(|| Hearer::default().devices_after(report), |last| last.devices.devices_after(report))
    }

    pub async fn certificates(&self, caller: &Caller, point: &PointName) -> Result<Vec<CertificateRecord>, DeskError> {
        caller.operates(point)?;
        Ok(self.inner.store.certificates(point).await?)
    }

    /// From here on the certificate opens nothing, on open connections too.
    pub async fn revoke(&self, caller: &Caller, serial: Serial) -> Result<(), DeskError> {
        caller.may(Action::OperateSites)?;
        let serial = serial.to_string();
        let known = self.inner.store.certificate(&serial).await?;
        // a certificate of another operator's site does not exist for this one
        let Some(known) = known.filter(|c| caller.operates(&c.point).is_ok()) else {
            return Err(DeskError::NotFound { kind: "certificate", id: serial });
        };
        let at = self.now();
        let mut entry = caller.entry(at, "certificate.revoke", &serial, None);
        entry.detail = serde_json::json!({ "point": known.point });
        let revoke = Intent::Revoke { serial: serial.clone(), at };
        self.administer_known(revoke, entry, "certificate", serial.clone()).await?;
        tracing::info!(%serial, "a certificate was revoked");
        self.look_at_trust().await
    }

    /// A new authority signs from here on; those before it stay trusted until they are retired.
    pub async fn rotate_authority(&self, caller: &Caller) -> Result<String, DeskError> {
        caller.may(Action::ManageAuthorities)?;
        let made = self.new_authority()?;
        let fingerprint = made.fingerprint.clone();
        let entry = caller.entry(made.created, "authority.create", &fingerprint, None);
        self.administer(Intent::PutAuthority(made), entry).await?;
        tracing::info!(fingerprint, "a new authority signs");
        self.look_at_trust().await?;
        Ok(fingerprint)
    }

    /// What an older authority signed is worth nothing from here on.
    pub async fn retire_authority(&self, caller: &Caller, fingerprint: &str) -> Result<(), DeskError> {
        caller.may(Action::ManageAuthorities)?;
        let at = self.now();
        let retire = Intent::RetireAuthority { fingerprint: fingerprint.to_owned(), at };
        let entry = caller.entry(at, "authority.retire", fingerprint, None);
        let id = format!("{fingerprint} that a newer one has followed");
        self.administer_known(retire, entry, "authority", id).await?;
        tracing::info!(fingerprint, "an authority was retired");
        self.look_at_trust().await
    }

    async fn settle(&self, intent: Intent) -> Result<(), DeskError> {
        match self.inner.store.commit(vec![intent]).await?.pop() {
            Some(Outcome::Refused(why)) => Err(DeskError::refused(&why)),
            _ => Ok(()),
        }
    }

    fn new_authority(&self) -> Result<AuthorityRecord, DeskError> {
        let config = &self.inner.config.identity;
        let created = self.now();
        let internal = |e: &dyn std::fmt::Display| DeskError::Internal(e.to_string());
        let (authority, key) =
            Authority::create(&config.domain, created, signed(config.authority_life)).map_err(|e| internal(&e))?;
        let sealed_key = self.inner.secret.seal(AUTHORITY, key.as_bytes()).map_err(|e| internal(&e))?;
        Ok(AuthorityRecord {
            fingerprint: authority.fingerprint().to_owned(),
            certificate: authority.certificate().to_owned(),
            sealed_key,
            created,
            retired: None,
        })
    }

    /// Reads whom the federation trusts; the first orchestrator of all makes the first authority.
    pub(crate) async fn look_at_trust(&self) -> Result<(), DeskError> {
        let mut records = self.inner.store.authorities().await?;
        if records.is_empty() {
            self.settle(Intent::PutAuthority(self.new_authority()?)).await?;
            records = self.inner.store.authorities().await?;
        }
        let revoked: BTreeSet<String> = self.inner.store.revoked(self.now()).await?.into_iter().collect();
        let bundle: String = records.iter().map(|r| r.certificate.as_str()).collect();
        let same = |t: &Trust| t.bundle == bundle && t.revoked == revoked;
        if self.inner.trust.borrow().as_ref().is_some_and(|t| same(t)) {
            return Ok(());
        }
        let none = || DeskError::Internal("there is no certificate authority".into());
        let authority = self.open_authority(records.first().ok_or_else(none)?)?;
        let eldest = self.open_authority(records.last().ok_or_else(none)?)?;
        let domain = self.inner.config.identity.domain.clone();
        self.inner.trust.send_replace(Some(Arc::new(Trust { domain, authority, eldest, bundle, revoked })));
        Ok(())
    }

    fn open_authority(&self, record: &AuthorityRecord) -> Result<Authority, DeskError> {
        let key = self.inner.secret.unseal(AUTHORITY, &record.sealed_key).map_err(|e| {
            DeskError::Internal(format!("{e}: every orchestrator of one database needs the same secret file"))
        })?;
        let internal = |e: &dyn std::fmt::Display| DeskError::Internal(e.to_string());
        let key = String::from_utf8(key).map_err(|e| internal(&e))?;
        Authority::load(&self.inner.config.identity.domain, &record.certificate, &key).map_err(|e| internal(&e))
    }
}

const AUTHORITY: &str = "authority";
const REVOKED: &str = "the certificate was revoked: join again with a new join token";

/// What other orchestrators revoke or make is known here soon.
pub(crate) async fn follow<S: Store>(desk: Desk<S>) {
    let mut timer = tokio::time::interval(LOOK);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = desk.inner.stop.cancelled() => return,
            _ = timer.tick() => {}
        }
        if let Err(error) = desk.look_at_trust().await {
            tracing::warn!(%error, "whom to trust could not be read; what is known stays");
        }
    }
}

fn record(issued: &Issued, point: &PointName, most_devices: Option<u32>, at: Timestamp) -> CertificateRecord {
    CertificateRecord {
        serial: issued.serial.to_string(),
        point: point.clone(),
        most_devices,
        issued: at,
        expires: issued.not_after,
        revoked: None,
    }
}

fn enrolled(trust: &Trust, issued: Issued, point: PointName, now: Timestamp) -> Enrolled {
    let life_s = u64::try_from(now.duration_until(issued.not_after).as_secs()).unwrap_or(0);
    Enrolled { point, life_s, certificate: issued.pem, authorities: trust.bundle.clone(), expires: issued.not_after }
}
