//! Files that are whole or absent, whatever is killed when.

use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// Whether a file must survive the loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Synced before it takes its name.
    Safe,
    /// Losing the newest version does no harm.
    Loose,
}

/// Replaces `path` in one step.
pub fn write(path: &Path, bytes: &[u8], keep: Keep) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    if keep == Keep::Safe {
        file.sync_data()?;
    }
    fs::rename(&draft, path)?;
    match path.parent() {
        Some(folder) if keep == Keep::Safe => sync_folder(folder),
        _ => Ok(()),
    }
}

/// As `write`, for what only the owner may read.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    // one that was left behind may have had other permissions
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&draft, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Makes the names in `folder` durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes `path` and what is missing above it; its own name is durable then.
pub fn make_folder(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

pub fn write_json<T: Serialize>(path: &Path, value: &T, keep: Keep) -> io::Result<()> {
    write(path, &serde_json::to_vec(value)?, keep)
}

/// `None`: there is no such file. A file that does not read as a `T` is an error.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Like `fs::remove_dir_all`, and well if there is none.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
