//! What the databases must offer; the store's questions are answered once, on top of it.

use crate::{
    Answer, Store,
    apply::{self, lead::Claim},
    error::{Fault, StoreError, sql_error},
    intent::{Intent, Outcome},
    read,
    record::{
        AuditFilter, AuditRecord, AuthorityRecord, CertificateRecord, DecisionRecord, EventRecord, Held, Holdings,
        IdempotencyRecord, JoinTokenRecord, LinkWindow, LogRecord, NodeRecord, OrderFilter, OrderRecord, Page, Picture,
        PointRecord, QuoteRecord, TenantRecord, TokenFilter, TokenRecord, UsageRecord,
    },
    session::{Dialect, Session},
};
use jiff::Timestamp;
use rhumb_model::{LinkId, OrderId, PointName, QuoteId, TenantName};
use sqlx::{Postgres, Sqlite, pool::PoolConnection};
use std::{future::Future, time::Duration};
use uuid::Uuid;

pub trait Engine: Clone + Send + Sync + 'static {
    fn lease(&self) -> impl Future<Output = Answer<Lease>> + Send;
    fn submit(&self, intents: Vec<Intent>) -> impl Future<Output = Answer<Vec<Outcome>>> + Send;
    fn claim(&self, claim: Claim) -> impl Future<Output = Answer<Option<u64>>> + Send;
    fn led(&self, epoch: u64) -> Self;
    /// Longest that one question may take.
    fn patience(&self) -> Duration;
}

#[derive(Debug)]
enum Pooled {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

/// A pooled connection. If it is dropped in the middle of something (an error, a time-out, a panic) it is closed and
/// not given back: the next borrower must never find itself in another's transaction.
#[derive(Debug)]
pub struct Lease {
    connection: Option<Pooled>,
    busy: bool,
}

impl Lease {
    pub const fn sqlite(connection: PoolConnection<Sqlite>) -> Self {
        Self { connection: Some(Pooled::Sqlite(connection)), busy: false }
    }

    pub const fn postgres(connection: PoolConnection<Postgres>) -> Self {
        Self { connection: Some(Pooled::Postgres(connection)), busy: false }
    }

    /// From here on the connection is given back only after `finish`.
    pub fn start(&mut self) -> Result<Session<'_>, StoreError> {
        self.busy = true;
        match &mut self.connection {
            Some(Pooled::Sqlite(c)) => Ok(Session::Sqlite(&mut *c)),
            Some(Pooled::Postgres(c)) => Ok(Session::Postgres(&mut *c)),
            None => Err(StoreError::Closed),
        }
    }

    /// No transaction is open and no answer outstanding.
    pub fn finish(mut self) {
        self.busy = false;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.busy {
            match self.connection.take() {
                Some(Pooled::Sqlite(c)) => drop(c.detach()),
                Some(Pooled::Postgres(c)) => drop(c.detach()),
                None => {}
            }
        }
    }
}

/// Runs to its end even if the caller goes away.
pub async fn detached<T: Send + 'static>(work: impl Future<Output = Answer<T>> + Send + 'static) -> Answer<T> {
    match tokio::spawn(work).await {
        Ok(answer) => answer,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Closed),
    }
}

/// Applies one intent; of one that is refused or fails nothing is left.
pub async fn guarded(session: &mut Session<'_>, intent: &Intent) -> Result<Outcome, Guarded> {
    session.plain("SAVEPOINT intent").await.map_err(Guarded::Lost)?;
    match apply::intent(session, intent).await {
        Ok(outcome) => {
            session.plain("RELEASE SAVEPOINT intent").await.map_err(Guarded::Lost)?;
            Ok(outcome)
        }
        Err(fault) => {
            session.plain("ROLLBACK TO SAVEPOINT intent; RELEASE SAVEPOINT intent").await.map_err(Guarded::Lost)?;
            match fault {
                Fault::Refused(conflict) => Ok(Outcome::Refused(conflict)),
                fault => Err(Guarded::Failed(fault)),
            }
        }
    }
}

/// How a guarded intent fails.
#[derive(Debug)]
pub enum Guarded {
    /// It is undone; the transaction goes on.
    Failed(Fault),
    /// The transaction itself is gone.
    Lost(sqlx::Error),
}

/// One question on a connection of its own, within the engine's patience.
macro_rules! ask {
    ($store:expr, $operation:literal, |$session:ident| $question:expr) => {{
        let store = $store.clone();
        detached(async move {
            let mut lease = store.lease().await?;
            let mut $session = lease.start()?;
            match tokio::time::timeout(store.patience(), $question).await {
                Ok(Ok(answer)) => {
                    lease.finish();
                    Ok(answer)
                }
                Ok(Err(fault)) => Err(fault.into_error($operation)),
                Err(late) => Err(StoreError::Unavailable { operation: $operation, source: late.into() }),
            }
        })
    }};
}

/// What comes from several tables is read in one transaction, so that it is of one instant.
macro_rules! snapshot {
    ($session:expr, $read:path) => {
        async {
            let session: &mut Session<'_> = $session;
            session
                .plain(match session.dialect() {
                    Dialect::Sqlite => "BEGIN",
                    Dialect::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                })
                .await?;
            let answer = $read(session).await?;
            session.plain("COMMIT").await?;
            Ok::<_, Fault>(answer)
        }
    };
}

impl<E: Engine> Store for E {
    async fn commit(&self, intents: Vec<Intent>) -> Answer<Vec<Outcome>> {
        if intents.is_empty() {
            return Ok(Vec::new());
        }
        self.submit(intents).await
    }

    async fn order(&self, id: OrderId) -> Answer<Option<OrderRecord>> {
        ask!(self, "reading an order", |s| read::order(&mut s, id)).await
    }

    async fn orders(&self, filter: &OrderFilter) -> Answer<Page<OrderRecord>> {
        let filter = filter.clone();
        ask!(self, "listing orders", |s| read::orders(&mut s, &filter)).await
    }

    async fn live_orders(&self) -> Answer<Vec<OrderRecord>> {
        ask!(self, "listing live orders", |s| read::live_orders(&mut s)).await
    }

    async fn decision(&self, id: OrderId) -> Answer<Option<DecisionRecord>> {
        ask!(self, "reading a decision", |s| read::decision(&mut s, id)).await
    }

    async fn order_events(&self, id: OrderId, after: u64, limit: u32) -> Answer<Vec<EventRecord>> {
        ask!(self, "reading an order's events", |s| read::order_events(&mut s, id, after, limit)).await
    }

    async fn events_since(&self, seq: u64, limit: u32) -> Answer<Vec<EventRecord>> {
        ask!(self, "reading events", |s| read::events_since(&mut s, seq, limit)).await
    }

    async fn last_event(&self) -> Answer<u64> {
        ask!(self, "reading the last event", |s| read::last_event(&mut s)).await
    }

    async fn quote(&self, id: QuoteId) -> Answer<Option<QuoteRecord>> {
        ask!(self, "reading a quote", |s| read::quote(&mut s, id)).await
    }

    async fn live_quotes(&self) -> Answer<Vec<QuoteRecord>> {
        ask!(self, "listing live quotes", |s| read::live_quotes(&mut s)).await
    }

    async fn holdings(&self) -> Answer<Holdings> {
        ask!(self, "reading holdings", |s| snapshot!(&mut s, read::holdings)).await
    }

    async fn picture(&self) -> Answer<Picture> {
        ask!(self, "reading the whole picture", |s| snapshot!(&mut s, read::picture)).await
    }

    async fn points(&self) -> Answer<Vec<PointRecord>> {
        ask!(self, "reading points", |s| read::points(&mut s)).await
    }

    async fn nodes(&self) -> Answer<Vec<NodeRecord>> {
        ask!(self, "reading nodes", |s| read::nodes(&mut s)).await
    }

    async fn usage(&self, id: OrderId) -> Answer<Vec<UsageRecord>> {
        ask!(self, "reading usage", |s| read::usage(&mut s, id)).await
    }

    async fn logs(&self, id: OrderId, after: u64, limit: u32) -> Answer<Vec<LogRecord>> {
        ask!(self, "reading logs", |s| read::logs(&mut s, id, after, limit)).await
    }

    async fn link_windows(&self, link: &LinkId, from: Timestamp, to: Timestamp) -> Answer<Vec<LinkWindow>> {
        let link = link.clone();
        ask!(self, "reading a link's windows", |s| read::link_windows(&mut s, &link, from, to)).await
    }

    async fn idempotency(&self, tenant: &str, key: &str) -> Answer<Option<IdempotencyRecord>> {
        let (tenant, key) = (tenant.to_owned(), key.to_owned());
        ask!(self, "reading an idempotency key", |s| read::idempotency(&mut s, &tenant, &key)).await
    }

    async fn token(&self, hash: &[u8; 32]) -> Answer<Option<TokenRecord>> {
        let hash = *hash;
        ask!(self, "reading a token", |s| read::admission::token(&mut s, &hash)).await
    }

    async fn tokens(&self, filter: &TokenFilter) -> Answer<Vec<TokenRecord>> {
        let filter = filter.clone();
        ask!(self, "listing tokens", |s| read::admission::tokens(&mut s, &filter)).await
    }

    async fn tenant(&self, name: &TenantName) -> Answer<Option<TenantRecord>> {
        let name = name.clone();
        ask!(self, "reading a tenant", |s| read::admission::tenant(&mut s, &name)).await
    }

    async fn tenants(&self, after: Option<&TenantName>, limit: u32) -> Answer<Vec<TenantRecord>> {
        let after = after.cloned();
        ask!(self, "listing tenants", |s| read::admission::tenants(&mut s, after.as_ref(), limit)).await
    }

    async fn held(&self, tenant: &TenantName) -> Answer<Held> {
        let tenant = tenant.clone();
        ask!(self, "reading what a tenant holds", |s| read::admission::held(&mut s, &tenant)).await
    }

    async fn audit_log(&self, filter: &AuditFilter) -> Answer<Vec<AuditRecord>> {
        let filter = filter.clone();
        ask!(self, "reading the audit log", |s| read::admission::audit_log(&mut s, &filter)).await
    }

    async fn authorities(&self) -> Answer<Vec<AuthorityRecord>> {
        ask!(self, "reading authorities", |s| read::enrolment::authorities(&mut s)).await
    }

    async fn join_token(&self, hash: &[u8; 32]) -> Answer<Option<JoinTokenRecord>> {
        let hash = *hash;
        ask!(self, "reading a join token", |s| read::enrolment::join_token(&mut s, &hash)).await
    }

    async fn certificate(&self, serial: &str) -> Answer<Option<CertificateRecord>> {
        let serial = serial.to_owned();
        ask!(self, "reading a certificate", |s| read::enrolment::certificate(&mut s, &serial)).await
    }

    async fn certificates(&self, point: &PointName) -> Answer<Vec<CertificateRecord>> {
        let point = point.clone();
        ask!(self, "reading a point's certificates", |s| read::enrolment::certificates(&mut s, &point)).await
    }

    async fn revoked(&self, now: Timestamp) -> Answer<Vec<String>> {
        ask!(self, "reading revoked certificates", |s| read::enrolment::revoked(&mut s, now)).await
    }

    fn as_leader(&self, epoch: u64) -> Self {
        self.led(epoch)
    }

    async fn next_epoch(&self) -> Answer<u64> {
        let missing = || StoreError::Corrupt { table: "leadership", detail: "its only row is missing".to_owned() };
        self.claim(Claim::Seize).await?.ok_or_else(missing)
    }

    async fn take_lead(&self, holder: Uuid, lease: Duration) -> Answer<Option<u64>> {
        self.claim(Claim::Take { holder, lease }).await
    }

    async fn renew_lead(&self, holder: Uuid, epoch: u64, lease: Duration) -> Answer<bool> {
        Ok(self.claim(Claim::Renew { holder, epoch, lease }).await?.is_some())
    }

    async fn give_up_lead(&self, holder: Uuid, epoch: u64) -> Answer<()> {
        self.claim(Claim::GiveUp { holder, epoch }).await.map(drop)
    }

    async fn ping(&self) -> Answer<()> {
        ask!(self, "asking whether the database is there", |s| ping(&mut s)).await
    }
}

/// A server that only reads, such as one that was switched over, is as good as none.
async fn ping(session: &mut Session<'_>) -> Result<(), Fault> {
    let writable = match session.dialect() {
        Dialect::Sqlite => session.all("SELECT 1 AS one", vec![]).await?,
        Dialect::Postgres => {
            session.all("SELECT 1 AS one WHERE current_setting('transaction_read_only') = 'off'", vec![]).await?
        }
    };
    if writable.is_empty() {
        return Err(Fault::Sql(sqlx::Error::Io(std::io::Error::other("the server is read-only"))));
    }
    Ok(())
}

pub fn unavailable(operation: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |error| sql_error(operation, error)
}
