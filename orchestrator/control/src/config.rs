//! Configuration of the orchestrator: built-in defaults and a file; unknown keys are refused.

use jiff::SignedDuration;
use rhumb_model::{LinkId, PointName, Role, Span};
use rhumb_placement::Policy;
pub use rhumb_provision::RouteRules;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// Loopback unless said otherwise.
    #[serde(default = "defaults::listen")]
    pub listen: SocketAddr,
    /// Host names (with port) that a request may name besides the listening address.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// `sqlite:PATH` or `postgres://...`.
    pub database: String,
    pub federation: PathBuf,
    /// 32 random octets; made at the first start where absent.
    pub secret_file: PathBuf,
    /// Tokens to be known from the start, by the file that holds each.
    #[serde(default)]
    pub tokens: Vec<TokenEntry>,
    /// Where a link's far end is reached, if not at the far point's own host.
    #[serde(default)]
    pub endpoints: BTreeMap<LinkId, Endpoint>,
    /// Host names or addresses of the points' agents.
    #[serde(default)]
    pub points: BTreeMap<PointName, String>,
    #[serde(default)]
    pub policy: Policy,
    /// How agents are known by certificates.
    #[serde(default)]
    pub identity: IdentityConfig,
    /// A second address, with TLS, where agents are known by their certificates. Absent: there is none.
    #[serde(default)]
    pub tls: Option<TlsConfig>,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub times: Times,
    /// What carries the paths of orders.
    #[serde(default)]
    pub provider: Provider,
    /// When a live order's flows take another path.
    #[serde(default)]
    pub routes: RouteRules,
}

/// What is preferred; a path that stands stays with what carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Tunnels in the kernels of the points where all of a path's agents offer that; relays elsewhere.
    #[default]
    Kernel,
    /// Relays in the agents, everywhere.
    Overlay,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    pub file: PathBuf,
    /// `tenant` and `admin` are understood as `member` and `platform-admin`.
    pub kind: Role,
    /// Tenant, or point of an agent, or a site operator's sites with commas.
    pub subject: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdentityConfig {
    /// Trust domain of the names in certificates, `spiffe://DOMAIN/point/NAME`.
    pub domain: String,
    /// Agents renew theirs at half of it.
    pub certificate_life: Span,
    pub authority_life: Span,
}

impl IdentityConfig {
    /// How long a certificate lives that is signed now.
    pub fn life(&self) -> SignedDuration {
        signed(self.certificate_life)
    }
}

pub(crate) fn signed(span: Span) -> SignedDuration {
    SignedDuration::from_micros(i64::try_from(span.micros()).unwrap_or(i64::MAX))
}

impl Default for IdentityConfig {
    fn default() -> Self {
        let hours = |n: u64| Span::from_micros(n * 3_600 * 1_000_000);
        Self { domain: "rhumb".into(), certificate_life: hours(24), authority_life: hours(24 * 3_650) }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    pub listen: SocketAddr,
    /// Host names and addresses under which it is reached: the certificate that the orchestrator makes for itself has them.
    pub names: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub probe: String,
    pub overlay: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Unfinished orders of one tenant.
    pub orders_per_tenant: usize,
    /// Live quotes of one tenant.
    pub quotes_per_tenant: usize,
    /// Requests of one credential per second, and at once.
    pub requests_per_second: u32,
    pub request_burst: u32,
    /// Connections of the API at once.
    pub connections: usize,
    /// How often one order is placed anew after something failed.
    pub attempts: u64,
    /// Decisions for quotes and questions about paths at once; the placer has one of its own. At least 1.
    pub decisions: usize,
    /// Streams of events at once.
    pub streams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            orders_per_tenant: 10_000,
            quotes_per_tenant: 1_000,
            requests_per_second: 200,
            request_burst: 400,
            connections: 2_000,
            attempts: 20,
            decisions: 2,
            streams: 200,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Times {
    /// A point not heard of for this long is lost.
    pub lost_after: Span,
    /// Added to an order's lease. The agent counts its lease from when it sent the report that was answered last, the
    /// orchestrator from when it heard one, which is never before: what is added has only to cover how long an agent takes
    /// to kill what its lease has run out on. At least a second.
    pub lease_margin: Span,
    /// A link figure older than this refuses the link.
    pub stale_after: Span,
    /// What a phase of provisioning may take.
    pub phase_limit: Span,
    /// How long a site that refused or failed an order is not tried again for it; doubles with each further attempt of the
    /// order, up to sixteen times this.
    pub avoid: Span,
    pub probe_interval: Span,
    /// Mean time between runs of packet trains over each link; zero: none.
    pub bandwidth_interval: Span,
    /// How long windows of link figures are kept.
    pub history: Span,
    /// Longest validity of a quote.
    pub quote_max: Span,
    /// How long the answer to a request with an idempotency key is kept.
    pub key_life: Span,
    /// Of several orchestrators on one PostgreSQL, one that is gone is followed after this long, and one that cannot reach the
    /// database stands by before. At least a second.
    pub leader_lease: Span,
}

impl Default for Times {
    fn default() -> Self {
        let s = |n: u64| Span::from_micros(n * 1_000_000);
        Self {
            lost_after: s(12),
            lease_margin: s(8),
            stale_after: s(60),
            phase_limit: s(60),
            avoid: s(30),
            probe_interval: Span::from_micros(200_000),
            bandwidth_interval: s(600),
            history: s(7 * 86_400),
            quote_max: s(3_600),
            key_life: s(2 * 86_400),
            leader_lease: s(3),
        }
    }
}

mod defaults {
    use std::net::{Ipv4Addr, SocketAddr};
    pub(super) fn listen() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 7070).into()
    }
}
