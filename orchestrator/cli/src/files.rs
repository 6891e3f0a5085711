//! Files that commands read: whole, within a limit, as text.

use crate::exit::{CliError, Problem};
use flate2::read::MultiGzDecoder;
use rhumb_model::{DocumentError, FederationFile, Order, document};
use serde::de::DeserializeOwned;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

/// A text of at most `limit` bytes; `-` is standard input.
pub fn text(path: &Path, limit: usize) -> Result<String, CliError> {
    let shown = if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() };
    let failed = |e: io::Error| CliError::Usage(format!("cannot read {shown}: {e}"));
    let reader: Box<dyn Read> =
        if path.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path).map_err(failed)?) };
    let mut bytes = Vec::new();
    reader.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > limit {
        return Err(CliError::Usage(format!("{shown} has more than {limit} bytes: use a smaller file")));
    }
    String::from_utf8(bytes).map_err(|e| {
        CliError::Usage(format!("{shown} is not UTF-8 text from byte {} on", e.utf8_error().valid_up_to()))
    })
}

/// A file, or the packed one beside it whose name ends in `.gz`; `None` where neither is there.
pub fn unpacked(path: &Path, limit: usize) -> Result<Option<String>, CliError> {
    let beside = path.with_added_extension("gz");
    if path.exists() || !beside.exists() {
        return path.exists().then(|| text(path, limit)).transpose();
    }
    if !is_packed(&beside)? {
        let shown = beside.display();
        return Err(CliError::Usage(format!("cannot unpack {shown}: it is no gzip file: pack it, or drop its .gz")));
    }
    packed_text(&beside, limit).map(Some)
}

/// Traces and other tables, unpacked.
pub const MAX_TABLE_BYTES: usize = 256 << 20;

/// A text that may be packed with gzip (known by its first bytes), of at most `limit` bytes unpacked.
pub fn packed_text(path: &Path, limit: usize) -> Result<String, CliError> {
    String::from_utf8(packed_bytes(path, limit)?).map_err(|e| {
        let from = e.utf8_error().valid_up_to();
        CliError::Usage(format!("{} is not UTF-8 text from byte {from} on", path.display()))
    })
}

/// As `packed_text`, whatever the bytes are.
pub fn packed_bytes(path: &Path, limit: usize) -> Result<Vec<u8>, CliError> {
    let shown = path.display();
    let failed = |e: io::Error| CliError::Usage(format!("cannot read {shown}: {e}"));
    let file = File::open(path).map_err(failed)?;
    let packed = is_packed(path)?;
    let reader: Box<dyn Read> = if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut bytes = Vec::new();
    reader.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > limit {
        return Err(CliError::Usage(format!("{shown} has more than {limit} bytes unpacked: use a smaller file")));
    }
    Ok(bytes)
}

/// Whether the file begins as gzip does.
fn is_packed(path: &Path) -> Result<bool, CliError> {
    let failed = |e: io::Error| CliError::Usage(format!("cannot read {}: {e}", path.display()));
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    Ok(file.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]))
}

/// An order document as text; the server reads it.
pub fn order_text(path: &Path) -> Result<String, CliError> {
    text(path, document::MAX_BYTES)
}

pub fn order(path: &Path) -> Result<Order, CliError> {
    Order::read(&order_text(path)?).map_err(|e| invalid(path, &e))
}

pub fn federation(path: &Path) -> Result<FederationFile, CliError> {
    FederationFile::read(&text(path, document::MAX_LARGE_BYTES)?).map_err(|e| invalid(path, &e))
}

/// Any other document.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, CliError> {
    document::read_large(&text(path, document::MAX_LARGE_BYTES)?).map_err(|e| invalid(path, &e))
}

fn invalid(path: &Path, error: &DocumentError) -> CliError {
    CliError::Problem(Box::new(Problem::document(&path.display().to_string(), error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("order.yaml");
        std::fs::write(&path, content).unwrap();
        (folder, path)
    }

    #[test]
    fn what_is_too_large_or_not_text_or_not_there_is_wrong_usage() {
        for content in [vec![b'x'; document::MAX_BYTES + 1], vec![0xff, 0xfe]] {
            let (_folder, path) = file(&content);
            assert!(matches!(order_text(&path), Err(CliError::Usage(_))));
        }
        assert!(matches!(order_text(Path::new("/no/such/file")), Err(CliError::Usage(_))));
    }

    #[test]
    fn an_invalid_order_names_its_field() {
        let (_folder, path) = file(b"name: x\nclass: training\ncomponents: []\nflwos: []\n");
        let shown = order(&path).unwrap_err().to_string();
        assert!(shown.contains("/flwos") && shown.contains("order.yaml"), "{shown}");
    }

    #[test]
    fn a_packed_file_reads_as_the_plain_one_would() {
        let (_folder, plain) = file(b"name: x\n");
        let packed = plain.with_added_extension("gz");
        let mut packer = flate2::write::GzEncoder::new(File::create(&packed).unwrap(), flate2::Compression::default());
        io::Write::write_all(&mut packer, b"name: packed\n").unwrap();
        packer.finish().unwrap();
        assert_eq!(unpacked(&plain, 100).unwrap().as_deref(), Some("name: x\n"));
        std::fs::remove_file(&plain).unwrap();
        assert_eq!(unpacked(&plain, 100).unwrap().as_deref(), Some("name: packed\n"));
        assert!(matches!(unpacked(&plain, 5), Err(CliError::Usage(_))));
        std::fs::write(&packed, b"not packed").unwrap();
        assert!(matches!(unpacked(&plain, 100), Err(CliError::Usage(_))));
        std::fs::remove_file(&packed).unwrap();
        assert_eq!(unpacked(&plain, 100).unwrap(), None);
    }
}
