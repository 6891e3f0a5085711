//! Probe keys from a file or the environment; never from the command line, which every user of a machine can read.

use std::path::Path;

use rhumb_probe_session::Key;

use crate::ProbeError;

/// Fewer hexadecimal digits than this are a key as they stand.
const LEAST_DIGITS: usize = 32;

/// Reads a probe key from a file: hexadecimal digits of the key, or else its octets without white space at the end.
pub async fn read_key(path: &Path) -> Result<Key, ProbeError> {
    let octets = tokio::fs::read(path).await.map_err(|source| ProbeError::ReadKey { path: path.to_owned(), source })?;
    Key::new(&key_octets(&octets)).map_err(|source| ProbeError::Key { path: path.to_owned(), source })
}

/// Takes a probe key from an environment variable, written as in a file; `None` if it is not set.
pub fn key_from_env(name: &'static str) -> Result<Option<Key>, ProbeError> {
    let Some(text) = std::env::var_os(name) else { return Ok(None) };
    let key = Key::new(&key_octets(text.as_encoded_bytes()));
    key.map(Some).map_err(|source| ProbeError::EnvKey { name, source })
}

fn key_octets(text: &[u8]) -> Vec<u8> {
    let text = text.trim_ascii_end();
    let digits: Option<Vec<u8>> = text.iter().map(|octet| char::from(*octet).to_digit(16).map(|d| d as u8)).collect();
    match digits.map(|digits| digits.as_chunks::<2>().0.to_vec()) {
        Some(pairs) if text.len() >= LEAST_DIGITS && text.len().is_multiple_of(2) => {
            pairs.into_iter().map(|[high, low]| high << 4 | low).collect()
        }
        _ => text.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_keys_and_plain_ones_are_told_apart() {
        let hex = b"000102030405060708090A0b0c0d0e0f\n";
        assert_eq!(key_octets(hex), (0..16).collect::<Vec<u8>>());
        for plain in [&b"a key shared by both ends"[..], b"0123456789abcdef", b"000102030405060708090a0b0c0d0e0f0"] {
            assert_eq!(key_octets(&[plain, b" \n"].concat()), plain);
        }
    }
}
