//! Sites and links that fail, and delays that change.

use crate::{checker, world::small};
use proptest::prelude::*;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Ppm};
use rhumb_replay::{Durations, Policy, ReplayError, Replayed, Setup, happening, journal::Event, orders, replay};

const FEDERATION: &str = "
currency: CNY
devices: {H100: {memory: 80GiB, fp16: 1}}
sites:
  - {name: a, prices: {H100: 10 CNY}, nodes: [{accelerators: {model: H100, count: 8}}]}
  - {name: b, prices: {H100: 20 CNY}, nodes: [{accelerators: {model: H100, count: 8}}]}
links:
  - {id: ab, from: a, to: b, both_ways: true, capacity: 10Gbps, latency: 10ms}
datasets:
  - {name: corpus, size: 1TB, at: [a]}
";

fn view() -> View {
    View::from_file(&FederationFile::read(FEDERATION).unwrap()).unwrap()
}

fn run(jobs: &str, events: &str, noise: Ppm, seed: u64) -> Result<Replayed, ReplayError> {
    let (view, workload) = (view(), orders::read(jobs).unwrap());
    let policy = Policy::named("rhumb").unwrap();
    let happenings = happening::read(events).unwrap();
    let setup = Setup {
        view: &view,
        workload: &workload,
        policy: &policy,
        seed,
        durations: Durations::Hidden,
        noise,
        happenings: &happenings,
    };
    let done = replay(setup)?;
    checker::check(&view, &workload, &done.journal);
    Ok(done)
}

const JOB: &str = "- {submit: 2026-01-01T00:00:00Z, order: {name: t, class: training, components: [{name: c, need: {accelerators: {count: 8}}, work: {duration: 2h}}]}}\n";

#[test]
fn a_job_whose_site_fails_starts_anew_elsewhere() {
    // a is cheaper; it fails after an hour, and b does the two hours
    let done = run(JOB, "[{after: 1h, site: a, state: down}]", Ppm::ZERO, 1).unwrap();
    assert!((done.figures.completion_s.mean - 3.0 * 3_600.0).abs() < 1e-6);
    assert!(done.journal.iter().any(|r| matches!(r.event, Event::Lost { job: 0 })));
    // an hour of eight at 10, two at 20, by the sixteen device-hours that count
    assert_eq!(done.figures.cost_per_accelerator_hour_micros, (80 + 320) * 1_000_000 / 16);
}

#[test]
fn a_job_waits_for_a_site_that_comes_back_and_is_rejected_if_none_does() {
    let down = "[{after: 1h, site: a, state: down}, {after: 1h, site: b, state: down}";
    let done = run(JOB, &format!("{down}, {{after: 5h, site: b, state: up}}]"), Ppm::ZERO, 1).unwrap();
    assert!((done.figures.completion_s.mean - 7.0 * 3_600.0).abs() < 1e-6);
    let done = run(JOB, &format!("{down}]"), Ppm::ZERO, 1).unwrap();
    assert_eq!((done.figures.rejected, done.figures.jobs), (1, 1));
}

/// Reads a dataset at `a` from `b` for two hours, within a delay.
fn reader(bound: &str) -> String {
    format!(
        "- {{submit: 2026-01-01T00:00:00Z, order: {{name: t, class: processing, constraints: {{sites: [b]}}, \
         components: [{{name: c, need: {{accelerators: {{count: 8}}}}, work: {{duration: 2h}}}}], \
         flows: [{{from: dataset/corpus, to: c, rate: 1Gbps, max_latency: {bound}}}]}}}}\n"
    )
}

#[test]
fn a_flow_over_a_path_that_became_too_slow_is_counted_once() {
    let slower = "[{after: 1h, link: ab, latency: 30ms}, {after: 90min, link: ab, latency: 40ms}]";
    assert_eq!(run(&reader("20ms"), slower, Ppm::ZERO, 1).unwrap().figures.delay_violations, 1);
    assert_eq!(run(&reader("50ms"), slower, Ppm::ZERO, 1).unwrap().figures.delay_violations, 0);
}

#[test]
fn noise_can_hide_that_a_path_is_too_slow() {
    // truly 10 ms: too slow for 9.9 ms, which a probe that is 5 % off may not see
    let refused = run(&reader("9.9ms"), "[]", Ppm::ZERO, 1).unwrap();
    assert_eq!((refused.figures.rejected, refused.figures.delay_violations), (1, 0));
    let seen: Vec<u64> = (0..20)
        .map(|seed| run(&reader("9.9ms"), "[]", Ppm::from_ppm(50_000), seed).unwrap())
        .map(|done| done.figures.delay_violations)
        .collect();
    assert!(seen.contains(&1) && seen.iter().all(|v| *v <= 1), "{seen:?}");
}

#[test]
fn a_link_that_fails_takes_the_jobs_that_need_it_and_data_moves_again() {
    let moving = "- {submit: 2026-01-01T00:00:00Z, order: {name: t, class: training, constraints: {sites: [b]}, \
                  components: [{name: c, need: {accelerators: {count: 8}}, work: {duration: 2h}}], \
                  flows: [{from: dataset/corpus, to: c, volume: 900GB}]}}\n";
    // 900 GB take 720 s at 10 Gbit/s; the link is away from 10 to 20 minutes
    let events = "[{after: 10min, link: ab, state: down}, {after: 20min, link: ab, state: up}]";
    let done = run(moving, events, Ppm::ZERO, 1).unwrap();
    assert!((done.figures.queue_s.mean - (1_200.0 + 720.01)).abs() < 1e-3, "{}", done.figures.queue_s.mean);
    assert!((done.figures.gb_moved - 1_800.0).abs() < 1e-9);
    // once the data is there, nobody needs the link
    let late = run(moving, "[{after: 30min, link: ab, state: down}]", Ppm::ZERO, 1).unwrap();
    assert!(late.journal.iter().all(|r| !matches!(r.event, Event::Lost { .. })));
}

#[test]
fn events_that_name_nothing_are_refused_with_their_place() {
    for (events, word) in [
        ("[{after: 1h, site: c, state: down}]", "no site c"),
        ("[{after: 1h, link: x, state: down}]", "no link x"),
        ("[{site: a, state: down}]", "at"),
        ("[{after: 1h, site: a, latency: 3ms}]", "what happens"),
    ] {
        let Err(ReplayError::Happenings(error)) = run(JOB, events, Ppm::ZERO, 1) else { panic!("{events}") };
        assert!(error.to_string().contains(word) && error.to_string().contains("/0"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_failure_breaks_an_invariant(small in small(), times in prop::collection::vec((0..4_000_u32, 0..3_u32), 1..6)) {
        let view = small.view(false);
        let workload = small.workload(&view);
        let mut events: Vec<(String, String, String)> = Vec::new();
        // each thing fails once, for ten minutes
        for (index, (at, what)) in times.iter().enumerate() {
            let index = index % small.nodes.len();
            let (kind, name) = if *what == 0 { ("site", format!("s{index}")) } else { ("link", "l0".to_owned()) };
            let entry = |at: u32, state: &str| format!("{{after: {at}s, {kind}: {name}, state: {state}}}");
            if !events.iter().any(|(known, ..)| *known == name) {
                events.push((name.clone(), entry(*at, "down"), entry(at + 600, "up")));
            }
        }
        let text: Vec<String> = events.into_iter().flat_map(|(_, down, up)| [down, up]).collect();
        let happenings = happening::read(&format!("[{}]", text.join(", "))).unwrap();
        for name in ["fifo", "rhumb"] {
            let done = crate::world::run(&view, &workload, &Policy::named(name).unwrap(), &happenings);
            checker::check(&view, &workload, &done.journal);
        }
    }
}
