//! A value that may not be known, and the words in which tools write values.

use serde::{Serialize, Serializer};
use std::fmt;

/// One value of a device. Written as the value itself, or as `{"unknown": "why"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<T> {
    Known(T),
    Unknown(Why),
}

/// Why a value is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The source says nothing of it.
    NotShown,
    /// The source says, in these words, that there is none.
    Said(String),
    /// There is a text that is no such value.
    Unreadable(String),
    /// A number that no device can have: the mark of a missing value in some tools.
    Impossible(String),
    /// What is there does not settle it.
    Unsettled(String),
    /// The tool shortened the text.
    Shortened(String),
    /// A call failed.
    Failed { call: String, error: String },
    /// A call gave no answer within the time it has.
    NoAnswer { call: String, after_ms: u64 },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotShown => f.write_str("not shown"),
            Self::Said(text) => write!(f, "the source says {text:?}"),
            Self::Unreadable(text) => write!(f, "{text:?} is no such value"),
            Self::Impossible(text) => write!(f, "{text:?} is out of range"),
            Self::Unsettled(text) => f.write_str(text),
            Self::Shortened(text) => write!(f, "{text:?} is shortened"),
            Self::Failed { call, error } => write!(f, "{call}: {error}"),
            Self::NoAnswer { call, after_ms } => write!(f, "{call}: no answer after {after_ms} ms"),
        }
    }
}

impl<T> Default for Value<T> {
    fn default() -> Self {
        Self::Unknown(Why::NotShown)
    }
}

impl<T> Value<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// Whether the source says nothing of it at all; such values are left out where a model is written.
    pub fn is_not_shown(&self) -> bool {
        matches!(self, Self::Unknown(Why::NotShown))
    }

    /// This, or where it is not known the other; a reason is kept before none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Known(value), _) | (_, Self::Known(value)) => Self::Known(value),
            (Self::Unknown(Why::NotShown), other) => other,
            (this, _) => this,
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Value<U> {
        match self {
            Self::Known(value) => Value::Known(f(value)),
            Self::Unknown(why) => Value::Unknown(why),
        }
    }
}

impl<T: Serialize> Serialize for Value<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(value) => value.serialize(s),
            Self::Unknown(why) => s.collect_map([("unknown", why.to_string())]),
        }
    }
}

/// Most of a text that is kept of what could not be read.
const KEPT: usize = 120;

/// Longest text that is a value: a command line.
const LONGEST: usize = 4_096;

/// The first characters of a text, for notes and reasons.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(KEPT).collect()
}

/// A text that stands for no value, without the brackets that some tools put around it.
fn none_word(text: &str) -> Option<String> {
    let bare = text.trim().trim_start_matches('[').trim_end_matches(']').trim();
    let lower = bare.to_ascii_lowercase();
    let is_none = matches!(
        lower.as_str(),
        "n/a" | "na" | "-" | "none" | "err!" | "unknown" | "unknown error" | "not supported" | "unsupported"
    ) || ["not available", "requested functionality", "deprecated", "gpu is lost", "gpu requires reset"]
        .iter()
        .any(|word| lower.starts_with(word))
        || lower.starts_with("function not");
    is_none.then(|| short(bare))
}

/// The text as a value of its own.
pub(crate) fn text(raw: &str) -> Value<String> {
    let raw = raw.trim();
    match none_word(raw) {
        _ if raw.is_empty() => Value::default(),
        Some(word) => Value::Unknown(Why::Said(word)),
        None if raw.len() > LONGEST => Value::Unknown(Why::Shortened(short(raw))),
        None => Value::Known(raw.to_owned()),
    }
}

/// The text, read by `parse`.
pub(crate) fn parsed<T>(raw: &str, parse: impl FnOnce(&str) -> Option<T>) -> Value<T> {
    match text(raw) {
        Value::Known(known) => parse(&known).map_or_else(|| Value::Unknown(Why::Unreadable(known)), Value::Known),
        Value::Unknown(why) => Value::Unknown(why),
    }
}

/// A number of any unit, in thousandths: `98W`, `67.03 W`, `(43.0°C)`.
fn milli(raw: &str) -> Option<(i64, &str)> {
    let raw = raw.trim();
    let end = raw.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+')).unwrap_or(raw.len());
    let (number, unit) = raw.split_at(end);
    let (sign, digits) = number.strip_prefix('-').map_or((1, number.strip_prefix('+').unwrap_or(number)), |d| (-1, d));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(part) {
        return None;
    }
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    // what does not fit is out of any range
    let whole: i64 = whole.parse().unwrap_or(i64::MAX);
    let part: i64 = part.parse().ok()?;
    Some((sign * whole.saturating_mul(1_000).saturating_add(part).min(i64::MAX - 1), unit.trim()))
}

fn bounded(raw: &str, units: &[&str], most_milli: i64) -> Value<i64> {
    let read = parsed(raw, |known| {
        let (number, unit) = milli(known)?;
        units.iter().any(|u| unit.eq_ignore_ascii_case(u)).then_some(number)
    });
    match read {
        // what no counter of this kind can say is the mark of a value that is missing
        Value::Known(number) if number.abs() > most_milli => Value::Unknown(Why::Impossible(short(raw))),
        read => read,
    }
}

/// Percent, 0 to 100; rounded down.
pub(crate) fn percent(raw: &str) -> Value<u8> {
    match bounded(raw, &["", "%"], 100_000) {
        Value::Known(milli) if milli >= 0 => Value::Known((milli / 1_000) as u8),
        Value::Known(_) => Value::Unknown(Why::Impossible(short(raw))),
        Value::Unknown(why) => Value::Unknown(why),
    }
}

/// Watts as milliwatts; at most 10 kW.
pub(crate) fn watts(raw: &str) -> Value<u64> {
    match bounded(raw, &["", "W"], 10_000_000) {
        Value::Known(milli) if milli >= 0 => Value::Known(milli as u64),
        Value::Known(_) => Value::Unknown(Why::Impossible(short(raw))),
        Value::Unknown(why) => Value::Unknown(why),
    }
}

/// Degrees Celsius as thousandths; within 250 of zero.
pub(crate) fn celsius(raw: &str) -> Value<i64> {
    bounded(raw, &["", "C", "c", "\u{b0}C", "\u{b0}c"], 250_000)
}

/// Bytes; a bare number counts `unit`s. What a tool calls MB is what it divides by 2^20.
pub(crate) fn bytes(raw: &str, unit: u64) -> Value<u64> {
    parsed(raw, |known| {
        let end = known.find(|c: char| !c.is_ascii_digit()).unwrap_or(known.len());
        let (number, suffix) = known.split_at(end);
        let unit = match suffix.trim().to_ascii_lowercase().as_str() {
            "" => unit,
            "b" => 1,
            "kib" => 1 << 10,
            "mib" => MIB,
            "gib" => 1 << 30,
            "mb" if unit == MIB => MIB,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(unit)
    })
}

pub(crate) const MIB: u64 = 1 << 20;

/// A count.
pub(crate) fn count<T: std::str::FromStr>(raw: &str) -> Value<T> {
    parsed(raw, |known| known.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_kept_apart() {
        assert_eq!(watts("98W"), Value::Known(98_000));
        assert_eq!(watts("67.03 W"), Value::Known(67_030));
        assert_eq!(celsius("43.0\u{b0}C"), Value::Known(43_000));
        assert_eq!(celsius("-8 C"), Value::Known(-8_000));
        assert_eq!(bytes("81559MiB", 1), Value::Known(81_559 << 20));
        assert_eq!(bytes("65536", MIB), Value::Known(64 << 30));
        assert!(watts("98 MHz").known().is_none());
        assert_eq!(bytes("12 parsecs", 1), Value::Unknown(Why::Unreadable("12 parsecs".into())));
    }

    #[test]
    fn what_is_not_there_is_unknown_and_never_zero() {
        for raw in ["N/A", "[N/A]", "[Not Supported]", "ERR!", "-", "[Requested functionality has been deprecated]"] {
            assert!(matches!(percent(raw), Value::Unknown(Why::Said(_))), "{raw}");
        }
        assert_eq!(percent(""), Value::Unknown(Why::NotShown));
    }

    /// Marks of a missing value were shown as a use of 9.2e18 percent.
    #[test]
    fn a_mark_of_no_value_is_not_a_percentage() {
        for raw in ["9223372036854775794", "2147483632", "101", "-1"] {
            assert!(percent(raw).known().is_none(), "{raw}");
        }
        assert_eq!(percent("37 %"), Value::Known(37));
    }

    #[test]
    fn a_reason_is_kept_before_none() {
        let said = || Value::<u8>::Unknown(Why::Said("N/A".into()));
        assert_eq!(Value::default().or(said()), said());
        assert_eq!(said().or(Value::default()), said());
        assert_eq!(said().or(Value::Known(3)), Value::Known(3));
    }
}
