//! When an order may start, as far as that is known before its places are: what a bound on its compute rests on.

use crate::{
    problem::{HOUR, Place, Problem, Span},
    window::Meter,
};
use rhumb_model::ratio::Ratio;

/// Nanoseconds after submission.
#[derive(Debug)]
pub(crate) struct Starts {
    /// Every start lies in one of these, both ends included; `None`: any instant.
    spans: Option<Vec<(i128, i128)>>,
    /// A run that ends later is no plan.
    deadline: Option<i128>,
}

/// Different price windows of all sites up to which their edges are counted one by one.
const TARIFFS: usize = 24;

/// Replicas up to which every share of a volume that a site may get is counted.
const SHARES: u32 = 4;

impl Starts {
    pub fn new(problem: &Problem) -> Self {
        let deadline = problem.deadline.filter(|_| problem.late.is_none()).map(|d| d.ceil().to_integer());
        Self { spans: spans(problem), deadline }
    }

    /// The earliest start there can be, and all others; `None`: any instant.
    pub fn spans(&self) -> Option<&[(i128, i128)]> {
        self.spans.as_deref()
    }

    /// No run of so many nanoseconds has a lower integral of the price factor, in parts of which there are `.1` in one.
    /// `None`: none keeps the deadline.
    pub fn least(&self, meter: Meter, length: i128) -> Option<(i128, i128)> {
        let Some(spans) = &self.spans else { return meter.least(length) };
        spans.iter().filter_map(|span| self.within(meter, length, *span)).min()
    }

    /// No run of this length that starts within the span has a lower integral. `None`: none keeps the deadline.
    pub fn within(&self, meter: Meter, length: i128, (from, to): (i128, i128)) -> Option<(i128, i128)> {
        if self.deadline.is_some_and(|deadline| from + length > deadline) {
            return None;
        }
        let (at, scale) = meter.whole(from, length)?;
        let (lowest, highest, _) = meter.swing();
        // a shift changes what is paid at either end of the run
        let shift = (highest - lowest).checked_mul(to - from)?;
        Some(((at - shift).max(length.checked_mul(lowest)?), scale))
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
