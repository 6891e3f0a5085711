//! Who of several orchestrators on one database leads. The lease is kept by the database; how long this process may believe
//! in it is counted from before it was asked for, on a clock that nobody sets: it ends here before it ends there.

use anyhow::Context as _;
use rhumb_api::Term;
use rhumb_store::{AnyStore, Store as _, StoreError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How often who stands by looks whether nobody leads.
const LOOK: Duration = Duration::from_millis(250);
/// Tries to renew in the time of one lease.
const RENEWALS: u32 = 4;
/// This part of a lease is left unused: what is under way when the term ends must not reach past the lease.
const SPARE: u32 = 6;
/// For the last words to the database.
const GOODBYE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Candidate {
    store: AnyStore,
    /// This process.
    holder: Uuid,
    /// `None`: nobody shares the database.
    lease: Option<Duration>,
}

/// Leadership that was taken.
#[derive(Debug, Clone)]
pub struct Led {
    pub epoch: u64,
    pub term: Term,
}

impl Candidate {
    /// An embedded database has one orchestrator, which leads from its start on.
    pub fn new(store: AnyStore, lease: Duration) -> Self {
        let lease = matches!(store, AnyStore::Postgres(_)).then_some(lease);
        Self { store, holder: Uuid::now_v7(), lease }
    }

    /// Whether others may be orchestrators on the same database.
    pub fn shares(&self) -> bool {
        self.lease.is_some()
    }

    pub fn store(&self) -> &AnyStore {
        &self.store
    }

    /// One try; `None`: another one leads.
    pub async fn try_lead(&self) -> Result<Option<Led>, StoreError> {
        let Some(lease) = self.lease else {
            return Ok(Some(Led { epoch: self.store.next_epoch().await?, term: Term::for_good() }));
        };
        let asked = Instant::now();
        let taken = self.store.take_lead(self.holder, lease).await?;
        Ok(taken.map(|epoch| Led { epoch, term: Term::until(end(asked, lease)) }))
    }

    /// Stands by until this process leads. A database that is away for a while is waited for.
    pub async fn stand_by(&self) -> anyhow::Result<Led> {
        loop {
            match self.try_lead().await {
                Ok(Some(led)) => return Ok(led),
                Ok(None) => {}
                Err(error @ StoreError::Unavailable { .. }) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "who leads cannot be asked: trying again");
                }
                Err(error) => return Err(error).context("cannot ask who leads"),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Renews the lease until it cannot be held any longer; says why.
    pub async fn keep(&self, led: &Led) -> &'static str {
        let Some(lease) = self.lease else { return std::future::pending().await };
        loop {
            let left = led.term.end().map_or(Duration::ZERO, |end| end.saturating_duration_since(Instant::now()));
            tokio::time::sleep(left.min(lease / RENEWALS)).await;
            let asked = Instant::now();
            let left = led.term.end().map_or(Duration::ZERO, |end| end.saturating_duration_since(asked));
            let renewal = self.store.renew_lead(self.holder, led.epoch, lease);
            match tokio::time::timeout(left, renewal).await {
                Ok(Ok(true)) => led.term.prolong(end(asked, lease)),
                Ok(Ok(false)) => return "another orchestrator leads",
                Ok(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the lease could not be renewed");
                }
                Err(_) => {}
            }
            if led.term.is_over() {
                return "the lease could not be renewed in time";
            }
        }
    }

    /// The next one may lead at once.
    pub async fn give_up(&self, led: &Led) {
        if self.lease.is_none() {
            return;
        }
        let done = tokio::time::timeout(GOODBYE, self.store.give_up_lead(self.holder, led.epoch)).await;
        if !matches!(done, Ok(Ok(()))) {
            tracing::warn!("the lease could not be given up: it ends by itself");
        }
    }
}

fn end(asked: Instant, lease: Duration) -> Instant {
    asked + lease / SPARE * (SPARE - 1)
}
