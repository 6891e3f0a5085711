//! What probes say, window by window, for those who look back.
//!
//! A prober records windows whose probes are all answered or given up, with histograms that add up: the percentiles of an hour
//! are those of all its round trips, not a mean of minutes. A window is taken once, however often it is told.

use crate::{desk::Desk, error::DeskError, hub::State, metrics as names};
use jiff::{SignedDuration, Timestamp};
use rhumb_federation::PathNews;
use rhumb_model::{Latency, LinkId, Ppm, Span};
use rhumb_probe_session::{Record, Spread};
use rhumb_store::{Intent, LinkWindow, Store, WindowRtt};
use rhumb_wire::{Report, WindowFigures};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A window that ended longer ago is not taken: its agent's clock is out of its mind.
const OLDEST: SignedDuration = SignedDuration::from_hours(1);
/// Windows that wait to be stored; while the store is away, more are lost.
const MOST_WAITING: usize = 100_000;

/// Windows that were told and are not stored yet.
#[derive(Debug, Default)]
pub struct Windows {
    /// The last window taken of each link: the boot it is of, and when it began by that boot's clock.
    taken: BTreeMap<LinkId, (Uuid, u64)>,
    waiting: Vec<LinkWindow>,
}

/// A window of a link's past, or several put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryWindow {
    /// Its end.
    pub at: Timestamp,
    pub length: Span,
    pub sent: u64,
    pub received: u64,
    /// `None`: nothing was received.
    pub rtt: Option<WindowRtt>,
    pub forward: HistoryWay,
    pub backward: HistoryWay,
}

/// One direction of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryWay {
    /// Of probes whose fate is known; `None`: there are none.
    pub loss: Option<Ppm>,
    pub duplicates: u64,
    pub reordered: u64,
    /// Delay variation: the 95th percentile above the least; `None`: not told.
    pub variation: Option<Latency>,
}

impl Windows {
    /// Takes a window that was not taken before; whether it was one.
    fn take(&mut self, told: &WindowFigures, boot: Uuid, now: Timestamp) -> Result<bool, BadWindow> {
        if self.taken.get(&told.link).is_some_and(|(of, start)| *of == boot && *start >= told.start_ms) {
            return Ok(false);
        }
        let record = read(&told.record)?;
        let age = SignedDuration::from_millis(i64::try_from(told.age_ms).unwrap_or(i64::MAX));
        if age > OLDEST {
            return Err(BadWindow);
        }
        self.taken.insert(told.link.clone(), (boot, told.start_ms));
        let history = HistoryWindow::of(now - age, &record);
        if history.length.micros() > 0 && self.waiting.len() < MOST_WAITING {
            self.waiting.push(LinkWindow {
                link: told.link.clone(),
                at: history.at,
                length: history.length,
                sent: history.sent,
                received: history.received,
                rtt: history.rtt,
                loss: history.forward.loss,
                record: told.record.to_string(),
            });
        }
        Ok(true)
    }
}

/// Not a record, or not one that can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BadWindow;

fn read(record: &serde_json::Value) -> Result<Record, BadWindow> {
    let record: Record = serde::Deserialize::deserialize(record).map_err(|_| BadWindow)?;
    if record.can_be() { Ok(record) } else { Err(BadWindow) }
}

impl HistoryWindow {
    fn of(at: Timestamp, record: &Record) -> Self {
        let micros = |ns: u64| Latency::from_micros((ns / 1_000).max(1));
        let spread = |spread: &Spread, percent| spread.percentile_ns(percent).map(micros);
        let trips = &record.round_trips;
        let rtt = trips.least_ns().map(micros).zip(spread(trips, 50)).zip(spread(trips, 95)).zip(spread(trips, 99));
        let way = |way: &rhumb_probe_session::Way| HistoryWay {
            // parts of what was sent, which is at most 2^32
            loss: (way.lost * 1_000_000).checked_div(record.sent).map(Ppm::from_ppm),
            duplicates: way.duplicates,
            reordered: way.reordered,
            variation: way.variation.percentile_ns(95).map(|ns| Latency::from_micros(ns / 1_000)),
        };
        Self {
            at,
            length: Span::from_micros(record.length_ns / 1_000),
            sent: record.sent,
            received: record.received,
            rtt: rtt.map(|(((min, p50), p95), p99)| WindowRtt { min, p50, p95, p99 }),
            forward: way(&record.forward),
            backward: way(&record.backward),
        }
    }
}

impl<S: Store> Desk<S> {
    /// Windows that a report tells of its point's links, and what they show of the paths.
    pub(crate) fn fold_windows(&self, state: &mut State, report: &Report, now: Timestamp) {
        let own = |w: &&WindowFigures| self.inner.base.links.get(&w.link).is_some_and(|l| l.from == report.point);
        for told in report.windows.iter().filter(own) {
            match state.windows.take(told, report.boot_id, now) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(BadWindow) => {
                    metrics::counter!(names::FIGURES_REFUSED).increment(1);
                    tracing::debug!(link = %told.link, "a recorded window was refused");
                    continue;
                }
            }
            if let Some(change) = told.change {
                let us = |us: u64| Latency::from_micros(us.max(1));
                let min_moved = change.min_moved_us.map(|(from, to)| (us(from), us(to)));
                metrics::counter!(names::PATH_CHANGES).increment(1);
                tracing::info!(link = %told.link, from = ?min_moved.map(|m| m.0), to = ?min_moved.map(|m| m.1), "path has changed");
                state.figures.set_path(told.link.clone(), PathNews { at: now, min_moved });
            }
        }
    }

    /// Writes down the windows that were told. What cannot be stored is lost: the next ones come soon.
    pub(crate) async fn keep_windows(&self) -> Result<(), DeskError> {
        let waiting = std::mem::take(&mut self.inner.hub.lock().windows.waiting);
        if !waiting.is_empty() {
            self.inner.store.commit(vec![Intent::KeepWindows(waiting)]).await?;
        }
        Ok(())
    }

    /// Forgets what is older than configuration asks to keep.
    pub(crate) async fn forget_windows(&self) -> Result<(), DeskError> {
        let kept = i64::try_from(self.inner.config.times.history.micros()).unwrap_or(i64::MAX);
        let Ok(before) = self.now().checked_sub(SignedDuration::from_micros(kept)) else { return Ok(()) };
        self.inner.store.commit(vec![Intent::ForgetWindows { before }]).await?;
        Ok(())
    }

    /// What probes said of a link between two instants (up to now where none is given), oldest first, in at most `most`
    /// windows: neighbours are put together where there are more. The sliding window of this moment comes last.
    pub async fn link_history(
        &self,
        link: &LinkId,
        from: Timestamp,
        to: Option<Timestamp>,
        most: usize,
    ) -> Result<Vec<HistoryWindow>, DeskError> {
        if !self.inner.base.links.contains_key(link) {
            return Err(DeskError::NotFound { kind: "link", id: link.to_string() });
        }
        let found = self.inner.store.link_windows(link, from, to.unwrap_or(Timestamp::MAX)).await?;
        let now = self.now();
        let present =
            if from < now && to.is_none_or(|to| now <= to) { self.inner.hub.lock().sliding(link, now) } else { None };
        let room = most.max(1).saturating_sub(usize::from(present.is_some())).max(1);
        let group = found.len().div_ceil(room).max(1);
        // a week of a link is ten thousand windows to read
        let merged =
            tokio::task::spawn_blocking(move || found.chunks(group).filter_map(together).collect::<Vec<_>>()).await;
        let mut windows = merged.map_err(|_| DeskError::Internal("windows could not be put together".into()))?;
        if windows.len() < most.max(1) {
            windows.extend(present);
        }
        Ok(windows)
    }
}

impl State {
    /// What was last told of a link's sliding window.
    fn sliding(&self, link: &LinkId, now: Timestamp) -> Option<HistoryWindow> {
        let told = self.raw_figures.get(link)?;
        let figures = &told.figures;
        let micros = |us: u64| Latency::from_micros(us.max(1));
        let rtt = match (figures.rtt_min_us, figures.rtt_p50_us, figures.rtt_p95_us) {
            (Some(min), Some(p50), Some(p95)) => {
                let p99 = figures.rtt_p99_us.unwrap_or(p95).max(p95);
                Some(WindowRtt { min: micros(min), p50: micros(p50), p95: micros(p95), p99: micros(p99) })
            }
            _ => None,
        };
        let way = |ppm: Option<u64>| HistoryWay {
            loss: ppm.map(|ppm| Ppm::from_ppm(ppm.min(1_000_000))),
            ..HistoryWay::default()
        };
        let ago = SignedDuration::try_from(told.heard.elapsed()).unwrap_or_default();
        Some(HistoryWindow {
            at: now - ago,
            length: Span::from_micros(figures.window_us),
            sent: figures.sent,
            received: figures.received,
            rtt,
            forward: way(figures.loss_forward_ppm),
            backward: way(figures.loss_backward_ppm),
        })
    }
}

/// Windows that follow each other as one. One that cannot be read is left out.
fn together(windows: &[LinkWindow]) -> Option<HistoryWindow> {
    let at = windows.last()?.at;
    let records = windows.iter().filter_map(|window| read(&serde_json::from_str(&window.record).ok()?).ok());
    let whole = records.reduce(|mut whole, later| {
        whole.merge(&later);
        whole
    })?;
    Some(HistoryWindow::of(at, &whole))
}

#[cfg(test)]
mod tests;
