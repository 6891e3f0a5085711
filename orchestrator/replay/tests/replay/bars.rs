//! How good the policies are on public workloads.

use crate::{checker, files};
use rhumb_federation::View;
use rhumb_model::Ppm;
use rhumb_replay::{Durations, Figures, Policy, Setup, Workload, queues, replay};

fn run(view: &View, workload: &Workload, policy: &str, durations: Durations) -> Figures {
    let policy = Policy::named(policy).unwrap();
    let noise = Ppm::from_ppm(50_000);
    replay(Setup { view, workload, policy: &policy, seed: 42, durations, noise, happenings: &[] }).unwrap().figures
}

#[test]
fn the_baseline_queues_are_never_idle() {
    let view = View::from_file(&queues::federation()).unwrap();
    let workload = queues::workload().unwrap();
    assert_eq!(workload.jobs.len(), 30 * 500);
    for policy in ["rhumb", "fifo"] {
        let figures = run(&view, &workload, policy, Durations::Hidden);
        // 1,320 unit-seconds on 20 units are 66 s at the least
        assert!(figures.makespan_s >= 66.0 && figures.makespan_s <= 66.0 * 1.05, "{policy}: {}", figures.makespan_s);
        assert_eq!(figures.rejected, 0);
    }
}

/// Mean queue time against first come, first served, and the difference in utilisation in points.
fn against_fifo((name, file): (&str, &str), durations: Durations) -> Option<(f64, f64)> {
    let (view, workload) = files::trace(name, file, 20_000)?;
    let fifo = run(&view, &workload, "fifo", Durations::Hidden);
    let rhumb = run(&view, &workload, "rhumb", durations);
    assert_eq!(rhumb.rejected, fifo.rejected);
    let found = (rhumb.queue_s.mean / fifo.queue_s.mean, rhumb.utilisation_pct - fifo.utilisation_pct);
    eprintln!("{name} {durations:?}: {found:?}");
    Some(found)
}

#[test]
fn jobs_wait_less_than_first_come_first_served_at_no_loss_of_use() {
    for (durations, bar) in [(Durations::Hidden, 0.85), (Durations::Known, 0.65)] {
        let Some((ratio, use_of)) = against_fifo(("philly", "philly_20k"), durations) else { return };
        assert!(ratio <= bar && use_of >= 0.0, "{durations:?}: {ratio} {use_of}");
    }
}

/// The gangs of these two are so large that which of them runs last moves what is used by some points.
#[test]
fn jobs_wait_less_where_gangs_are_as_large_as_sites() {
    for trace in [("venus", "helios_venus_20k"), ("pai", "alibaba_pai2020_20k")] {
        for (durations, bar) in [(Durations::Hidden, 0.85), (Durations::Known, 0.65)] {
            let Some((ratio, _)) = against_fifo(trace, durations) else { return };
            assert!(ratio <= bar, "{} {durations:?}: {ratio}", trace.0);
        }
    }
}

#[test]
fn a_public_trace_breaks_no_invariant() {
    let Some((view, workload)) = files::trace("pai", "alibaba_pai2020_20k", 1_500) else { return };
    let policy = Policy::named("rhumb").unwrap();
    let setup = Setup {
        view: &view,
        workload: &workload,
        policy: &policy,
        seed: 42,
        durations: Durations::Hidden,
        noise: Ppm::ZERO,
        happenings: &[],
    };
    checker::check(&view, &workload, &replay(setup).unwrap().journal);
}
