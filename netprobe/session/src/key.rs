//! The shared key of an authenticated session.

use std::fmt;

use ring::hmac;
use subtle::ConstantTimeEq;

/// Octets of the truncated HMAC in a packet.
pub(crate) const TAG_BYTES: usize = 16;
/// Fewer octets of key than of tag would make the key the easier thing to guess.
const LEAST_KEY_BYTES: usize = 16;

/// What a proof is a tag of begins with this.
const PROOF: &[u8] = b"rhumb/probe/proof";

/// HMAC-SHA-256 key, truncated tags (RFC 8762, section 4.4). Its `Debug` shows nothing of the key.
#[derive(Clone)]
pub struct Key(hmac::Key);

/// Why octets are no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Too short.
    #[error("a probe key of {found} octets is too short; use at least {LEAST_KEY_BYTES}")]
    TooShort {
        /// Octets found.
        found: usize,
    },
}

impl Key {
    /// A key of at least 16 octets.
    pub fn new(octets: &[u8]) -> Result<Self, KeyError> {
        if octets.len() < LEAST_KEY_BYTES {
            return Err(KeyError::TooShort { found: octets.len() });
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, octets)))
    }

    /// Proof of having the key, for whoever drew `challenge` at random. Never the tag of a packet: those begin otherwise.
    pub fn prove(&self, challenge: &[u8; TAG_BYTES]) -> [u8; TAG_BYTES] {
        self.tag(&[PROOF, challenge].concat())
    }

    /// Whether that is the proof asked for.
    pub fn is_proof(&self, challenge: &[u8; TAG_BYTES], proof: &[u8; TAG_BYTES]) -> bool {
        self.matches(&[PROOF, challenge].concat(), proof)
    }

    pub(crate) fn tag(&self, message: &[u8]) -> [u8; TAG_BYTES] {
        let full = hmac::sign(&self.0, message);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&full.as_ref()[..TAG_BYTES]);
        tag
    }

    /// Whether `tag` belongs to `message`, in a time that tells nothing about where they differ.
    pub(crate) fn matches(&self, message: &[u8], tag: &[u8]) -> bool {
        self.tag(message).ct_eq(tag).into()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_truncated_hmac_sha_256() {
        // RFC 4231, test case 6: a key of 131 octets 0xaa; the first 16 octets of its tag
        let key = Key::new(&[0xaa; 131]).unwrap();
        let message = b"Test Using Larger Than Block-Size Key - Hash Key First";
        let expected = [0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f, 0x0d, 0x8a, 0x26, 0xaa, 0xcb, 0xf5, 0xb7, 0x7f];
        assert_eq!(key.tag(message), expected);
        assert!(key.matches(message, &expected));
        assert!(!key.matches(message, &[0; 16]));
        assert!(!key.matches(message, &expected[..15]));
    }

    #[test]
    fn short_keys_are_refused_and_none_is_printed() {
        assert_eq!(Key::new(b"secret").unwrap_err(), KeyError::TooShort { found: 6 });
        assert_eq!(format!("{:?}", Key::new(b"a secret of many octets").unwrap()), "Key(..)");
    }
}
