//! Secrets of a route, and what proves that one has them.

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;

/// 32 octets that are never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    #[cfg(test)]
    pub(crate) fn from_octets(octets: [u8; 32]) -> Self {
        Self(octets)
    }

    /// `None`: not base64 of 32 octets. The text is never part of an error.
    pub(crate) fn from_base64(text: &str) -> Option<Self> {
        Some(Self(STANDARD.decode(text).ok()?.try_into().ok()?))
    }

    pub(crate) fn octets(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Which end of a hop speaks; keeps one from answering with what the other said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Caller,
    Listener,
}

/// Proof of having `secret` in this very conversation (HMAC-SHA256, RFC 2104). A route without a secret proves nothing
/// and uses the empty key, so that a hop with and a hop without one never agree.
pub(crate) fn proof(secret: Option<&Secret>, side: Side, transcript: &[&[u8]]) -> [u8; 32] {
    let tag = hmac::sign(&key(secret), &message(side, transcript));
    tag.as_ref().try_into().expect("SHA-256 gives 32 octets")
}

/// Whether `given` is that proof, compared in constant time.
pub(crate) fn proven(secret: Option<&Secret>, side: Side, transcript: &[&[u8]], given: &[u8; 32]) -> bool {
    hmac::verify(&key(secret), &message(side, transcript), given).is_ok()
}

fn key(secret: Option<&Secret>) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.map_or(&[], |secret| secret.octets()))
}

/// Each part behind its length, so that no two transcripts read the same.
fn message(side: Side, transcript: &[&[u8]]) -> Vec<u8> {
    let mut message = vec![side as u8];
    for part in transcript {
        message.extend_from_slice(&(part.len() as u64).to_be_bytes());
        message.extend_from_slice(part);
    }
    message
}

/// `None`: the operating system gives no random octets.
pub(crate) fn random<const N: usize>() -> Option<[u8; N]> {
    let mut octets = [0; N];
    SystemRandom::new().fill(&mut octets).ok()?;
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_secret_side_and_conversation_only() {
        let (ours, other) = (Secret([1; 32]), Secret([2; 32]));
        let given = proof(Some(&ours), Side::Caller, &[b"ab", b"c"]);
        assert!(proven(Some(&ours), Side::Caller, &[b"ab", b"c"], &given));
        assert!(!proven(Some(&ours), Side::Listener, &[b"ab", b"c"], &given));
        assert!(!proven(Some(&ours), Side::Caller, &[b"a", b"bc"], &given));
        assert!(!proven(Some(&other), Side::Caller, &[b"ab", b"c"], &given));
        assert!(!proven(None, Side::Caller, &[b"ab", b"c"], &given));
    }

    #[test]
    fn a_secret_is_32_octets_and_shows_nothing() {
        assert!(Secret::from_base64("AAAA").is_none());
        assert!(Secret::from_base64("not base64").is_none());
        let secret = Secret::from_base64(&STANDARD.encode([5; 32])).unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
