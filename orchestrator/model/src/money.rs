//! Money: exact amounts with their currency; totals are integer micro-units.

use crate::ratio::{Decimal, Ratio};
use num_traits::CheckedMul;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// Three capital letters (ISO 4217).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a currency is three ASCII letters")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    #[error("\"{0}\" is not a currency: use three capital letters, such as CNY")]
    Currency(String),
    #[error("\"{0}\" is not an amount: write a number, a blank and a currency, such as 4.2 CNY")]
    Amount(String),
    #[error("an amount is not negative: {0}")]
    Negative(String),
}

fn shown(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_default).collect()
}

impl FromStr for Currency {
    type Err = MoneyError;
    fn from_str(text: &str) -> Result<Self, MoneyError> {
        match text.as_bytes() {
            [a, b, c] if [a, b, c].iter().all(|x| x.is_ascii_uppercase()) => Ok(Self([*a, *b, *c])),
            _ => Err(MoneyError::Currency(shown(text))),
        }
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An exact, non-negative amount such as `4.2 CNY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    pub value: Decimal,
    pub currency: Currency,
}

impl Amount {
    pub fn new(value: Decimal, currency: Currency) -> Result<Self, MoneyError> {
        if value.is_negative() {
            return Err(MoneyError::Negative(value.to_string()));
        }
        Ok(Self { value, currency })
    }

    /// In micro-units of its own currency, exact.
    pub fn micros(self) -> Ratio {
        self.value.ratio() * Ratio::from_integer(1_000_000)
    }
}

/// An amount in a currency for which no rate is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the currency {found} has no rate to {wanted}: add it to the federation's rates")]
pub struct UnknownCurrency {
    pub found: Currency,
    pub wanted: Currency,
}

impl Amount {
    /// In micro-units of `wanted`, exact; `rates` give what one unit of another currency is worth in it. An amount and a
    /// rate that their documents' checks let through multiply within range; beyond it the result stays at the largest.
    pub fn micros_in(self, wanted: Currency, rates: &BTreeMap<String, Ratio>) -> Result<Ratio, UnknownCurrency> {
        if self.currency == wanted {
            return Ok(self.micros());
        }
        let rate = rates.get(self.currency.as_str()).ok_or(UnknownCurrency { found: self.currency, wanted })?;
        Ok(self.micros().checked_mul(rate).unwrap_or(Ratio::from_integer(i128::from(i64::MAX))))
    }

    /// Why the amount is too large or too fine to calculate with, if it is: beyond 10^12 units or 15 digits.
    pub(crate) fn out_of_range(self) -> Option<String> {
        let fits = self.value.ratio() <= Ratio::from_integer(1_000_000_000_000) && self.value.digits() <= 15;
        (!fits).then(|| format!("{self} is out of range: use at most 1000000000000 and 15 digits"))
    }
}

impl FromStr for Amount {
    type Err = MoneyError;
    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let (number, currency) = text.split_once(' ').ok_or_else(|| MoneyError::Amount(shown(text)))?;
        let value: Decimal = number.parse().map_err(|_| MoneyError::Amount(shown(text)))?;
        Self::new(value, currency.parse()?)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.currency)
    }
}

macro_rules! text_serde {
    ($type:ty, $expected:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                crate::quantity::text(d, &$expected)?.parse().map_err(de::Error::custom)
            }
        }
    };
}
text_serde!(Currency, "a currency as three capital letters, such as CNY");
text_serde!(Amount, "an amount with its currency: write a number, a blank and a currency, such as 4.2 CNY");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_never_negative() {
        let a: Amount = "4.2 CNY".parse().unwrap();
        assert_eq!(a.micros(), Ratio::from_integer(4_200_000));
        for bad in ["4.2", "4.2CNY", "-1 CNY", "1e3 CNY", "NaN CNY", "1 cny", "1  CNY"] {
            assert!(bad.parse::<Amount>().is_err(), "{bad}");
        }
    }

    #[test]
    fn other_currencies_convert_exactly_by_the_rates() {
        let cny: Currency = "CNY".parse().unwrap();
        let rates = BTreeMap::from([("USD".to_owned(), Ratio::new(71, 10))]);
        let micros = |text: &str| text.parse::<Amount>().unwrap().micros_in(cny, &rates);
        assert_eq!(micros("0.01 USD"), Ok(Ratio::from_integer(71_000)));
        assert_eq!(micros("2 CNY"), Ok(Ratio::from_integer(2_000_000)));
        assert!(micros("1 EUR").unwrap_err().to_string().contains("EUR has no rate to CNY"));
    }
}
