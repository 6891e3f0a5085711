//! Jobs that wait, in the order in which a policy tries them.

use crate::{
    dice,
    history::{History, Kin},
    job::{Class, Job},
    policy::{Order, Queue as Rules, Weight},
    time::Micros,
};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs of one class with equal estimates wait in one group, of which only the first has to be looked at.
#[derive(Debug)]
pub(crate) struct Queue<'a> {
    jobs: &'a [Job],
    classes: &'a [Class],
    rules: Rules,
    known: bool,
    seed: u64,
    groups: Vec<Group>,
    numbers: BTreeMap<Key, usize>,
    /// Groups in which somebody waits.
    live: BTreeSet<usize>,
    /// Everybody, the longest waiting first.
    all: BTreeSet<(Micros, usize)>,
    /// By class: at which state of what is free it was found not to fit.
    blocked: Vec<Option<u64>>,
    /// By job: the burst that it came in.
    bursts: Vec<usize>,
    /// By class: how long its orders say that they take.
    declared: Vec<Micros>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    class: usize,
    /// 0 where the duration is known.
    owner: u32,
    burst: usize,
    /// Half octaves of the known duration.
    bucket: u32,
}

#[derive(Debug)]
struct Group {
    class: usize,
    kin: Kin,
    waiting: BTreeSet<(i128, Micros, usize)>,
    /// The guess, and the version of the history it was made with.
    guess: (Micros, u64),
}

/// By job, its burst: jobs of one owner and size, each within `gap` of the one before.
fn bursts(jobs: &[Job], classes: &[Class], gap: Micros) -> Vec<usize> {
    let mut last: BTreeMap<(u32, u64), (Micros, usize)> = BTreeMap::new();
    let burst = |(number, job): (usize, &Job)| {
        let before = last.entry((job.owner, classes[job.class].devices)).or_insert((job.submit, number));
        let burst = if job.submit - before.0 <= gap { before.1 } else { number };
        *before = (job.submit, burst);
        burst
    };
    jobs.iter().enumerate().map(burst).collect()
}

/// A job's turn; smaller is sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    score: i128,
    submit: Micros,
    job: usize,
}

impl<'a> Queue<'a> {
    pub fn new(jobs: &'a [Job], classes: &'a [Class], rules: Rules, gap: Micros, known: bool, seed: u64) -> Self {
        Self {
            bursts: bursts(jobs, classes, gap),
            jobs,
            classes,
            rules,
            known,
            seed,
            groups: Vec::new(),
            numbers: BTreeMap::new(),
            live: BTreeSet::new(),
            all: BTreeSet::new(),
            blocked: vec![None; classes.len()],
            declared: classes.iter().map(declared).collect(),
        }
    }

    pub fn push(&mut self, job: usize) {
        let this = &self.jobs[job];
        let key = self.key(job);
        let next = self.groups.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            let guess = (Micros::ZERO, u64::MAX);
            self.groups.push(Group { class: this.class, kin: self.kin(job), waiting: BTreeSet::new(), guess });
        }
        let place = (self.fixed(job), this.submit, job);
        self.groups[number].waiting.insert(place);
        self.live.insert(number);
        self.all.insert((this.submit, job));
    }

    pub fn remove(&mut self, job: usize) {
        let this = &self.jobs[job];
        self.all.remove(&(this.submit, job));
        let Some(number) = self.numbers.get(&self.key(job)).copied() else { return };
        let place = (self.fixed(job), this.submit, job);
        let group = &mut self.groups[number];
        group.waiting.remove(&place);
        if group.waiting.is_empty() {
            self.live.remove(&number);
        }
    }

    /// Everybody, the longest waiting first.
    pub fn oldest(&self) -> impl Iterator<Item = usize> + '_ {
        self.all.iter().map(|(_, job)| *job)
    }

    /// The first of each group.
    pub fn heads(&self) -> impl Iterator<Item = usize> + '_ {
        self.live.iter().filter_map(|number| self.groups[*number].waiting.first().map(|(_, _, job)| *job))
    }

    /// How many wait, by the number of their devices; and the mean device-time of all, in device-microseconds.
    pub fn waiting(&self, history: &History) -> (BTreeMap<u64, i64>, i128) {
        let mut sizes = BTreeMap::new();
        let (mut sum, mut jobs) = (0, 0);
        for group in self.live.iter().map(|number| &self.groups[*number]) {
            let Some((_, _, first)) = group.waiting.first() else { continue };
            let (devices, count) = (self.classes[group.class].devices, group.waiting.len() as i64);
            *sizes.entry(devices).or_default() += count;
            sum += i128::from(self.estimate(*first, history).0) * i128::from(devices) * i128::from(count);
            jobs += i128::from(count);
        }
        (sizes, sum / jobs.max(1))
    }

    pub fn waits(&self, job: usize) -> bool {
        self.all.contains(&(self.jobs[job].submit, job))
    }

    /// No job of the class fits while what is free is as in `state` or less.
    pub fn block(&mut self, class: usize, state: u64) {
        self.blocked[class] = Some(state);
    }

    /// The next to try of those that are not known not to fit in `state`; where nobody may pass, the first, if it may fit.
    pub fn next(&mut self, now: Micros, state: u64, history: &History) -> Option<usize> {
        let mut best: Option<Turn> = None;
        for number in &self.live {
            let group = &mut self.groups[*number];
            if self.rules.skip && self.blocked[group.class] == Some(state) {
                continue;
            }
            if group.guess.1 != history.version {
                group.guess = (history.guess(group.kin), history.version);
            }
            let Some((fixed, submit, job)) = group.waiting.first().copied() else { continue };
            let score = self.score(*number, (fixed, submit, job), now);
            let turn = Turn { score, submit, job };
            if best.is_none_or(|b| turn < b) {
                best = Some(turn);
            }
        }
        let job = best?.job;
        (self.blocked[self.jobs[job].class] != Some(state)).then_some(job)
    }

    /// How long the job will run, as far as the policy may know.
    pub fn estimate(&self, job: usize, history: &History) -> Micros {
        match self.fixed_duration(job) {
            Some(known) => known.max(Micros(1)),
            None => history.guess(self.kin(job)),
        }
    }

    pub fn kin(&self, job: usize) -> Kin {
        let this = &self.jobs[job];
        Kin { owner: this.owner, devices: self.classes[this.class].devices, burst: self.bursts[job] }
    }

    fn fixed_duration(&self, job: usize) -> Option<Micros> {
        let this = &self.jobs[job];
        match this.runs {
            Some(runs) if self.known => Some(runs),
            _ if self.classes[this.class].guessed => None,
            _ => Some(self.declared[this.class]),
        }
    }

    fn key(&self, job: usize) -> Key {
        let this = &self.jobs[job];
        let bucket = match (self.rules.order, self.fixed_duration(job)) {
            (Order::Response, Some(known)) => half_octaves(known),
            _ => 0,
        };
        let known = self.fixed_duration(job).is_some();
        let (owner, burst) = if known { (0, 0) } else { (this.owner, self.bursts[job]) };
        Key { class: this.class, owner, burst, bucket }
    }

    /// The part of the score that does not change while the job waits.
    fn fixed(&self, job: usize) -> i128 {
        let class = &self.classes[self.jobs[job].class];
        match self.rules.order {
            Order::Arrival | Order::Response => 0,
            Order::Size => i128::from(class.devices),
            Order::Random => i128::from(dice::mix(&[self.seed, job as u64])),
            Order::Duration => self.fixed_duration(job).map_or(0, |d| i128::from(d.0)),
            Order::Area => self.fixed_duration(job).map_or(0, |d| i128::from(d.0) * self.weight(class)),
        }
    }

    fn score(&self, number: usize, (fixed, submit, job): (i128, Micros, usize), now: Micros) -> i128 {
        let group = &self.groups[number];
        let class = &self.classes[group.class];
        let estimate = || i128::from(self.fixed_duration(job).unwrap_or(group.guess.0).0.max(1));
        if self.rules.overdue.is_some_and(|after| (now - submit).0 > after.micros() as i64) {
            return i128::MIN + i128::from(u64::MAX - class.devices);
        }
        match self.rules.order {
            Order::Arrival | Order::Size | Order::Random => fixed,
            Order::Duration | Order::Area if fixed > 0 => fixed,
            Order::Duration => estimate(),
            Order::Area => estimate() * self.weight(class),
            Order::Response => {
                let estimate = estimate();
                let wait = i128::from((now - submit).0);
                -((wait + estimate) * 1_000_000_000 / (estimate * self.weight(class)))
            }
        }
    }

    /// Of the class's devices, in thousandths.
    fn weight(&self, class: &Class) -> i128 {
        let devices = class.devices.max(1);
        match self.rules.devices {
            Weight::None => 1_000,
            Weight::Root => i128::from((devices * 1_000_000).isqrt()),
            Weight::Full => i128::from(devices) * 1_000,
        }
    }
}

/// How many half octaves of microseconds.
fn half_octaves(time: Micros) -> u32 {
    let value = time.0.max(2) as u64;
    let octave = value.ilog2();
    2 * octave + (value >> (octave - 1) & 1) as u32
}

/// The longest component, as the document says it: on its reference model where it counts in hours of one.
fn declared(class: &Class) -> Micros {
    let longest = class.order.components.iter().map(|component| {
        let Some(work) = &component.work else {
            return class.order.terms.horizon.map_or(24 * Micros::HOUR.0, |h| h.micros() as i64);
        };
        let hours = work.hours.and_then(|h| i64::try_from(h.times(i128::from(Micros::HOUR.0)).unwrap_or(0)).ok());
        work.duration.map(|d| d.micros() as i64).or(hours).unwrap_or(0)
    });
    Micros(longest.max().unwrap_or(0).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::Order as Document;

    fn class(devices: u32) -> Class {
        let text = format!(
            "name: t\nclass: training\ncomponents: [{{name: c, need: {{accelerators: {{count: {devices}}}}}, work: {{duration: 1h}}}}]"
        );
        let mut class = Class::new(Document::read(&text).unwrap());
        class.guessed = true;
        class
    }

    fn order(rules: Rules, known: bool) -> Vec<usize> {
        let classes = [class(1), class(4)];
        let job = |class: usize, submit: i64, runs: i64| Job {
            submit: Micros::from_seconds(submit),
            class,
            runs: Some(Micros::from_seconds(runs)),
            owner: 0,
        };
        let jobs = [job(1, 0, 50), job(0, 1, 100), job(0, 2, 10), job(1, 3, 1)];
        let mut queue = Queue::new(&jobs, &classes, rules, Micros::ZERO, known, 7);
        (0..4).for_each(|job| queue.push(job));
        let mut history = History::new(Micros::HOUR, 1_000);
        // small jobs were seen to be long
        let small = Kin { owner: 0, devices: 1, burst: 9 };
        (0..10).for_each(|_| history.add(small, Micros::from_seconds(100_000)));
        let mut found = Vec::new();
        while let Some(job) = queue.next(Micros::from_seconds(10), 0, &history) {
            queue.remove(job);
            found.push(job);
        }
        found
    }

    #[test]
    fn a_burst_is_of_one_owner_and_size_and_ends_with_a_gap() {
        let classes = [class(1), class(4)];
        let job = |class: usize, owner: u32, submit: i64| Job {
            submit: Micros::from_seconds(submit),
            class,
            runs: None,
            owner,
        };
        let jobs = [job(0, 1, 0), job(0, 1, 8), job(0, 2, 9), job(1, 1, 9), job(0, 1, 16), job(0, 1, 27)];
        assert_eq!(bursts(&jobs, &classes, Micros::from_seconds(10)), [0, 0, 2, 3, 0, 5]);
        assert_eq!(bursts(&jobs, &classes, Micros::ZERO), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn jobs_come_in_the_order_of_the_discipline() {
        let rules = |order: Order, devices: Weight| Rules { order, devices, ..Rules::default() };
        assert_eq!(order(rules(Order::Arrival, Weight::None), false), [0, 1, 2, 3]);
        assert_eq!(order(rules(Order::Size, Weight::None), false), [1, 2, 0, 3]);
        assert_eq!(order(rules(Order::Duration, Weight::None), true), [3, 2, 0, 1]);
        assert_eq!(order(rules(Order::Area, Weight::Full), true), [3, 2, 1, 0]);
        // what is not known is guessed from those that were seen
        assert_eq!(order(rules(Order::Duration, Weight::None), false), [0, 3, 1, 2]);
        // (wait + duration) / duration: 60/50, 109/100, 18/10, 8/1
        assert_eq!(order(rules(Order::Response, Weight::None), true), [3, 2, 0, 1]);
        let drawn = order(rules(Order::Random, Weight::None), false);
        assert_eq!(drawn, order(rules(Order::Random, Weight::None), false));
    }

    #[test]
    fn a_class_that_does_not_fit_is_passed_by_unless_nobody_may_pass() {
        let classes = [class(1), class(4)];
        let job = |class: usize| Job { submit: Micros::ZERO, class, runs: None, owner: 0 };
        let jobs = [job(1), job(0)];
        for (skip, expected) in [(true, Some(1)), (false, None)] {
            let mut queue = Queue::new(&jobs, &classes, Rules { skip, ..Rules::default() }, Micros::ZERO, false, 0);
            (0..2).for_each(|job| queue.push(job));
            queue.block(1, 5);
            let history = History::new(Micros::HOUR, 1_000);
            assert_eq!(queue.next(Micros::ZERO, 5, &history), expected);
            assert_eq!(queue.next(Micros::ZERO, 6, &history), Some(0));
        }
    }
}
