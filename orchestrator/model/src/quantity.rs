//! Quantities by kind. Each is an integer of one unit; text with a unit is read exactly or refused.

use crate::ratio::Decimal;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("\"{text}\" is not {kind}: write {example}")]
    Form { text: String, kind: &'static str, example: &'static str },
    #[error("\"{text}\" has no unit: write {example}")]
    Unit { text: String, example: &'static str },
    #[error("\"{text}\" is out of range or finer than one {unit}")]
    Range { text: String, unit: &'static str },
}

/// Reads a text and refuses a bare number with the remedy.
pub(crate) fn text<'de, D: Deserializer<'de>>(d: D, expected: &dyn fmt::Display) -> Result<String, D::Error> {
    struct Visitor<'a>(&'a dyn fmt::Display);
    impl de::Visitor<'_> for Visitor<'_> {
        type Value = String;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
        fn visit_str<E: de::Error>(self, v: &str) -> Result<String, E> {
            Ok(v.to_owned())
        }
    }
    d.deserialize_any(Visitor(expected))
}

/// Splits `10Gbps` into its number and one of `units`, and scales it to the base unit.
fn parse(text: &str, spec: &Spec) -> Result<u64, QuantityError> {
    let shown = || text.chars().take(40).flat_map(char::escape_default).collect::<String>();
    let cut = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(text.len());
    let (number, unit) = text.split_at(cut);
    let form = || QuantityError::Form { text: shown(), kind: spec.kind, example: spec.example };
    let value: Decimal = number.parse().map_err(|_| form())?;
    if unit.is_empty() && !value.is_zero() {
        return Err(QuantityError::Unit { text: shown(), example: spec.example });
    }
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let (_, numerator, denominator) =
        spec.units.iter().find(|(name, ..)| *name == unit || (unit.is_empty() && value.is_zero())).ok_or_else(form)?;
    if value.is_negative() {
        return Err(form());
    }
    let range = || QuantityError::Range { text: shown(), unit: spec.base };
    let scaled = value.times(*numerator).ok_or_else(range)?;
    if scaled % denominator != 0 {
        return Err(range());
    }
    let scaled = u64::try_from(scaled / denominator).map_err(|_| range())?;
    if scaled > spec.max { Err(range()) } else { Ok(scaled) }
}

/// The largest unit that shows the value exactly.
fn show(value: u64, spec: &Spec, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let best = spec
        .units
        .iter()
        .filter(|(_, n, d)| *d == 1 && *n > 0 && value > 0 && i128::from(value) % n == 0)
        .max_by_key(|(_, n, _)| *n);
    match best {
        Some((name, n, _)) => write!(f, "{}{name}", i128::from(value) / n),
        None => write!(f, "{value}{}", spec.base),
    }
}

struct Spec {
    kind: &'static str,
    example: &'static str,
    base: &'static str,
    /// unit, then how many base units it is, as numerator and denominator
    units: &'static [(&'static str, i128, i128)],
    max: u64,
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with its unit: write {}", self.kind, self.example)
    }
}

macro_rules! quantity {
    ($(#[$doc:meta])* $type:ident, $from:ident, $get:ident, $spec:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $type(u64);

        impl $type {
            const SPEC: Spec = $spec;
            pub const ZERO: Self = Self(0);

            pub const fn $from(value: u64) -> Self {
                Self(value)
            }
            pub const fn $get(self) -> u64 {
                self.0
            }
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
            pub fn checked_add(self, other: Self) -> Option<Self> {
                self.0.checked_add(other.0).map(Self)
            }
            pub fn checked_sub(self, other: Self) -> Option<Self> {
                self.0.checked_sub(other.0).map(Self)
            }
            pub fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
            pub fn checked_mul(self, times: u64) -> Option<Self> {
                self.0.checked_mul(times).map(Self)
            }
        }

        impl FromStr for $type {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                parse(text, &Self::SPEC).map(Self)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                show(self.0, &Self::SPEC, f)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                text(d, &Self::SPEC)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

const HALF: u64 = i64::MAX as u64; // what a BIGINT column holds

quantity!(
    /// A size in bytes. Decimal (`GB`) and binary (`GiB`) units are kept apart.
    Bytes, from_bytes, bytes, Spec {
        kind: "a size", example: "a number and B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as 40GiB", base: "B", max: HALF,
        units: &[("B", 1, 1), ("kB", 1_000, 1), ("MB", 1_000_000, 1), ("GB", 1_000_000_000, 1), ("TB", 1_000_000_000_000, 1),
                 ("KiB", 1 << 10, 1), ("MiB", 1 << 20, 1), ("GiB", 1 << 30, 1), ("TiB", 1 << 40, 1)],
    }
);
quantity!(
    /// A rate in kbit/s.
    Bandwidth, from_kbps, kbps, Spec {
        kind: "a rate", example: "a number and kbps, Mbps or Gbps, such as 10Gbps", base: "kbps", max: 1_000_000_000_000,
        units: &[("kbps", 1, 1), ("Mbps", 1_000, 1), ("Gbps", 1_000_000, 1)],
    }
);
quantity!(
    /// A one-way delay in microseconds, at most an hour.
    Latency, from_micros, micros, Spec {
        kind: "a delay", example: "a number and us, ms or s, such as 20ms", base: "us", max: 3_600_000_000,
        units: &[("us", 1, 1), ("ms", 1_000, 1), ("s", 1_000_000, 1)],
    }
);
quantity!(
    /// A length of time in microseconds, at most ten years.
    Span, from_micros, micros, Spec {
        kind: "a time", example: "a number and us, ms, s, min, h or d, such as 6h", base: "us", max: 315_360_000_000_000,
        units: &[("us", 1, 1), ("ms", 1_000, 1), ("s", 1_000_000, 1), ("min", 60_000_000, 1), ("h", 3_600_000_000, 1),
                 ("d", 86_400_000_000, 1), ("m", 60_000_000, 1)],
    }
);
quantity!(
    /// Requests per second, in thousandths.
    Demand, from_millirps, millirps, Spec {
        kind: "a demand", example: "a number and rps, such as 40rps", base: "mrps", max: 1_000_000_000_000,
        units: &[("rps", 1_000, 1), ("mrps", 1, 1)],
    }
);
quantity!(
    /// A share of one device in thousandths, at most 100 %.
    Share, from_thousandths, thousandths, Spec {
        kind: "a share", example: "a number from 0.1 to 100 and %, such as 25%", base: "permille", max: 1_000,
        units: &[("%", 10, 1), ("permille", 1, 1)],
    }
);
quantity!(
    /// Parts per million, for loss.
    Ppm, from_ppm, ppm, Spec {
        kind: "a ratio", example: "a number from 0 to 100 and %, such as 0.01%", base: "ppm", max: 1_000_000,
        units: &[("%", 10_000, 1), ("ppm", 1, 1)],
    }
);

impl Bandwidth {
    pub const fn from_mbps(mbps: u64) -> Self {
        Self(mbps * 1_000)
    }
}

/// Processor cores in thousandths; written as a plain decimal number of cores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cores(u64);

impl Cores {
    pub const ZERO: Self = Self(0);
    pub const fn from_milli(milli: u64) -> Self {
        Self(milli)
    }
    pub const fn milli(self) -> u64 {
        self.0
    }
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
    pub fn checked_mul(self, times: u64) -> Option<Self> {
        self.0.checked_mul(times).map(Self)
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Decimal::from_micros(self.0 as i64 * 1_000).fmt(f)
    }
}

impl fmt::Debug for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} cores")
    }
}

impl Serialize for Cores {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        Decimal::from_micros(self.0 as i64 * 1_000).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = Decimal::deserialize(d)?;
        match value.times(1_000).and_then(|m| u64::try_from(m).ok()) {
            Some(milli) if milli <= 1_000_000_000 => Ok(Self(milli)),
            _ => Err(de::Error::custom(format!(
                "{value} cores is out of range: use 0 to 1000000 with at most three decimals"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_exact() {
        assert_eq!("2TB".parse::<Bytes>().unwrap().bytes(), 2_000_000_000_000);
        assert_eq!("40GiB".parse::<Bytes>().unwrap().bytes(), 40 << 30);
        assert_eq!("1.5Gbps".parse::<Bandwidth>().unwrap().kbps(), 1_500_000);
        assert_eq!("0.2ms".parse::<Latency>().unwrap().micros(), 200);
        assert_eq!("0.01%".parse::<Ppm>().unwrap().ppm(), 100);
        assert_eq!("25%".parse::<Share>().unwrap().thousandths(), 250);
        assert_eq!("60s".parse::<Span>().unwrap(), "1min".parse().unwrap());
    }

    #[test]
    fn bits_and_bytes_never_mix_and_bare_numbers_are_refused() {
        for bad in ["10", "10GB", "10Gb", "-1Gbps", "1e9kbps", "NaNGbps", "0.0001kbps", "1000000000000000Gbps", ""] {
            assert!(bad.parse::<Bandwidth>().is_err(), "{bad}");
        }
        for bad in ["10", "10Gbps", "0.5B", "99999999999TB", "10gb"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<Bytes>("10").unwrap_err().to_string().contains("unit"));
        assert!("101%".parse::<Share>().is_err());
    }

    #[test]
    fn what_is_shown_reads_back() {
        for bytes in [0, 1, 999, 1_000, 1 << 40, 3_000_000_000] {
            let b = Bytes::from_bytes(bytes);
            assert_eq!(b.to_string().parse::<Bytes>().unwrap(), b);
        }
        assert_eq!(Span::from_micros(90_000_000).to_string().parse::<Span>().unwrap().micros(), 90_000_000);
        assert_eq!(serde_json::from_str::<Cores>("1.5").unwrap().milli(), 1_500);
    }
}
