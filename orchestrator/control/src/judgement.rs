//! Decisions off the event loop: they compute for up to seconds, and a fault in one must not take a loop with it.

use crate::{desk::Desk, error::DeskError, metrics as names};
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{Order, Reason};
use rhumb_placement::{Decision, Policy, Request, explain, never_fits};
use rhumb_store::{DecisionRecord, Store};
use std::{sync::Arc, time::Duration};

/// How an order is decided on: `rhumb_placement::decide`, or what stands in for it.
pub type Decide = fn(&View, &Request<'_>, &Policy) -> Decision;

/// How long a request waits for its turn to be decided on.
const TURN: Duration = Duration::from_secs(10);

/// What is to be decided.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) order: Order,
    pub(crate) view: View,
    pub(crate) submit: Timestamp,
    /// Whether it matters that the order could not even have an empty federation.
    pub(crate) may_reject: bool,
    /// Reasons that the order has already: the same again need no explanation.
    pub(crate) known: Option<Vec<Reason>>,
    /// Whether the same reasons with other figures are worth one.
    pub(crate) refresh: bool,
}

/// What was decided.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) decision: Decision,
    /// The order could not even have an empty federation.
    pub(crate) never: bool,
    /// `None`: refused for the reasons known.
    pub(crate) record: Option<DecisionRecord>,
}

impl<S: Store> Desk<S> {
    /// A turn at deciding: so many requests at once, the others wait. The placer needs none.
    pub async fn turn(&self) -> Result<tokio::sync::OwnedSemaphorePermit, DeskError> {
        let turn = tokio::time::timeout(TURN, Arc::clone(&self.inner.turns).acquire_owned()).await;
        turn.map_err(|_| DeskError::Busy)?.map_err(|_| DeskError::Stopping)
    }

    /// `Internal`: the decision itself is at fault.
    pub(crate) async fn judge(&self, question: Question) -> Result<Judgement, DeskError> {
        let (decide, policy) = (self.inner.decide, self.inner.config.policy.clone());
        let span = tracing::Span::current();
        let done = tokio::task::spawn_blocking(move || span.in_scope(|| judge(&question, decide, &policy)));
        done.await.map_err(|_| {
            metrics::counter!(names::FAULTS, "in" => "decision").increment(1);
            DeskError::Internal("the decision itself failed".into())
        })
    }
}

fn judge(question: &Question, decide: Decide, policy: &Policy) -> Judgement {
    let Question { order, view, submit, may_reject, known, refresh } = question;
    let request = Request::new(order, *submit);
    let begun = std::time::Instant::now();
    let decision = decide(view, &request, policy);
    metrics::histogram!(names::DECISION_SECONDS).record(begun.elapsed().as_secs_f64());
    let never = *may_reject && decision.outcome.is_err() && never_fits(view, &request, policy);
    let is_known = |reasons: &Vec<Reason>| {
        known.as_ref().is_some_and(|known| known == reasons || (!refresh && same_kinds(known, reasons)))
    };
    if !never && decision.outcome.as_ref().err().is_some_and(is_known) {
        return Judgement { decision, never, record: None };
    }
    let decision = explain(view, &request, policy, decision);
    let export = rhumb_federation::export::export(view, *submit);
    let record = DecisionRecord {
        at: *submit,
        sites: decision.sites.clone(),
        reasons: decision.outcome.as_ref().err().cloned().unwrap_or_default(),
        would_fit_if: decision.would_fit_if.clone(),
        view: serde_json::to_string(&export).unwrap_or_default(),
    };
    Judgement { decision, never, record: Some(record) }
}

/// The same reasons, whatever their figures.
pub(crate) fn same_kinds(a: &[Reason], b: &[Reason]) -> bool {
    let kind = |r: &Reason| (r.reason, r.component.clone(), r.flow, r.site.clone());
    a.iter().map(kind).eq(b.iter().map(kind))
}
