//! Discrete-event replay: the same decision as the live system's, over a list of orders and simulated time.
//!
//! Invariants
//! - Pure: the jobs carry their instants; the same jobs, view and policy give the same summary.
//! - What an order holds is free again at its plan's finish, not before.

pub mod openb;
pub mod scoring;

use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{Order, Plan};
use rhumb_placement::{ApplyError, Policy, Request, apply, decide, never_fits};
use serde::Serialize;
use std::collections::BTreeSet;

/// An order and when it comes in.
#[derive(Debug, Clone)]
pub struct Job {
    pub submit: Timestamp,
    pub order: Order,
}

/// What became of one job, in the order given.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    Ran(Plan),
    /// Could not fit even an empty federation.
    Rejected,
    /// Nothing ended any more that could have made room.
    Waiting,
}

/// The figures of a replay; times in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub jobs: u64,
    pub rejected: u64,
    pub waiting: u64,
    /// From submission to start, staging included.
    pub queue_us_mean: u64,
    pub queue_us_p99: u64,
    pub completion_us_mean: u64,
    pub makespan_us: u64,
    pub cost_micros: i64,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("plan of job {job} does not fit the view that it was made on")]
    Apply { job: usize, source: ApplyError },
}

/// Places every job as it comes, and those that wait again whenever something ends, oldest first.
pub fn replay(view: &View, jobs: &[Job], policy: &Policy) -> Result<Vec<Fate>, ReplayError> {
    let mut fates = vec![Fate::Waiting; jobs.len()];
    let mut waiting: BTreeSet<(Timestamp, usize)> = BTreeSet::new();
    let mut running: BTreeSet<(Timestamp, usize)> = BTreeSet::new();
    let mut coming: Vec<usize> = (0..jobs.len()).collect();
    coming.sort_by_key(|i| (jobs[*i].submit, *i));
    let mut coming = coming.into_iter().peekable();
    loop {
        let arrival = coming.peek().map(|i| jobs[*i].submit);
        let end = running.first().map(|(at, _)| *at);
        let Some(now) = [arrival, end].into_iter().flatten().min() else { break };
        while running.first().is_some_and(|(at, _)| *at <= now) {
            running.pop_first();
        }
        while let Some(job) = coming.next_if(|i| jobs[*i].submit <= now) {
            if never_fits(view, &Request::new(&jobs[job].order, now), policy) {
                fates[job] = Fate::Rejected;
            } else {
                waiting.insert((jobs[job].submit, job));
            }
        }
        let mut current = view.clone();
        for (_, job) in &running {
            if let Fate::Ran(plan) = &fates[*job] {
                current = apply(&current, plan, &jobs[*job].order)
                    .map_err(|source| ReplayError::Apply { job: *job, source })?;
            }
        }
        for (submit, job) in waiting.clone() {
            let order = &jobs[job].order;
            let Ok(plan) = decide(&current, &Request::new(order, now), policy).outcome else { continue };
            current = apply(&current, &plan, order).map_err(|source| ReplayError::Apply { job, source })?;
            running.insert((plan.finish, job));
            waiting.remove(&(submit, job));
            fates[job] = Fate::Ran(plan);
        }
    }
    Ok(fates)
}

/// The figures of a replay's fates.
pub fn summary(jobs: &[Job], fates: &[Fate]) -> Summary {
    let us = |from: Timestamp, to: Timestamp| u64::try_from(to.duration_since(from).as_micros()).unwrap_or(0);
    let ran: Vec<(&Job, &Plan)> = jobs
        .iter()
        .zip(fates)
        .filter_map(|(job, fate)| if let Fate::Ran(plan) = fate { Some((job, plan)) } else { None })
        .collect();
    let mut queue: Vec<u64> = ran.iter().map(|(job, plan)| us(job.submit, plan.start)).collect();
    queue.sort_unstable();
    let completion: Vec<u64> = ran.iter().map(|(job, plan)| us(job.submit, plan.finish)).collect();
    let mean = |v: &[u64]| if v.is_empty() { 0 } else { v.iter().sum::<u64>() / v.len() as u64 };
    let first = jobs.iter().map(|j| j.submit).min();
    let last = ran.iter().map(|(_, plan)| plan.finish).max();
    Summary {
        jobs: jobs.len() as u64,
        rejected: fates.iter().filter(|f| **f == Fate::Rejected).count() as u64,
        waiting: fates.iter().filter(|f| **f == Fate::Waiting).count() as u64,
        queue_us_mean: mean(&queue),
        queue_us_p99: queue.get((queue.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0),
        completion_us_mean: mean(&completion),
        makespan_us: first.zip(last).map_or(0, |(first, last)| us(first, last)),
        cost_micros: ran.iter().map(|(_, plan)| plan.cost.total_micros).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::FederationFile;

    fn job(second: i64, count: u32) -> Job {
        let text = format!(
            "name: job\nclass: training\ncomponents:\n  - name: trainer\n    need: {{accelerators: {{count: {count}, models: [H100]}}}}\n    work: {{duration: 10s}}\n"
        );
        Job { submit: Timestamp::from_second(1_800_000_000 + second).unwrap(), order: Order::read(&text).unwrap() }
    }

    fn view() -> View {
        let text = "currency: CNY\ndevices: {H100: {memory: 80GiB, fp16: 1}}\nsites:\n  - {name: a, prices: {H100: 36 CNY}, nodes: [{accelerators: {model: H100, count: 8}}]}\n";
        View::from_file(&FederationFile::read(text).unwrap()).unwrap()
    }

    #[test]
    fn a_job_waits_for_room_and_what_never_fits_is_rejected() {
        let jobs = [job(0, 8), job(1, 8), job(2, 9), job(3, 4)];
        let fates = replay(&view(), &jobs, &Policy::default()).unwrap();
        let figures = summary(&jobs, &fates);
        assert_eq!((figures.jobs, figures.rejected, figures.waiting), (4, 1, 0));
        // starts at 0, 10 and 20 s for submissions at 0, 1 and 3 s
        assert_eq!(figures.queue_us_mean, (9 + 17) * 1_000_000 / 3);
        assert_eq!(figures.makespan_us, 30_000_000);
        // 8, 8 and 4 devices for 10 s at 36 an hour
        assert_eq!(figures.cost_micros, 20 * 100_000);
    }

    #[test]
    fn small_jobs_share_and_the_answer_is_the_same_again() {
        let jobs = [job(0, 4), job(0, 4), job(0, 4)];
        let fates = replay(&view(), &jobs, &Policy::default()).unwrap();
        assert_eq!(summary(&jobs, &fates).makespan_us, 20_000_000);
        assert_eq!(fates, replay(&view(), &jobs, &Policy::default()).unwrap());
    }
}
