//! Output of a run: copied into a file that holds valid UTF-8 without NUL, up to a limit, so that any part of it can be sent
//! as text and its bytes counted alike on both ends.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

/// Copies until `output` ends. What cannot be kept is read all the same, so that the command never waits for it.
pub(crate) fn keep(mut output: impl Read, mut file: File, limit: u64) {
    let mut buffer = vec![0; 64 << 10];
    let mut text = Text::default();
    let mut left = Some(limit);
    let mut save = |bytes: &[u8]| match left {
        None => {}
        Some(room) if bytes.len() as u64 <= room => {
            left = file.write_all(bytes).is_ok().then_some(room - bytes.len() as u64);
        }
        Some(room) => {
            let text = String::from_utf8_lossy(bytes);
            let _ = file.write_all(&text.as_bytes()[..text.floor_char_boundary(room as usize)]);
            let _ = writeln!(file, "\n[output beyond {limit} bytes is not kept]");
            left = None;
        }
    };
    loop {
        match output.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => save(text.take(&buffer[..length]).as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    save(text.rest().as_bytes());
}

/// Makes text of bytes that come in pieces.
#[derive(Debug, Default)]
struct Text {
    /// The beginning of a character whose end has not come yet.
    begun: Vec<u8>,
}

impl Text {
    fn take(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.begun.len());
        let mut rest = Vec::new();
        let mut chunks = self.begun.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            // at the very end it may be a character cut in two
            if chunks.peek().is_none() && is_begun(invalid) {
                rest = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.begun = rest;
        without_nul(text)
    }

    fn rest(&mut self) -> String {
        let begun = std::mem::take(&mut self.begun);
        without_nul(String::from_utf8_lossy(&begun).into_owned())
    }
}

fn is_begun(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// At most `most` bytes from `from` on, cut between characters; empty where there is no more, or no log.
pub(crate) fn read(path: &Path, from: u64, most: usize) -> io::Result<String> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        other => other?,
    };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most as u64).read_to_end(&mut bytes)?;
    let whole = match std::str::from_utf8(&bytes) {
        Ok(_) => bytes.len(),
        Err(error) => error.valid_up_to(),
    };
    bytes.truncate(whole);
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(output: &[u8], limit: u64) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        keep(output, File::create(&path).unwrap(), limit);
        read(&path, 0, usize::MAX).unwrap()
    }

    #[test]
    fn output_beyond_the_limit_is_cut_and_said_so() {
        assert_eq!(kept(b"hello", 5), "hello");
        let cut = kept("ab\u{e9}def".as_bytes(), 3);
        assert_eq!(cut, "ab\n[output beyond 3 bytes is not kept]\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(kept(b"a\0b\xffc\xe4\xb8", 100), "a\u{fffd}b\u{fffd}c\u{fffd}");
    }

    #[test]
    fn a_log_is_read_in_whole_characters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "\u{4f60}\u{597d}").unwrap();
        assert_eq!(read(&path, 0, 4).unwrap(), "\u{4f60}");
        assert_eq!(read(&path, 3, 4).unwrap(), "\u{597d}");
        assert_eq!(read(&path, 6, 4).unwrap(), "");
        assert_eq!(read(&folder.path().join("none"), 0, 4).unwrap(), "");
    }

    proptest! {
        #[test]
        fn cutting_the_output_anywhere_changes_nothing(text in "\\PC{0,40}", cuts in proptest::collection::vec(1..7usize, 0..40)) {
            let mut state = Text::default();
            let mut rest = text.as_bytes();
            let mut whole = String::new();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                whole.push_str(&state.take(piece));
                rest = after;
            }
            whole.push_str(&state.take(rest));
            whole.push_str(&state.rest());
            prop_assert_eq!(whole, text);
        }
    }
}
