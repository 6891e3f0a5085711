//! Exact decimals as written by people, and the rational numbers that calculations use.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

/// Exact rational. Arithmetic on prices and times is done with the `checked_*` operations.
pub type Ratio = num_rational::Ratio<i128>;

/// An exact decimal number: `mantissa x 10^-scale`, at most 18 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal {
    mantissa: i64,
    scale: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a decimal number of at most 18 digits")]
pub struct DecimalError(String);

impl Decimal {
    pub const ZERO: Self = Self { mantissa: 0, scale: 0 };
    pub const ONE: Self = Self { mantissa: 1, scale: 0 };

    pub fn from_integer(value: i64) -> Self {
        Self { mantissa: value, scale: 0 }.normal()
    }

    /// `micros` millionths.
    pub fn from_micros(micros: i64) -> Self {
        Self { mantissa: micros, scale: 6 }.normal()
    }

    pub fn ratio(self) -> Ratio {
        Ratio::new(i128::from(self.mantissa), 10_i128.pow(u32::from(self.scale)))
    }

    /// The same number, where at most 18 digits hold it exactly.
    pub fn from_ratio(value: Ratio) -> Option<Self> {
        (0..=18_u8).find_map(|scale| {
            let scaled = value.numer().checked_mul(10_i128.pow(u32::from(scale)))?;
            if scaled % value.denom() != 0 {
                return None;
            }
            let mantissa = i64::try_from(scaled / value.denom()).ok()?;
            (mantissa.unsigned_abs() < 10_u64.pow(18)).then_some(Self { mantissa, scale }.normal())
        })
    }

    /// Significant digits and those after the point.
    pub fn digits(self) -> u32 {
        let significant = self.mantissa.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1);
        significant.max(u32::from(self.scale))
    }

    pub fn is_negative(self) -> bool {
        self.mantissa < 0
    }

    pub fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// The number times `factor`, if that is a whole number in range.
    pub fn times(self, factor: i128) -> Option<i128> {
        let scaled = i128::from(self.mantissa).checked_mul(factor)?;
        let unit = 10_i128.pow(u32::from(self.scale));
        (scaled % unit == 0).then_some(scaled / unit)
    }

    fn normal(mut self) -> Self {
        while self.scale > 0 && self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.scale -= 1;
        }
        self
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, DecimalError> {
        let fail = || DecimalError(text.chars().take(40).flat_map(char::escape_default).collect());
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let plain = |s: &str| s.bytes().all(|c| c.is_ascii_digit());
        if whole.is_empty()
            || !plain(whole)
            || !plain(fraction)
            || (digits.contains('.') && fraction.is_empty())
            || whole.len() + fraction.len() > 18
        {
            return Err(fail());
        }
        let magnitude: i64 = format!("{whole}{fraction}").parse().map_err(|_| fail())?;
        let mantissa = if text.starts_with('-') { -magnitude } else { magnitude };
        Ok(Self { mantissa, scale: fraction.len() as u8 }.normal())
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scale == 0 {
            return write!(f, "{}", self.mantissa);
        }
        let unit = 10_u64.pow(u32::from(self.scale));
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let magnitude = self.mantissa.unsigned_abs();
        write!(f, "{sign}{}.{:0width$}", magnitude / unit, magnitude % unit, width = usize::from(self.scale))
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.scale == 0 {
            return s.serialize_i64(self.mantissa);
        }
        match self.to_string().parse::<f64>() {
            // 15 digits survive the way through a double unchanged; longer ones go as text
            Ok(float) if self.mantissa.unsigned_abs() < 1_000_000_000_000_000 => s.serialize_f64(float),
            _ => s.serialize_str(&self.to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Decimal;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a decimal number")
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Decimal, E> {
                v.to_string().parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Decimal, E> {
                v.to_string().parse().map_err(E::custom)
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Decimal, E> {
                // the shortest text that reads back as this double is what was written, up to 15 digits
                v.to_string().parse().map_err(E::custom)
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Decimal, E> {
                v.parse().map_err(E::custom)
            }
        }
        d.deserialize_any(Visitor)
    }
}

/// Rounds half up (towards positive infinity on a tie) to an integer.
pub fn round_half_up(value: Ratio) -> i128 {
    // checked neighbours: values here are bounded by the documents' limits, far below i128
    let doubled = value.numer() * 2 + value.denom();
    doubled.div_euclid(value.denom() * 2)
}

/// An exact amount in micro-units, rounded half up and kept within what a document and a column hold: 0 to `i64::MAX`.
pub fn whole_micros(value: Ratio) -> i64 {
    round_half_up(value).clamp(0, i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        let d: Decimal = "0.42".parse().unwrap();
        assert_eq!(d.ratio(), Ratio::new(42, 100));
        assert_eq!(d.to_string(), "0.42");
        assert_eq!(serde_json::from_str::<Decimal>("0.1").unwrap().ratio(), Ratio::new(1, 10));
        assert_eq!("-3.50".parse::<Decimal>().unwrap().to_string(), "-3.5");
    }

    #[test]
    fn what_is_no_decimal_is_refused() {
        for bad in ["", ".", "1.", ".5", "NaN", "inf", "1e9", "0x1p-1", "٠.٥", "1 ", "+1", "--1", "1234567890123456789"]
        {
            assert!(bad.parse::<Decimal>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_ratio_becomes_a_decimal_only_where_it_is_one() {
        assert_eq!(Decimal::from_ratio(Ratio::new(71, 1000)).unwrap().to_string(), "0.071");
        assert_eq!(Decimal::from_ratio(Ratio::new(-5, 1)).unwrap().to_string(), "-5");
        assert_eq!(Decimal::from_ratio(Ratio::new(1, 3)), None);
        assert_eq!("0.00012".parse::<Decimal>().unwrap().digits(), 5);
        assert_eq!("1200".parse::<Decimal>().unwrap().digits(), 4);
    }

    #[test]
    fn halves_round_up() {
        assert_eq!(round_half_up(Ratio::new(5, 2)), 3);
        assert_eq!(round_half_up(Ratio::new(-5, 2)), -2);
        assert_eq!(round_half_up(Ratio::new(7, 3)), 2);
    }
}
