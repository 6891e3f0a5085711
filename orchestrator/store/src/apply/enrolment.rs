//! Authorities, join tokens and certificates.

use crate::{
    error::Fault,
    intent::{Conflict, Outcome},
    record::{AuthorityRecord, CertificateRecord, JoinTokenRecord},
    session::{Session, args},
};
use jiff::Timestamp;

/// The first of the same certificate stays.
pub async fn put_authority(session: &mut Session<'_>, authority: &AuthorityRecord) -> Result<Outcome, Fault> {
    let sql = "INSERT INTO authorities (fingerprint, certificate, sealed_key, created_us, retired_us) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT (fingerprint) DO NOTHING";
    let args = args![
        authority.fingerprint.as_str(),
        authority.certificate.as_str(),
        authority.sealed_key.as_slice(),
        authority.created.as_microsecond(),
        authority.retired.map(Timestamp::as_microsecond),
    ];
    session.run(sql, args).await?;
    Ok(Outcome::Done)
}

/// One that signs nothing any more; the last one that is trusted stays.
pub async fn retire_authority(session: &mut Session<'_>, fingerprint: &str, at: Timestamp) -> Result<Outcome, Fault> {
    let sql = "UPDATE authorities SET retired_us = $2 WHERE fingerprint = $1 AND retired_us IS NULL AND EXISTS \
               (SELECT 1 FROM authorities o WHERE o.fingerprint <> $1 AND o.retired_us IS NULL AND o.created_us > authorities.created_us)";
    match session.run(sql, args![fingerprint, at.as_microsecond()]).await? {
        0 => Err(Conflict::Missing(format!("authority {fingerprint} that a newer one has followed")).into()),
        _ => Ok(Outcome::Done),
    }
}

pub async fn put_join_token(session: &mut Session<'_>, token: &JoinTokenRecord) -> Result<Outcome, Fault> {
    let sql =
        "INSERT INTO join_tokens (sha256, point, most_devices, created_us, expires_us) VALUES ($1, $2, $3, $4, $5)";
    let args = args![
        token.sha256.as_slice(),
        token.point.as_str(),
        token.most_devices.map(i64::from),
        token.created.as_microsecond(),
        token.expires.as_microsecond(),
    ];
    session.run(sql, args).await?;
    Ok(Outcome::Done)
}

/// Uses the token up and keeps the certificate, or neither.
pub async fn enrol(
    session: &mut Session<'_>,
    token: &[u8; 32],
    certificate: &CertificateRecord,
    at: Timestamp,
) -> Result<Outcome, Fault> {
    let sql =
        "UPDATE join_tokens SET used_us = $3 WHERE sha256 = $1 AND point = $2 AND used_us IS NULL AND expires_us > $3";
    let args = args![token.as_slice(), certificate.point.as_str(), at.as_microsecond()];
    if session.run(sql, args).await? == 0 {
        return Err(Conflict::JoinToken.into());
    }
    put_certificate(session, certificate).await
}

/// The next certificate of an agent whose own, `former`, is not revoked.
pub async fn renew(session: &mut Session<'_>, former: &str, certificate: &CertificateRecord) -> Result<Outcome, Fault> {
    let sql = format!(
        "SELECT serial FROM certificates WHERE serial = $1 AND point = $2 AND revoked_us IS NULL{}",
        session.dialect().lock()
    );
    let found = session.all_built(sql, args![former, certificate.point.as_str()]).await?;
    if found.is_empty() {
        return Err(Conflict::Missing(format!("certificate {former} that is good")).into());
    }
    put_certificate(session, certificate).await
}

async fn put_certificate(session: &mut Session<'_>, certificate: &CertificateRecord) -> Result<Outcome, Fault> {
    let sql =
        "INSERT INTO certificates (serial, point, most_devices, issued_us, expires_us) VALUES ($1, $2, $3, $4, $5)";
    let args = args![
        certificate.serial.as_str(),
        certificate.point.as_str(),
        certificate.most_devices.map(i64::from),
        certificate.issued.as_microsecond(),
        certificate.expires.as_microsecond(),
    ];
    session.run(sql, args).await?;
    Ok(Outcome::Done)
}

/// Once revoked it stays so.
pub async fn revoke(session: &mut Session<'_>, serial: &str, at: Timestamp) -> Result<Outcome, Fault> {
    let sql = "UPDATE certificates SET revoked_us = COALESCE(revoked_us, $2) WHERE serial = $1";
    match session.run(sql, args![serial, at.as_microsecond()]).await? {
        0 => Err(Conflict::Missing(format!("certificate {serial}")).into()),
        _ => Ok(Outcome::Done),
    }
}

/// Of what ended before nothing is needed any more.
pub async fn forget(session: &mut Session<'_>, before: Timestamp) -> Result<(), Fault> {
    let before = before.as_microsecond();
    session.run("DELETE FROM join_tokens WHERE expires_us < $1", args![before]).await?;
    session.run("DELETE FROM certificates WHERE expires_us < $1", args![before]).await?;
    Ok(())
}
