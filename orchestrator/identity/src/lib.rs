//! Identity of agents: the federation's own certificate authority, requests for certificates, and what a certificate says.
//!
//! A certificate names its point by the URI `spiffe://DOMAIN/point/NAME` (SPIFFE ID, X.509-SVID), lives for hours, and its
//! key never leaves the agent: a certificate is signed for a request (PKCS #10) whose signature proves the key.
//!
//! Invariants
//! - Of a request nothing but the public key is taken: name, life and use are the authority's words.
//! - A name is read from a certificate only where it has exactly one URI of that form.

mod authority;
mod certificate;
mod join;
mod key;

pub use authority::{Authority, Issued};
pub use certificate::{Identity, Serial, fingerprint};
pub use join::{JoinSecret, JoinToken};
pub use key::AgentKey;

/// Why an identity was not made or not believed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot make {what}")]
    Make { what: &'static str, source: rcgen::Error },
    #[error("the request for a certificate is not one, or its signature does not match its key")]
    Request(#[source] rcgen::Error),
    #[error("cannot read {what}: {reason}")]
    Read { what: &'static str, reason: String },
    #[error("the certificate names {found} points of {domain}, and must name one")]
    Names { domain: String, found: usize },
    #[error("a join token is written rhumbjoin_SECRET_FINGERPRINT: copy it whole, as it was shown")]
    Token,
    #[error("{0} is not within what a certificate can say")]
    Instant(jiff::Timestamp),
}

type Result<T> = std::result::Result<T, IdentityError>;
