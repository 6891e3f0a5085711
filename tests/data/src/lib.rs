//! The public data that tests and benches read where it is at hand: the folder `RHUMB_DATA`, else `../shared/data` beside
//! the project. Who does not find it says so and does without.

use serde_json::Value;
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// A folder of the public data; `None`, with a notice, where it is not there.
pub fn folder(name: &str) -> Option<PathBuf> {
    there(data().join(name))
}

/// The input of a fault that somebody reported (`cases/open.json` beside the data folder); `None`, with a notice, where the
/// cases are not there.
///
/// # Panics
/// The cases can be read and have no such one.
pub fn case(id: &str) -> Option<Value> {
    let path = there(data().join("../cases/open.json"))?;
    let cases: Vec<Value> = serde_json::from_slice(&fs::read(&path).expect("a file that is there can be read"))
        .expect("the cases are a list of JSON objects");
    Some(cases.into_iter().find(|c| c["id"] == id).expect("the case is one of the list")["input"].clone())
}

/// A file, or the one beside it whose name ends in `.gz`, unpacked if it begins as gzip does; `None` where neither is there.
///
/// # Errors
/// It cannot be read or unpacked.
pub fn bytes(folder: &Path, file: &str) -> io::Result<Option<Vec<u8>>> {
    let plain = folder.join(file);
    let packed = plain.with_added_extension("gz");
    let Some(found) = [plain, packed].into_iter().find(|path| path.exists()) else { return Ok(None) };
    let read = fs::read(found)?;
    if !read.starts_with(&[0x1f, 0x8b]) {
        return Ok(Some(read));
    }
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(&read[..]).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// As `bytes`, as text.
///
/// # Errors
/// As `bytes`, or it is not UTF-8.
pub fn text(folder: &Path, file: &str) -> io::Result<Option<String>> {
    let Some(bytes) = bytes(folder, file)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

fn data() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    std::env::var_os("RHUMB_DATA").map_or_else(beside, PathBuf::from)
}

fn there(path: PathBuf) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there; set RHUMB_DATA to the folder of the public data", path.display());
    None
}
