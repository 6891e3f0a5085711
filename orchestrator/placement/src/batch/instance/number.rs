//! Decimal numbers of a document, to nine places.

use std::fmt;

/// A quantity in thousand-millionths of its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nano(pub i64);

/// What becomes of digits after the ninth place: towards what keeps a plan feasible and a bound valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    Down,
    Up,
}

const PLACES: usize = 9;

impl Nano {
    pub const ONE: Self = Self(1_000_000_000);

    /// Reads `12`, `0.35`; `None` where the text is no decimal number, or out of range.
    pub fn parse(text: &str, rounding: Rounding) -> Option<Self> {
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|c| c.is_ascii_digit()) {
            return None;
        }
        let kept = &fraction[..fraction.len().min(PLACES)];
        let lost = fraction[kept.len()..].bytes().any(|c| c != b'0');
        let magnitude: i64 = format!("{whole}{kept:0<PLACES$}").parse().ok()?;
        let up = i64::from(lost && (rounding == Rounding::Up) == (sign > 0));
        Some(Self(sign * magnitude.checked_add(up)?))
    }

    pub fn is_negative(self) -> bool {
        self.0 < 0
    }
}

impl fmt::Display for Nano {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0.unsigned_abs() / 1_000_000_000, self.0.unsigned_abs() % 1_000_000_000);
        let sign = if self.0 < 0 { "-" } else { "" };
        let shown = format!("{sign}{whole}.{part:09}");
        f.write_str(shown.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_past_the_ninth_are_rounded_as_asked() {
        for (text, down, up) in [
            ("0.1", 100_000_000, 100_000_000),
            ("7", 7_000_000_000, 7_000_000_000),
            ("0.0000000001", 0, 1),
            ("0.30000000000000004", 300_000_000, 300_000_001),
            ("-1.0000000005", -1_000_000_001, -1_000_000_000),
        ] {
            assert_eq!(Nano::parse(text, Rounding::Down), Some(Nano(down)), "{text}");
            assert_eq!(Nano::parse(text, Rounding::Up), Some(Nano(up)), "{text}");
        }
        for text in ["", ".5", "1e3", "--1", "1.-5", "99999999999"] {
            assert_eq!(Nano::parse(text, Rounding::Up), None, "{text}");
        }
        assert_eq!([Nano(1_500_000_000), Nano(-20), Nano::ONE].map(|n| n.to_string()), ["1.5", "-0.00000002", "1"]);
    }
}
