//! What probers tell reaches the view that decisions are made on: held figures, paths that are others, silence, and rates by the
//! most trusted way.

use crate::world::World;
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{Bandwidth, BandwidthMethod, Confidence, LinkId};
use rhumb_probe_session::{PathSeen, Record, Spread, Way};
use rhumb_wire::{BandwidthFigures, LinkFigures, PathChange, Report, WindowFigures};
use std::time::Duration;

fn link(id: &str) -> LinkId {
    LinkId::new(id).unwrap()
}

/// A report of `east`, whose figures of its link are as `change` makes them.
async fn tell(world: &mut World, change: impl Fn(&mut LinkFigures), windows: Vec<WindowFigures>) {
    let agent = world.agents.iter_mut().find(|a| a.point.as_str() == "east").unwrap();
    let mut report: Report = agent.report();
    report.links.iter_mut().for_each(change);
    report.windows = windows;
    let reply = world.desk.sync(&agent.point, report).await.unwrap();
    agent.accept(&reply);
}

fn minute(start_ms: u64, age_ms: u64, rtt_us: u64, change: Option<PathChange>) -> WindowFigures {
    let mut round_trips = Spread::default();
    (0..300).for_each(|_| round_trips.record(rtt_us * 1_000));
    let record = Record {
        start_ns: start_ms * 1_000_000,
        length_ns: 60_000_000_000,
        sent: 300,
        received: 300,
        refused: 0,
        duplicates: 0,
        reordered: 0,
        round_trips,
        successive_ns: 0,
        forward: Way::default(),
        backward: Way::default(),
        far_clock: None,
        path: PathSeen::default(),
    };
    WindowFigures { link: link("e-p"), start_ms, age_ms, record: serde_json::to_value(&record).unwrap(), change }
}

async fn view(world: &World) -> View {
    world.desk.view(Timestamp::now()).await.unwrap()
}

/// Windows of the least length that counts, so that the test need not wait for those of ten seconds.
fn rtt(us: u64) -> impl Fn(&mut LinkFigures) {
    move |figures| {
        figures.window_us = 1_000;
        (figures.rtt_min_us, figures.rtt_p50_us, figures.rtt_p95_us) = (Some(us), Some(us), Some(us));
        figures.last_reply_age_us = Some(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_see_the_held_figure_beside_the_last_windows_own_and_a_lasting_change_in_bounded_time() {
    let mut world = World::start().await;
    for _ in 0..3 {
        tell(&mut world, rtt(20_000), Vec::new()).await;
        tokio::time::sleep(Duration::from_millis(1_050)).await;
    }
    // one odd window shows beside the figure in use, which stays
    tell(&mut world, rtt(90_000), Vec::new()).await;
    let path = view(&world).await.link(&link("e-p")).unwrap().path.unwrap();
    assert_eq!((path.rtt_p95.micros(), path.held_p95.micros()), (90_000, 20_000));
    assert!((10_000..10_100).contains(&view(&world).await.link(&link("e-p")).unwrap().latency.micros()));
    // a change that lasts is decided on after three windows
    let mut windows = 1;
    while view(&world).await.link(&link("e-p")).unwrap().latency.micros() < 45_000 {
        tokio::time::sleep(Duration::from_millis(1_050)).await;
        tell(&mut world, rtt(90_000), Vec::new()).await;
        windows += 1;
        assert!(windows <= 3, "it never showed");
    }
    let path = view(&world).await.link(&link("e-p")).unwrap().path.unwrap();
    assert_eq!((path.held_min.micros(), path.held_p95.micros(), windows), (90_000, 90_000, 3));
    world.desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_path_and_three_silent_windows_arrive_in_the_view() {
    let mut world = World::start().await;
    let news = PathChange { min_moved_us: Some((20_000, 40_000)) };
    let windows = vec![minute(0, 60_000, 20_000, None), minute(60_000, 0, 40_000, Some(news))];
    tell(&mut world, |_| {}, windows.clone()).await;
    let edge = view(&world).await.link(&link("e-p")).unwrap().clone();
    let changed = edge.path.unwrap().changed.unwrap();
    let (from, to) = changed.min_moved.unwrap();
    assert_eq!((from.micros(), to.micros()), (20_000, 40_000));
    assert!(!edge.stale && view(&world).await.link(&link("p-w")).unwrap().path.unwrap().changed.is_none());
    // told again, it is no news
    tell(&mut world, |_| {}, windows).await;
    let again = view(&world).await.link(&link("e-p")).unwrap().path.unwrap().changed.unwrap();
    assert_eq!(again, changed);

    tell(&mut world, |figures| figures.stale = true, Vec::new()).await;
    let edge = view(&world).await.link(&link("e-p")).unwrap().clone();
    assert!(edge.stale && edge.path.unwrap().silent && edge.latency.micros() > 0);
    tell(&mut world, |_| {}, Vec::new()).await;
    assert!(!view(&world).await.link(&link("e-p")).unwrap().stale);

    // both windows are there once, and the present one after them
    let from = Timestamp::now() - jiff::SignedDuration::from_hours(1);
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let history = world.desk.link_history(&link("e-p"), from, None, 100).await.unwrap();
        let sent: Vec<u64> = history.iter().map(|w| w.sent).collect();
        if sent.len() >= 3 {
            let medians: Vec<u64> = history.iter().map(|w| w.rtt.unwrap().p50.micros()).collect();
            assert_eq!((sent, medians), (vec![300, 300, 50], vec![20_000, 40_000, 10_200]));
            let one = world.desk.link_history(&link("e-p"), from, None, 1).await.unwrap();
            let whole = one[0].rtt.unwrap();
            assert_eq!((one.len(), one[0].sent, whole.min.micros(), whole.p95.micros() / 1_000), (1, 600, 20_000, 40));
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{sent:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_that_counters_leave_comes_before_what_trains_found() {
    let mut world = World::start().await;
    let figure = |method, kbps, age_us| BandwidthFigures {
        rate_kbps: kbps,
        available_kbps: Some(kbps),
        method,
        confidence: Confidence::Medium,
        label: 1,
        age_us,
    };
    let both = [figure(BandwidthMethod::Trains, 95_000, 5), figure(BandwidthMethod::Counters, 60_000, 7_000_000)];
    tell(&mut world, |figures| figures.bandwidths = both.to_vec(), Vec::new()).await;
    let now = Timestamp::now();
    let known = |committed| {
        let state = world.desk.hub().lock();
        let figures = state.bandwidths.figures(&link("e-p"), committed, now);
        figures.iter().map(|f| (f.claim.method, f.rate.kbps())).collect::<Vec<_>>()
    };
    let measured = [(BandwidthMethod::Counters, 60_000), (BandwidthMethod::Trains, 95_000)];
    assert_eq!(known(None), measured);
    assert_eq!(known(Some(Bandwidth::from_mbps(100)))[0], (BandwidthMethod::Reserved, 100_000));
    let chosen = world.desk.hub().lock().bandwidths.figure(&link("e-p"), None, now).unwrap();
    assert!(now.duration_since(chosen.claim.measured_at).as_secs() >= 6, "its age is told");
    // an agent does not speak of others' links
    let agent = world.agents.iter_mut().find(|a| a.point.as_str() == "west").unwrap();
    let mut report = agent.report();
    report.links[0].link = link("e-p");
    report.links[0].bandwidths = vec![figure(BandwidthMethod::Counters, 1, 0)];
    world.desk.sync(&agent.point, report).await.unwrap();
    assert_eq!(world.desk.hub().lock().bandwidths.figure(&link("e-p"), None, now).unwrap().rate.kbps(), 60_000);
    world.desk.stop().await;
}
