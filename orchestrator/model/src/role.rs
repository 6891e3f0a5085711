//! Who may do what: the one table that every request is held against.

use crate::name::{PointName, SiteName, TenantName};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt, str::FromStr};

/// What a token's holder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sees what its tenant has.
    Viewer,
    /// And orders for it.
    #[serde(alias = "tenant")]
    Member,
    /// And says who else may.
    TenantAdmin,
    /// Runs named sites; orders nothing and sees nobody's orders.
    SiteOperator,
    /// Does everything a person may, for all tenants and sites.
    #[serde(alias = "admin")]
    PlatformAdmin,
    /// The program at a point; no person.
    Agent,
}

/// What somebody may want to do. What it is done to is a second question: see `Scope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Sites, links, paths, regions, datasets, and the stream of what changes there.
    ReadFederation,
    /// Orders, quotes, their histories, bills, logs and routes.
    ReadWork,
    /// Quote, order, amend, cancel.
    Order,
    /// Tokens of people: make, list, revoke.
    ManageTokens,
    /// A tenant's record and what it may hold.
    ReadTenants,
    /// Make and close tenants, say what each may hold.
    ManageTenants,
    /// Drain a site, let its agent in, and put it out.
    OperateSites,
    /// Authorities that sign agents' certificates.
    ManageAuthorities,
    /// What administrators did.
    ReadAuditLog,
    /// Invariants and metrics of the whole federation.
    Inspect,
    /// Report as a point and be told what is wanted there.
    Sync,
}

impl Action {
    pub const ALL: [Self; 11] = [
        Self::ReadFederation,
        Self::ReadWork,
        Self::Order,
        Self::ManageTokens,
        Self::ReadTenants,
        Self::ManageTenants,
        Self::OperateSites,
        Self::ManageAuthorities,
        Self::ReadAuditLog,
        Self::Inspect,
        Self::Sync,
    ];
}

/// The table. What it does not name is not allowed.
pub fn permits(role: Role, action: Action) -> bool {
    use Action::{
        Inspect, ManageAuthorities, ManageTenants, ManageTokens, OperateSites, Order, ReadAuditLog, ReadFederation,
        ReadTenants, ReadWork, Sync,
    };
    let allowed: &[Action] = match role {
        Role::Viewer => &[ReadFederation, ReadWork],
        Role::Member => &[ReadFederation, ReadWork, Order],
        Role::TenantAdmin => &[ReadFederation, ReadWork, Order, ManageTokens, ReadTenants, ReadAuditLog],
        Role::SiteOperator => &[ReadFederation, OperateSites],
        Role::PlatformAdmin => &[
            ReadFederation,
            ReadWork,
            Order,
            ManageTokens,
            ReadTenants,
            ManageTenants,
            OperateSites,
            ManageAuthorities,
            ReadAuditLog,
            Inspect,
        ],
        Role::Agent => &[Sync],
    };
    allowed.contains(&action)
}

impl Role {
    pub const ALL: [Self; 6] =
        [Self::Viewer, Self::Member, Self::TenantAdmin, Self::SiteOperator, Self::PlatformAdmin, Self::Agent];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::TenantAdmin => "tenant-admin",
            Self::SiteOperator => "site-operator",
            Self::PlatformAdmin => "platform-admin",
            Self::Agent => "agent",
        }
    }

    /// Whether it belongs to one tenant and sees no other.
    pub const fn is_of_tenant(self) -> bool {
        matches!(self, Self::Viewer | Self::Member | Self::TenantAdmin)
    }

    /// Whether one who manages tokens may make, see and end one of the other role: never of a higher one than its own.
    pub fn may_grant(self, other: Self) -> bool {
        match self {
            Self::PlatformAdmin => true,
            Self::TenantAdmin => other.is_of_tenant(),
            Self::Viewer | Self::Member | Self::SiteOperator | Self::Agent => false,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("role is unknown: use viewer, member, tenant-admin, site-operator, platform-admin or agent")]
pub struct RoleError;

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        Self::ALL.into_iter().find(|r| r.as_str() == text).ok_or(RoleError)
    }
}

/// Whose things a role is about. An empty set of sites is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Of everybody for a platform administrator, whose own orders are this tenant's.
    Tenant(TenantName),
    Sites(BTreeSet<SiteName>),
    Point(PointName),
}

impl Scope {
    pub const fn suits(&self, role: Role) -> bool {
        match self {
            Self::Tenant(_) => role.is_of_tenant() || matches!(role, Role::PlatformAdmin),
            Self::Sites(_) => matches!(role, Role::SiteOperator),
            Self::Point(_) => matches!(role, Role::Agent),
        }
    }

    pub const fn tenant(&self) -> Option<&TenantName> {
        match self {
            Self::Tenant(tenant) => Some(tenant),
            Self::Sites(_) | Self::Point(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_of_a_tenant_may_what_the_one_below_it_may() {
        for (lower, higher) in [
            (Role::Viewer, Role::Member),
            (Role::Member, Role::TenantAdmin),
            (Role::TenantAdmin, Role::PlatformAdmin),
            (Role::SiteOperator, Role::PlatformAdmin),
        ] {
            for action in Action::ALL.into_iter().filter(|a| permits(lower, *a)) {
                assert!(permits(higher, action), "{higher} {action:?}");
            }
            assert!(Action::ALL.into_iter().any(|a| permits(higher, a) && !permits(lower, a)), "{lower} {higher}");
        }
    }

    #[test]
    fn agents_are_no_people_and_people_no_agents() {
        for action in Action::ALL {
            assert_eq!(permits(Role::Agent, action), action == Action::Sync, "{action:?}");
        }
        assert!(Role::ALL.into_iter().all(|r| r == Role::Agent || !permits(r, Action::Sync)));
    }

    #[test]
    fn nobody_grants_what_he_may_not_do_himself() {
        for giver in Role::ALL.into_iter().filter(|r| permits(*r, Action::ManageTokens)) {
            for given in Role::ALL.into_iter().filter(|g| *g != Role::Agent && giver.may_grant(*g)) {
                assert!(Action::ALL.into_iter().all(|a| permits(giver, a) || !permits(given, a)), "{giver} {given}");
            }
        }
        assert!(
            Role::ALL
                .into_iter()
                .all(|r| permits(r, Action::ManageTokens) || Role::ALL.into_iter().all(|o| !r.may_grant(o)))
        );
    }

    #[test]
    fn words_read_back_and_former_ones_are_understood() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        }
        assert_eq!("tenant-admins".parse::<Role>(), Err(RoleError));
        assert_eq!(serde_json::from_str::<Role>("\"tenant\"").unwrap(), Role::Member);
        assert_eq!(serde_json::from_str::<Role>("\"admin\"").unwrap(), Role::PlatformAdmin);
    }
}
