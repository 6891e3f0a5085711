//! When an order may start, as far as that is known before its places are: what a bound on its compute rests on.

use crate::{
    problem::{HOUR, Place, Problem, Span},
    window::Meter,
};
use num_traits::{CheckedMul, CheckedSub};
use rhumb_model::ratio::Ratio;

/// Nanoseconds after submission.
#[derive(Debug)]
pub(crate) struct Starts {
    /// Every start lies in one of these, both ends included; `None`: any instant.
    spans: Option<Vec<(i128, i128)>>,
    /// A run that ends later is no plan.
    deadline: Option<Ratio>,
}

/// Different price windows of all sites up to which their edges are counted one by one.
const TARIFFS: usize = 24;

impl Starts {
    pub fn new(problem: &Problem) -> Self {
        let deadline = problem.deadline.filter(|_| problem.late.is_none());
        Self { spans: spans(problem), deadline }
    }

    /// The earliest start there can be, and all others; `None`: any instant.
    pub fn spans(&self) -> Option<&[(i128, i128)]> {
        self.spans.as_deref()
    }

    /// No run of this length has a lower integral of the price factor. `None`: none keeps the deadline.
    pub fn least(&self, meter: Meter, length: &Ratio) -> Option<Ratio> {
        let Some(spans) = &self.spans else { return meter.least(length) };
        spans.iter().filter_map(|span| self.within(meter, length, *span)).min()
    }

    /// No run of this length that starts within the span has a lower integral. `None`: none keeps the deadline.
    pub fn within(&self, meter: Meter, length: &Ratio, (from, to): (i128, i128)) -> Option<Ratio> {
        let start = Ratio::from_integer(from);
        if self.deadline.is_some_and(|deadline| start + length > deadline) {
            return None;
        }
        let at = meter.integral(&start, length)?;
        let (lowest, highest) = meter.factors();
        // a shift changes what is paid at either end of the run
        let shift = (highest - lowest).checked_mul(&Ratio::from_integer(to - from))?;
        Some(at.checked_sub(&shift)?.max(length.checked_mul(&lowest)?))
    }
}

/// Start is the longest inbound staging: one of the times that some leg into a component can take.
fn spans(problem: &Problem) -> Option<Vec<(i128, i128)>> {
    if problem.window.is_some() {
        return None;
    }
    let mut spans = vec![(0, 0)];
    for stream in problem.streams.iter().filter(|s| s.span == Span::Inbound) {
        let Place::Part(part) = stream.to else { return None };
        if !problem.parts[part].undivided() && !stream.copy {
            return None;
        }
        let latency = stream.bound.unwrap_or(problem.net.slowest()).min(problem.net.slowest());
        let own = stream.kbps.map(|k| [k]);
        let rates: &[u64] = own.as_ref().map_or(&problem.rungs, |own| own);
        for kbps in rates {
            let moving = i128::from(stream.volume) * 8_000_000 / i128::from(*kbps).max(1);
            spans.push((moving, moving + 1 + i128::from(latency) * 1000));
        }
    }
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
