//! A store whose commits go wrong where a test says so.

use jiff::Timestamp;
use rhumb_model::{LinkId, OrderId, PointName, QuoteId, TenantName};
use rhumb_store::{
    AuditFilter, AuditRecord, AuthorityRecord, CertificateRecord, DecisionRecord, EventRecord, Held, Holdings,
    IdempotencyRecord, Intent, JoinTokenRecord, LinkWindow, NodeRecord, OrderFilter, OrderRecord, Outcome, Page,
    Picture, PointRecord, QuoteRecord, SqliteStore, Store, StoreError, TenantRecord, TokenFilter, TokenRecord,
    UsageRecord, record::LogRecord,
};
use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use uuid::Uuid;

/// What becomes of the commit that it is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It is not done, and the caller is told that it may be.
    NotDone,
    /// It is done, and the caller is told that it may not be.
    AnswerLost,
    /// It is not done, and the process that asked for it is dead from then on.
    DeadBefore,
    /// It is done, and the process that asked for it is dead from then on.
    DeadAfter,
}

#[derive(Debug, Default)]
struct State {
    commits: u64,
    trouble: Option<(u64, Trouble)>,
    dead: bool,
}

#[derive(Debug, Clone)]
pub struct FlakyStore {
    store: SqliteStore,
    state: Arc<Mutex<State>>,
}

type Answer<T> = Result<T, StoreError>;

impl FlakyStore {
    pub fn new(store: SqliteStore) -> Self {
        Self { store, state: Arc::default() }
    }

    /// The same data for a new process: nothing is wrong with it, and nothing has been asked of it.
    pub fn for_a_new_process(&self) -> Self {
        Self::new(self.store.clone())
    }

    /// `nth` counts from 0, from now on.
    pub fn trouble(&self, nth: u64, trouble: Trouble) {
        let mut state = self.state();
        let at = state.commits + nth;
        state.trouble = Some((at, trouble));
    }

    /// What has not gone wrong yet goes well, commits that are under way too.
    pub fn calm(&self) {
        self.state().trouble = None;
    }

    /// How many commits there were.
    pub fn commits(&self) -> u64 {
        self.state().commits
    }

    /// Whether what was meant to go wrong has.
    pub fn is_over(&self) -> bool {
        let state = self.state();
        state.dead || state.trouble.is_none_or(|(at, _)| at < state.commits)
    }

    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// The process is dead from now on, unless calm has come.
    fn dies(&self) -> bool {
        let mut state = self.state();
        state.dead |= state.trouble.is_some();
        state.dead
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store, as long as the process lives.
    fn alive(&self) -> Answer<&SqliteStore> {
        if self.is_dead() { Err(StoreError::Closed) } else { Ok(&self.store) }
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable { operation: "committing in a test", source: "it was to go wrong".into() }
}

/// Reads that go on as long as the process lives.
macro_rules! reads {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty;)+) => {
        $(fn $name(&self $(, $arg: $type)*) -> impl Future<Output = Answer<$out>> + Send {
            async move { self.alive()?.$name($($arg),*).await }
        })+
    };
}

impl Store for FlakyStore {
    async fn commit(&self, intents: Vec<Intent>) -> Answer<Vec<Outcome>> {
        let store = self.alive()?;
        let trouble = {
            let mut state = self.state();
            let this = state.commits;
            state.commits += 1;
            state.trouble.filter(|(at, _)| *at == this).map(|(_, trouble)| trouble)
        };
        match trouble {
            Some(Trouble::DeadBefore) if self.dies() => Err(StoreError::Closed),
            None | Some(Trouble::DeadBefore) => store.commit(intents).await,
            Some(Trouble::NotDone) => Err(unavailable()),
            Some(Trouble::AnswerLost) => {
                store.commit(intents).await?;
                Err(unavailable())
            }
            Some(Trouble::DeadAfter) => {
                let outcomes = store.commit(intents).await?;
                if self.dies() { Err(StoreError::Closed) } else { Ok(outcomes) }
            }
        }
    }

    fn as_leader(&self, epoch: u64) -> Self {
        Self { store: self.store.as_leader(epoch), state: Arc::clone(&self.state) }
    }

    reads! {
        order(id: OrderId) -> Option<OrderRecord>;
        orders(filter: &OrderFilter) -> Page<OrderRecord>;
        live_orders() -> Vec<OrderRecord>;
        decision(id: OrderId) -> Option<DecisionRecord>;
        order_events(id: OrderId, after: u64, limit: u32) -> Vec<EventRecord>;
        events_since(seq: u64, limit: u32) -> Vec<EventRecord>;
        last_event() -> u64;
        quote(id: QuoteId) -> Option<QuoteRecord>;
        live_quotes() -> Vec<QuoteRecord>;
        holdings() -> Holdings;
        picture() -> Picture;
        points() -> Vec<PointRecord>;
        nodes() -> Vec<NodeRecord>;
        usage(id: OrderId) -> Vec<UsageRecord>;
        logs(id: OrderId, after: u64, limit: u32) -> Vec<LogRecord>;
        link_windows(link: &LinkId, from: Timestamp, to: Timestamp) -> Vec<LinkWindow>;
        idempotency(tenant: &str, key: &str) -> Option<IdempotencyRecord>;
        token(hash: &[u8; 32]) -> Option<TokenRecord>;
        tokens(filter: &TokenFilter) -> Vec<TokenRecord>;
        tenant(name: &TenantName) -> Option<TenantRecord>;
        tenants(after: Option<&TenantName>, limit: u32) -> Vec<TenantRecord>;
        held(tenant: &TenantName) -> Held;
        audit_log(filter: &AuditFilter) -> Vec<AuditRecord>;
        authorities() -> Vec<AuthorityRecord>;
        join_token(hash: &[u8; 32]) -> Option<JoinTokenRecord>;
        certificate(serial: &str) -> Option<CertificateRecord>;
        certificates(point: &PointName) -> Vec<CertificateRecord>;
        revoked(now: Timestamp) -> Vec<String>;
        next_epoch() -> u64;
        take_lead(holder: Uuid, lease: Duration) -> Option<u64>;
        renew_lead(holder: Uuid, epoch: u64, lease: Duration) -> bool;
        give_up_lead(holder: Uuid, epoch: u64) -> ();
        ping() -> ();
    }
}
