//! Where several orchestrators share a database, one of them leads: the others answer that they do not.

use crate::{
    guard::{Hosts, guard},
    problem::Problem,
};
use axum::{
    Router,
    extract::{Request, State},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use std::{
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Instant,
};
use tower::ServiceExt as _;

/// For how long an orchestrator may act as the leader, by the clock of its process that nobody sets.
#[derive(Debug, Clone, Default)]
pub struct Term(Arc<Mutex<Option<Instant>>>);

impl Term {
    /// Of an orchestrator that has its database for itself.
    pub fn for_good() -> Self {
        Self::default()
    }

    pub fn until(end: Instant) -> Self {
        Self(Arc::new(Mutex::new(Some(end))))
    }

    pub fn prolong(&self, end: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    /// `None`: it does not end.
    pub fn end(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_over(&self) -> bool {
        self.end().is_some_and(|end| Instant::now() >= end)
    }
}

/// Everything while this orchestrator leads; otherwise its health, and a refusal of all else.
///
/// An answer that is finished only after the term is kept back: another orchestrator may have said something else, and an
/// agent must not take a leader's word from one that was.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<RwLock<Option<(Router, Term)>>>);

impl Gate {
    pub fn open(&self, router: Router, term: Term) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some((router, term));
    }

    pub fn close(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What is served, whoever leads.
    pub fn router(&self, hosts: Hosts) -> Router {
        let closed = Router::new().route("/healthz", get(|| async { "ok" })).fallback(refuse);
        let closed = closed.layer(middleware::from_fn_with_state(hosts, guard));
        Router::new().fallback(pass).with_state((self.clone(), closed))
    }

    fn led(&self) -> Option<(Router, Term)> {
        let led = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        led.filter(|(_, term)| !term.is_over())
    }
}

async fn pass(State((gate, closed)): State<(Gate, Router)>, request: Request) -> Response {
    let (router, term) = gate.led().unwrap_or_else(|| (closed, Term::for_good()));
    let answer = router.oneshot(request).await.unwrap_or_else(|never| match never {});
    if term.is_over() { refuse().await.into_response() } else { answer }
}

async fn refuse() -> Problem {
    Problem::not_leading(
        "standing by: another orchestrator leads, or none does at this moment; ask the one that is ready",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{
        body::Body,
        http::{StatusCode, header},
    };
    use std::time::Duration;

    const HOUR: Duration = Duration::from_hours(1);

    async fn ask(gate: &Gate, path: &str) -> (StatusCode, bool) {
        let hosts = Hosts::new(([127, 0, 0, 1], 7070).into(), &[]);
        let request = Request::get(path).header(header::HOST, "localhost:7070").body(Body::empty()).unwrap();
        let answer = gate.router(hosts).oneshot(request).await.unwrap();
        (answer.status(), answer.headers().contains_key(header::RETRY_AFTER))
    }

    fn led() -> Router {
        Router::new().route("/healthz", get(|| async { "ok" })).route("/readyz", get(|| async { "ready" }))
    }

    #[tokio::test]
    async fn who_stands_by_is_alive_and_not_ready() {
        let gate = Gate::default();
        let (well, come_back) = ((StatusCode::OK, false), (StatusCode::SERVICE_UNAVAILABLE, true));
        let check = async |ready| {
            assert_eq!(ask(&gate, "/healthz").await, well);
            assert_eq!(ask(&gate, "/readyz").await, ready);
        };
        check(come_back).await;
        assert_eq!(ask(&gate, "/v1/orders").await, come_back);
        let term = Term::until(Instant::now() + HOUR);
        gate.open(led(), term.clone());
        check(well).await;
        // nobody closed it, as when the process was frozen
        term.prolong(Instant::now());
        check(come_back).await;
        term.prolong(Instant::now() + HOUR);
        check(well).await;
        gate.close();
        check(come_back).await;
        gate.open(led(), Term::for_good());
        check(well).await;
    }

    #[tokio::test]
    async fn an_answer_that_comes_after_the_term_is_kept_back() {
        let term = Term::until(Instant::now() + HOUR);
        let over = term.clone();
        let late = Router::new().route(
            "/agent/v1/sync",
            get(move || async move {
                over.prolong(Instant::now());
                "a leader's word"
            }),
        );
        let gate = Gate::default();
        gate.open(late, term);
        assert_eq!(ask(&gate, "/agent/v1/sync").await, (StatusCode::SERVICE_UNAVAILABLE, true));
    }
}
