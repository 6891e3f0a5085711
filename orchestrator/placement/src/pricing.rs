//! What compute costs at a stand at the least, by table: one entry for each price window and each length of run.

use crate::{
    field::{self, GRAINS, NEVER},
    index::PRICE_FINE,
    problem::Problem,
    stand::Stand,
    starts::shifted_hours,
};
use std::cell::OnceCell;

pub(crate) struct Pricing<'p, 'a> {
    problem: &'p Problem<'a>,
    /// The component that also bears what staging costs in time, start by start; `None`: none does.
    bearing: Option<usize>,
    /// By part, then kind, then tariff.
    entries: Vec<Vec<OnceCell<Entry>>>,
    /// No plan runs shorter, in nanoseconds.
    longest: i128,
}

#[derive(Debug, Default)]
struct Entry {
    /// Earliest first.
    starts: Vec<Start>,
    /// No start is paid for less.
    least: u64,
}

/// A start whose hours are worked out when they are first asked for.
#[derive(Debug, Clone)]
struct Start {
    span: (i128, i128),
    /// Hours at factor 1 that the run is paid for, shifted up; `None`: it keeps no deadline.
    paid: OnceCell<Option<u64>>,
    /// The value of the time until then, and lateness, in grains.
    time: i64,
    /// No such start is later, in nanoseconds.
    latest: i128,
}

/// Bits after the point of hours.
const SHIFT: u32 = 20;

impl<'p, 'a> Pricing<'p, 'a> {
    pub fn new(problem: &'p Problem<'a>) -> Self {
        let tariffs = problem.net.index.tariffs();
        let table = |kinds: usize| (0..kinds * tariffs).map(|_| OnceCell::new()).collect();
        let entries = problem.parts.iter().map(|p| table(p.kinds().len())).collect();
        let timed = problem.starts().timed() && problem.starts().spans().is_some_and(|s| s.len() > 1);
        // the one whose prices are highest has most to gain from another start
        let dearest = |part: usize| problem.parts[part].stands.iter().map(|s| s.least).max().unwrap_or(0);
        let bearing =
            if timed { (0..problem.parts.len()).max_by_key(|p| (dearest(*p), std::cmp::Reverse(*p))) } else { None };
        let longest = field::longest(problem).map_or(0, |l| l.to_integer());
        Self { problem, bearing, entries, longest }
    }

    /// The value of staging time is part of what `of` gives.
    pub fn staged(&self) -> bool {
        self.bearing.is_some()
    }

    /// Grains that one of `n` replicas pays; no staging into its stand is over before `inbound` (nanoseconds).
    /// `None`: no start meets the deadline.
    pub fn of(&self, part: usize, stand: &Stand, n: u32, inbound: i64) -> Option<i64> {
        let tariffs = self.problem.net.index.tariffs();
        let tariff = self.problem.net.index.sites[stand.site].tariff as usize;
        let entry = self.entries[part][usize::from(stand.kind) * tariffs + tariff]
            .get_or_init(|| self.entry(part, stand).unwrap_or_default());
        let bears = self.bearing == Some(part);
        let cost = |paid: u64| {
            let shifted =
                (u128::from(stand.least as u64) * u128::from(paid)) >> (SHIFT + PRICE_FINE.ilog2() - GRAINS.ilog2());
            i64::try_from(shifted).unwrap_or(NEVER)
        };
        let least = cost(entry.least);
        let mut best: Option<i64> = None;
        for start in &entry.starts {
            let time = if bears { start.time / i64::from(n.max(1)) } else { 0 };
            // later starts cost at least as much in time
            if best.is_some_and(|b| time.saturating_add(least) >= b) {
                break;
            }
            if bears && start.latest < i128::from(inbound) {
                continue;
            }
            let paid = start.paid.get_or_init(|| {
                let hours = self.problem.parts[part].kinds()[usize::from(stand.kind)].hours.to_integer();
                let span = self.problem.starts().within(self.problem.meter(stand.site), hours, start.span);
                span.and_then(|span| shifted_hours(span, SHIFT))
            });
            if let Some(paid) = paid {
                let cost = cost(*paid).saturating_add(time).min(NEVER);
                best = Some(best.map_or(cost, |b| b.min(cost)));
            }
        }
        best
    }

    fn entry(&self, part: usize, stand: &Stand) -> Option<Entry> {
        let problem = self.problem;
        let hours = problem.parts[part].kinds()[usize::from(stand.kind)].hours.to_integer();
        let starts = problem.starts();
        let Some(spans) = starts.spans().filter(|_| self.bearing == Some(part)) else {
            let least = shifted_hours(problem.least_whole(stand.site, hours)?, SHIFT)?;
            let only = Start { span: (0, 0), paid: OnceCell::from(Some(least)), time: 0, latest: i128::MAX };
            return Some(Entry { starts: vec![only], least });
        };
        let (lowest, _, scale) = problem.meter(stand.site).swing();
        let least = shifted_hours((hours.checked_mul(lowest)?, scale), SHIFT)?;
        let length = hours.max(self.longest);
        let start = |span: &(i128, i128)| {
            let time = starts.time(span.0, length);
            Start { span: *span, paid: OnceCell::new(), time, latest: span.1 }
        };
        Some(Entry { starts: spans.iter().map(start).collect(), least })
    }
}
