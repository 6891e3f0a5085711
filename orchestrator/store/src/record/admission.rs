//! Who is let in, and what administrators did.

use jiff::Timestamp;
use rhumb_model::{Role, Scope, TenantName, TokenId};

/// What a tenant may hold at most; `None`: as many as there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    pub accelerators: Option<u32>,
    /// Orders that have not ended.
    pub orders: Option<u32>,
    /// Binding quotes that have not ended.
    pub quotes: Option<u32>,
}

/// What a tenant holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Thousandths: a device may be shared.
    pub accelerators_milli: u64,
    pub orders: u32,
    pub quotes: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRecord {
    pub name: TenantName,
    pub created: Timestamp,
    /// From here on nothing new is taken from it, and none of its tokens opens anything.
    pub closed: Option<Timestamp>,
    pub quota: Quota,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    pub id: TokenId,
    pub sha256: [u8; 32],
    pub role: Role,
    /// Of the kind that suits the role.
    pub scope: Scope,
    pub created: Timestamp,
    /// Id of a token, or what else made it.
    pub created_by: String,
    pub expires: Option<Timestamp>,
    pub revoked: Option<Timestamp>,
}

/// Keyset pages, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenFilter {
    /// Of this tenant only, and only those that its administrators may see.
    pub tenant: Option<TenantName>,
    /// Exclusive: those made before it.
    pub before: Option<TokenId>,
    /// 1 to 200.
    pub limit: u32,
}

/// One thing that an administrator did.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    pub at: Timestamp,
    /// Id of the token, or what else acted.
    pub actor: String,
    pub role: String,
    /// Such as `token.create`.
    pub action: String,
    /// What it was done to.
    pub target: String,
    /// Whom it concerns, if one.
    pub tenant: Option<TenantName>,
    /// Never a secret.
    pub detail: serde_json::Value,
}

/// An entry with its place in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRecord {
    /// Rising; may have gaps.
    pub seq: u64,
    pub entry: AuditEntry,
}

/// Keyset pages, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// What concerns this tenant only.
    pub tenant: Option<TenantName>,
    /// Exclusive.
    pub before: Option<u64>,
    /// 1 to 200.
    pub limit: u32,
}
