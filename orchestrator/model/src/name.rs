//! Validated names. A name is text that may stand in a path, a log line, a metric label or an argument as it is.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr, sync::Arc};

/// Why a text is not a name of the asked kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {shown} is not valid: use {rule}")]
pub struct NameError {
    kind: &'static str,
    shown: String,
    rule: &'static str,
}

const MAX: usize = 63;

fn lower(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-'
}

fn mixed(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_')
}

fn label(c: u8) -> bool {
    mixed(c) || matches!(c, b'/' | b'~')
}

const LOWER: &str = "1 to 63 of a-z, 0-9 and -, beginning with a letter or digit";
const MIXED: &str = "1 to 63 of A-Z, a-z, 0-9, -, . and _, beginning with a letter or digit";
const LABEL: &str = "1 to 63 of A-Z, a-z, 0-9, -, ., _, / and ~, beginning with a letter or digit";

fn check(kind: &'static str, rule: &'static str, text: &str, ok: fn(u8) -> bool) -> Result<(), NameError> {
    let bytes = text.as_bytes();
    let good =
        !bytes.is_empty() && bytes.len() <= MAX && bytes[0].is_ascii_alphanumeric() && bytes.iter().all(|&c| ok(c));
    if good {
        return Ok(());
    }
    // escaped and cut, so that a hostile name does no harm where the error is shown
    let shown: String = text.chars().take(40).flat_map(char::escape_default).collect();
    Err(NameError { kind, shown: format!("\"{shown}\""), rule })
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $rule:ident, $class:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            pub fn new(text: &str) -> Result<Self, NameError> {
                check($kind, $rule, text, $class)?;
                Ok(Self(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                Self::new(&text).map_err(de::Error::custom)
            }
        }
    };
}

name!(/// A site or a transit point: both are points of one graph and share one namespace.
    PointName, "point name", LOWER, lower);
/// A point that has compute.
pub type SiteName = PointName;
name!(/// A directed link; `~` at the end marks the reverse half of a link declared both ways.
    LinkId, "link id", LABEL, label);
name!(/// A node within a site.
    NodeName, "node name", MIXED, mixed);
name!(/// What the tenant calls an order.
    OrderName, "order name", LOWER, lower);
name!(TenantName, "tenant name", LOWER, lower);
name!(ComponentName, "component name", LOWER, lower);
name!(DatasetName, "dataset name", LOWER, lower);
name!(RegionName, "region name", LOWER, lower);
name!(/// An accelerator model as the price book and the device table name it, such as `H100`.
    ModelName, "device model", MIXED, mixed);
name!(Label, "label", LABEL, label);
name!(/// Usually an ISO 3166-1 alpha-2 code.
    Jurisdiction, "jurisdiction", MIXED, mixed);
name!(ProviderName, "provider name", MIXED, mixed);
name!(/// A shared-risk link group: links that fail together.
    SrlgName, "shared-risk group", MIXED, mixed);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused_and_shown_escaped() {
        for bad in ["", "a\0b", "../x", "a b", "ä", "-x", "A", &"x".repeat(64), "x\n", "<script>", "\u{202e}abc"] {
            assert!(PointName::new(bad).is_err(), "{bad:?}");
        }
        let shown = PointName::new("a\0b").unwrap_err().to_string();
        assert!(shown.contains("\\u{0}") && !shown.contains('\0'), "{shown}");
    }

    #[test]
    fn link_ids_may_end_in_a_tilde() {
        assert_eq!(LinkId::new("sh-wh~").unwrap().as_str(), "sh-wh~");
    }
}
