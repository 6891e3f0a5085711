//! Who agents are.

use jiff::Timestamp;
use rhumb_model::PointName;

/// A certificate authority: the newest that is not retired signs, all that are not retired are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityRecord {
    /// SHA-256 of the certificate, in hexadecimal.
    pub fingerprint: String,
    /// PEM.
    pub certificate: String,
    /// The key, sealed by whoever keeps it.
    pub sealed_key: Vec<u8>,
    pub created: Timestamp,
    pub retired: Option<Timestamp>,
}

/// A token by which one agent may join once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinTokenRecord {
    pub sha256: [u8; 32],
    pub point: PointName,
    /// Accelerators that the site may ever report; `None`: as many as it has.
    pub most_devices: Option<u32>,
    pub created: Timestamp,
    pub expires: Timestamp,
    pub used: Option<Timestamp>,
}

/// An agent's certificate, known by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRecord {
    /// 32 hexadecimal digits.
    pub serial: String,
    pub point: PointName,
    pub most_devices: Option<u32>,
    pub issued: Timestamp,
    pub expires: Timestamp,
    pub revoked: Option<Timestamp>,
}
