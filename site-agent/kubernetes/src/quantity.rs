//! Quantities as Kubernetes writes them: `100m`, `1.5`, `64Gi`, `1e3`.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// In thousandths, rounded up; `None`: it cannot be read, or is negative or too large.
pub(crate) fn milli(quantity: &Quantity) -> Option<u64> {
    u64::try_from(nano(&quantity.0)?.div_ceil(1_000_000)).ok()
}

/// In ones, rounded up.
pub(crate) fn ones(quantity: &Quantity) -> Option<u64> {
    u64::try_from(nano(&quantity.0)?.div_ceil(1_000_000_000)).ok()
}

/// Kubernetes itself keeps nothing finer.
fn nano(text: &str) -> Option<u128> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && part.is_empty()) || part.contains('.') || whole.len() > 20 {
        return None;
    }
    let kept = &part[..part.len().min(9)];
    let lost = u128::from(part[kept.len()..].bytes().any(|digit| digit != b'0'));
    let digits: u128 = format!("{whole}{kept}").parse().ok()?;
    let nano = digits.checked_mul(10_u128.pow(9 - kept.len() as u32))?.checked_add(lost)?;
    match suffix {
        "n" => Some(nano.div_ceil(1_000_000_000)),
        "u" => Some(nano.div_ceil(1_000_000)),
        "m" => Some(nano.div_ceil(1_000)),
        _ => nano.checked_mul(factor(suffix)?),
    }
}

fn factor(suffix: &str) -> Option<u128> {
    if let Some(exponent) = suffix.strip_prefix(['e', 'E'])
        && !exponent.is_empty()
        && exponent != "i"
    {
        let exponent: u32 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
        return 10_u128.checked_pow(exponent);
    }
    let place = |suffixes: &[&str]| suffixes.iter().position(|known| *known == suffix).map(|place| place as u32);
    if let Some(place) = place(&["", "k", "M", "G", "T", "P", "E"]) {
        return Some(1_000_u128.pow(place));
    }
    place(&["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]).map(|place| 1_024_u128.pow(place + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<u64> {
        milli(&Quantity(text.into()))
    }

    #[test]
    fn quantities_read_as_kubernetes_means_them() {
        for (text, expected) in [
            ("0", 0),
            ("2", 2_000),
            ("100m", 100),
            ("1.5", 1_500),
            (".5", 500),
            ("1.0001", 1_001),
            ("1500000u", 1_500),
            ("1n", 1),
            ("3k", 3_000_000),
            ("1e3", 1_000_000),
            ("2E2", 200_000),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
        ] {
            assert_eq!(read(text), Some(expected), "{text}");
        }
        for text in ["", "x", "-1", "1x", "1.2.3", "1e", "1e99", "1E", "99999999999999999999999"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(ones(&Quantity("8Ei".into())), Some(8 << 60));
        assert_eq!(ones(&Quantity("1.5Gi".into())), Some(3 << 29));
        assert_eq!(ones(&Quantity("129e6".into())), Some(129_000_000));
        assert_eq!(ones(&Quantity("1000m".into())), Some(1));
    }

    proptest::proptest! {
        #[test]
        fn whole_numbers_read_exactly(number in 0_u64..1 << 44, suffix in 0_usize..3) {
            let (suffix, factor) = [("", 1), ("k", 1_000), ("Ki", 1_024)][suffix];
            let quantity = Quantity(format!("{number}{suffix}"));
            proptest::prop_assert_eq!(ones(&quantity), Some(number * factor));
            proptest::prop_assert_eq!(milli(&quantity), Some(number * factor * 1_000));
        }
    }
}
