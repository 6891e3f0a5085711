//! Quotes: a decision with a price; a binding one holds what it decided until it expires.

use crate::{
    caller::Caller,
    desk::Desk,
    error::{DeskError, is_passing, over_quota},
    intake::Idempotency,
    judgement::Question,
    reserve::reservation,
};
use jiff::SignedDuration;
use rhumb_model::{Action, Order, Plan, QuoteId, Reason, Share, Span, TenantName, plan::PlacedComponent};
use rhumb_store::{Conflict, IdempotencyRecord, Intent, Outcome, QuotaKind, QuoteRecord, Store};

const TRIES: usize = 8;

impl<S: Store> Desk<S> {
    /// `hold` is how long a binding quote holds (default 5 min); with `dry_run` nothing is held.
    pub async fn request_quote(
        &self,
        caller: &Caller,
        document: Order,
        hold: Option<Span>,
        dry_run: bool,
        key: Option<Idempotency>,
    ) -> Result<QuoteRecord, DeskError> {
        caller.may(Action::Order)?;
        let tenant = caller.tenant()?;
        if let Some(again) = self.quoted(caller, key.as_ref()).await? {
            return Ok(again);
        }
        self.check_references(&document)?;
        let (count, limit) = (self.roll().quotes_of(tenant), self.inner.config.limits.quotes_per_tenant);
        if count >= limit && !dry_run {
            return Err(DeskError::TooMany { tenant: tenant.to_string(), what: "binding quotes", count, limit });
        }
        let hold = hold.unwrap_or(Span::from_micros(300_000_000)).min(self.inner.config.times.quote_max);
        for _ in 0..TRIES {
            let mut quote = self.decide_quote(tenant, &document, hold, dry_run).await?;
            if let Some(reason) = self.beyond_quota(&quote).await? {
                refuse(&mut quote, reason);
            }
            let held = quote.plan.as_ref().filter(|_| quote.binding).map(|p| reservation(&document, p));
            let idempotency = key.clone().map(|k| IdempotencyRecord {
                tenant: tenant.clone(),
                key: k.key,
                body_sha256: k.body_sha256,
                answer: Some((201, quote.id.to_string())),
                at: quote.created,
            });
            let intent = Intent::OfferQuote { record: Box::new(quote.clone()), reservation: held, idempotency };
            let outcome = match self.inner.store.commit(vec![intent]).await {
                Ok(mut outcomes) => outcomes.pop(),
                // it may be there all the same, and hold something that nobody knows of
                Err(error) if is_passing(&error) => {
                    // it ends with the others then, should it be there
                    self.roll().add_quote(&quote);
                    match self.inner.store.quote(quote.id).await {
                        Ok(Some(_)) => Some(Outcome::Done),
                        Ok(None) | Err(_) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error.into()),
            };
            match outcome {
                // what the tenant held in between is looked at anew too
                Some(Outcome::Refused(
                    Conflict::Room { .. }
                    | Conflict::Link { .. }
                    | Conflict::Draining(_)
                    | Conflict::Quota { kind: QuotaKind::Accelerators, .. },
                )) => {}
                Some(Outcome::Refused(Conflict::Key)) => {
                    return self.quoted(caller, key.as_ref()).await?.ok_or(DeskError::KeyBusy);
                }
                Some(Outcome::Refused(why)) => return Err(DeskError::refused(&why)),
                _ => {
                    self.roll().add_quote(&quote);
                    return Ok(quote);
                }
            }
        }
        Err(DeskError::Conflict("others were quicker each time: ask again".into()))
    }

    async fn decide_quote(
        &self,
        tenant: &TenantName,
        document: &Order,
        hold: Span,
        dry_run: bool,
    ) -> Result<QuoteRecord, DeskError> {
        let turn = self.turn().await?;
        let now = self.now();
        let question = Question {
            order: document.clone(),
            view: self.view(now).await?,
            submit: now,
            may_reject: false,
            known: None,
            refresh: true,
        };
        let judgement = self.judge(question).await?;
        drop(turn);
        let record =
            judgement.record.ok_or_else(|| DeskError::Internal("a decision came without its record".into()))?;
        let plan = judgement.decision.outcome.ok();
        let binding = plan.is_some() && !dry_run;
        let hold = SignedDuration::from_micros(i64::try_from(hold.micros()).unwrap_or(i64::MAX));
        Ok(QuoteRecord {
            id: QuoteId(uuid::Uuid::now_v7()),
            tenant: tenant.clone(),
            document: document.clone(),
            decision: record,
            binding,
            created: now,
            expires: now.checked_add(hold).unwrap_or(jiff::Timestamp::MAX),
            ended: (!binding).then_some(now),
            order: None,
            plan,
        })
    }

    /// Why the tenant may not have what was decided for it. What is held is held against the quota once more.
    async fn beyond_quota(&self, quote: &QuoteRecord) -> Result<Option<Reason>, DeskError> {
        let Some(plan) = &quote.plan else { return Ok(None) };
        let store = &self.inner.store;
        let tenant = store.tenant(&quote.tenant).await?;
        let Some(most) = tenant.and_then(|t| t.quota.accelerators) else { return Ok(None) };
        let needed = accelerators_milli(&quote.document, plan);
        let free = (u64::from(most) * 1_000).saturating_sub(store.held(&quote.tenant).await?.accelerators_milli);
        Ok((needed > free).then(|| over_quota(QuotaKind::Accelerators, needed, free)))
    }

    /// The quote that an earlier request with this key was given.
    async fn quoted(&self, caller: &Caller, key: Option<&Idempotency>) -> Result<Option<QuoteRecord>, DeskError> {
        let Some(text) = self.earlier_answer(caller, key).await? else { return Ok(None) };
        let id = text.parse().map_err(|_| DeskError::KeyReused)?;
        self.quote(caller, id).await.map(Some)
    }

    /// Gives back what a quote holds before it expires.
    pub async fn end_quote(&self, caller: &Caller, id: QuoteId) -> Result<(), DeskError> {
        caller.may(Action::Order)?;
        self.quote(caller, id).await?;
        let ended = self.inner.store.commit(vec![Intent::EndQuote { quote: id, at: self.now() }]).await?.pop();
        self.roll().drop_quote(id);
        if let Some(Outcome::Refused(why)) = ended {
            return Err(DeskError::refused(&why));
        }
        self.inner.hub.wake_placer_for_all();
        Ok(())
    }
}

/// A quote that says no, and holds nothing.
fn refuse(quote: &mut QuoteRecord, reason: Reason) {
    quote.plan = None;
    quote.binding = false;
    quote.ended = Some(quote.created);
    quote.decision.reasons = vec![reason];
}

/// Thousandths of accelerators that a plan would hold.
fn accelerators_milli(order: &Order, plan: &Plan) -> u64 {
    let of = |placed: &PlacedComponent| {
        let need = order.component(&placed.name).and_then(|c| c.need.accelerators.as_ref());
        let each = need.and_then(|a| a.share).map_or(1_000, Share::thousandths);
        let devices = placed.assignments.iter().map(|a| u64::from(a.replicas) * u64::from(a.devices_per_replica));
        devices.sum::<u64>() * each
    };
    plan.components.iter().map(of).sum()
}
