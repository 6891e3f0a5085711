//! Quotes: a decision with a price; a binding one holds what it decided until it expires.

use crate::{
    desk::{Caller, Desk},
    error::DeskError,
    intake::Idempotency,
    placer::{record, reservation},
};
use jiff::SignedDuration;
use rhumb_model::{Order, QuoteId, Span};
use rhumb_store::{Conflict, IdempotencyRecord, Intent, Outcome, QuoteRecord, Store};

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
        if let Some(key) = &key
            && let Some(found) = self.inner.store.idempotency(caller.tenant.as_str(), &key.key).await?
        {
            if found.body_sha256 != key.body_sha256 {
                return Err(DeskError::KeyReused);
            }
            let id = found.answer.and_then(|(_, id)| id.parse().ok()).ok_or(DeskError::KeyReused)?;
            return self.quote(caller, id).await;
        }
        self.check_references(&document)?;
        let live = self.inner.store.live_quotes().await?;
        let (count, limit) =
            (live.iter().filter(|q| q.tenant == caller.tenant).count(), self.inner.config.limits.quotes_per_tenant);
        if count >= limit {
            return Err(DeskError::TooMany { tenant: caller.tenant.to_string(), count, limit });
        }
        let hold = hold.unwrap_or(Span::from_micros(300_000_000)).min(self.inner.config.times.quote_max);
        for _ in 0..TRIES {
            let now = self.now();
            let view = self.view(now, &[]).await?;
            let decision = self.decide(&document, &view, now);
            let record = record(&decision, &view, now);
            let plan = decision.outcome.ok();
            let binding = plan.is_some() && !dry_run;
            let quote = QuoteRecord {
                id: QuoteId(uuid::Uuid::now_v7()),
                tenant: caller.tenant.clone(),
                document: document.clone(),
                decision: record,
                binding,
                created: now,
                expires: now + SignedDuration::from_micros(hold.micros() as i64),
                ended: (!binding).then_some(now),
                order: None,
                plan,
            };
            let held = quote.plan.as_ref().filter(|_| binding).map(|p| reservation(&document, p));
            let idempotency = key.clone().map(|k| IdempotencyRecord {
                tenant: caller.tenant.clone(),
                key: k.key,
                body_sha256: k.body_sha256,
                answer: Some((201, quote.id.to_string())),
                at: now,
            });
            let intent = Intent::OfferQuote { record: Box::new(quote.clone()), reservation: held, idempotency };
            match self.inner.store.commit(vec![intent]).await?.pop() {
                Some(Outcome::Refused(Conflict::Room { .. } | Conflict::Link { .. })) => {}
                Some(Outcome::Refused(Conflict::Key)) => return Err(DeskError::KeyBusy),
                Some(Outcome::Refused(why)) => return Err(DeskError::Conflict(why.to_string())),
                _ => return Ok(quote),
            }
        }
        Err(DeskError::Conflict("others were quicker each time: ask again".into()))
    }

    /// Gives back what a quote holds before it expires.
    pub async fn end_quote(&self, caller: &Caller, id: QuoteId) -> Result<(), DeskError> {
        self.quote(caller, id).await?;
        self.inner.store.commit(vec![Intent::EndQuote { quote: id, at: self.now() }]).await?;
        self.inner.hub.place.notify_one();
        Ok(())
    }
}
