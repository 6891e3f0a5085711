//! An agent's key, and its request for a certificate.

use crate::{IdentityError, Result};
use rcgen::{CertificateParams, KeyPair};
use std::fmt;

/// ECDSA on P-256; made by the agent and kept there.
pub struct AgentKey(KeyPair);

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentKey(redacted)")
    }
}

impl AgentKey {
    pub fn generate() -> Result<Self> {
        KeyPair::generate().map(Self).map_err(|source| IdentityError::Make { what: "a key", source })
    }

    /// PKCS #8, PEM: for a file that only the agent can read.
    pub fn to_pem(&self) -> String {
        self.0.serialize_pem()
    }

    /// PKCS #10, PEM, signed with the key.
    pub fn request(&self) -> Result<String> {
        let make = |source| IdentityError::Make { what: "a request for a certificate", source };
        let request = CertificateParams::default().serialize_request(&self.0).map_err(make)?;
        request.pem().map_err(make)
    }
}
