//! Probe keys from a file or the environment; never from the command line, which every user of a machine can read.

use std::path::Path;

use rhumb_probe_session::Key;

use crate::ProbeError;

/// Reads a probe key: the file's octets without white space at the end.
pub async fn read_key(path: &Path) -> Result<Key, ProbeError> {
    let octets = tokio::fs::read(path).await.map_err(|source| ProbeError::ReadKey { path: path.to_owned(), source })?;
    Key::new(octets.trim_ascii_end()).map_err(|source| ProbeError::Key { path: path.to_owned(), source })
}

/// Takes a probe key from an environment variable; `None` if it is not set.
pub fn key_from_env(name: &'static str) -> Result<Option<Key>, ProbeError> {
    let Some(text) = std::env::var_os(name) else { return Ok(None) };
    let key = Key::new(text.as_encoded_bytes().trim_ascii_end());
    key.map(Some).map_err(|source| ProbeError::EnvKey { name, source })
}
