//! What may be asked of the store in one transaction, and what comes of it.

use crate::record::{
    DecisionRecord, LinkWindow, LogRecord, NewEvent, NodeRecord, OrderRecord, PointRecord, QuoteRecord, TokenRecord,
    UsageRecord,
};
use jiff::Timestamp;
use rhumb_model::{
    Bandwidth, ComponentName, LinkId, ModelName, NodeName, Order, OrderId, OrderState, Phase, Plan, PointName, QuoteId,
    Reason, SiteName, Slots, TenantName, TokenId, order::Need, plan,
};
use rhumb_provision::{Checkpoint, Saga};

/// Who holds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    Order(OrderId),
    Quote(QuoteId),
}

/// One replica that must stand on one node of a site.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaWant {
    pub component: ComponentName,
    pub replica: u32,
    pub site: SiteName,
    pub model: Option<ModelName>,
    pub need: Need,
    /// Not on a node (of this reservation) that another replica of this component has.
    pub own_node: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkWant {
    pub link: LinkId,
    /// `None`: for good.
    pub slots: Option<Slots>,
    pub rate: Bandwidth,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reservation {
    pub replicas: Vec<ReplicaWant>,
    pub links: Vec<LinkWant>,
}

/// Where a replica was given its place: `model::fit::allocate` on current rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub component: ComponentName,
    pub replica: u32,
    pub site: SiteName,
    pub node: NodeName,
    pub devices: Vec<u32>,
}

/// A change of one order; absent fields stay. Refused unless `version` is current; final states never change.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderChange {
    pub id: OrderId,
    pub version: i64,
    pub at: Timestamp,
    /// Another document in place of the one that was ordered.
    pub document: Option<Order>,
    pub state: Option<OrderState>,
    pub phase: Option<Option<Phase>>,
    pub attention: Option<Option<String>>,
    pub reasons: Option<Vec<Reason>>,
    pub plan: Option<Option<Plan>>,
    pub cost: Option<Option<plan::Cost>>,
    pub saga: Option<Option<Saga>>,
    pub checkpoints: Option<Vec<Checkpoint>>,
    pub generation: Option<u64>,
    pub decision: Option<DecisionRecord>,
    pub events: Vec<NewEvent>,
    /// Added to the ledger (append-only).
    pub usage: Vec<UsageRecord>,
    /// Give back everything held under these generations of the order.
    pub release: Vec<u64>,
    /// But for these numbers of tunnels: something of them may be left.
    pub keep_tunnels: Vec<u32>,
    /// Numbers of the order's generation of which nothing is left.
    pub free_tunnels: Vec<u32>,
    /// What the order's generation holds on links from now on, in place of what it held; or nothing of the change.
    pub rehold: Option<Vec<LinkWant>>,
}

impl OrderChange {
    /// A change that leaves everything as it is, to build others on.
    pub fn nothing(id: OrderId, version: i64, at: Timestamp) -> Self {
        Self {
            id,
            version,
            at,
            document: None,
            state: None,
            phase: None,
            attention: None,
            reasons: None,
            plan: None,
            cost: None,
            saga: None,
            checkpoints: None,
            generation: None,
            decision: None,
            events: Vec::new(),
            usage: Vec::new(),
            release: Vec::new(),
            keep_tunnels: Vec::new(),
            free_tunnels: Vec::new(),
            rehold: None,
        }
    }
}

/// Numbers for the tunnels of one path, out of a range whose ends belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelWant {
    pub order: OrderId,
    pub generation: u64,
    pub leg: u32,
    pub path: u32,
    pub count: u32,
    pub from: u32,
    pub to: u32,
    /// Where something of them will be.
    pub points: Vec<PointName>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Intent {
    /// A new order, durable with its first event; with the idempotency key's answer if there was one. Gives `Changed`.
    AcceptOrder {
        record: Box<OrderRecord>,
        event: NewEvent,
        idempotency: Option<crate::IdempotencyRecord>,
    },
    /// Holds devices and link capacity for an order's generation and applies the change, or nothing. Gives `Reserved`.
    Reserve {
        order: OrderId,
        generation: u64,
        reservation: Reservation,
        change: Box<OrderChange>,
    },
    Change(Box<OrderChange>),
    /// Work that takes longer than planned: holds at least so much on links for the order's generation, or nothing more.
    Extend {
        order: OrderId,
        generation: u64,
        links: Vec<LinkWant>,
        at: Timestamp,
    },
    /// Numbers for a path of the order's present generation; those that it has if it has them. Gives `Numbered`. In a
    /// commit with none but its like.
    TakeTunnels(TunnelWant),
    /// Nothing is left of what had these numbers in a generation that has ended; of one that has not they stay.
    FreeTunnels {
        order: OrderId,
        generation: u64,
        numbers: Vec<u32>,
    },
    /// A binding quote with what it holds (gives `Reserved`, version 0), or nothing; a quote without a reservation is not
    /// binding (gives `Done`).
    OfferQuote {
        record: Box<QuoteRecord>,
        reservation: Option<Reservation>,
        idempotency: Option<crate::IdempotencyRecord>,
    },
    /// Makes a binding, unexpired quote of the order's tenant an order: its holdings become the order's generation 1. Gives
    /// `Reserved`.
    AcceptQuote {
        quote: QuoteId,
        at: Timestamp,
        record: Box<OrderRecord>,
        events: Vec<NewEvent>,
        idempotency: Option<crate::IdempotencyRecord>,
    },
    /// Ends a quote and gives back what it holds; one that became an order is refused with `Conflict::Quote`.
    EndQuote {
        quote: QuoteId,
        at: Timestamp,
    },
    /// Static facts of points and links from configuration (upsert); capacity below what is reserved is refused.
    Configure {
        points: Vec<PointRecord>,
        links: Vec<(LinkId, Bandwidth)>,
    },
    /// The nodes that a site reports, replacing the former ones; what is held stays held (free is never negative).
    Inventory {
        site: SiteName,
        nodes: Vec<NodeRecord>,
    },
    /// Last report of a point: of the same boot `seq` must rise, and a boot that another one has followed is over.
    Heard {
        point: SiteName,
        boot: uuid::Uuid,
        seq: u64,
        at: Timestamp,
    },
    Drain {
        site: SiteName,
        draining: bool,
    },
    /// A new tenant.
    PutTenant(crate::TenantRecord),
    /// A tenant that configuration names: made where it is missing, left as it is where it is there.
    KnowTenant {
        name: TenantName,
        at: Timestamp,
    },
    /// Nothing new is taken from the tenant, and its tokens are revoked but for those of platform administrators.
    CloseTenant {
        name: TenantName,
        at: Timestamp,
    },
    SetQuota {
        tenant: TenantName,
        quota: crate::Quota,
    },
    /// Refused for a tenant that is unknown or closed. One with the same hash keeps its id, and stays revoked if it is.
    PutToken(TokenRecord),
    /// From here on the token is worth nothing; `within` a tenant only what its administrators may see is there.
    RevokeToken {
        id: TokenId,
        within: Option<TenantName>,
        at: Timestamp,
    },
    /// A change and the line that the audit log has of it, or neither.
    Administer {
        change: Box<Intent>,
        entry: crate::AuditEntry,
    },
    /// A certificate authority; the first of the same certificate stays.
    PutAuthority(crate::AuthorityRecord),
    /// No longer trusted; refused for the newest one.
    RetireAuthority {
        fingerprint: String,
        at: Timestamp,
    },
    PutJoinToken(crate::JoinTokenRecord),
    /// Uses a join token up and keeps the certificate that was signed for it, or neither (`Conflict::JoinToken`).
    Enrol {
        token: [u8; 32],
        certificate: crate::CertificateRecord,
        at: Timestamp,
    },
    /// The next certificate of an agent whose `former` one, of the same point, is not revoked.
    Renew {
        former: String,
        certificate: crate::CertificateRecord,
    },
    /// From here on the certificate is worth nothing.
    Revoke {
        serial: String,
        at: Timestamp,
    },
    /// Each byte once, up to 4 MiB per order; text of an unknown order is ignored.
    AppendLogs(Vec<LogRecord>),
    /// Windows of configured links, each once; of others nothing is kept.
    KeepWindows(Vec<LinkWindow>),
    /// Drops windows that ended before.
    ForgetWindows {
        before: Timestamp,
    },
    /// Stores an answer, or the claim to give one, under its key without another change. The first answer stays; a claim
    /// becomes its answer; a claim of a minute ago may be claimed anew.
    Remember(crate::IdempotencyRecord),
    /// Drops idempotency keys, join tokens and certificates that ended before `before`, and what was held on links until `at`.
    Forget {
        before: Timestamp,
        at: Timestamp,
    },
}

/// What a tenant's quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaKind {
    Accelerators,
    Orders,
    Quotes,
}

impl std::fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Accelerators => "accelerators",
            Self::Orders => "live orders",
            Self::Quotes => "live quotes",
        })
    }
}

/// `1500` as `1.5`.
pub fn thousandths(milli: u64) -> String {
    let (whole, rest) = (milli / 1_000, milli % 1_000);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:03}").trim_end_matches('0').to_owned() }
}

/// Why an intent left nothing behind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("order {0} changed meanwhile (version {1} is not current)")]
    Version(OrderId, i64),
    #[error("order {0} is in a final state")]
    Final(OrderId),
    #[error("no such {0}")]
    Missing(String),
    #[error("site {site} has no room for {component} replica {replica}")]
    Room { site: SiteName, component: ComponentName, replica: u32 },
    #[error("link {link} has {free} free, {needed} needed")]
    Link { link: LinkId, free: Bandwidth, needed: Bandwidth },
    #[error(
        "the pool of tunnel numbers {from} to {to} has {free} free, {needed} needed; wait for an order to end or widen the pool"
    )]
    Tunnels { from: u32, to: u32, free: u32, needed: u32 },
    #[error("site {0} is draining: nothing new starts there")]
    Draining(SiteName),
    #[error("{0} exists already")]
    Exists(String),
    #[error("quote {0} has expired or was used")]
    Quote(QuoteId),
    #[error("idempotency key is in use")]
    Key,
    #[error("the join token is unknown, used, expired, or for another point")]
    JoinToken,
    #[error("tenant {0} is unknown or closed")]
    Tenant(TenantName),
    #[error("the tenant's quota of {kind} has {} free, {} needed", thousandths(*.free_milli), thousandths(*.needed_milli))]
    Quota { kind: QuotaKind, needed_milli: u64, free_milli: u64 },
    #[error("report is not newer than the last one")]
    OldReport,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Done,
    /// Version of the order after the change.
    Changed {
        version: i64,
    },
    Reserved {
        version: i64,
        grants: Vec<Grant>,
    },
    /// Numbers of tunnels, one for each that was wanted.
    Numbered(Vec<u32>),
    Refused(Conflict),
}
