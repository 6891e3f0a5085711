//! What a certificate says of who holds it.

use crate::{IdentityError, Result};
use jiff::Timestamp;
use rhumb_model::PointName;
use ring::digest;
use rustls_pki_types::CertificateDer;
use std::{fmt, str::FromStr};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// A certificate's number: 128 random bits, in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(u128);

impl Serial {
    /// Of 16 random octets.
    pub const fn new(random: [u8; 16]) -> Self {
        // positive whatever the octets are, and never zero (RFC 5280, 4.1.2.2)
        Self((u128::from_be_bytes(random) & (u128::MAX >> 1)) | (1 << 126))
    }

    pub(crate) fn octets(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Serial({self})")
    }
}

impl FromStr for Serial {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self> {
        let read = |reason: &str| IdentityError::Read { what: "a certificate's number", reason: reason.to_owned() };
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err(read("it has 32 hexadecimal digits"));
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|e| read(&e.to_string()))
    }
}

/// Who a certificate is for. Whether it may be believed, its chain and its time must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub point: PointName,
    pub serial: Serial,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Identity {
    /// Reads an agent's certificate of the trust domain.
    pub fn read(der: &CertificateDer, domain: &str) -> Result<Self> {
        let read = |reason: String| IdentityError::Read { what: "a certificate", reason };
        let (_, certificate) = X509Certificate::from_der(der).map_err(|e| read(e.to_string()))?;
        let names = certificate.subject_alternative_name().map_err(|e| read(e.to_string()))?;
        let prefix = format!("spiffe://{domain}/point/");
        let uris: Vec<&str> = (names.iter().flat_map(|n| &n.value.general_names))
            .filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None })
            .collect();
        let points: Vec<PointName> =
            uris.iter().filter_map(|uri| PointName::new(uri.strip_prefix(&prefix)?).ok()).collect();
        let [point] = points.as_slice() else {
            return Err(IdentityError::Names { domain: domain.to_owned(), found: points.len() });
        };
        // a second name of whatever kind would leave it open who this is
        if uris.len() != 1 {
            return Err(IdentityError::Names { domain: domain.to_owned(), found: uris.len() });
        }
        let serial = u128::try_from(&certificate.serial).map_err(|_| read("its number is too long".into()))?;
        let at = |seconds: i64| Timestamp::from_second(seconds).map_err(|e| read(e.to_string()));
        let validity = certificate.validity();
        Ok(Self {
            point: point.clone(),
            serial: Serial(serial),
            not_before: at(validity.not_before.timestamp())?,
            not_after: at(validity.not_after.timestamp())?,
        })
    }

    /// When to ask for the next one: at half its life.
    pub fn renew_at(&self) -> Timestamp {
        let (from, to) = (self.not_before.as_microsecond(), self.not_after.as_microsecond());
        Timestamp::from_microsecond(from + (to - from) / 2).unwrap_or(self.not_after)
    }
}

/// SHA-256 of a certificate, in hexadecimal.
pub fn fingerprint(der: &CertificateDer) -> String {
    let hash = digest::digest(&digest::SHA256, der);
    hash.as_ref().iter().fold(String::with_capacity(64), |all, octet| all + &format!("{octet:02x}"))
}
