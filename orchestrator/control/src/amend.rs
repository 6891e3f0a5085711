//! An order takes another document: any where it still waits, and what was decided on the one before is then refused when it
//! is committed; one with other rates and delay bounds of its flows where it is in progress.

use crate::{caller::Caller, desk::Desk, error::DeskError, hub::Pulse, sagas::Mail};
use rhumb_model::{Action, Order, OrderId, OrderState};
use rhumb_store::{Conflict, Intent, NewEvent, OrderChange, OrderRecord, Outcome, Store};
use tokio::sync::oneshot;

/// Changes by others that one amendment looks at again.
const TRIES: u32 = 20;

impl<S: Store> Desk<S> {
    /// Puts another document in the place of an order's. One that has not been placed is decided on as if it were new, and
    /// keeps its place in the queue; one in progress goes on. With a version, only the order as it had then.
    pub async fn amend(
        &self,
        caller: &Caller,
        id: OrderId,
        document: Order,
        version: Option<i64>,
    ) -> Result<OrderRecord, DeskError> {
        caller.may(Action::Order)?;
        self.check_references(&document)?;
        for _ in 0..TRIES {
            let order = self.order(caller, id).await?;
            if version.is_some_and(|v| v != order.version) {
                return Err(DeskError::Stale);
            }
            if order.saga.is_some() && order.state == OrderState::InProgress {
                let (answer, result) = oneshot::channel();
                let mail = Mail::Amend { id, version, document: Box::new(document), answer };
                self.inner.mail.send(mail).await.map_err(|_| DeskError::Stopping)?;
                return result.await.map_err(|_| DeskError::Stopping)?;
            }
            let waits = matches!(order.state, OrderState::Acknowledged | OrderState::Pending);
            if !waits || order.saga.is_some() {
                let state = order.state;
                return Err(DeskError::Conflict(format!(
                    "order {id} is {state}: only what waits to be placed, or is in progress, can be amended"
                )));
            }
            if order.document == document {
                return Ok(order);
            }
            let change = OrderChange {
                document: Some(document.clone()),
                state: Some(OrderState::Acknowledged),
                phase: Some(None),
                attention: Some(None),
                reasons: Some(Vec::new()),
                plan: Some(None),
                cost: Some(None),
                events: vec![NewEvent {
                    kind: "amended".into(),
                    phase: None,
                    message: "order is amended: deciding on it anew".into(),
                    detail: serde_json::json!({ "state": "acknowledged", "version": order.version + 1 }),
                }],
                ..OrderChange::nothing(id, order.version, self.now())
            };
            match self.inner.store.commit(vec![Intent::Change(Box::new(change))]).await?.pop() {
                Some(Outcome::Changed { .. }) => {
                    // a site that was at fault for the other document may do for this one
                    self.avoid().remove(&id);
                    self.inner.hub.wake_placer();
                    self.inner.hub.pulse(Pulse::Order(id));
                    return self.order(caller, id).await;
                }
                // the placer or a cancel came between: look again
                Some(Outcome::Refused(Conflict::Version(..) | Conflict::Final(_))) => {}
                Some(Outcome::Refused(why)) => return Err(DeskError::refused(&why)),
                other => return Err(DeskError::Internal(format!("the store answered an amendment with {other:?}"))),
            }
        }
        Err(DeskError::Stale)
    }
}
