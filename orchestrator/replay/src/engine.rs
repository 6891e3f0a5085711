//! The simulation: events in order of time, and after each the jobs that can start now.

mod reserve;
mod run;

use crate::{
    choose::{self, Mix},
    dice,
    figures::{Figures, Meter},
    happening::{self, Change, Happening, UpDown},
    history::History,
    job::{Class, Workload},
    journal::{Event, Record},
    policy::Policy,
    queue::Queue,
    time::Micros,
    world::World,
};
use reserve::Reservations;
use rhumb_federation::View;
use rhumb_model::{DocumentError, quantity::Ppm};
use rhumb_placement::{Policy as Rules, Request, decide, never_fits};
use run::Run;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

/// What policies know of durations beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durations {
    Known,
    /// Only what the jobs' orders say, if they do; the rest is guessed from jobs that ended.
    Hidden,
}

/// Everything that a replay depends on.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    pub view: &'a View,
    pub workload: &'a Workload,
    pub policy: &'a Policy,
    pub seed: u64,
    pub durations: Durations,
    /// By how much a probed delay is off the true one, at most, either way.
    pub noise: Ppm,
    pub happenings: &'a [Happening],
}

/// The figures, and all that happened.
#[derive(Debug, Clone)]
pub struct Replayed {
    pub figures: Figures,
    pub journal: Vec<Record>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("the list of happenings is not valid")]
    Happenings(#[source] DocumentError),
    #[error("the plan of job {job} does not fit what was free: this is a fault of the program")]
    Plan { job: usize },
}

/// How often links are probed.
const PROBES: Micros = Micros(60_000_000);

/// At one instant, in this order: what ends makes room for what begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Started { job: usize, attempt: u32 },
    Ended { job: usize, attempt: u32 },
    Finished { job: usize, attempt: u32 },
    Change { number: usize },
    Submitted { job: usize },
}

struct Engine<'a> {
    setup: Setup<'a>,
    /// Orders as they are decided on; of trace jobs with the estimate.
    classes: Vec<Class>,
    never: Vec<Option<bool>>,
    rules: Rules,
    world: World,
    queue: Queue<'a>,
    history: History,
    mix: Mix,
    due: BinaryHeap<Reverse<(Micros, Due)>>,
    runs: BTreeMap<usize, Run>,
    attempts: Vec<u32>,
    changes: Vec<(Micros, Change)>,
    reservations: Reservations,
    meter: Meter,
    journal: Vec<Record>,
    now: Micros,
    /// Counts up whenever anything becomes free.
    state: u64,
    probed: Option<u64>,
}

/// Replays the workload under the policy. The same setup gives the same answer.
pub fn replay(setup: Setup) -> Result<Replayed, ReplayError> {
    let mut engine = Engine::new(setup)?;
    engine.run()?;
    let jobs = &setup.workload.jobs;
    let first = jobs.first().map_or(Micros::ZERO, |job| job.submit);
    let about = (first, engine.world.devices(), jobs.len());
    let figures = engine.meter.figures(&setup.policy.name, setup.seed, about);
    Ok(Replayed { figures, journal: engine.journal })
}

impl<'a> Engine<'a> {
    fn new(setup: Setup<'a>) -> Result<Self, ReplayError> {
        let Workload { jobs, classes, .. } = setup.workload;
        let world = World::new(setup.workload.view(setup.view));
        let first = jobs.first().map_or(Micros::ZERO, |job| job.submit);
        let changes = happening::changes(setup.happenings, &world.view, first, |id| world.link_number(id))
            .map_err(ReplayError::Happenings)?;
        let mut due = BinaryHeap::new();
        due.extend(jobs.iter().enumerate().map(|(job, j)| Reverse((j.submit, Due::Submitted { job }))));
        due.extend(changes.iter().enumerate().map(|(number, (at, _))| Reverse((*at, Due::Change { number }))));
        let known = setup.durations == Durations::Known;
        let gap = Micros(setup.policy.estimate.burst.micros() as i64);
        Ok(Self {
            setup,
            classes: run::valued(classes, &setup.policy.place, world.view.currency),
            never: vec![None; classes.len()],
            rules: Rules { node_budget: setup.policy.place.node_budget, ..Rules::default() },
            queue: Queue::new(jobs, classes, setup.policy.queue.clone(), gap, known, setup.seed),
            history: History::new(Micros(setup.policy.estimate.prior.micros() as i64), setup.policy.estimate.recent),
            mix: Mix::default(),
            due,
            runs: BTreeMap::new(),
            attempts: vec![0; jobs.len()],
            changes,
            reservations: Reservations::default(),
            meter: Meter::new(first),
            journal: Vec::new(),
            now: first,
            state: 0,
            probed: None,
            world,
        })
    }

    fn run(&mut self) -> Result<(), ReplayError> {
        while let Some(Reverse((at, _))) = self.due.peek() {
            let at = *at;
            self.pass_time(at);
            self.probe();
            while let Some(due) = self.due.peek().filter(|d| d.0.0 == at).map(|d| d.0.1) {
                self.due.pop();
                self.happen(due);
            }
            self.start_what_can()?;
        }
        // nothing ends any more that could make room
        let left: Vec<usize> = self.queue.oldest().collect();
        for job in left {
            self.queue.remove(job);
            self.reject(job);
        }
        Ok(())
    }

    fn pass_time(&mut self, at: Micros) {
        let up = self.world.hosts.iter().filter(|h| self.world.is_up(h.site));
        let (idle, lost) =
            up.fold((0, 0), |(idle, lost), host| (idle + u64::from(host.free), lost + self.mix.lost_milli(host.free)));
        self.meter.pass(at.max(self.now), idle, lost);
        self.now = at.max(self.now);
    }

    fn tell(&mut self, event: Event) {
        self.journal.push(Record { at: self.now, event });
    }

    fn happen(&mut self, due: Due) {
        let current =
            |engine: &Self, job: usize, attempt: u32| engine.attempts[job] == attempt && engine.runs.contains_key(&job);
        match due {
            Due::Started { job, attempt } if current(self, job, attempt) => self.started(job),
            Due::Ended { job, attempt } if current(self, job, attempt) => self.ended(job),
            Due::Finished { job, attempt } if current(self, job, attempt) => self.finished(job),
            Due::Started { .. } | Due::Ended { .. } | Due::Finished { .. } => {}
            Due::Change { number } => self.change(self.changes[number].1),
            Due::Submitted { job } => self.submitted(job),
        }
    }

    fn submitted(&mut self, job: usize) {
        self.tell(Event::Submitted { job });
        let class = self.setup.workload.jobs[job].class;
        let (view, rules, order) = (&self.world.view, &self.rules, &self.classes[class].order);
        let instant = self.now.instant();
        let never = *self.never[class].get_or_insert_with(|| never_fits(view, &Request::new(order, instant), rules));
        if never {
            self.reject(job);
            return;
        }
        self.mix.add(&self.classes[class]);
        self.queue.push(job);
    }

    fn reject(&mut self, job: usize) {
        self.meter.rejected += 1;
        self.tell(Event::Rejected { job });
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Site(site, state) => {
                let up = state == UpDown::Up;
                if !self.world.set_site(site, up) {
                    return;
                }
                let name = self.world.view.sites[site].site.name.clone();
                self.tell(if up { Event::SiteUp { site: name } } else { Event::SiteDown { site: name } });
                if !up {
                    self.lose(|run, world| run.stands_at(site, world));
                }
            }
            Change::Link(link, state) => {
                let up = state == UpDown::Up;
                if !self.world.set_link(link, up) {
                    return;
                }
                let id = self.world.link_id(link).clone();
                self.tell(if up { Event::LinkUp { link: id } } else { Event::LinkDown { link: id } });
                if !up {
                    self.lose(|run, _| run.uses(link));
                }
            }
            Change::Delay(link, latency) => {
                self.world.set_delay(link, latency);
                self.probed = None;
                let late: u64 = self.runs.values_mut().map(|run| run.late(&self.world)).sum();
                self.meter.delay_violations += late;
            }
        }
        self.state += 1;
    }

    /// Starts whoever can, in the order of the queue.
    fn start_what_can(&mut self) -> Result<(), ReplayError> {
        self.serve_reservations()?;
        while let Some(job) = self.queue.next(self.now, self.state, &self.history) {
            if self.start(job)? || self.backfill(job)? {
                continue;
            }
            let class = self.setup.workload.jobs[job].class;
            self.queue.block(class, self.state);
            if !self.setup.policy.queue.skip {
                break;
            }
        }
        Ok(())
    }

    /// Figures of links are as old as the last round of probes.
    fn probe(&mut self) {
        let round = (self.now.0 / PROBES.0) as u64;
        if self.setup.noise.ppm() > 0 && self.probed != Some(round) {
            self.world.probe(self.setup.noise.ppm(), self.setup.seed, round);
            self.probed = Some(round);
        }
    }

    /// Decides on one job, and starts it where that gives a plan.
    fn start(&mut self, job: usize) -> Result<bool, ReplayError> {
        let this = &self.setup.workload.jobs[job];
        let number = this.class;
        if !self.world.may_fit(&self.classes[number]) {
            return Ok(false);
        }
        let draw = dice::mix(&[self.setup.seed, job as u64, u64::from(self.attempts[job])]);
        let place = &self.setup.policy.place;
        let Some(choice) = choose::choose(&self.world, &self.classes[number], place, &self.mix, draw) else {
            return Ok(false);
        };
        self.world.refresh();
        let estimate = self.queue.estimate(job, &self.history);
        let class = &mut self.classes[number];
        if class.guessed {
            run::expect(&mut class.order, estimate);
        }
        let asked = std::mem::replace(&mut class.order.constraints.sites, choice.sites);
        let narrowed = class.order.constraints.sites != asked;
        let instant = self.now.instant();
        let mut plan = decide(&self.world.view, &Request::new(&class.order, instant), &self.rules).outcome.ok();
        class.order.constraints.sites = asked;
        // what the narrowed sites have no path for, others may have; a score of trace jobs' nodes stands
        if plan.is_none() && narrowed && (choice.hosts.is_empty() || !class.guessed) {
            plan = decide(&self.world.view, &Request::new(&class.order, instant), &self.rules).outcome.ok();
        }
        let Some(plan) = plan else { return Ok(false) };
        let order = &self.classes[number].order;
        let Some(seats) = self.world.seat(order, &plan, &choice.hosts) else { return Ok(false) };
        let run = Run::new((self.now, estimate), &plan, order, seats, this.runs, &self.world);
        if !run.hold(&mut self.world) {
            return Err(ReplayError::Plan { job });
        }
        self.queue.remove(job);
        self.attempts[job] += 1;
        let attempt = self.attempts[job];
        self.due.push(Reverse((run.start, Due::Started { job, attempt })));
        self.due.push(Reverse((run.end, Due::Ended { job, attempt })));
        self.due.push(Reverse((run.finish, Due::Finished { job, attempt })));
        let held = Arc::new(run.held(&self.world));
        self.runs.insert(job, run);
        self.tell(Event::Placed { job, held });
        Ok(true)
    }
}
