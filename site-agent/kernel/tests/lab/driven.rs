//! The driver, left to itself: it repairs, it notices, it switches.

use crate::{
    traffic::ping,
    world::{Leg, Way, at, everything, lab, owner, until},
};
use rhumb_kernel::{Driver, DriverConfig, LegState, Patience, Stance};
use rhumb_lab::{Lab, Namespace, Router, Site, within};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;

/// A driver in a site's namespace.
struct Driven {
    driver: Driver,
    _runtime: Runtime,
}

fn drive(space: &Namespace) -> Driven {
    // threads that the runtime starts are in the namespace of the one that makes it
    let made = within(space, || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let config = DriverConfig {
            look: Duration::from_millis(500),
            patience: Patience { hold_down: Duration::from_secs(2), ..Patience::default() },
            ..DriverConfig::default()
        };
        let driver = runtime.block_on(async { Driver::start(config).unwrap() });
        Driven { driver, _runtime: runtime }
    });
    made.unwrap()
}

fn both(lab: &Lab, legs: &[Leg]) -> [Driven; 2] {
    [Site::A, Site::B].map(|site| {
        let driven = drive(&lab.site(site));
        driven.driver.apply(at(site, legs));
        driven
    })
}

fn wait_for(driven: &Driven, leg: &Leg, state: LegState, carries: bool) {
    until(&format!("{state:?}, carries: {carries}"), || {
        let status = driven.driver.status();
        status.get(&leg.owner).filter(|leg| leg.state == state && leg.carries == carries).map(drop)
    });
}

#[test]
fn a_cut_cable_moves_a_protected_orders_traffic_within_two_seconds_and_back_when_it_has_held() {
    let Some(lab) = lab() else { return };
    let primary = Leg::new(1, Way::Plane(Router::R2), 50);
    let backup = Leg {
        owner: owner(1, 1, 1),
        stance: Stance::Standby,
        protects: Some(primary.owner),
        ..Leg::new(2, Way::Plane(Router::R1), 50)
    };
    let driven = both(&lab, &[primary.clone(), backup.clone()]);
    for end in &driven {
        wait_for(end, &primary, LegState::Active, true);
        wait_for(end, &backup, LegState::Active, false);
    }
    let running = ping(&lab.host(Site::A), Site::B.host(0), 200, "0.02");
    std::thread::sleep(Duration::from_millis(500));
    // a starved machine may have taken its own pause for a loss
    for end in &driven {
        wait_for(end, &primary, LegState::Active, true);
    }
    lab.cut(Site::B, Router::R2).unwrap();
    let cut = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let echoes = running.end();
    // the first that came back by the longer way
    let back = echoes.answered.iter().find(|(_, ms, at)| *at > cut && *ms >= 40.0).unwrap();
    eprintln!("cut to traffic: {:.2} s, {} of 200 echoes lost", back.2 - cut, 200 - echoes.received);
    assert!(echoes.received < 200, "the cut was felt");
    assert!(back.2 - cut < 2.0, "{back:?}, cut at {cut}");
    assert_eq!(echoes.answered.last().unwrap().0, 200);
    for end in &driven {
        wait_for(end, &primary, LegState::Degraded, false);
        wait_for(end, &backup, LegState::Active, true);
    }
    lab.heal(Site::B, Router::R2).unwrap();
    let healed = Instant::now();
    for end in &driven {
        wait_for(end, &primary, LegState::Active, true);
        wait_for(end, &backup, LegState::Active, false);
    }
    assert!(healed.elapsed() >= Duration::from_secs(2), "it flaps back after {:?}", healed.elapsed());
    let back = ping(&lab.host(Site::A), Site::B.host(0), 5, "0.05").end();
    assert!(back.received == 5 && back.least_ms < 15.0, "{back:?}");
}

#[test]
fn a_driver_repairs_says_what_is_wrong_and_leaves_its_work_to_the_next() {
    let Some(lab) = lab() else { return };
    let site = lab.site(Site::A);
    let before = everything(&site);
    let (good, bad) = (Leg::new(1, Way::Plane(Router::R2), 50), Leg::new(2, Way::Plane(Router::R2), 0));
    let [a, b] = both(&lab, &[good.clone(), bad.clone()]);
    wait_for(&a, &good, LegState::Active, true);
    wait_for(&a, &bad, LegState::Failed, false);
    assert!(a.driver.status()[&bad.owner].message.contains("a rate of 0 moves nothing"));
    site.ip("rule del priority 10001").unwrap();
    site.ip("link del rh1").unwrap();
    until("the repair", || (a.driver.status()[&good.owner].repaired > 0).then_some(()));
    wait_for(&a, &good, LegState::Active, true);
    assert_eq!(ping(&lab.host(Site::A), Site::B.host(0), 3, "0.05").end().received, 3);
    let round_trip = a.driver.status()[&good.owner].round_trip.unwrap();
    assert!(round_trip >= Duration::from_millis(12), "{round_trip:?}");
    until("counters", || (a.driver.status()[&good.owner].sent_bytes > 0).then_some(()));
    drop(b);
    // the far driver's end does not touch what carries
    assert_eq!(ping(&lab.host(Site::A), Site::B.host(0), 3, "0.05").end().received, 3);
    // the next one says what the former one left before it is told anything, and until that is gone
    let b = drive(&lab.site(Site::B));
    wait_for(&b, &good, LegState::Closing, false);
    b.driver.apply(Vec::new());
    until("the far end to be gone", || b.driver.status().is_empty().then_some(()));
    until("that to be noticed", || (a.driver.status()[&good.owner].state == LegState::Degraded).then_some(()));
    a.driver.apply(Vec::new());
    until("all to be gone", || (a.driver.status().is_empty() && everything(&site) == before).then_some(()));
}
