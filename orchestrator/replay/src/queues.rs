//! Kueue's public baseline workload: 30 queues of 20 units each, which must stay busy all the time.
//!
//! Each queue has 350 jobs of 1 unit for 0.2 s, 100 of 5 units for 0.5 s and 50 of 20 units for 1 s, all there from the
//! start: 1,320 unit-seconds, so no schedule ends before 66 s.

use crate::job::WorkloadError;
use crate::{job::Workload, orders};
use rhumb_model::FederationFile;
use std::fmt::Write;

pub const QUEUES: u32 = 30;
/// Of each queue.
pub const UNITS: u32 = 20;
/// (jobs, units, milliseconds)
const KINDS: [(u32, u32, u32); 3] = [(350, 1, 200), (100, 5, 500), (50, 20, 1_000)];

/// A site for each queue, with its units on one node, and no links.
pub fn federation() -> FederationFile {
    let mut text = "currency: CNY\ndevices: {unit: {memory: 1GiB, fp16: 1}}\nsites:\n".to_owned();
    for queue in 0..QUEUES {
        let _ = writeln!(
            text,
            "  - {{name: queue-{queue:02}, prices: {{unit: 1 CNY}}, nodes: [{{accelerators: {{model: unit, count: {UNITS}}}}}]}}"
        );
    }
    FederationFile::read(&text).expect("the federation of the queues is sound")
}

/// The jobs as order documents, all submitted at once, each bound to its queue's site.
pub fn workload() -> Result<Workload, WorkloadError> {
    let mut text = String::new();
    for queue in 0..QUEUES {
        for (jobs, units, ms) in KINDS {
            let _ = writeln!(
                text,
                "- {{submit: 2026-01-01T00:00:00Z, times: {jobs}, order: {{name: job, class: processing, constraints: {{sites: [queue-{queue:02}]}}, \
                 components: [{{name: worker, need: {{accelerators: {{count: {units}}}}}, work: {{duration: {ms}ms}}}}]}}}}"
            );
        }
    }
    orders::read(&text)
}
