//! Tariffs of links that are not one flat price: what one more gigabyte or megabit costs at the margin.
//!
//! A decision prices a link as it is used before the order: prices are constant within one decision, so that bounds of a
//! search hold, and move from decision to decision with the use.

use crate::{
    money::Amount,
    quantity::{Bandwidth, Bytes},
    ratio::Ratio,
};
use serde::{Deserialize, Serialize};

/// Hours of a month, by which monthly prices are divided: 365 x 24 / 12.
pub const HOURS_PER_MONTH: i128 = 730;

/// Beside a link's flat `per_gb` and `per_mbps_hour`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tariff {
    /// Per gigabyte, by how much has passed this month.
    Tiers(Tiers),
    /// Per Mbit/s of the month's 95th percentile of five-minute averages, or of what is committed where that is more.
    Percentile(Percentile),
    /// Per Mbit/s reserved and hour.
    PerMbpsHour(Amount),
    /// The operator's own: nothing is paid, and what becomes scarce is dear all the same.
    Owned(Owned),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tiers {
    /// Ascending; the last one has no end.
    pub tiers: Vec<Tier>,
    /// What has passed this month.
    #[serde(default)]
    pub used: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<Bytes>,
    pub per_gb: Amount,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Percentile {
    pub per_mbps_month: Amount,
    #[serde(default)]
    pub committed: Bandwidth,
    /// The month's 95th percentile so far.
    #[serde(default)]
    pub reached: Bandwidth,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owned {
    /// Shadow price per Mbit/s and hour of the last tenth.
    pub full: Amount,
}

/// What one more costs now: of each amount the exact factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    pub per_gb: Option<Amount>,
    pub per_mbps_hour: Option<(Amount, Ratio)>,
}

impl Tariff {
    /// The price of one more where so much of the link is reserved already.
    pub fn margin(&self, reserved: Bandwidth, capacity: Bandwidth) -> Margin {
        let rate = |amount: Amount, share: Ratio| Margin { per_gb: None, per_mbps_hour: Some((amount, share)) };
        match self {
            Self::Tiers(t) => {
                let tier = t.tiers.iter().find(|tier| tier.up_to.is_none_or(|end| t.used < end));
                Margin { per_gb: tier.or(t.tiers.last()).map(|tier| tier.per_gb), per_mbps_hour: None }
            }
            // below what is billed anyway one more costs nothing
            Self::Percentile(p) if reserved < p.committed.max(p.reached) => {
                rate(p.per_mbps_month, Ratio::from_integer(0))
            }
            Self::Percentile(p) => rate(p.per_mbps_month, Ratio::new(1, HOURS_PER_MONTH)),
            Self::PerMbpsHour(amount) => rate(*amount, Ratio::from_integer(1)),
            Self::Owned(o) => rate(o.full, scarcity(reserved, capacity)),
        }
    }

    /// Every amount in it.
    pub fn amounts(&self) -> Vec<Amount> {
        match self {
            Self::Tiers(t) => t.tiers.iter().map(|tier| tier.per_gb).collect(),
            Self::Percentile(p) => vec![p.per_mbps_month],
            Self::PerMbpsHour(amount) => vec![*amount],
            Self::Owned(o) => vec![o.full],
        }
    }

    /// What is wrong with it, with the key.
    pub fn fault(&self) -> Option<(&'static str, String)> {
        let Self::Tiers(t) = self else { return None };
        let Some((last, first)) = t.tiers.split_last() else {
            return Some(("tiers/tiers", "a tariff by volume needs a tier".into()));
        };
        if last.up_to.is_some() {
            return Some(("tiers/tiers", "the last tier has no end: leave up_to out".into()));
        }
        let ends: Option<Vec<Bytes>> = first.iter().map(|tier| tier.up_to).collect();
        match ends {
            None => Some(("tiers/tiers", "only the last tier has no end: write up_to".into())),
            Some(ends) if !ends.is_sorted_by(|a, b| a < b) => {
                Some(("tiers/tiers", "tiers rise: order them by up_to".into()))
            }
            Some(_) => None,
        }
    }
}

/// Slopes of the convex cost of a link's load (Fortz and Thorup, INFOCOM 2000: 3, 10 and 70 from a third, two thirds and nine
/// tenths on) by the last of them; below a third there is plenty.
fn scarcity(reserved: Bandwidth, capacity: Bandwidth) -> Ratio {
    let (used, all) = (u128::from(reserved.kbps()) * 30, u128::from(capacity.kbps()));
    match used {
        u if u < all * 10 => Ratio::from_integer(0),
        u if u < all * 20 => Ratio::new(3, 70),
        u if u < all * 27 => Ratio::new(10, 70),
        _ => Ratio::from_integer(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tariff(text: &str) -> Tariff {
        serde_json::from_str(text).unwrap()
    }

    fn mbps(n: u64) -> Bandwidth {
        Bandwidth::from_mbps(n)
    }

    #[test]
    fn a_gigabyte_costs_what_its_tier_says() {
        let at = |used: &str| {
            let t = tariff(&format!(
                r#"{{"tiers": {{"tiers": [{{"up_to": "10TB", "per_gb": "0.6 CNY"}}, {{"up_to": "50TB", "per_gb": "0.5 CNY"}},
                    {{"per_gb": "0.35 CNY"}}], "used": "{used}"}}}}"#
            ));
            assert_eq!(t.fault(), None);
            t.margin(mbps(0), mbps(1)).per_gb.unwrap().to_string()
        };
        assert_eq!([at("0B"), at("10TB"), at("49TB"), at("900TB")], ["0.6 CNY", "0.5 CNY", "0.5 CNY", "0.35 CNY"]);
    }

    #[test]
    fn below_what_is_billed_anyway_one_more_is_free() {
        let t = tariff(r#"{"percentile": {"per_mbps_month": "73 CNY", "committed": "20Mbps", "reached": "35Mbps"}}"#);
        let share = |reserved| t.margin(mbps(reserved), mbps(100)).per_mbps_hour.unwrap().1;
        assert_eq!((share(0), share(34)), (Ratio::from_integer(0), Ratio::from_integer(0)));
        assert_eq!(share(35), Ratio::new(1, 730));
    }

    #[test]
    fn what_is_owned_is_dear_when_it_is_scarce() {
        let t = tariff(r#"{"owned": {"full": "7 CNY"}}"#);
        let shares = [0, 33, 34, 66, 67, 89, 90, 100].map(|r| t.margin(mbps(r), mbps(100)).per_mbps_hour.unwrap().1);
        let (zero, low, high, full) =
            (Ratio::from_integer(0), Ratio::new(3, 70), Ratio::new(1, 7), Ratio::from_integer(1));
        assert_eq!(shares, [zero, zero, low, low, high, high, full, full]);
        assert!(shares.is_sorted());
    }

    #[test]
    fn tiers_that_do_not_rise_or_end_are_refused() {
        for tiers in [
            "[]",
            r#"[{"up_to": "1TB", "per_gb": "1 CNY"}]"#,
            r#"[{"per_gb": "1 CNY"}, {"per_gb": "2 CNY"}]"#,
            r#"[{"up_to": "2TB", "per_gb": "1 CNY"}, {"up_to": "1TB", "per_gb": "1 CNY"}, {"per_gb": "2 CNY"}]"#,
        ] {
            assert!(tariff(&format!(r#"{{"tiers": {{"tiers": {tiers}}}}}"#)).fault().is_some(), "{tiers}");
        }
        assert!(serde_json::from_str::<Tariff>(r#"{"owned": {"full": "1 CNY", "x": 1}}"#).is_err());
    }
}
