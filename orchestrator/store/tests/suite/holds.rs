use crate::{bench::Bench, fixture::*};
use rhumb_model::{Bandwidth, SiteName};
use rhumb_store::{
    AnyStore, Conflict, Intent, OrderChange, OrderRecord, Outcome, ReplicaWant, Reservation, Store as _,
};
use serde_json::json;

fn room(want: &ReplicaWant) -> Conflict {
    Conflict::Room { site: want.site.clone(), component: want.component.clone(), replica: want.replica }
}

pub async fn a_rival_is_refused_until_what_is_held_is_given_back(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8)]).await;
    let (first, rival) = (accepted(store, "first").await, accepted(store, "rival").await);
    let all = || Reservation {
        replicas: vec![want("alpha", 0, gpus(4)), want("alpha", 1, gpus(4))],
        ..on_link("ab", 600_000)
    };
    let grants = granted(store, reserve(&first, 1, all())).await;
    assert_eq!(devices(&grants), [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    assert_eq!(store.order(first.id).await.unwrap().unwrap().generation, 1);
    let holdings = store.holdings().await.unwrap();
    assert_eq!((holdings.replicas.len(), holdings.links.len()), (2, 1));
    assert_eq!(holdings.reserved, [(link("ab"), Bandwidth::from_mbps(600), Bandwidth::from_mbps(1_000))]);
    audit(store).await;

    assert_eq!(refused(store, reserve(&rival, 1, all())).await, room(&want("alpha", 0, gpus(4))));
    assert_eq!(store.order(rival.id).await.unwrap().unwrap(), rival, "the refused order is as it was");
    done(store, release(&first, 2)).await;
    let held = store.holdings().await.unwrap();
    assert_eq!((held.replicas.len(), held.links.len(), held.reserved[0].1.kbps()), (0, 0, 0));
    granted(store, reserve(&rival, 1, all())).await;

    // a second release of the same generation gives back nothing of the rival's
    done(store, release(&first, 3)).await;
    assert_eq!(store.holdings().await.unwrap().reserved[0].1, Bandwidth::from_mbps(600));
    audit(store).await;
    let late = accepted(store, "late").await;
    refused(store, reserve(&late, 1, wants(vec![want("alpha", 0, gpus(1))]))).await;
}

pub async fn of_fifty_at_once_twenty_get_room(bench: &Bench) {
    let store = &bench.store;
    let nodes = (0..5).map(|i| node("alpha", &format!("n{i}"), 8)).collect();
    world(store, nodes).await;
    let mut orders = Vec::new();
    for i in 0..50 {
        orders.push(accepted(store, &format!("o-{i}")).await);
    }
    let rivals = orders.into_iter().map(|record| {
        let store = store.clone();
        // by devices there is room for 20, by rate too
        let reservation = Reservation { replicas: vec![want("alpha", 0, gpus(2))], ..on_link("ab", 50_000) };
        tokio::spawn(async move { one(&store, reserve(&record, 1, reservation)).await })
    });
    let (mut held, mut refused) = (0, 0);
    for rival in rivals.collect::<Vec<_>>() {
        match rival.await.unwrap() {
            Outcome::Reserved { version, grants } => {
                assert_eq!((version, grants.len()), (2, 1));
                held += 1;
            }
            Outcome::Refused(Conflict::Room { .. } | Conflict::Link { .. }) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((held, refused), (20, 30));
    audit(store).await;
    assert_eq!(store.holdings().await.unwrap().reserved[0].1, Bandwidth::from_mbps(1_000));
}

pub async fn a_link_is_never_over_full(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![]).await;
    let (a, b) = (accepted(store, "a").await, accepted(store, "b").await);
    let mut twice = on_link("ab", 300_000);
    twice.links.extend(on_link("ab", 300_000).links);
    granted(store, reserve(&a, 1, twice)).await;
    let full =
        Conflict::Link { link: link("ab"), free: Bandwidth::from_mbps(400), needed: Bandwidth::from_kbps(400_001) };
    assert_eq!(refused(store, reserve(&b, 1, on_link("ab", 400_001))).await, full);
    granted(store, reserve(&b, 1, on_link("ab", 400_000))).await;
    audit(store).await;
    for sql in [
        "UPDATE links SET reserved_kbps = reserved_kbps + 1",
        "UPDATE links SET reserved_kbps = -1",
        "UPDATE links SET capacity_kbps = 5",
    ] {
        assert!(bench.sql(sql).await.is_err(), "{sql}");
    }
    let huge = accepted(store, "huge").await;
    assert!(store.commit(vec![reserve(&huge, 1, on_link("ab", u64::MAX))]).await.is_err());
    audit(store).await;
}

pub async fn a_refused_reservation_leaves_nothing(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8)]).await;
    let record = accepted(store, "a").await;
    let change = OrderChange { events: vec![event("reserved")], generation: Some(1), ..change(&record, 1) };
    // devices fit, the second link does not
    let mut reservation = Reservation { replicas: vec![want("alpha", 0, gpus(8))], ..on_link("ab", 1_000) };
    reservation.links.extend(on_link("zz", 1).links);
    let intent = Intent::Reserve { order: record.id, generation: 1, reservation, change: Box::new(change) };
    let outcomes = store.commit(vec![intent.clone(), accept(&order("b")), intent]).await.unwrap();
    assert!(
        matches!(&outcomes[..], [Outcome::Refused(_), Outcome::Changed { .. }, Outcome::Refused(_)]),
        "{outcomes:?}"
    );
    let holdings = store.holdings().await.unwrap();
    assert!(holdings.replicas.is_empty() && holdings.links.is_empty());
    assert_eq!(holdings.reserved[0].1.kbps(), 0);
    assert_eq!(store.order_events(record.id, 0, 10).await.unwrap().len(), 1);
    granted(store, reserve(&record, 1, wants(vec![want("alpha", 0, gpus(8))]))).await;
}

pub async fn an_nvlink_island_is_kept_whole(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8)]).await;
    let nvlink = |count: u32| need(json!({"accelerators": {"count": count, "interconnect": "nvlink"}}));
    let (a, b, c) = (accepted(store, "a").await, accepted(store, "b").await, accepted(store, "c").await);
    let one = granted(store, reserve(&a, 1, wants(vec![want("alpha", 0, gpus(1))]))).await;
    let island = one[0].devices[0] / 4;
    let four = granted(store, reserve(&b, 1, wants(vec![want("alpha", 0, nvlink(4))]))).await;
    assert!(four[0].devices.iter().all(|d| d / 4 != island), "the whole island goes to whom needs it");
    refused(store, reserve(&c, 1, wants(vec![want("alpha", 0, nvlink(4))]))).await;
    granted(store, reserve(&c, 1, wants(vec![want("alpha", 0, nvlink(3))]))).await;
    audit(store).await;
}

pub async fn shares_never_exceed_a_card(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 2)]).await;
    let share =
        |percent: u32, memory: &str| need(json!({"accelerators": {"share": format!("{percent}%"), "memory": memory}}));
    // 30 rivals for a quarter each of two cards
    let mut rivals = Vec::new();
    for i in 0..30 {
        let (store, record) = (store.clone(), accepted(store, &format!("o-{i}")).await);
        let quarter = wants(vec![want("alpha", 0, share(25, "10GiB"))]);
        rivals.push(tokio::spawn(async move { one(&store, reserve(&record, 1, quarter)).await }));
    }
    let mut held = Vec::new();
    for rival in rivals {
        if let Outcome::Reserved { grants, .. } = rival.await.unwrap() {
            held.push(grants[0].devices.clone());
        }
    }
    held.sort();
    assert_eq!(held, [vec![0], vec![0], vec![0], vec![0], vec![1], vec![1], vec![1], vec![1]]);
    audit(store).await;
    assert!(bench.sql("UPDATE device_use SET used_permille = used_permille + 1").await.is_err());

    // memory of a card runs out before its share; a started card is not whole
    done(store, Intent::Inventory { site: site("beta"), nodes: vec![node("beta", "n1", 2)] }).await;
    let (a, b, c, d) = (
        accepted(store, "a").await,
        accepted(store, "b").await,
        accepted(store, "c").await,
        accepted(store, "d").await,
    );
    let first = granted(store, reserve(&a, 1, wants(vec![want("beta", 0, share(10, "60GiB"))]))).await;
    let second = granted(store, reserve(&b, 1, wants(vec![want("beta", 0, share(10, "60GiB"))]))).await;
    assert_ne!(first[0].devices, second[0].devices);
    refused(store, reserve(&c, 1, wants(vec![want("beta", 0, share(10, "21GiB"))]))).await;
    refused(store, reserve(&c, 1, wants(vec![want("beta", 0, gpus(1))]))).await;
    granted(store, reserve(&c, 1, wants(vec![want("beta", 0, share(90, "20GiB"))]))).await;
    done(store, release(&b, 2)).await;
    audit(store).await;
    let left = store.holdings().await.unwrap().replicas.into_iter().filter(|h| h.site == site("beta"));
    let on_second = left.filter(|h| h.devices == second[0].devices).count();
    let whole = one(store, reserve(&d, 1, wants(vec![want("beta", 0, gpus(1))]))).await;
    assert_eq!(matches!(whole, Outcome::Reserved { .. }), on_second == 0, "a card is whole again once it is empty");
}

pub async fn a_replica_on_its_own_node(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8), node("alpha", "n2", 8)]).await;
    let record = accepted(store, "a").await;
    let own = |replica| ReplicaWant { own_node: true, ..want("alpha", replica, gpus(2)) };
    assert_eq!(refused(store, reserve(&record, 1, wants(vec![own(0), own(1), own(2)]))).await, room(&own(2)));
    let grants = granted(store, reserve(&record, 1, wants(vec![own(0), own(1)]))).await;
    assert_ne!(grants[0].node, grants[1].node);
    let mixed = accepted(store, "b").await;
    let sizes = [6, 2, 4].into_iter().enumerate();
    let replicas = sizes.map(|(i, n)| ReplicaWant {
        component: rhumb_model::ComponentName::new(&format!("c{i}")).unwrap(),
        ..want("alpha", 0, gpus(n))
    });
    let grants = granted(store, reserve(&mixed, 1, wants(replicas.collect()))).await;
    assert_eq!(grants.iter().map(|g| g.devices.len()).collect::<Vec<_>>(), [6, 2, 4], "grants come as asked for");
}

pub async fn replicas_of_one_rack_stay_in_it(bench: &Bench) {
    let store = &bench.store;
    let racked = |name: &str, rack: &str, devices| {
        node_from(
            "alpha",
            json!({"name": name, "rack": rack, "devices": devices_json(devices), "cpu": 8, "memory": "8GiB"}),
        )
    };
    world(store, vec![racked("n1", "r1", 8), racked("n2", "r2", 4), racked("n3", "r2", 4), racked("n4", "r2", 4)])
        .await;
    let record = accepted(store, "a").await;
    let rack = |replica| want("alpha", replica, need(json!({"accelerators": {"count": 4, "interconnect": "rack"}})));
    let grants = granted(store, reserve(&record, 1, wants((0..3).map(rack).collect()))).await;
    assert!(grants.iter().all(|g| g.node != node_name("n1")), "three fit into rack r2 only: {grants:?}");
}

pub async fn cores_and_memory_run_out_too(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 0)]).await;
    let cpu = |cores: u32, gib: u32| {
        wants(vec![want("alpha", 0, need(json!({"cpu": cores, "memory": format!("{gib}GiB")})))])
    };
    let (a, b, c) = (accepted(store, "a").await, accepted(store, "b").await, accepted(store, "c").await);
    let grants = granted(store, reserve(&a, 1, cpu(30, 10))).await;
    assert!(grants[0].devices.is_empty());
    refused(store, reserve(&b, 1, cpu(3, 10))).await;
    refused(store, reserve(&b, 1, cpu(1, 247))).await;
    granted(store, reserve(&b, 1, cpu(2, 246))).await;
    refused(store, reserve(&c, 1, cpu(0, 1))).await;
    for sql in ["UPDATE nodes SET cpu_used_milli = 40000", "UPDATE nodes SET cpu_used_milli = -1"] {
        assert!(bench.sql(sql).await.is_err(), "{sql}");
    }
    done(store, release(&a, 2)).await;
    granted(store, reserve(&c, 1, cpu(30, 10))).await;
}

pub async fn a_smaller_inventory_keeps_holds_and_gives_no_new_ones(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8), node("alpha", "n2", 8)]).await;
    let (a, b, c) = (accepted(store, "a").await, accepted(store, "b").await, accepted(store, "c").await);
    let eight = |cores: u32| need(json!({"accelerators": {"count": 8}, "cpu": cores}));
    let held = granted(store, reserve(&a, 1, wants(vec![want("alpha", 0, eight(20))]))).await;
    let (used, other) = if held[0].node == node_name("n1") { ("n1", "n2") } else { ("n2", "n1") };

    // the used node comes back with half its devices, cores and memory; then it vanishes; then both do
    let half = json!({"name": used, "devices": devices_json(4), "cpu": 10, "memory": "1GiB"});
    for nodes in [vec![node_from("alpha", half), node("alpha", other, 2)], vec![node("alpha", other, 2)], vec![]] {
        let reported = nodes.len();
        done(store, Intent::Inventory { site: site("alpha"), nodes }).await;
        assert_eq!(store.nodes().await.unwrap().len(), reported);
        assert_eq!(store.holdings().await.unwrap().replicas.len(), 1, "what is held stays held");
        audit(store).await;
        refused(store, reserve(&b, 1, wants(vec![want("alpha", 0, gpus(4))]))).await;
        let trifle = wants(vec![want("alpha", 0, need(json!({"accelerators": {"count": 3}, "cpu": 1})))]);
        refused(store, reserve(&b, 1, trifle)).await;
    }
    // back as it was: the same devices are still taken
    done(store, Intent::Inventory { site: site("alpha"), nodes: vec![node("alpha", used, 8)] }).await;
    refused(store, reserve(&b, 1, wants(vec![want("alpha", 0, gpus(1))]))).await;
    done(store, Intent::Inventory { site: site("alpha"), nodes: vec![] }).await;
    done(store, release(&a, 2)).await;
    done(store, Intent::Inventory { site: site("alpha"), nodes: vec![node("alpha", used, 8)] }).await;
    granted(store, reserve(&c, 1, wants(vec![want("alpha", 0, eight(32))]))).await;
    audit(store).await;
}

pub async fn a_draining_site_takes_nothing_new(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![node("alpha", "n1", 8)]).await;
    let (a, b) = (accepted(store, "a").await, accepted(store, "b").await);
    let one_gpu = || wants(vec![want("alpha", 0, gpus(1))]);
    granted(store, reserve(&a, 1, one_gpu())).await;
    done(store, Intent::Drain { site: site("alpha"), draining: true }).await;
    // configuration read again does not undo it
    done(store, Intent::Configure { points: vec![point("alpha")], links: vec![] }).await;
    assert!(store.points().await.unwrap().iter().any(|p| p.name == site("alpha") && p.draining));
    assert_eq!(refused(store, reserve(&b, 1, one_gpu())).await, Conflict::Draining(site("alpha")));
    done(store, release(&a, 2)).await;
    done(store, Intent::Drain { site: site("alpha"), draining: false }).await;
    granted(store, reserve(&b, 1, one_gpu())).await;
}

/// Reserves at both sites and on both links and gives back, as often as it gets room.
async fn live(store: &AnyStore, record: OrderRecord, sites: [SiteName; 2], links: [&str; 2]) -> u32 {
    let (mut version, mut got) = (1, 0);
    for round in 0..12_u32 {
        let replicas = (0..4).map(|i| want(sites[i as usize % 2].as_str(), i, gpus(1 + (round + i) % 3)));
        let mut reservation = wants(replicas.collect());
        for id in links {
            reservation.links.extend(on_link(id, 200_000).links);
        }
        match one(store, reserve(&record, version, reservation)).await {
            Outcome::Reserved { version: now, .. } => {
                got += 1;
                let Outcome::Changed { version: now } = done(store, release(&record, now)).await else { panic!() };
                version = now;
            }
            Outcome::Refused(Conflict::Room { .. } | Conflict::Link { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    got
}

pub async fn churn_leaves_nothing_behind(bench: &Bench) {
    let store = &bench.store;
    let links = ["ab", "ba"].map(|id| (link(id), Bandwidth::from_mbps(1_000)));
    done(store, Intent::Configure { points: vec![point("alpha"), point("beta")], links: links.into() }).await;
    for name in ["alpha", "beta"] {
        let nodes = vec![node(name, "n1", 8), node(name, "n2", 8)];
        done(store, Intent::Inventory { site: site(name), nodes }).await;
    }
    let mut lives = Vec::new();
    for i in 0..12 {
        let (store, record) = (store.clone(), accepted(store, &format!("o-{i}")).await);
        let (mut sites, mut links) = ([site("alpha"), site("beta")], ["ab", "ba"]);
        if i % 2 == 0 {
            // asked for the other way round: locks must not depend on it
            sites.reverse();
            links.reverse();
        }
        lives.push(tokio::spawn(async move { live(&store, record, sites, links).await }));
    }
    while lives.iter().any(|l| !l.is_finished()) {
        audit(store).await;
        // reports come in between
        done(
            store,
            Intent::Inventory { site: site("beta"), nodes: vec![node("beta", "n1", 8), node("beta", "n2", 8)] },
        )
        .await;
    }
    let mut got = 0;
    for one in lives {
        got += one.await.unwrap();
    }
    assert!(got >= 12, "{got}");
    let holdings = store.holdings().await.unwrap();
    assert!(holdings.replicas.is_empty() && holdings.links.is_empty());
    assert!(holdings.reserved.iter().all(|(_, reserved, _)| reserved.is_zero()), "{:?}", holdings.reserved);
    let record = accepted(store, "all").await;
    let all = ["alpha", "beta"].iter().flat_map(|s| (0..2).map(move |_| want(s, 0, gpus(8))));
    let all = all.enumerate().map(|(i, w)| ReplicaWant { replica: i as u32, ..w });
    granted(store, reserve(&record, 1, wants(all.collect()))).await;
}
