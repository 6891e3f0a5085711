//! Orders come in: checked, durable, acknowledged; and are asked to stop.

use crate::{
    caller::Caller,
    desk::Desk,
    error::{DeskError, is_passing},
    hub::Pulse,
    metrics as names,
    sagas::Mail,
};
use rhumb_model::{Action, DocumentError, Order, OrderId, OrderState, Problem, QuoteId, order::End};
use rhumb_store::{Conflict, IdempotencyRecord, Intent, NewEvent, OrderChange, OrderRecord, Outcome, Store};
use tokio::sync::oneshot;

/// The client's key for a request, with a hash of what was asked: route, query and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    pub body_sha256: [u8; 32],
}

/// A new order, or the answer given to the same request before.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepted {
    New(Box<OrderRecord>),
    Again(OrderId),
}

impl<S: Store> Desk<S> {
    /// Makes the order durable and hands it to the placer.
    pub async fn create_order(
        &self,
        caller: &Caller,
        document: Order,
        key: Option<Idempotency>,
        traceparent: Option<String>,
    ) -> Result<Accepted, DeskError> {
        caller.may(Action::Order)?;
        if let Some(again) = self.answered(caller, key.as_ref()).await? {
            return Ok(Accepted::Again(again));
        }
        self.check_references(&document)?;
        self.check_pending(caller)?;
        let record = self.new_record(caller, document, traceparent)?;
        let event = acknowledged();
        let idempotency = key.map(|k| remember(&record, k));
        let intent = Intent::AcceptOrder { record: Box::new(record.clone()), event, idempotency };
        self.accept(caller, intent, record).await
    }

    /// Turns a binding quote into an order: what it holds becomes the order's.
    pub async fn order_from_quote(
        &self,
        caller: &Caller,
        id: QuoteId,
        key: Option<Idempotency>,
        traceparent: Option<String>,
    ) -> Result<Accepted, DeskError> {
        caller.may(Action::Order)?;
        if let Some(again) = self.answered(caller, key.as_ref()).await? {
            return Ok(Accepted::Again(again));
        }
        let quote = self.quote(caller, id).await?;
        self.check_pending(caller)?;
        if !quote.binding || quote.plan.is_none() {
            return Err(DeskError::Conflict(format!("quote {id} holds nothing: order its document directly")));
        }
        let mut record = self.new_record(caller, quote.document.clone(), traceparent)?;
        record.quote_id = Some(id);
        record.plan.clone_from(&quote.plan);
        record.cost = quote.plan.as_ref().map(|p| p.cost);
        record.generation = 1;
        record.state = OrderState::Held;
        let idempotency = key.map(|k| remember(&record, k));
        let held = NewEvent {
            kind: "state".into(),
            phase: None,
            message: format!("order takes over what quote {id} holds"),
            detail: serde_json::json!({ "state": "held", "quote": id }),
        };
        let intent = Intent::AcceptQuote {
            quote: id,
            at: record.created,
            record: Box::new(record.clone()),
            events: vec![acknowledged(), held],
            idempotency,
        };
        self.accept(caller, intent, record).await
    }

    async fn accept(&self, caller: &Caller, intent: Intent, record: OrderRecord) -> Result<Accepted, DeskError> {
        let key = match &intent {
            Intent::AcceptOrder { idempotency, .. } | Intent::AcceptQuote { idempotency, .. } => {
                idempotency.as_ref().map(|i| Idempotency { key: i.key.clone(), body_sha256: i.body_sha256 })
            }
            _ => None,
        };
        let outcome = match self.inner.store.commit(vec![intent]).await {
            Ok(mut outcomes) => outcomes.pop(),
            // it may be there all the same, and a client without a key would order twice
            Err(error) if is_passing(&error) => match self.inner.store.order(record.id).await {
                Ok(Some(found)) => Some(Outcome::Changed { version: found.version }),
                Ok(None) | Err(_) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        };
        match outcome {
            Some(Outcome::Refused(Conflict::Key)) => match self.answered(caller, key.as_ref()).await? {
                Some(again) => Ok(Accepted::Again(again)),
                None => Err(DeskError::KeyBusy),
            },
            Some(Outcome::Refused(why)) => Err(DeskError::refused(&why)),
            _ => {
                self.roll().add_order(&record);
                if let Some(quote) = record.quote_id {
                    self.roll().drop_quote(quote);
                }
                self.inner.hub.wake_placer();
                self.inner.hub.pulse(Pulse::Order(record.id));
                metrics::counter!(names::ORDERS_ACKNOWLEDGED).increment(1);
                Ok(Accepted::New(Box::new(record)))
            }
        }
    }

    /// The order that an earlier request with this key made.
    async fn answered(&self, caller: &Caller, key: Option<&Idempotency>) -> Result<Option<OrderId>, DeskError> {
        Ok(self.earlier_answer(caller, key).await?.and_then(|text| text.parse().ok()))
    }

    /// What was answered to an earlier request with this key.
    pub(crate) async fn earlier_answer(
        &self,
        caller: &Caller,
        key: Option<&Idempotency>,
    ) -> Result<Option<String>, DeskError> {
        let Some(key) = key else { return Ok(None) };
        let Some(found) = self.inner.store.idempotency(caller.tenant()?.as_str(), &key.key).await? else {
            return Ok(None);
        };
        if found.body_sha256 != key.body_sha256 {
            return Err(DeskError::KeyReused);
        }
        found.answer.map(|(_, text)| Some(text)).ok_or(DeskError::KeyBusy)
    }

    /// What only the federation can know: datasets, regions, sites and models that exist.
    pub(crate) fn check_references(&self, order: &Order) -> Result<(), DeskError> {
        let file = &self.inner.base.file;
        let mut problems = Vec::new();
        let mut problem = |pointer: String, reason: String| problems.push(Problem { pointer, reason });
        for (i, flow) in order.flows.iter().enumerate() {
            for (key, end) in [("from", &flow.from), ("to", &flow.to)] {
                match end {
                    End::Dataset(name) => match file.datasets.iter().find(|d| &d.name == name) {
                        None => problem(
                            format!("/flows/{i}/{key}"),
                            format!(
                                "dataset {name} is unknown: known are {}",
                                list(file.datasets.iter().map(|d| &d.name))
                            ),
                        ),
                        Some(d) if key == "from" && flow.volume.is_some_and(|v| v > d.size) => problem(
                            format!("/flows/{i}/volume"),
                            format!("dataset {name} has {}: ask for no more, or leave volume out", d.size),
                        ),
                        Some(_) => {}
                    },
                    End::Region(name) if !file.regions.iter().any(|r| &r.name == name) => problem(
                        format!("/flows/{i}/{key}"),
                        format!("region {name} is unknown: known are {}", list(file.regions.iter().map(|r| &r.name))),
                    ),
                    End::Region(_) | End::Component(_) => {}
                }
            }
        }
        // whose connections belong together could not be told from several legs each way
        for (i, _) in order.flows.iter().enumerate().filter(|(_, f)| f.split && f.from == f.to) {
            let reason = "a flow of a component with itself is carried on one path each way: remove it".to_owned();
            problem(format!("/flows/{i}/split"), reason);
        }
        let constraints = &order.constraints;
        for (key, names) in [("sites", &constraints.sites), ("not_sites", &constraints.not_sites)] {
            for name in names.iter().filter(|n| !self.inner.base.is_site(n)) {
                problem(
                    format!("/constraints/{key}"),
                    format!("site {name} is unknown: known are {}", list(file.sites.iter().map(|s| &s.name))),
                );
            }
        }
        for (i, component) in order.components.iter().enumerate() {
            let asked = component.need.accelerators.iter().flat_map(|a| a.models.iter());
            let reference = component.work.iter().filter_map(|w| w.reference.as_ref());
            let asked = asked.map(|m| ("need/accelerators/models", m));
            for (key, model) in asked.chain(reference.map(|m| ("work/reference", m))) {
                if !file.devices.contains_key(model) {
                    problem(
                        format!("/components/{i}/{key}"),
                        format!("device model {model} is unknown: known are {}", list(file.devices.keys())),
                    );
                }
            }
            // a run without a command has nothing to start on the sites' hosts
            if component.work.is_some() && component.run.as_ref().is_none_or(|r| r.command.is_empty()) {
                problem(
                    format!("/components/{i}/run"),
                    "work needs a command: write run: {command: [\"program\", \"argument\"]}".into(),
                );
            }
        }
        let terms = &order.terms;
        let amounts = [
            ("budget", terms.budget),
            ("value_per_hour", terms.value_per_hour),
            ("late_per_hour", terms.late_per_hour),
            ("value", terms.value),
        ];
        for (key, amount) in amounts {
            let Some(currency) = amount.map(|a| a.currency) else { continue };
            if currency != file.currency && !file.rates.contains_key(currency.as_str()) {
                let own = file.currency.to_string();
                let known = list(std::iter::once(&own).chain(file.rates.keys()));
                problem(format!("/terms/{key}"), format!("currency {currency} is unknown here: known are {known}"));
            }
        }
        Ok(DocumentError::unless_empty(problems)?)
    }

    fn check_pending(&self, caller: &Caller) -> Result<(), DeskError> {
        let limit = self.inner.config.limits.orders_per_tenant;
        let tenant = caller.tenant()?;
        let count = self.roll().orders_of(tenant);
        if count >= limit {
            return Err(DeskError::TooMany { tenant: tenant.to_string(), what: "unfinished orders", count, limit });
        }
        Ok(())
    }

    fn new_record(
        &self,
        caller: &Caller,
        document: Order,
        traceparent: Option<String>,
    ) -> Result<OrderRecord, DeskError> {
        let now = self.now();
        Ok(OrderRecord {
            id: OrderId(uuid::Uuid::now_v7()),
            tenant: caller.tenant()?.clone(),
            document,
            state: OrderState::Acknowledged,
            phase: None,
            attention: None,
            reasons: Vec::new(),
            plan: None,
            cost: None,
            saga: None,
            checkpoints: Vec::new(),
            quote_id: None,
            generation: 0,
            version: 1,
            created: now,
            updated: now,
            traceparent,
        })
    }

    /// Asks an order to stop. What has not begun is cancelled at once; the rest is `cancelling` until all of it is gone.
    /// With a version, only the order as it had then.
    pub async fn cancel(&self, caller: &Caller, id: OrderId, version: Option<i64>) -> Result<OrderRecord, DeskError> {
        caller.may(Action::Order)?;
        // a placer's commit between the read and the change only makes the version stale: look again
        for _ in 0..20 {
            let order = self.order(caller, id).await?;
            if version.is_some_and(|v| v != order.version) {
                return Err(DeskError::Stale);
            }
            if order.state.is_final() {
                return Ok(order);
            }
            if order.saga.is_some() {
                let (answer, result) = oneshot::channel();
                let mail = Mail::Cancel { id, version, answer };
                self.inner.mail.send(mail).await.map_err(|_| DeskError::Stopping)?;
                let order = result.await.map_err(|_| DeskError::Stopping)??;
                if order.saga.is_none() && !order.state.is_final() {
                    continue;
                }
                return Ok(order);
            }
            let change = OrderChange {
                state: Some(OrderState::Cancelled),
                phase: Some(None),
                events: vec![NewEvent {
                    kind: "state".into(),
                    phase: None,
                    message: "order is cancelled before it began".into(),
                    detail: serde_json::json!({ "state": "cancelled" }),
                }],
                release: (order.generation > 0).then_some(order.generation).into_iter().collect(),
                ..OrderChange::nothing(id, order.version, self.now())
            };
            if let Some(Outcome::Changed { .. }) =
                self.inner.store.commit(vec![Intent::Change(Box::new(change))]).await?.pop()
            {
                self.avoid().remove(&id);
                self.roll().drop_order(id);
                metrics::counter!(names::ORDERS_ENDED, "state" => OrderState::Cancelled.as_str()).increment(1);
                self.inner.hub.wake_placer_for_all();
                self.inner.hub.pulse(Pulse::Order(id));
                return self.order(caller, id).await;
            }
        }
        Err(DeskError::Stale)
    }
}

fn list<'a>(names: impl Iterator<Item = &'a (impl std::fmt::Display + 'a)>) -> String {
    let all: Vec<String> = names.take(20).map(ToString::to_string).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

fn acknowledged() -> NewEvent {
    NewEvent {
        kind: "state".into(),
        phase: None,
        message: "order is acknowledged".into(),
        detail: serde_json::json!({ "state": "acknowledged" }),
    }
}

fn remember(order: &OrderRecord, key: Idempotency) -> IdempotencyRecord {
    IdempotencyRecord {
        tenant: order.tenant.clone(),
        key: key.key,
        body_sha256: key.body_sha256,
        answer: Some((201, order.id.to_string())),
        at: order.created,
    }
}
