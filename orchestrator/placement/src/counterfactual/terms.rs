//! Changes of the order's terms.

use super::{Found, Scope, Trial, found, threshold, whole};
use crate::{problem::HOUR, sieve::Sieve};
use jiff::Timestamp;
use rhumb_model::{
    Amount, Order,
    money::Currency,
    ratio::{Decimal, Ratio, round_half_up},
};

pub(super) fn changes(trial: &Trial, all: &mut Vec<Found>) {
    let t = &trial.order().terms;
    if !trial.bonds().beside_deadline()
        && let (Some(deadline), Some(to)) = (t.deadline, trial.deadline())
        && let Some(total) = trial.total(Scope::Flows, |o| o.terms.deadline = Some(to))
    {
        let given = deadline.as_second().saturating_sub(trial.base().request.submit.as_second());
        let more = to.as_second().saturating_sub(deadline.as_second());
        let share = Ratio::new(i128::from(more), i128::from(given.max(1)));
        all.push(found(share, "/terms/deadline".into(), deadline, to, total));
    }
    if !trial.bonds().beside_budget()
        && let (Some(budget), Some(to)) = (t.budget, trial.budget())
        && let Some(total) = trial.total(Scope::Flows, |o| o.terms.budget = Some(to))
    {
        let had = budget.micros_in(trial.view().currency, &trial.view().rates).map_or(0, round_half_up);
        let more = round_half_up(to.micros()) - had;
        all.push(found(Ratio::new(more, had.max(1)), "/terms/budget".into(), budget, to, total));
    }
    all.extend(window(trial));
}

/// Minutes in a day.
const DAY: u64 = 24 * 60;

/// The window closes later, as little as is enough; or there is none.
fn window(trial: &Trial) -> Option<Found> {
    let w = trial.order().terms.window.as_ref().filter(|_| !trial.bonds().beside_window())?;
    let shown_now = format!("{} to {} {}", w.from, w.to, w.tz);
    let (open, close) = (u64::from(w.from.minutes()), u64::from(w.to.minutes()));
    let length = (DAY + close - open - 1) % DAY + 1;
    let set = |order: &mut Order, minutes: u64| {
        let to = (open + minutes) % DAY;
        if let (Some(w), Ok(to)) = (order.terms.window.as_mut(), format!("{:02}:{:02}", to / 60, to % 60).parse()) {
            w.to = to;
        }
    };
    // a minute less than a whole day: an opening that never closes is none
    let enough = |minutes: u64| trial.fits(Scope::Flows, |o| set(o, minutes));
    // no shorter than the work itself, but for the hour that a clock change may add
    let work = trial.inquest.longest_work();
    let minutes = |ns: Ratio| u64::try_from((ns / Ratio::from_integer(HOUR / 60)).ceil().to_integer()).ok();
    let least = work.and_then(minutes);
    let from = least.map_or(length, |least| length.max(least.saturating_sub(61))).min(DAY - 1);
    let wider = (length + 1 < DAY).then(|| threshold::nearest((from, DAY - 1), least, false, 1, enough)).flatten();
    if let Some(minutes) = wider
        && let Some(total) = trial.total(Scope::Flows, |o| set(o, minutes))
    {
        let to = (open + minutes) % DAY;
        let shown = format!("{} to {:02}:{:02} {}", w.from, to / 60, to % 60, w.tz);
        let share = Ratio::new(i128::from(minutes - length), i128::from(length));
        return Some(found(share, "/terms/window".into(), shown_now, shown, total));
    }
    let total = trial.total(Scope::Flows, |o| o.terms.window = None)?;
    Some(found(whole(), "/terms/window".into(), shown_now, "none", total))
}

fn amount(value: i64, currency: Currency) -> Option<Amount> {
    Amount::new(Decimal::from_integer(value), currency).ok()
}

impl Trial<'_> {
    /// The least budget with which the order fits, in whole hundredths as people write them.
    pub fn budget(&self) -> Option<Amount> {
        *self.inquest.budget.get_or_init(|| {
            let terms = &self.order().terms;
            terms.budget?;
            let currency = self.view().currency;
            // the smallest bill there is, whatever the time
            let order = self.edited(|o| {
                o.terms.budget = None;
                o.terms.value_per_hour = terms.value_per_hour.and_then(|_| amount(0, currency));
                o.terms.late_per_hour = terms.late_per_hour.and_then(|_| amount(0, currency));
            });
            let bill = self.read(&order, Scope::Flows, false, |_, s| {
                i128::from(s.terms.compute) + i128::from(s.terms.path) + i128::from(s.terms.transfer)
            })?;
            // two micro-units cover what rounding hid
            let hundredths = i64::try_from((bill + 2).div_euclid(10_000) + 1).ok()?;
            let to = Amount::new(Decimal::from_micros(hundredths.checked_mul(10_000)?), currency).ok()?;
            self.fits(Scope::Flows, |o| o.terms.budget = Some(to)).then_some(to)
        })
    }

    /// The earliest deadline with which the order fits, in whole seconds as people write them.
    pub fn deadline(&self) -> Option<Timestamp> {
        *self.inquest.deadline.get_or_init(|| {
            let given = self.order().terms.deadline?;
            let order = self.edited(|o| o.terms.deadline = None);
            let problem = self.variant(&order, Scope::Flows);
            let sieve = Sieve::new(&problem, &self.inquest.reach);
            let kept = sieve.kept()?;
            // no part is done earlier than at its best site
            let earliest = (0..problem.parts.len()).filter_map(|part| {
                let finish = sieve.finish(part);
                finish.into_iter().zip(&kept[part]).filter_map(|(f, keep)| f.filter(|_| *keep)).min()
            });
            let second = |since: &Ratio| -> Option<u64> {
                let at = crate::answer::instant(&problem, since)?;
                u64::try_from(at.as_microsecond().div_euclid(1_000_000) + i64::from(at.subsec_microsecond() > 0)).ok()
            };
            let now = u64::try_from(given.as_second()).ok()?;
            let guess = earliest.max().and_then(|f| second(&f)).map(|s| s.max(now + 1));
            let taken = self.read(&order, Scope::Flows, true, |_, s| second(&s.times.finish)).flatten()?;
            let to = |s: u64| Timestamp::from_second(i64::try_from(s).ok()?).ok();
            let enough = |s: u64| to(s).is_some_and(|to| self.fits(Scope::Flows, |o| o.terms.deadline = Some(to)));
            to(threshold::nearest((now, taken.max(now + 1)), guess, true, 1, enough)?)
        })
    }
}
