//! What is live and whose it is, kept in memory so that no request reads all orders for it.
//!
//! Orders are as of the placer's last look at the store plus what came in here since; another process's are at most one
//! look old. Nothing is decided by it that the store would not decide again: it serves limits and names on devices.

use jiff::Timestamp;
use rhumb_model::{OrderId, QuoteId, TenantName};
use rhumb_store::{OrderRecord, QuoteRecord};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Roll {
    orders: BTreeMap<OrderId, TenantName>,
    quotes: BTreeMap<QuoteId, (TenantName, Timestamp)>,
}

impl Roll {
    pub(crate) fn orders_of(&self, tenant: &TenantName) -> usize {
        self.orders.values().filter(|t| *t == tenant).count()
    }

    pub(crate) fn quotes_of(&self, tenant: &TenantName) -> usize {
        self.quotes.values().filter(|(t, _)| t == tenant).count()
    }

    pub(crate) fn owner(&self, order: OrderId) -> Option<&TenantName> {
        self.orders.get(&order)
    }

    pub(crate) fn add_order(&mut self, record: &OrderRecord) {
        self.orders.insert(record.id, record.tenant.clone());
    }

    pub(crate) fn drop_order(&mut self, id: OrderId) {
        self.orders.remove(&id);
    }

    /// The order that came in last; ids rise with time.
    pub(crate) fn youngest(&self) -> Option<OrderId> {
        self.orders.last_key_value().map(|(id, _)| *id)
    }

    /// `orders` are all that were live at a look; what came in after `youngest`, as it was before that look, stays.
    pub(crate) fn replace_orders(&mut self, orders: &[OrderRecord], youngest: Option<OrderId>) {
        let mut before = std::mem::take(&mut self.orders);
        let younger = match youngest {
            Some(id) => before.split_off(&id).into_iter().filter(|(other, _)| *other != id).collect(),
            None => before,
        };
        self.orders = orders.iter().map(|o| (o.id, o.tenant.clone())).chain(younger).collect();
    }

    pub(crate) fn add_quote(&mut self, quote: &QuoteRecord) {
        if quote.binding && quote.ended.is_none() {
            self.quotes.insert(quote.id, (quote.tenant.clone(), quote.expires));
        }
    }

    pub(crate) fn drop_quote(&mut self, id: QuoteId) {
        self.quotes.remove(&id);
    }

    /// `quotes` are all that hold something. One that has ended elsewhere stays until it expires, which does no harm.
    pub(crate) fn add_quotes(&mut self, quotes: &[QuoteRecord]) {
        for quote in quotes {
            self.add_quote(quote);
        }
    }

    pub(crate) fn expired(&self, now: Timestamp) -> Vec<QuoteId> {
        self.quotes.iter().filter(|(_, (_, expires))| *expires <= now).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::{Order, OrderState};

    fn order(n: u128, tenant: &str) -> OrderRecord {
        let document = Order::read(
            "name: a\nclass: processing\ncomponents: [{name: job, need: {cpu: 1, memory: 1GiB}, work: {duration: 1s}}]\n",
        );
        OrderRecord {
            id: OrderId(uuid::Uuid::from_u128(n)),
            tenant: TenantName::new(tenant).unwrap(),
            document: document.unwrap(),
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
            created: Timestamp::UNIX_EPOCH,
            updated: Timestamp::UNIX_EPOCH,
            traceparent: None,
        }
    }

    #[test]
    fn an_order_that_came_in_after_the_look_stays_and_one_that_ended_goes() {
        let mut roll = Roll::default();
        for n in [1, 2] {
            roll.add_order(&order(n, "acme"));
        }
        let youngest = roll.youngest();
        roll.add_order(&order(3, "acme"));
        roll.replace_orders(&[order(2, "acme")], youngest);
        let acme = TenantName::new("acme").unwrap();
        assert_eq!(roll.orders_of(&acme), 2, "1 has ended, 3 is younger than the look");
        assert_eq!(roll.owner(OrderId(uuid::Uuid::from_u128(1))), None);
        assert_eq!(roll.owner(OrderId(uuid::Uuid::from_u128(3))), Some(&acme));
    }

    #[test]
    fn a_look_at_nothing_does_not_forget_the_first_order() {
        let mut roll = Roll::default();
        let youngest = roll.youngest();
        roll.add_order(&order(1, "acme"));
        roll.replace_orders(&[], youngest);
        assert_eq!(roll.orders_of(&TenantName::new("acme").unwrap()), 1);
        roll.replace_orders(&[], roll.youngest());
        assert_eq!(roll.orders_of(&TenantName::new("acme").unwrap()), 0, "it has ended by the next look");
    }
}
