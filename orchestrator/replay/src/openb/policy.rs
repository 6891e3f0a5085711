//! The policies by name.

use serde::Serialize;
use std::{fmt, str::FromStr};

/// How a node is chosen; the first six as published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    Random,
    DotProd,
    Clustering,
    Packing,
    BestFit,
    Fgd,
    Rhumb,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no policy {0:?}; use one of random, dotprod, clustering, packing, bestfit, fgd, rhumb")]
pub struct UnknownPolicy(String);

impl Policy {
    pub const ALL: [Policy; 7] = [
        Policy::Random,
        Policy::DotProd,
        Policy::Clustering,
        Policy::Packing,
        Policy::BestFit,
        Policy::Fgd,
        Policy::Rhumb,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::DotProd => "dotprod",
            Self::Clustering => "clustering",
            Self::Packing => "packing",
            Self::BestFit => "bestfit",
            Self::Fgd => "fgd",
            Self::Rhumb => "rhumb",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_name_and_an_unknown_one_is_told_the_names() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let shown = Policy::from_str("worstfit").unwrap_err().to_string();
        assert!(Policy::ALL.iter().all(|policy| shown.contains(policy.name())), "{shown}");
    }
}
