//! What holds for any workload under any policy.

use crate::{
    checker,
    world::{run, small},
};
use proptest::prelude::*;
use rhumb_replay::{Durations, Policy, Setup, replay};

/// Each way to queue, and to choose.
fn policies() -> Vec<Policy> {
    let reserving = "name: reserving\nqueue: {order: area, devices: full, reserve: {worth: 100%, at_most: 10min, drain: 10min, backfill: 100%, most: 2}}\nestimate: {burst: 5min}\nplace: {score: cost, keep: [node]}\n";
    let strict = "name: strict\nqueue: {order: arrival, skip: false}\nplace: {score: first}\n";
    let own = [reserving, strict].map(|text| Policy::read(text).unwrap());
    Policy::names().filter_map(Policy::named).chain(own).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_given_twice_and_every_job_ends_or_is_rejected(small in small()) {
        let view = small.view(false);
        let workload = small.workload(&view);
        let devices: u32 = small.nodes.iter().map(|n| n * 8).sum();
        for policy in policies() {
            let done = run(&view, &workload, &policy, &[]);
            let sums = checker::check(&view, &workload, &done.journal);
            let figures = done.figures;
            prop_assert_eq!(sums.finished + sums.rejected, workload.jobs.len());
            prop_assert_eq!(figures.rejected, sums.rejected as u64);
            // device-hours: what the checker saw is what was reported
            let capacity = figures.makespan_s * 1e6 * f64::from(devices);
            let busy = if capacity > 0.0 { sums.device_micros as f64 / capacity * 100.0 } else { 0.0 };
            prop_assert!((figures.utilisation_pct - busy).abs() < 1e-6, "{} {busy}", figures.utilisation_pct);
            let mean = sums.queue.iter().map(|q| *q as f64).sum::<f64>() / sums.queue.len().max(1) as f64 / 1e6;
            prop_assert!((figures.queue_s.mean - mean).abs() < 1e-3);
            // a job is rejected exactly where even an empty federation has no room for it
            let most = {
                let mut nodes = small.nodes.clone();
                nodes.sort_unstable();
                nodes.iter().rev().take(4).sum::<u32>()
            };
            let too_large = small.rows.iter().filter(|r| r.2.div_ceil(8) > most).count();
            prop_assert_eq!(sums.rejected, too_large);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_answer_whatever_the_order_of_sites_and_links(small in small()) {
        let (view, other) = (small.view(false), small.view(true));
        let (workload, same) = (small.workload(&view), small.workload(&other));
        let drawing = |p: &Policy| ["fgd", "random", "rhumb", "reserving"].contains(&p.name.as_str());
        for policy in policies().into_iter().filter(drawing) {
            let text = |done: rhumb_replay::Replayed| {
                serde_json::to_string(&(done.figures, done.journal)).unwrap()
            };
            let first = text(run(&view, &workload, &policy, &[]));
            prop_assert_eq!(&first, &text(run(&view, &workload, &policy, &[])));
            prop_assert_eq!(&first, &text(run(&other, &same, &policy, &[])));
        }
    }

    #[test]
    fn what_is_known_of_durations_changes_no_invariant(small in small()) {
        let view = small.view(false);
        let workload = small.workload(&view);
        for policy in policies() {
            let setup = Setup {
                view: &view,
                workload: &workload,
                policy: &policy,
                seed: 3,
                durations: Durations::Known,
                noise: rhumb_model::Ppm::ZERO,
                happenings: &[],
            };
            let done = replay(setup).unwrap();
            checker::check(&view, &workload, &done.journal);
        }
    }
}
