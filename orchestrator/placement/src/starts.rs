//! When an order may start, as far as that is known before its places are: what a bound on its compute rests on.

use crate::{
    field::{GRAINS, NEVER, Value},
    problem::{HOUR, Place, Problem, Span},
    window::Meter,
};
use rhumb_model::ratio::Ratio;
use std::{cell::RefCell, collections::HashMap, rc::Rc};

/// Nanoseconds after submission.
#[derive(Debug)]
pub(crate) struct Starts {
    /// Every start lies in one of these, both ends included; `None`: any instant.
    spans: Option<Vec<(i128, i128)>>,
    /// Every start that does not wait lies in one of these; `None`: any instant.
    staged: Option<Vec<(i128, i128)>>,
    /// A run that ends later is no plan.
    deadline: Option<i128>,
    /// What time costs, and what it costs besides after `due`.
    value: Value,
    late: Option<(Value, i128)>,
    paid: RefCell<HashMap<(usize, i128), Paid>>,
}

/// By span, hours at factor 1, shifted up; `None`: no start there keeps the deadline.
type Paid = Rc<[Option<u64>]>;

/// Bits after the point of hours that a run is paid for.
const SHIFT: u32 = 32;

/// Different price windows of all sites up to which their edges are counted one by one.
const TARIFFS: usize = 24;

/// Replicas up to which every share of a volume that a site may get is counted.
const SHARES: u32 = 4;

impl Starts {
    pub fn new(problem: &Problem) -> Self {
        let deadline = problem.deadline.filter(|_| problem.late.is_none()).map(|d| d.ceil().to_integer());
        let late = problem.late.zip(problem.deadline);
        let late = late.map(|(late, due)| (Value::of_rate(&late), due.ceil().to_integer()));
        let value = Value::new(problem);
        let staged = staged(problem);
        let spans = staged.clone().and_then(|staged| spans(problem, staged));
        Self { spans, staged, deadline, value, late, paid: RefCell::default() }
    }

    /// Grains that time costs until `start`, and lateness if all takes `length` more nanoseconds at the least.
    pub fn time(&self, start: i128, length: i128) -> i64 {
        let late = self.late.map_or(0, |(late, due)| late.of((start + length - due).max(0)));
        self.value.of(start).saturating_add(late).min(NEVER)
    }

    pub fn value(&self) -> Value {
        self.value
    }

    /// Whether the instant of the start costs anything by itself.
    pub fn timed(&self) -> bool {
        self.value.of(HOUR) > 0 || self.late.is_some_and(|(late, _)| late.of(HOUR) > 0)
    }

    /// By span, the hours at factor 1 that a run of this length is paid for at the least, shifted up; `None` where it keeps
    /// no deadline.
    fn paid(&self, meter: Meter, length: i128, spans: &[(i128, i128)]) -> Paid {
        let key = (if meter.is_flat() { usize::MAX } else { meter.key() }, length);
        if let Some(known) = self.paid.borrow().get(&key).filter(|_| key.0 != usize::MAX) {
            return Rc::clone(known);
        }
        let paid: Paid = spans.iter().map(|span| self.paid_within(meter, length, span)).collect();
        self.paid.borrow_mut().insert(key, Rc::clone(&paid));
        paid
    }

    fn paid_within(&self, meter: Meter, length: i128, span: &(i128, i128)) -> Option<u64> {
        shifted_hours(self.within(meter, length, *span)?, SHIFT)
    }

    /// Micro-units, rounded down: what compute and the instant of the start cost together at the least, where nothing is
    /// staged before `inbound`, all takes `length` more and nobody waits; with `until`, where the start is no later. `bills`: price
    /// windows, nanoseconds, and micro-units per hour. `None`: there is no telling. `i128::MAX`: no start keeps the
    /// deadline.
    pub fn least_of_all<'m>(
        &self,
        bills: impl Iterator<Item = (Meter<'m>, i128, i128)>,
        (inbound, until): (i128, Option<i128>),
        length: i128,
    ) -> Option<i128> {
        let spans = self.staged.as_deref()?;
        let cut: Vec<(i128, i128)> = match until {
            Some(until) => vec![(inbound, until.max(inbound))],
            None => Vec::new(),
        };
        let spans = if cut.is_empty() { spans } else { &cut };
        let mut sums: Vec<Option<i128>> = vec![Some(0); spans.len()];
        for (meter, hours, price) in bills {
            let paid = match until {
                Some(_) => [self.paid_within(meter, hours, &spans[0])].into(),
                None => self.paid(meter, hours, spans),
            };
            for (sum, paid) in sums.iter_mut().zip(paid.iter()) {
                *sum = sum.zip(*paid).map(|(sum, paid)| sum + ((price * i128::from(paid)) >> SHIFT));
            }
        }
        // all of it, and not the runs alone, has to keep the deadline
        let in_time = |first: i128| self.deadline.is_none_or(|deadline| first.max(inbound) + length <= deadline);
        let open = spans.iter().zip(sums).filter(|((first, last), _)| *last >= inbound && in_time(*first));
        let all = open.filter_map(|((first, _), sum)| {
            let time = self.time((*first).max(inbound), length);
            Some(sum? + i128::from(time / GRAINS))
        });
        Some(all.min().unwrap_or(i128::MAX))
    }

    /// The earliest start there can be, and all others; `None`: any instant.
    pub fn spans(&self) -> Option<&[(i128, i128)]> {
        self.spans.as_deref()
    }

    /// No run of so many nanoseconds has a lower integral of the price factor, in parts of which there are `.1` in one.
    /// `None`: none keeps the deadline.
    pub fn least(&self, meter: Meter, length: i128) -> Option<(i128, i128)> {
        let Some(spans) = &self.spans else { return meter.least(length) };
        let lowest = length.checked_mul(meter.swing().0)?;
        let mut least: Option<(i128, i128)> = None;
        for found in spans.iter().filter_map(|span| self.within(meter, length, *span)) {
            least = Some(least.map_or(found, |l| l.min(found)));
            if found.0 <= lowest {
                break;
            }
        }
        least
    }

    /// No run of this length that starts within the span has a lower integral. `None`: none keeps the deadline.
    pub fn within(&self, meter: Meter, length: i128, (from, to): (i128, i128)) -> Option<(i128, i128)> {
        if self.deadline.is_some_and(|deadline| from + length > deadline) {
            return None;
        }
        meter.least_from(from, to, length)
    }
}

/// Hours of an integral in parts of a nanosecond, shifted up by so many bits.
pub(crate) fn shifted_hours((integral, scale): (i128, i128), shift: u32) -> Option<u64> {
    u64::try_from(integral.max(0).checked_mul(1 << shift)? / (scale * HOUR)).ok()
}

/// Start is the longest inbound staging: one of the times that some leg into a component can take.
fn staged(problem: &Problem) -> Option<Vec<(i128, i128)>> {
    if problem.window.is_some() {
        return None;
    }
    let mut spans = vec![(0, 0)];
    for stream in problem.streams.iter().filter(|s| s.span == Span::Inbound) {
        let Place::Part(part) = stream.to else { return None };
        let part = &problem.parts[part];
        let shares = if part.undivided() || stream.copy { 1 } else { part.most };
        if shares > SHARES || (shares > 1 && part.fewest != part.most) {
            return None;
        }
        let latency = stream.bound.unwrap_or(problem.net.slowest()).min(problem.net.slowest());
        let own = stream.kbps.map(|k| [k]);
        let rates: &[u64] = own.as_ref().map_or(&problem.rungs, |own| own);
        for share in 1..=i128::from(shares) {
            let volume = i128::from(stream.volume) * 8_000_000 * share / i128::from(shares);
            for kbps in rates {
                // a rate of its own divides too, and is rounded up to a kbit/s
                let (least, most) = match stream.kbps {
                    Some(_) => {
                        let divided = i128::from(*kbps) * share / i128::from(shares);
                        (volume / (divided + 1), volume / divided.max(1))
                    }
                    None => (volume / i128::from(*kbps).max(1), volume / i128::from(*kbps).max(1)),
                };
                spans.push((least, most + 2 + i128::from(latency) * 1000));
            }
        }
    }
    spans.sort_unstable();
    spans.dedup();
    Some(spans)
}

/// With the edges that the order may wait for.
fn spans(problem: &Problem, mut spans: Vec<(i128, i128)>) -> Option<Vec<(i128, i128)>> {
    let terms = &problem.request.order.terms;
    if let (Some(deadline), None) = (problem.deadline, terms.value_per_hour) {
        // it may wait for an edge: where every day is like the one before, one of the first day's
        let index = &problem.net.index;
        if index.tariffs() > TARIFFS {
            return None;
        }
        let end = deadline.ceil().to_integer().max(0);
        let day = Ratio::from_integer(24 * HOUR);
        for meter in index.meters(problem.request.submit) {
            if !meter.daily_until(end.max(24 * HOUR)) {
                return None;
            }
            spans.extend(meter.edges(&Ratio::from_integer(-1), &day).into_iter().map(|e| (e, e)));
        }
    }
    spans.sort_unstable();
    spans.dedup();
    Some(spans)
}
