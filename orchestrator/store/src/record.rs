//! Rows as the control plane sees them.

mod admission;
mod enrolment;

pub use admission::{AuditEntry, AuditFilter, AuditRecord, Held, Quota, TenantRecord, TokenFilter, TokenRecord};
pub use enrolment::{AuthorityRecord, CertificateRecord, JoinTokenRecord};

use jiff::Timestamp;
use rhumb_model::{
    Bandwidth, Change, ComponentName, Latency, LinkId, Node, NodeName, Order, OrderId, OrderState, Phase, Plan, Ppm,
    QuoteId, Reason, SiteName, Slots, Span, TenantName, Verdict, name::PointName, plan,
};
use rhumb_provision::{Checkpoint, Saga};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq)]
pub struct OrderRecord {
    pub id: OrderId,
    pub tenant: TenantName,
    pub document: Order,
    pub state: OrderState,
    pub phase: Option<Phase>,
    /// What a person should look at.
    pub attention: Option<String>,
    pub reasons: Vec<Reason>,
    pub plan: Option<Plan>,
    /// Estimated before, billed after settling.
    pub cost: Option<plan::Cost>,
    pub saga: Option<Saga>,
    /// What earlier generations' work named as its last checkpoints.
    pub checkpoints: Vec<Checkpoint>,
    pub quote_id: Option<QuoteId>,
    /// Of what runs now; 0 before the first reservation.
    pub generation: u64,
    pub version: i64,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// W3C trace context of the request that made it.
    pub traceparent: Option<String>,
}

/// Why an order is where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionRecord {
    pub at: Timestamp,
    pub sites: Vec<Verdict>,
    pub reasons: Vec<Reason>,
    pub would_fit_if: Vec<Change>,
    /// The view it was decided on, as a federation file (JSON).
    pub view: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    pub kind: String,
    pub phase: Option<Phase>,
    pub message: String,
    pub detail: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq)]
pub struct EventRecord {
    /// Global, rising; may have gaps.
    pub seq: u64,
    pub order: OrderId,
    pub tenant: TenantName,
    /// From 1 without gaps.
    pub number: u64,
    pub at: Timestamp,
    pub event: NewEvent,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct OrderFilter {
    pub tenant: Option<TenantName>,
    pub states: Vec<OrderState>,
    pub name: Option<String>,
    /// Exclusive: orders older than this one.
    pub before: Option<OrderId>,
    /// 1 to 200.
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<OrderId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct QuoteRecord {
    pub id: QuoteId,
    pub tenant: TenantName,
    pub document: Order,
    /// `None`: refused; then `decision` has the reasons.
    pub plan: Option<Plan>,
    pub decision: DecisionRecord,
    pub binding: bool,
    pub created: Timestamp,
    pub expires: Timestamp,
    /// Expired, ended or turned into an order.
    pub ended: Option<Timestamp>,
    pub order: Option<OrderId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaHold {
    pub holder: crate::Holder,
    pub generation: u64,
    pub component: ComponentName,
    pub replica: u32,
    pub site: SiteName,
    pub node: NodeName,
    pub devices: Vec<u32>,
    /// Of one device, where the need is a share: thousandths; 1000 for whole devices.
    pub share: u16,
    /// Of the shared device.
    pub device_memory_bytes: u64,
    pub cpu_milli: u64,
    pub memory_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkHold {
    pub holder: crate::Holder,
    pub generation: u64,
    pub link: LinkId,
    /// `None`: for good.
    pub slots: Option<Slots>,
    pub rate: Bandwidth,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holdings {
    pub replicas: Vec<ReplicaHold>,
    pub links: Vec<LinkHold>,
    /// Reserved for good, and capacity, of every configured link; the first equals the sum of its holds (audited).
    pub reserved: Vec<(LinkId, Bandwidth, Bandwidth)>,
    /// Reserved by slot, by link and slot; slots that are over may be missing.
    pub slots: Vec<(LinkId, Slots, Bandwidth)>,
    /// Numbers of tunnels, rising.
    pub tunnels: Vec<TunnelHold>,
}

/// A tunnel's number and the path that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelHold {
    pub number: u32,
    pub order: OrderId,
    pub generation: u64,
    pub leg: u32,
    pub path: u32,
    /// Of the path, where each link has a tunnel of its own.
    pub hop: u32,
    /// Where something of it may be.
    pub points: Vec<PointName>,
}

/// Everything live, of one instant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Picture {
    pub orders: Vec<OrderRecord>,
    pub quotes: Vec<QuoteRecord>,
    pub holdings: Holdings,
    pub nodes: Vec<NodeRecord>,
    pub points: Vec<PointRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointRecord {
    pub name: PointName,
    pub draining: bool,
    pub boot: Option<Uuid>,
    pub seq: u64,
    pub heard: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    pub site: SiteName,
    pub node: Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRecord {
    /// `accelerator_seconds`, `cpu_seconds`, `gb_moved` or `mbps_hours`.
    pub kind: String,
    /// Site or link.
    pub subject: String,
    /// Millionths of the unit in `kind`.
    pub quantity_micro: i64,
    pub cost_micros: i64,
    pub generation: u64,
    /// Names the fact that is billed (such as `replica/COMPONENT/0` or `leg/3/LINK`): with order, generation and kind unique, so nothing is billed twice.
    pub item: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    pub order: OrderId,
    pub generation: u64,
    pub component: ComponentName,
    pub replica: u32,
    /// Of the first byte, in this replica's output; a chunk already stored is ignored.
    pub offset: u64,
    pub text: String,
}

/// What probes said of one directed link over one window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkWindow {
    pub link: LinkId,
    /// End of the window.
    pub at: Timestamp,
    pub length: Span,
    pub sent: u64,
    pub received: u64,
    /// `None`: nothing was received.
    pub rtt: Option<WindowRtt>,
    /// Of the way there, of probes whose fate is known; `None`: there are none.
    pub loss: Option<Ppm>,
    /// Counts and histograms, as JSON.
    pub record: String,
}

/// Round trips of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowRtt {
    pub min: Latency,
    pub p50: Latency,
    pub p95: Latency,
    pub p99: Latency,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    pub tenant: TenantName,
    pub key: String,
    pub body_sha256: [u8; 32],
    /// `None`: in progress.
    pub answer: Option<(u16, String)>,
    pub at: Timestamp,
}
