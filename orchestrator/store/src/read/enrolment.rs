//! Authorities, join tokens and certificates.

use crate::{
    codec::Reader,
    error::Fault,
    record::{AuthorityRecord, CertificateRecord, JoinTokenRecord},
    session::{Row, Session, args},
};
use jiff::Timestamp;
use rhumb_model::PointName;

type Found<T> = Result<T, Fault>;

pub async fn authorities(session: &mut Session<'_>) -> Found<Vec<AuthorityRecord>> {
    let sql = "SELECT fingerprint, certificate, sealed_key, created_us, retired_us FROM authorities \
               WHERE retired_us IS NULL ORDER BY created_us DESC, fingerprint";
    session.all(sql, vec![]).await?.iter().map(authority).collect()
}

pub async fn join_token(session: &mut Session<'_>, hash: &[u8; 32]) -> Found<Option<JoinTokenRecord>> {
    let sql = "SELECT sha256, point, most_devices, created_us, expires_us, used_us FROM join_tokens WHERE sha256 = $1";
    session.first(sql, args![hash.as_slice()]).await?.as_ref().map(token).transpose()
}

pub async fn certificate(session: &mut Session<'_>, serial: &str) -> Found<Option<CertificateRecord>> {
    let sql =
        "SELECT serial, point, most_devices, issued_us, expires_us, revoked_us FROM certificates WHERE serial = $1";
    session.first(sql, args![serial]).await?.as_ref().map(issued).transpose()
}

pub async fn certificates(session: &mut Session<'_>, point: &PointName) -> Found<Vec<CertificateRecord>> {
    let sql = "SELECT serial, point, most_devices, issued_us, expires_us, revoked_us FROM certificates \
               WHERE point = $1 ORDER BY issued_us DESC, serial LIMIT 200";
    session.all(sql, args![point.as_str()]).await?.iter().map(issued).collect()
}

pub async fn revoked(session: &mut Session<'_>, now: Timestamp) -> Found<Vec<String>> {
    let sql = "SELECT serial FROM certificates WHERE revoked_us IS NOT NULL AND expires_us > $1 ORDER BY serial";
    let rows = session.all(sql, args![now.as_microsecond()]).await?;
    rows.iter().map(|row| Reader::new("certificates", row).text("serial")).collect()
}

fn authority(row: &Row) -> Found<AuthorityRecord> {
    let r = Reader::new("authorities", row);
    Ok(AuthorityRecord {
        fingerprint: r.text("fingerprint")?,
        certificate: r.text("certificate")?,
        sealed_key: row.get("sealed_key")?,
        created: r.time("created_us")?,
        retired: r.time_or_null("retired_us")?,
    })
}

fn token(row: &Row) -> Found<JoinTokenRecord> {
    let r = Reader::new("join_tokens", row);
    Ok(JoinTokenRecord {
        sha256: r.sha256("sha256")?,
        point: r.parsed("point")?,
        most_devices: most(&r, row)?,
        created: r.time("created_us")?,
        expires: r.time("expires_us")?,
        used: r.time_or_null("used_us")?,
    })
}

fn issued(row: &Row) -> Found<CertificateRecord> {
    let r = Reader::new("certificates", row);
    Ok(CertificateRecord {
        serial: r.text("serial")?,
        point: r.parsed("point")?,
        most_devices: most(&r, row)?,
        issued: r.time("issued_us")?,
        expires: r.time("expires_us")?,
        revoked: r.time_or_null("revoked_us")?,
    })
}

fn most(r: &Reader, row: &Row) -> Found<Option<u32>> {
    let value: Option<i64> = row.get("most_devices")?;
    let value = value.map(|v| u32::try_from(v).map_err(|_| r.corrupt("most_devices", format_args!("{v} is no count"))));
    value.transpose()
}
