//! What is promised is carried, and no more.

use crate::{
    traffic::{Load, ping, send},
    world::{Leg, Way, apply_all, at, clean, kernel, lab, segment},
};
use rhumb_kernel::{Allow, Counters, Kernel, Pass, Place, PoolError, Service, Vni, VniPool, VniRange};
use rhumb_lab::{Router, Site};
use std::{sync::Mutex, time::Instant};

#[test]
fn a_reserved_rate_holds_beside_a_greedy_neighbour_and_changes_in_place() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Site::A), lab.host(Site::B));
    let mut mine = Leg::new(1_001, Way::Plane(Router::R2), 50);
    let neighbour = Leg { net: 1, ..Leg::new(1_002, Way::Plane(Router::R2), 20) };
    apply_all(&lab, &[mine.clone(), neighbour.clone()]);
    let (own, greedy) = (Site::B.host(0), Site::B.host(1));
    // the neighbour offers more than the cable has beside the promise; its packets come from its own network
    let flood = send((&a, Site::A.host(1)), (&b, greedy), 5_301, Load::Udp(90), 5);
    let reserved = send((&a, Site::A.host(0)), (&b, own), 5_302, Load::Tcp, 4).arrived();
    let held = flood.arrived();
    assert!((47.0..=51.0).contains(&reserved), "{reserved} Mbit/s of 50 reserved");
    assert!(held <= 20.5, "the neighbour had {held} Mbit/s of its 20");
    let counted: Counters =
        kernel(&lab.site(Site::A), async |kernel: &mut Kernel| kernel.counters().await)[&mine.owner][&1_001];
    assert!(counted.sent_bytes > 20_000_000 && counted.received_packets > 1_000, "{counted:?}");

    mine.mbps = 20;
    let running = ping(&a, own, 100, "0.01");
    apply_all(&lab, &[mine.clone(), neighbour.clone()]);
    let echoes = running.end();
    assert_eq!((echoes.sent, echoes.received), (100, 100), "the change is in place");
    let slower = send((&a, Site::A.host(0)), (&b, own), 5_303, Load::Tcp, 3).arrived();
    assert!((18.8..=20.4).contains(&slower), "{slower} Mbit/s of 20");
}

#[test]
fn an_explicit_path_by_segments_carries_its_rate_the_way_it_was_chosen() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Site::A), lab.host(Site::B));
    for router in Router::ALL {
        segment(&lab, router);
    }
    let leg = Leg::new(7, Way::Segments(Router::R1), 30);
    apply_all(&lab, std::slice::from_ref(&leg));
    let far = ping(&a, Site::B.host(0), 10, "0.05").end();
    assert_eq!(far.received, 10);
    assert!((40.0..43.0).contains(&far.least_ms), "{far:?}");
    let carried = send((&a, Site::A.host(0)), (&b, Site::B.host(0)), 5_311, Load::Tcp, 3).arrived();
    assert!((28.2..=30.6).contains(&carried), "{carried} Mbit/s of 30");
    // the same tunnel by the other router, without a new one
    let running = ping(&a, Site::B.host(0), 200, "0.005");
    apply_all(&lab, &[Leg { way: Way::Segments(Router::R2), ..leg.clone() }]);
    let echoes = running.end();
    assert_eq!((echoes.sent, echoes.received), (200, 200));
    let near = ping(&a, Site::B.host(0), 10, "0.05").end();
    assert!((12.0..15.0).contains(&near.least_ms), "{near:?}");
}

#[test]
fn a_relay_passes_one_tunnel_on_to_the_next() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Site::A), lab.host(Site::B));
    // a - c - b, by the near router
    let (first, second) = (
        Leg { to: Site::C, ..Leg::new(21, Way::Plane(Router::R2), 40) },
        Leg { from: Site::C, ..Leg::new(22, Way::Plane(Router::R2), 40) },
    );
    let whole = Leg::new(20, Way::Plane(Router::R2), 40);
    let tunnel = |leg: &Leg, site: Site| match leg.at(site).place {
        Place::Source { next } => next,
        Place::Sink { previous } => previous,
        Place::Relay { .. } | Place::Transit { .. } => unreachable!("an end"),
    };
    let (near, far) = (tunnel(&first, Site::A), tunnel(&second, Site::B));
    let ends = rhumb_kernel::Ends { source: near.own, sink: far.own };
    let places = [
        (Site::A, Place::Source { next: near }),
        (Site::C, Place::Relay { previous: tunnel(&first, Site::C), next: tunnel(&second, Site::C) }),
        (Site::B, Place::Sink { previous: far.clone() }),
    ];
    for (site, place) in places {
        let intent = rhumb_kernel::Intent { place, ends, ..whole.at(Site::A) };
        let done =
            kernel(&lab.site(site), async |kernel: &mut Kernel| kernel.apply(std::slice::from_ref(&intent)).await);
        clean(&done);
    }
    let echoes = ping(&a, Site::B.host(0), 10, "0.05").end();
    assert_eq!(echoes.received, 10);
    assert!((24.0..29.0).contains(&echoes.least_ms), "two hops of 6 ms each way: {echoes:?}");
    // the ends of the leg reach each other too
    assert_eq!(ping(&lab.site(Site::A), far.own, 5, "0.05").end().received, 5);
    let carried = send((&a, Site::A.host(0)), (&b, Site::B.host(0)), 5_321, Load::Tcp, 3).arrived();
    assert!((37.6..=40.8).contains(&carried), "{carried} Mbit/s of 40");
}

#[test]
fn only_who_is_allowed_talks_through_a_route() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Site::A), lab.host(Site::B));
    let net = |site: Site| format!("{}/32", site.host(0)).parse().unwrap();
    let pass = |service| Pass { from: net(Site::A), to: net(Site::B), service };
    let leg = Leg { allow: Allow::Only(vec![pass(Service::Tcp(5_331))]), ..Leg::new(31, Way::Plane(Router::R2), 50) };
    apply_all(&lab, std::slice::from_ref(&leg));
    let (low, high) = leg.inner();
    assert_eq!(ping(&lab.site(Site::A), high, 3, "0.05").end().received, 3, "the ends always may");
    assert_eq!(ping(&lab.site(Site::B), low, 3, "0.05").end().received, 3);
    let sent = send((&a, Site::A.host(0)), (&b, Site::B.host(0)), 5_331, Load::Tcp, 1).arrived();
    assert!(sent > 10.0, "{sent}");
    assert_eq!(ping(&a, Site::B.host(0), 3, "0.05").end().received, 0, "an echo is not what was allowed");
    // what else listens at the far site is nobody's business
    assert_eq!(ping(&a, Site::B.gateway(0), 3, "0.05").end().received, 0);
    // in place, by another list
    let wider = Leg { allow: Allow::Only(vec![pass(Service::Tcp(5_331)), pass(Service::Icmp)]), ..leg };
    apply_all(&lab, &[wider]);
    assert_eq!(ping(&a, Site::B.host(0), 3, "0.05").end().received, 3);
}

#[test]
fn packets_of_the_promised_size_pass_whole_and_larger_ones_are_refused_with_the_reason() {
    let Some(lab) = lab() else { return };
    let leg = Leg::new(41, Way::Plane(Router::R2), 50);
    apply_all(&lab, std::slice::from_ref(&leg));
    // 1500 of the cable less 50 of the tunnel, less 28 of IP and ICMP
    let whole = |octets: &str| {
        let words = ["-n", "-c", "2", "-i", "0.1", "-W", "1", "-M", "do", "-s", octets, "10.12.0.10"];
        lab.host(Site::A).command("ping").args(words).output().unwrap().status.success()
    };
    assert!(whole("1422") && !whole("1423"));
    let mut intent = leg.at(Site::A);
    intent.mtu = Some(1_500);
    let (applied, left) = kernel(&lab.site(Site::A), async |kernel: &mut Kernel| {
        let applied = kernel.apply(std::slice::from_ref(&intent)).await?;
        kernel.look_again();
        Ok((applied, kernel.observe().await?.len()))
    });
    assert_eq!(
        applied.refused[&leg.owner].to_string(),
        "packets of 1500 octets do not fit: up2 carries 1500, a tunnel to 10.100.22.1 takes 50 of them, 1450 are left; \
         raise the MTU of up2 or ask for at most 1450"
    );
    assert_eq!(left, 0, "what cannot be as it is asked is not left as it was");
}

#[test]
fn of_twenty_orders_at_once_sixteen_get_a_tunnel_and_four_a_reason() {
    let Some(lab) = lab() else { return };
    let pool = Mutex::new(VniPool::new(VniRange::new(5_001, 5_016).unwrap()));
    let answers: Vec<Result<Vni, PoolError>> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..20).map(|_| scope.spawn(|| pool.lock().unwrap().allocate())).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (given, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    let legs: Vec<Leg> =
        given.into_iter().flatten().map(|vni| Leg::new(vni.number(), Way::Plane(Router::R2), 1)).collect();
    apply_all(&lab, &legs);
    let links = lab.site(Site::A).ip("-o link").unwrap();
    assert_eq!(links.matches(": rh50").count(), 16, "{links}");
    assert!(legs.iter().all(|leg| ping(&lab.site(Site::A), leg.inner().1, 1, "1").end().received == 1));
    assert_eq!(refused.len(), 4);
    for reason in refused {
        assert!(reason.unwrap_err().to_string().contains("5001 to 5016 is exhausted: all 16 are held"));
    }
}

#[test]
fn a_thousand_routes_come_and_go() {
    let Some(lab) = lab() else { return };
    let legs: Vec<Leg> = (1..=1_000).map(|vni| Leg::new(vni, Way::Plane(Router::R2), 1)).collect();
    let intents = at(Site::A, &legs);
    let before = slab_kib();
    let (up, down, held) = kernel(&lab.site(Site::A), async |kernel: &mut Kernel| {
        let start = Instant::now();
        clean(&kernel.apply(&intents).await?);
        let up = start.elapsed();
        kernel.look_again();
        assert!(kernel.plan(&intents).await?.1.is_empty(), "what was built reads back as it was asked");
        let held = slab_kib().saturating_sub(before);
        let start = Instant::now();
        clean(&kernel.apply(&[]).await?);
        let down = start.elapsed();
        assert!(kernel.observe().await?.is_empty());
        Ok((up, down, held))
    });
    eprintln!(
        "1000 routes: up in {up:?} ({:.0}/s), down in {down:?} ({:.0}/s), about {held} KiB of the kernel's memory",
        1_000.0 / up.as_secs_f64(),
        1_000.0 / down.as_secs_f64()
    );
}

/// Memory of the kernel's own, machine wide.
fn slab_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).map(str::to_owned).unwrap_or_default();
    let kib = |name: &str| line(name).split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
    kib("Slab:") + kib("Percpu:")
}
