//! Secrets: the orchestrator's own, from which the legs' keys are derived, and the hashes of tokens.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rhumb_model::OrderId;
use rhumb_provision::desired::LegSecrets;
use ring::{aead, digest, hmac, rand::SecureRandom};
use std::{fmt, io, path::Path};

/// 32 octets that never leave the process.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

impl Secret {
    /// Reads the secret, or makes it (mode 0600) where the file does not exist.
    pub fn load(path: &Path) -> io::Result<Self> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) if bytes.len() == 32 => bytes,
            Ok(bytes) => {
                return Err(io::Error::other(format!("secret file has {} octets, 32 are needed", bytes.len())));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let bytes = random()?;
                write_private(path, &bytes)?;
                bytes.to_vec()
            }
            Err(e) => return Err(e),
        };
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Encrypts what only holders of this secret are to read (ChaCha20-Poly1305); `label` says what it is.
    pub fn seal(&self, label: &str, plain: &[u8]) -> io::Result<Vec<u8>> {
        let nonce: [u8; aead::NONCE_LEN] = octets()?;
        let mut sealed = plain.to_vec();
        let by = aead::Nonce::assume_unique_for_key(nonce);
        self.sealing(label)?.seal_in_place_append_tag(by, aead::Aad::from(label), &mut sealed).map_err(unsealable)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// What was sealed with this secret under the same label.
    pub fn unseal(&self, label: &str, sealed: &[u8]) -> io::Result<Vec<u8>> {
        let (nonce, body) =
            sealed.split_at_checked(aead::NONCE_LEN).ok_or_else(|| unsealable(ring::error::Unspecified))?;
        let by = aead::Nonce::try_assume_unique_for_key(nonce).map_err(unsealable)?;
        let mut body = body.to_vec();
        let plain = self.sealing(label)?.open_in_place(by, aead::Aad::from(label), &mut body).map_err(unsealable)?;
        Ok(plain.to_vec())
    }

    fn sealing(&self, label: &str) -> io::Result<aead::LessSafeKey> {
        let key = hmac::sign(&self.0, format!("rhumb/seal/{label}").as_bytes());
        aead::UnboundKey::new(&aead::CHACHA20_POLY1305, key.as_ref()).map(aead::LessSafeKey::new).map_err(unsealable)
    }

    /// By which agents know each other's probes.
    pub fn probe_base64(&self) -> String {
        BASE64_STANDARD.encode(hmac::sign(&self.0, b"rhumb/probe").as_ref())
    }

    pub fn leg(&self, order: OrderId, generation: u64, leg: u32) -> LegSecrets {
        let derive = |label: &str| {
            let tag = hmac::sign(&self.0, format!("rhumb/leg/{label}/{order}/{generation}/{leg}").as_bytes());
            BASE64_STANDARD.encode(tag.as_ref())
        };
        LegSecrets { hop_base64: derive("hop"), seal_base64: derive("seal") }
    }
}

fn unsealable(_: ring::error::Unspecified) -> io::Error {
    io::Error::other("what was sealed cannot be read with this secret")
}

/// 32 octets from the system's generator.
pub fn random() -> io::Result<[u8; 32]> {
    octets()
}

/// Octets from the system's generator.
pub fn octets<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    ring::rand::SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("the system gave no random octets"))?;
    Ok(bytes)
}

/// A new token of 256 bits; shown once, stored as its hash only.
pub fn new_token() -> io::Result<String> {
    Ok(format!("rhumb_{}", base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(random()?)))
}

/// Writes a file that only its owner may read.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().expect("SHA-256 gives 32 octets")
}
