//! Documents as text: YAML or JSON, read strictly into plain JSON values and from there into the types of the field.
//!
//! What is refused here never reaches a type: duplicate keys, numbers that are not finite, keys that are not text,
//! control characters, YAML tags, a second document, and anything deeper or larger than the limits below. Every refusal
//! points at the place and names the remedy.

mod syntax;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use serde_path_to_error::Segment;
use std::fmt;

/// Largest order document.
pub const MAX_BYTES: usize = 1 << 20;
/// Largest federation file.
pub const MAX_LARGE_BYTES: usize = 64 << 20;
/// Deepest nesting of lists and maps.
pub const MAX_DEPTH: usize = 64;

/// One thing wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    /// JSON pointer (RFC 6901) to the place; of a missing key, to where it belongs; empty: the whole document.
    pub pointer: String,
    /// What was found there and what to do.
    pub reason: String,
}

impl Problem {
    pub fn new(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), reason: reason.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pointer = if self.pointer.is_empty() { "the document" } else { &self.pointer };
        write!(f, "{pointer}: {}", self.reason)
    }
}

/// Everything found wrong with a document; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", shown(problems))]
pub struct DocumentError {
    pub problems: Vec<Problem>,
}

fn shown(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl DocumentError {
    pub fn one(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { problems: vec![Problem::new(pointer, reason)] }
    }

    /// `Ok` where nothing is wrong.
    pub fn unless_empty(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }
}

/// What a text is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// YAML, of which JSON is a part.
    Yaml,
    Json,
}

/// Reads YAML or JSON of at most `MAX_BYTES`.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, DocumentError> {
    convert(value(text, Form::Yaml, MAX_BYTES)?)
}

/// Reads YAML or JSON of at most `MAX_LARGE_BYTES`.
pub fn read_large<T: DeserializeOwned>(text: &str) -> Result<T, DocumentError> {
    convert(value(text, Form::Yaml, MAX_LARGE_BYTES)?)
}

/// Reads JSON of at most `MAX_BYTES`, such as a request body that says it is JSON.
pub fn read_json<T: DeserializeOwned>(text: &str) -> Result<T, DocumentError> {
    convert(value(text, Form::Json, MAX_BYTES)?)
}

/// A strict reading of `text`, at most `limit` bytes, into a plain value.
pub fn value(text: &str, form: Form, limit: usize) -> Result<Value, DocumentError> {
    if text.len() > limit {
        let reason = format!("{} bytes are too many: use at most {limit}", text.len());
        return Err(DocumentError::one("", reason));
    }
    syntax::parse(text, form)
}

/// Like `convert`, for documents that are a map: serde would take a list of a struct's fields too.
pub fn convert_map<T: DeserializeOwned>(value: Value) -> Result<T, DocumentError> {
    if value.is_object() { convert(value) } else { Err(DocumentError::one("", "not a map: write keys and values")) }
}

/// A plain value as `T`; an error points at the place in the value.
pub fn convert<T: DeserializeOwned>(value: Value) -> Result<T, DocumentError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let pointer = pointer(error.path());
        let (key, reason) = explain(&error.into_inner().to_string());
        let pointer = match key {
            Some(key) => format!("{}/{}", pointer_without(&pointer, &key), escape(&key)),
            None => pointer,
        };
        DocumentError::one(pointer, reason)
    })
}

/// The pointer's token for a key (RFC 6901).
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.extend(["/", &index.to_string()]),
            Segment::Map { key } => pointer.extend(["/", &escape(key)]),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

/// Some errors of a key come with the key in their path, some without.
fn pointer_without<'a>(pointer: &'a str, key: &str) -> &'a str {
    pointer.strip_suffix(&format!("/{}", escape(key))).unwrap_or(pointer)
}

/// Turns serde's message into one that names the remedy, with the key that it is about where it is about a key.
fn explain(message: &str) -> (Option<String>, String) {
    if let Some((field, known)) = parts(message, "unknown field `") {
        let reason = if known.is_empty() {
            format!("unknown key \"{}\": remove it", syntax::shown(&field))
        } else {
            format!("unknown key \"{}\": {}", syntax::shown(&field), nearest(&field, &known))
        };
        return (Some(field), reason);
    }
    if let Some((variant, known)) = parts(message, "unknown variant `") {
        return (None, format!("\"{}\" is unknown: {}", syntax::shown(&variant), nearest(&variant, &known)));
    }
    if let Some((field, _)) = parts(message, "missing field `") {
        let reason = format!("\"{field}\" is missing: add it");
        return (Some(field), reason);
    }
    let mismatch = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((found, wanted)) = mismatch.and_then(|m| m.rsplit_once(", expected ")) {
        let found: String = found.chars().take(80).collect();
        return (None, format!("{found} does not stand here: use {}", wanted_in_words(wanted)));
    }
    (None, message.chars().take(400).collect())
}

fn wanted_in_words(wanted: &str) -> &str {
    match wanted {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number of 0 or more",
        "a string" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        w if w.starts_with("struct ") || w == "a map" => "a map of keys and values",
        other => other,
    }
}

/// The first backquoted word after `start`, and those that follow it.
fn parts(message: &str, start: &str) -> Option<(String, Vec<String>)> {
    let rest = message.strip_prefix(start)?;
    // the word itself may hold a backquote; what follows it never does
    let end = ["`, expected ", "`, there are no "].iter().filter_map(|end| rest.find(end)).min();
    let (word, rest) = match end {
        Some(end) => rest.split_at(end),
        None => (rest.strip_suffix('`')?, ""),
    };
    let known = rest.split('`').skip(2).step_by(2).map(str::to_owned).collect();
    Some((word.to_owned(), known))
}

/// `use "the nearest"`, or all where none is near.
pub fn nearest<S: AsRef<str>>(word: &str, known: &[S]) -> String {
    let word: String = word.chars().take(64).collect::<String>().to_lowercase();
    let near = known
        .iter()
        .map(|k| (strsim::damerau_levenshtein(&word, &k.as_ref().to_lowercase()), k.as_ref()))
        .filter(|(distance, k)| *distance <= 1 + k.chars().count().max(word.chars().count()) / 2)
        .min_by_key(|(distance, _)| *distance);
    match near {
        Some((_, k)) => format!("the nearest known is \"{k}\""),
        None => format!("use one of {}", known.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")),
    }
}
