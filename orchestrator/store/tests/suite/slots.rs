//! Link capacity in time.

use crate::{bench::Bench, fixture::*};
use rhumb_model::{Bandwidth, Slots};
use rhumb_store::{Conflict, Intent, LinkWant, OrderRecord, Outcome, Reservation, Store as _};

/// Slots from now on: `from` up to, not including, `end`.
fn slots(from: u32, end: u32) -> Option<Slots> {
    let now = Slots::from(at(0)).first();
    Slots::new(now + from, now + end)
}

fn booked(from: u32, end: u32, mbps: u64) -> Reservation {
    let want = LinkWant { link: link("ab"), slots: slots(from, end), rate: Bandwidth::from_mbps(mbps) };
    Reservation { replicas: vec![], links: vec![want] }
}

fn full(free: u64, needed: u64) -> Conflict {
    Conflict::Link { link: link("ab"), free: Bandwidth::from_mbps(free), needed: Bandwidth::from_mbps(needed) }
}

async fn three(bench: &Bench) -> [OrderRecord; 3] {
    world(&bench.store, vec![]).await;
    [accepted(&bench.store, "a").await, accepted(&bench.store, "b").await, accepted(&bench.store, "c").await]
}

pub async fn what_is_held_for_a_time_leaves_the_rest_of_it_free(bench: &Bench) {
    let store = &bench.store;
    let [a, b, c] = three(bench).await;
    granted(store, reserve(&a, 1, booked(0, 4, 600))).await;
    assert_eq!(refused(store, reserve(&b, 1, booked(3, 8, 500))).await, full(400, 500));
    granted(store, reserve(&b, 1, booked(4, 8, 1_000))).await;
    audit(store).await;
    assert_eq!(refused(store, reserve(&c, 1, booked(2, 3, 401))).await, full(400, 401));
    granted(store, reserve(&c, 1, booked(2, 3, 400))).await;
    audit(store).await;
    let held = store.holdings().await.unwrap();
    assert_eq!((held.links.len(), held.slots.len(), held.reserved[0].1), (3, 8, Bandwidth::ZERO));
    for order in [&a, &b, &c] {
        done(store, release(order, 2)).await;
        audit(store).await;
    }
    let held = store.holdings().await.unwrap();
    assert!(held.links.is_empty() && held.slots.is_empty(), "{held:?}");
    granted(store, reserve(&accepted(store, "d").await, 1, on_link("ab", 1_000_000))).await;
}

/// More or less of the same link, for good or in slots: never too much, and all as it was where it does not fit.
pub async fn what_is_held_is_exchanged_in_one_step(bench: &Bench) {
    let store = &bench.store;
    let [a, b, _] = three(bench).await;
    let wants = |slots, mbps| vec![LinkWant { link: link("ab"), slots, rate: Bandwidth::from_mbps(mbps) }];
    let exchange = |order: &OrderRecord, version, wants| {
        let change = rhumb_store::OrderChange { rehold: Some(wants), ..change(order, version) };
        Intent::Change(Box::new(change))
    };
    let held = || async { store.holdings().await.unwrap() };
    let reserved = rhumb_store::OrderChange { generation: Some(1), ..change(&a, 1) };
    let reserve_a =
        Intent::Reserve { order: a.id, generation: 1, reservation: booked(0, 4, 900), change: Box::new(reserved) };
    granted(store, reserve_a).await;
    // what it has itself is in its way no more than it is in reality
    done(store, exchange(&a, 2, wants(slots(0, 6), 950))).await;
    audit(store).await;
    granted(store, reserve(&b, 1, booked(4, 8, 50))).await;
    // a change of 900 to 1100 of 1000 is refused, and nothing of it is left
    let before = held().await;
    assert!(matches!(refused(store, exchange(&a, 3, wants(slots(0, 6), 1_100))).await, Conflict::Link { .. }));
    assert!(matches!(refused(store, exchange(&a, 3, wants(slots(0, 6), 951))).await, Conflict::Link { .. }));
    assert_eq!(held().await, before);
    audit(store).await;
    // from slots to for good, and back to less
    done(store, exchange(&a, 3, wants(None, 950))).await;
    audit(store).await;
    assert_eq!(held().await.reserved[0].1, Bandwidth::from_mbps(950));
    done(store, exchange(&a, 4, wants(slots(2, 3), 10))).await;
    audit(store).await;
    done(store, exchange(&a, 5, Vec::new())).await;
    audit(store).await;
    assert_eq!(held().await.links.len(), 1, "b's");
}

pub async fn what_is_held_for_good_is_free_in_no_slot(bench: &Bench) {
    let store = &bench.store;
    let [a, b, c] = three(bench).await;
    granted(store, reserve(&a, 1, booked(40, 44, 600))).await;
    assert_eq!(refused(store, reserve(&b, 1, on_link("ab", 400_001))).await, {
        Conflict::Link { link: link("ab"), free: Bandwidth::from_mbps(400), needed: Bandwidth::from_kbps(400_001) }
    });
    granted(store, reserve(&b, 1, on_link("ab", 400_000))).await;
    assert_eq!(refused(store, reserve(&c, 1, booked(0, 1, 601))).await, full(600, 601));
    granted(store, reserve(&c, 1, booked(0, 1, 600))).await;
    audit(store).await;
    // configured smaller than what is promised for later
    let links = vec![(link("ab"), Bandwidth::from_mbps(999))];
    refused(store, Intent::Configure { points: vec![], links }).await;
}

pub async fn a_slot_is_never_over_full_whatever_is_written(bench: &Bench) {
    let store = &bench.store;
    let [a, ..] = three(bench).await;
    granted(store, reserve(&a, 1, booked(0, 2, 700))).await;
    for sql in [
        "UPDATE link_slots SET reserved_kbps = reserved_kbps + 1",
        "UPDATE link_slots SET reserved_kbps = -1",
        "UPDATE links SET reserved_kbps = 300001",
        "UPDATE links SET peak_kbps = 1000001",
        "INSERT INTO link_slots (link, slot, reserved_kbps) VALUES ('ab', 1, 700001)",
        "UPDATE link_holds SET end_slot = first_slot",
    ] {
        assert!(bench.sql(sql).await.is_err(), "{sql}");
    }
    audit(store).await;
}

pub async fn of_many_at_once_a_slot_takes_what_it_has(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![]).await;
    let mut orders = Vec::new();
    for i in 0..30 {
        orders.push(accepted(store, &format!("o-{i}")).await);
    }
    let rivals = orders.into_iter().enumerate().map(|(i, record)| {
        let store = store.clone();
        // each overlaps all others in one slot
        let first = (i % 5) as u32;
        tokio::spawn(async move { one(&store, reserve(&record, 1, booked(first, 6, 100))).await })
    });
    let mut held = 0;
    for rival in rivals.collect::<Vec<_>>() {
        match rival.await.unwrap() {
            Outcome::Reserved { .. } => held += 1,
            Outcome::Refused(Conflict::Link { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(held, 10);
    audit(store).await;
}

pub async fn work_that_takes_longer_holds_its_link_for_longer(bench: &Bench) {
    let store = &bench.store;
    let [a, b, c] = three(bench).await;
    granted(store, reserve(&a, 1, booked(0, 2, 600))).await;
    let extend = |order: &OrderRecord, generation, from, end, mbps| Intent::Extend {
        order: order.id,
        generation,
        links: booked(from, end, mbps).links,
        at: at(0),
    };
    // what it holds already counts
    done(store, extend(&a, 1, 1, 4, 600)).await;
    done(store, extend(&a, 1, 1, 4, 500)).await;
    audit(store).await;
    assert_eq!(store.holdings().await.unwrap().slots.len(), 4);
    assert_eq!(refused(store, reserve(&b, 1, booked(3, 4, 500))).await, full(400, 500));
    granted(store, reserve(&b, 1, booked(4, 5, 500))).await;
    assert_eq!(refused(store, extend(&a, 1, 4, 5, 600)).await, full(500, 600));
    // nobody extends what is not held, or no longer the order's
    done(store, extend(&a, 2, 6, 7, 600)).await;
    done(store, extend(&c, 1, 6, 7, 600)).await;
    done(store, extend(&accepted(store, "d").await, 0, 6, 7, 600)).await;
    audit(store).await;
    done(store, release(&a, 2)).await;
    done(store, release(&b, 2)).await;
    assert!(store.holdings().await.unwrap().slots.is_empty());
}

pub async fn what_is_over_is_forgotten_and_counts_no_more(bench: &Bench) {
    let store = &bench.store;
    let [a, ..] = three(bench).await;
    granted(store, reserve(&a, 1, booked(0, 96, 600))).await;
    // hours later what is over is forgotten, and counts no more
    let later = at(0).checked_add(jiff::SignedDuration::from_hours(25)).unwrap();
    done(store, Intent::Forget { before: at(0), at: later }).await;
    let held = store.holdings().await.unwrap();
    assert_eq!((held.links.len(), held.slots.len()), (1, 0));
    done(store, release(&a, 2)).await;
    audit(store).await;
    let b = accepted(store, "late").await;
    granted(store, reserve(&b, 1, on_link("ab", 1_000_000))).await;
}
