//! Join tokens: good once, for one point, and with the authority's fingerprint, so that an agent knows whom it joins.

use crate::{IdentityError, Result};
use std::{fmt, str::FromStr};

const PREFIX: &str = "rhumbjoin_";

/// 128 random bits: what is kept of them is a hash.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinSecret(String);

impl fmt::Debug for JoinSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinSecret(redacted)")
    }
}

impl JoinSecret {
    pub fn new(random: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(random)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for JoinSecret {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self> {
        if is_hex(text, 32) { Ok(Self(text.to_owned())) } else { Err(IdentityError::Token) }
    }
}

/// What an agent is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinToken {
    pub secret: JoinSecret,
    /// Of the authority that the agent is to trust: SHA-256 of its certificate, in hexadecimal.
    pub fingerprint: String,
}

impl JoinToken {
    /// The token as it is shown, once.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.secret.0, self.fingerprint)
    }
}

impl FromStr for JoinToken {
    type Err = IdentityError;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.trim().strip_prefix(PREFIX).and_then(|rest| rest.split_once('_'));
        let (secret, fingerprint) = parts.ok_or(IdentityError::Token)?;
        if !is_hex(fingerprint, 64) {
            return Err(IdentityError::Token);
        }
        Ok(Self { secret: secret.parse()?, fingerprint: fingerprint.to_owned() })
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
