use crate::{bench::Bench, fixture::*};
use rhumb_model::{OrderId, TenantName};
use rhumb_store::{Conflict, Holder, Intent, OrderRecord, Outcome, QuoteRecord, Reservation, Store as _};

fn all_of_alpha() -> Reservation {
    Reservation { replicas: vec![want("alpha", 0, gpus(8))], ..on_link("ab", 1_000_000) }
}

fn offer(record: &QuoteRecord, reservation: Option<Reservation>) -> Intent {
    Intent::OfferQuote { record: Box::new(record.clone()), reservation, idempotency: None }
}

fn accept_quote(quote: &QuoteRecord, record: &OrderRecord, seconds: i64) -> Intent {
    let events = vec![event("acknowledged"), event("reserved")];
    Intent::AcceptQuote {
        quote: quote.id,
        at: at(seconds),
        record: Box::new(record.clone()),
        events,
        idempotency: None,
    }
}

pub async fn a_quote_holds_until_it_ends(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8)]).await;
    let first = quote("first");
    granted(store, offer(&first, Some(all_of_alpha()))).await;
    assert_eq!(store.quote(first.id).await.unwrap(), Some(first.clone()));
    assert_eq!(store.live_quotes().await.unwrap(), std::slice::from_ref(&first));
    audit(store).await;

    let rival = accepted(store, "rival").await;
    refused(store, reserve(&rival, 1, all_of_alpha())).await;
    let second = quote("second");
    refused(store, offer(&second, Some(all_of_alpha()))).await;
    assert_eq!(store.quote(second.id).await.unwrap(), None, "a quote that could not hold is no quote");

    done(store, Intent::EndQuote { quote: first.id, at: at(300) }).await;
    assert!(store.live_quotes().await.unwrap().is_empty());
    granted(store, reserve(&rival, 1, all_of_alpha())).await;
    // ending it again neither moves its end nor gives back what is another's now
    done(store, Intent::EndQuote { quote: first.id, at: at(999) }).await;
    assert_eq!(store.quote(first.id).await.unwrap().unwrap().ended, Some(at(300)));
    assert_eq!(store.holdings().await.unwrap().replicas[0].holder, Holder::Order(rival.id));
    audit(store).await;
}

pub async fn an_accepted_quote_keeps_its_devices(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8), node("alpha", "n2", 8)]).await;
    let q = quote("q");
    let reservation =
        Reservation { replicas: vec![want("alpha", 0, gpus(3)), want("alpha", 1, gpus(7))], ..on_link("ab", 5_000) };
    let quoted = granted(store, offer(&q, Some(reservation))).await;
    let record = order("from-quote");
    let outcome = one(store, accept_quote(&q, &record, 299)).await;
    assert_eq!(outcome, Outcome::Reserved { version: 1, grants: quoted.clone() });

    let expected = OrderRecord { quote_id: Some(q.id), generation: 1, ..record.clone() };
    assert_eq!(store.order(record.id).await.unwrap(), Some(expected));
    assert_eq!(store.order_events(record.id, 0, 9).await.unwrap().len(), 2);
    let after = store.quote(q.id).await.unwrap().unwrap();
    assert_eq!((after.ended, after.order), (Some(at(299)), Some(record.id)));
    let holdings = store.holdings().await.unwrap();
    assert!(holdings.replicas.iter().all(|h| h.holder == Holder::Order(record.id) && h.generation == 1));
    assert_eq!(holdings.replicas.iter().map(|h| h.devices.clone()).collect::<Vec<_>>(), devices(&quoted));
    assert_eq!(holdings.links[0].holder, Holder::Order(record.id));
    audit(store).await;

    // the quote is used: its expiry takes nothing from the order
    let ended = refused(store, Intent::EndQuote { quote: q.id, at: at(301) }).await;
    assert_eq!(ended, Conflict::Quote(q.id));
    assert_eq!(store.holdings().await.unwrap(), holdings);
    done(store, release(&record, 1)).await;
    assert!(store.holdings().await.unwrap().replicas.is_empty());
    audit(store).await;
}

pub async fn a_quote_is_accepted_once_in_time_by_its_tenant(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8)]).await;
    let q = quote("q");
    granted(store, offer(&q, Some(all_of_alpha()))).await;
    let absent = async |id: OrderId| store.order(id).await.unwrap().is_none();

    let late = order("late");
    assert_eq!(refused(store, accept_quote(&q, &late, 300)).await, Conflict::Quote(q.id));
    let stranger = OrderRecord { tenant: TenantName::new("other").unwrap(), ..order("stranger") };
    assert_eq!(refused(store, accept_quote(&q, &stranger, 1)).await, Conflict::Missing(format!("quote {}", q.id)));
    assert!(absent(late.id).await && absent(stranger.id).await);

    let rivals = (0..6).map(|i| {
        let (store, q) = (store.clone(), q.clone());
        tokio::spawn(async move { one(&store, accept_quote(&q, &order(&format!("r-{i}")), 1)).await })
    });
    let mut won = 0;
    for rival in rivals.collect::<Vec<_>>() {
        match rival.await.unwrap() {
            Outcome::Reserved { .. } => won += 1,
            other => assert_eq!(other, Outcome::Refused(Conflict::Quote(q.id))),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(store.live_orders().await.unwrap().len(), 1);
}

pub async fn a_refused_quote_is_remembered(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![]).await;
    let q = QuoteRecord { binding: false, ..quote("q") };
    assert_eq!(done(store, offer(&q, None)).await, Outcome::Done);
    assert_eq!(store.quote(q.id).await.unwrap(), Some(q.clone()));
    assert!(store.live_quotes().await.unwrap().is_empty());
    assert_eq!(refused(store, accept_quote(&q, &order("a"), 1)).await, Conflict::Quote(q.id));
    // without a reservation nothing binds
    let bare = quote("bare");
    done(store, offer(&bare, None)).await;
    assert!(!store.quote(bare.id).await.unwrap().unwrap().binding);
}
