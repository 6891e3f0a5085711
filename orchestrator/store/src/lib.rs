//! Durable state behind one trait: SQLite embedded, PostgreSQL beyond one machine.
//!
//! Invariants
//! - Every change goes through `commit`: set-based, one transaction, a savepoint per intent; an intent holds or leaves nothing.
//! - Devices, node capacity and link capacity are re-validated there on current rows, and CHECK constraints make a
//!   negative or over-full node, device or link impossible in the database itself.
//! - An order's event is written in the same transaction as its change; events of one order are numbered without gaps.
//! - `version` guards every order: an intent made on an older version is refused.
//! - A commit of a leader holds only while its epoch is the current one; the transaction itself checks it.

mod any;
mod apply;
mod codec;
mod engine;
pub mod error;
pub mod intent;
mod migration;
pub mod postgres;
mod read;
pub mod record;
mod room;
mod rows;
mod session;
pub mod sqlite;
#[cfg(feature = "testing")]
pub mod testing;

pub use any::AnyStore;
pub use error::StoreError;
pub use intent::{
    Conflict, Grant, Holder, Intent, LinkWant, OrderChange, Outcome, QuotaKind, ReplicaWant, Reservation, TunnelWant,
    thousandths,
};
pub use postgres::{PostgresLimits, PostgresStore};
pub use record::{
    AuditEntry, AuditFilter, AuditRecord, AuthorityRecord, CertificateRecord, DecisionRecord, EventRecord, Held,
    Holdings, IdempotencyRecord, JoinTokenRecord, LinkHold, LinkWindow, NewEvent, NodeRecord, OrderFilter, OrderRecord,
    Page, Picture, PointRecord, Quota, QuoteRecord, ReplicaHold, TenantRecord, TokenFilter, TokenRecord, TunnelHold,
    UsageRecord, WindowRtt,
};
pub use sqlite::SqliteStore;

use jiff::Timestamp;
use rhumb_model::{LinkId, OrderId, PointName, QuoteId, TenantName};
use std::{future::Future, time::Duration};
use uuid::Uuid;

type Answer<T> = Result<T, StoreError>;

/// What the control plane asks of durable state. Reads see every commit that was answered before.
pub trait Store: Clone + Send + Sync + 'static {
    /// One outcome per intent, in order. Concurrent callers are grouped into one transaction where the backend gains by it.
    /// It goes on if the caller goes away. An error leaves none of the intents, except that after `Unavailable` all of them
    /// may be there: read again before trying again.
    fn commit(&self, intents: Vec<Intent>) -> impl Future<Output = Answer<Vec<Outcome>>> + Send;

    fn order(&self, id: OrderId) -> impl Future<Output = Answer<Option<OrderRecord>>> + Send;
    /// Newest first, keyset pages of at most 200.
    fn orders(&self, filter: &OrderFilter) -> impl Future<Output = Answer<Page<OrderRecord>>> + Send;
    /// Every order that is not in a final state, oldest first.
    fn live_orders(&self) -> impl Future<Output = Answer<Vec<OrderRecord>>> + Send;
    fn decision(&self, id: OrderId) -> impl Future<Output = Answer<Option<DecisionRecord>>> + Send;
    fn order_events(
        &self,
        id: OrderId,
        after: u64,
        limit: u32,
    ) -> impl Future<Output = Answer<Vec<EventRecord>>> + Send;
    /// All events after the global sequence number, for the stream, at most 1,000: nothing appears behind what was returned.
    /// In PostgreSQL an event may come a moment after its commit was answered, while older transactions are open.
    fn events_since(&self, seq: u64, limit: u32) -> impl Future<Output = Answer<Vec<EventRecord>>> + Send;
    fn last_event(&self) -> impl Future<Output = Answer<u64>> + Send;

    fn quote(&self, id: QuoteId) -> impl Future<Output = Answer<Option<QuoteRecord>>> + Send;
    /// Quotes that still hold something.
    fn live_quotes(&self) -> impl Future<Output = Answer<Vec<QuoteRecord>>> + Send;

    /// Everything held now, by orders and quotes.
    fn holdings(&self) -> impl Future<Output = Answer<Holdings>> + Send;
    /// Live orders and quotes, holdings, nodes and points, all of one instant.
    fn picture(&self) -> impl Future<Output = Answer<Picture>> + Send;
    fn points(&self) -> impl Future<Output = Answer<Vec<PointRecord>>> + Send;
    fn nodes(&self) -> impl Future<Output = Answer<Vec<NodeRecord>>> + Send;
    fn usage(&self, id: OrderId) -> impl Future<Output = Answer<Vec<UsageRecord>>> + Send;
    /// Log text of all replicas as it arrived, from `after` bytes on, about `limit` bytes: the next question's `after` is
    /// this one's plus the length of every text got.
    fn logs(&self, id: OrderId, after: u64, limit: u32) -> impl Future<Output = Answer<Vec<record::LogRecord>>> + Send;

    /// Windows of a link that ended after `from`, up to and with `to`, oldest first, at most 20,000.
    fn link_windows(
        &self,
        link: &LinkId,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Future<Output = Answer<Vec<LinkWindow>>> + Send;

    fn idempotency(&self, tenant: &str, key: &str) -> impl Future<Output = Answer<Option<IdempotencyRecord>>> + Send;
    /// By SHA-256 of the token; the token itself is never stored. One of a tenant that is unknown or closed is not there.
    fn token(&self, hash: &[u8; 32]) -> impl Future<Output = Answer<Option<TokenRecord>>> + Send;
    /// Newest first, keyset pages of at most 200.
    fn tokens(&self, filter: &TokenFilter) -> impl Future<Output = Answer<Vec<TokenRecord>>> + Send;
    fn tenant(&self, name: &TenantName) -> impl Future<Output = Answer<Option<TenantRecord>>> + Send;
    /// By name, those after `after`, at most 200.
    fn tenants(&self, after: Option<&TenantName>, limit: u32)
    -> impl Future<Output = Answer<Vec<TenantRecord>>> + Send;
    /// What a tenant holds of what its quota counts.
    fn held(&self, tenant: &TenantName) -> impl Future<Output = Answer<Held>> + Send;
    /// What administrators did, newest first, keyset pages of at most 200.
    fn audit_log(&self, filter: &AuditFilter) -> impl Future<Output = Answer<Vec<AuditRecord>>> + Send;

    /// Authorities that are trusted, the newest first: it signs.
    fn authorities(&self) -> impl Future<Output = Answer<Vec<AuthorityRecord>>> + Send;
    fn join_token(&self, hash: &[u8; 32]) -> impl Future<Output = Answer<Option<JoinTokenRecord>>> + Send;
    fn certificate(&self, serial: &str) -> impl Future<Output = Answer<Option<CertificateRecord>>> + Send;
    /// Of a point, the newest first, at most 200.
    fn certificates(&self, point: &PointName) -> impl Future<Output = Answer<Vec<CertificateRecord>>> + Send;
    /// Numbers of the certificates that are revoked and whose time is not over.
    fn revoked(&self, now: Timestamp) -> impl Future<Output = Answer<Vec<String>>> + Send;

    /// The same store for who leads the epoch: the database refuses its commits (`Fenced`) once another epoch has begun.
    /// Commits of a store that this was not asked of need no leadership.
    #[must_use]
    fn as_leader(&self, epoch: u64) -> Self;
    /// Begins a new epoch whoever leads, without a lease: for a database that one orchestrator has for itself.
    fn next_epoch(&self) -> impl Future<Output = Answer<u64>> + Send;
    /// Begins a new epoch with a lease, by the clock of the database; `None`: another's lease lives.
    fn take_lead(&self, holder: Uuid, lease: Duration) -> impl Future<Output = Answer<Option<u64>>> + Send;
    /// Makes the lease last `lease` from now on; false: the epoch is over, or another's.
    fn renew_lead(&self, holder: Uuid, epoch: u64, lease: Duration) -> impl Future<Output = Answer<bool>> + Send;
    /// Ends the lease at once. Of an epoch that is over nothing is changed.
    fn give_up_lead(&self, holder: Uuid, epoch: u64) -> impl Future<Output = Answer<()>> + Send;
    /// Whether the database is there and takes writes, for readiness.
    fn ping(&self) -> impl Future<Output = Answer<()>> + Send;
}
