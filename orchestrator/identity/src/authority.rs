//! The authority that signs agents' and orchestrators' certificates.

use crate::{
    IdentityError, Result,
    certificate::{Serial, fingerprint},
};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use rhumb_model::PointName;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::fmt;
use time::OffsetDateTime;

/// Clocks of agents may be behind by so much.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// A certificate of its own and the key to it.
pub struct Authority {
    domain: String,
    certificate: String,
    fingerprint: String,
    issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("domain", &self.domain)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// A certificate as it was signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// The certificate alone, PEM; who checks it knows the authority.
    pub pem: String,
    pub serial: Serial,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Authority {
    /// A new one for a trust domain, from now for `life`; with its key (PKCS #8, PEM), which is shown this once.
    pub fn create(domain: &str, now: Timestamp, life: SignedDuration) -> Result<(Self, String)> {
        let make = |source| IdentityError::Make { what: "a certificate authority", source };
        let key = KeyPair::generate().map_err(make)?;
        let mut params = params(now, life, "Rhumb authority")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.subject_alt_names = vec![uri(&format!("spiffe://{domain}"))?];
        let certificate = params.self_signed(&key).map_err(make)?.pem();
        let pem = key.serialize_pem();
        Ok((Self::load(domain, &certificate, &pem)?, pem))
    }

    pub fn load(domain: &str, certificate: &str, key: &str) -> Result<Self> {
        let read = |what| move |e: rcgen::Error| IdentityError::Read { what, reason: e.to_string() };
        let key = KeyPair::from_pem(key).map_err(read("the authority's key"))?;
        let issuer = Issuer::from_ca_cert_pem(certificate, key).map_err(read("the authority's certificate"))?;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|e| IdentityError::Read { what: "the authority's certificate", reason: e.to_string() })?;
        Ok(Self {
            domain: domain.to_owned(),
            certificate: certificate.to_owned(),
            fingerprint: fingerprint(&der),
            issuer,
        })
    }

    /// PEM: what others trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// SHA-256 of the certificate, in hexadecimal.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// For the key that the request proves: the certificate of a point's agent, good for both ends of a connection.
    pub fn sign_agent(
        &self,
        request: &str,
        point: &PointName,
        serial: Serial,
        now: Timestamp,
        life: SignedDuration,
    ) -> Result<Issued> {
        // whatever else the request asks for is not looked at
        let asked = CertificateSigningRequestParams::from_pem(request).map_err(IdentityError::Request)?;
        let mut params = leaf(now, life, serial, point.as_str())?;
        params.subject_alt_names = vec![uri(&format!("spiffe://{}/point/{point}", self.domain))?];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let signing = CertificateSigningRequestParams { params, public_key: asked.public_key };
        let certificate = signing
            .signed_by(&self.issuer)
            .map_err(|source| IdentityError::Make { what: "an agent's certificate", source })?;
        issued(&certificate.pem(), serial, now, life)
    }

    /// An orchestrator's certificate for the names under which agents reach it, and its key (PEM).
    pub fn sign_server(
        &self,
        names: &[String],
        serial: Serial,
        now: Timestamp,
        life: SignedDuration,
    ) -> Result<(Issued, String)> {
        let make = |source| IdentityError::Make { what: "an orchestrator's certificate", source };
        let key = KeyPair::generate().map_err(make)?;
        let mut params = leaf(now, life, serial, "Rhumb orchestrator")?;
        params.subject_alt_names = CertificateParams::new(names.to_vec()).map_err(make)?.subject_alt_names;
        params.subject_alt_names.push(uri(&format!("spiffe://{}/orchestrator", self.domain))?);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer).map_err(make)?;
        Ok((issued(&certificate.pem(), serial, now, life)?, key.serialize_pem()))
    }
}

fn issued(pem: &str, serial: Serial, now: Timestamp, life: SignedDuration) -> Result<Issued> {
    let not_before = now.checked_sub(SKEW).map_err(|_| IdentityError::Instant(now))?;
    Ok(Issued { pem: pem.to_owned(), serial, not_before, not_after: later(now, life)? })
}

fn leaf(now: Timestamp, life: SignedDuration, serial: Serial, name: &str) -> Result<CertificateParams> {
    let mut params = params(now, life, name)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.serial_number = Some(SerialNumber::from_slice(&serial.octets()));
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn params(now: Timestamp, life: SignedDuration, name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = instant(now.checked_sub(SKEW).map_err(|_| IdentityError::Instant(now))?)?;
    params.not_after = instant(later(now, life)?)?;
    Ok(params)
}

/// Certificates tell time in whole seconds.
fn later(now: Timestamp, life: SignedDuration) -> Result<Timestamp> {
    let at = now.checked_add(life).map_err(|_| IdentityError::Instant(now))?;
    Timestamp::from_second(at.as_second()).map_err(|_| IdentityError::Instant(now))
}

fn instant(at: Timestamp) -> Result<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(at.as_second()).map_err(|_| IdentityError::Instant(at))
}

fn uri(text: &str) -> Result<SanType> {
    let text = text.try_into().map_err(|source| IdentityError::Make { what: "a name in a certificate", source })?;
    Ok(SanType::URI(text))
}
