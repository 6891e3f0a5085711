//! Nodes that are kept for a gang, and lent until it has them all.

use rhumb_federation::View;
use rhumb_model::{FederationFile, Ppm};
use rhumb_replay::{Durations, Policy, Setup, journal::Event, replay, trace};

/// Seconds at which each job starts on one site of two nodes of eight.
fn starts(backfill: &str, rows: &str) -> Vec<i64> {
    let federation = "currency: CNY\ndevices: {A100: {memory: 80GiB, fp16: 1}}\nsites:\n  - {name: s, prices: {A100: 10 CNY}, \
                      nodes: [{count: 2, accelerators: {model: A100, count: 8}}]}\n";
    let view = View::from_file(&FederationFile::read(federation).unwrap()).unwrap();
    let workload = trace::read(&format!("submit_s,duration_s,num_gpus\n{rows}"), &view).unwrap();
    let reserve = format!("{{worth: 100%, drain: 1min, at_most: 1min, backfill: {backfill}}}");
    let policy = Policy::read(&format!("name: p\nqueue: {{order: arrival, reserve: {reserve}}}\n")).unwrap();
    let setup = Setup {
        view: &view,
        workload: &workload,
        policy: &policy,
        seed: 1,
        durations: Durations::Known,
        noise: Ppm::ZERO,
        happenings: &[],
    };
    let mut starts = vec![-1; workload.jobs.len()];
    let epoch = workload.jobs[0].submit;
    for record in replay(setup).unwrap().journal {
        if let Event::Started { job } = record.event {
            starts[job] = (record.at - epoch).0 / 1_000_000;
        }
    }
    starts
}

#[test]
fn what_ends_in_time_uses_nodes_that_wait_for_a_gang_and_does_not_delay_it() {
    // a node is taken for an hour, a gang wants both, then two come of which only the first ends before the hour does
    let rows = "0,3600,8\n10,600,16\n100,1200,8\n200,7200,8\n";
    assert_eq!(starts("0%", rows), [0, 3600, 4200, 4200]);
    assert_eq!(starts("100%", rows), [0, 3600, 100, 4200]);
    // 1,200 s are more than a third of the 3,500 that are left
    assert_eq!(starts("33%", rows), [0, 3600, 4200, 4200]);
}
