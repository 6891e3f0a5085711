//! What probes say, minute by minute, for those who look back.
//!
//! A prober tells of a sliding window. One that has slid past what was counted last is taken into the minute; percentiles of
//! the minute are the mean of its windows', weighed by answers, which is what they would be if the delay had not changed
//! within it. The least round trip is the least.

use crate::{desk::Desk, error::DeskError, hub::State};
use jiff::{SignedDuration, Timestamp};
use rhumb_model::{Latency, LinkId, Ppm, Span};
use rhumb_store::{Intent, LinkWindow, Store, WindowRtt};
use rhumb_wire::LinkFigures;
use std::collections::BTreeMap;

/// Length of a kept window.
const MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// The minute that is not over yet, by link.
#[derive(Debug, Default)]
pub struct Minutes {
    links: BTreeMap<LinkId, Minute>,
}

#[derive(Debug, Clone)]
struct Minute {
    since: Timestamp,
    /// End of the window counted last.
    counted: Timestamp,
    sent: u64,
    received: u64,
    min_us: u64,
    /// Sums of percentiles times answers: p50, p95, p99.
    sums: [u128; 3],
    lost_ppm: u128,
    settled: u64,
}

impl Minutes {
    /// Takes a report's window, if it does not overlap what was counted.
    pub(crate) fn fold(&mut self, told: &LinkFigures, now: Timestamp) {
        let length = SignedDuration::from_micros(told.window_us.min(3_600_000_000) as i64);
        let minute = self.links.entry(told.link.clone()).or_insert_with(|| Minute::new(now - length));
        if now.duration_since(minute.counted) < length {
            return;
        }
        minute.counted = now;
        minute.sent += told.sent;
        if let (Some(min), Some(p50), Some(p95)) = (told.rtt_min_us, told.rtt_p50_us, told.rtt_p95_us) {
            minute.received += told.received;
            minute.min_us = minute.min_us.min(min);
            let p99 = told.rtt_p99_us.unwrap_or(p95).max(p95);
            for (sum, value) in minute.sums.iter_mut().zip([p50, p95, p99]) {
                *sum += u128::from(value) * u128::from(told.received);
            }
        }
        if let Some(ppm) = told.loss_forward_ppm {
            minute.lost_ppm += u128::from(ppm.min(1_000_000)) * u128::from(told.sent);
            minute.settled += told.sent;
        }
    }

    /// The minutes that are over; they begin anew.
    fn over(&mut self, now: Timestamp) -> Vec<LinkWindow> {
        let over = |minute: &Minute| now.duration_since(minute.since) >= MINUTE;
        let mut found = Vec::new();
        for (link, minute) in self.links.iter_mut().filter(|(_, minute)| over(minute)) {
            found.extend(minute.window(link, now));
            *minute = Minute { counted: minute.counted, ..Minute::new(now) };
        }
        // a link that is probed no more leaves no empty minutes behind
        self.links.retain(|_, minute| now.duration_since(minute.counted) < MINUTE * 10);
        found
    }

    /// The minute so far.
    fn so_far(&self, link: &LinkId, now: Timestamp) -> Option<LinkWindow> {
        self.links.get(link)?.window(link, now)
    }
}

impl Minute {
    fn new(since: Timestamp) -> Self {
        let sums = [0; 3];
        Self { since, counted: since, sent: 0, received: 0, min_us: u64::MAX, sums, lost_ppm: 0, settled: 0 }
    }

    fn window(&self, link: &LinkId, now: Timestamp) -> Option<LinkWindow> {
        let mean = |sum: u128| sum.checked_div(u128::from(self.received)).map(|us| Latency::from_micros(us as u64));
        let rtt = match self.sums.map(mean) {
            [Some(p50), Some(p95), Some(p99)] => {
                Some(WindowRtt { min: Latency::from_micros(self.min_us), p50, p95, p99 })
            }
            _ => None,
        };
        let loss = self.lost_ppm.checked_div(u128::from(self.settled)).map(|ppm| Ppm::from_ppm(ppm as u64));
        let length = u64::try_from(now.duration_since(self.since).as_micros()).unwrap_or(0);
        let window = LinkWindow {
            link: link.clone(),
            at: now,
            length: Span::from_micros(length),
            sent: self.sent,
            received: self.received,
            rtt,
            loss,
        };
        (self.sent > 0 && length > 0).then_some(window)
    }
}

impl<S: Store> Desk<S> {
    /// Writes down the minutes that are over. What cannot be stored is lost: the next minute comes soon.
    pub(crate) async fn keep_windows(&self) -> Result<(), DeskError> {
        let over = self.inner.hub.lock().minutes.over(self.now());
        if !over.is_empty() {
            self.inner.store.commit(vec![Intent::KeepWindows(over)]).await?;
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

    /// What probes said of a link between two instants (up to now where none is given), oldest first, in at most `most` windows: neighbours are put together
    /// where there are more. The minute that is not over yet comes last.
    pub async fn link_history(
        &self,
        link: &LinkId,
        from: Timestamp,
        to: Option<Timestamp>,
        most: usize,
    ) -> Result<Vec<LinkWindow>, DeskError> {
        if !self.inner.base.links.contains_key(link) {
            return Err(DeskError::NotFound { kind: "link", id: link.to_string() });
        }
        let mut found = self.inner.store.link_windows(link, from, to.unwrap_or(Timestamp::MAX)).await?;
        let now = self.now();
        if from < now && to.is_none_or(|to| now <= to) {
            found.extend(State::so_far(&self.inner.hub.lock(), link, now));
        }
        let group = found.len().div_ceil(most.max(1)).max(1);
        Ok(found.chunks(group).filter_map(together).collect())
    }
}

impl State {
    fn so_far(&self, link: &LinkId, now: Timestamp) -> Option<LinkWindow> {
        self.minutes.so_far(link, now)
    }
}

/// Windows that follow each other as one, by the rule of a minute.
fn together(windows: &[LinkWindow]) -> Option<LinkWindow> {
    let last = windows.last()?;
    let received = |w: &LinkWindow| u128::from(w.received);
    let rtts: Vec<_> = windows.iter().filter_map(|w| Some((w.rtt?, received(w)))).collect();
    let weight: u128 = rtts.iter().map(|(_, n)| n).sum();
    let mean = |of: fn(&WindowRtt) -> Latency| {
        let sum: u128 = rtts.iter().map(|(rtt, n)| u128::from(of(rtt).micros()) * n).sum();
        Some(Latency::from_micros(sum.checked_div(weight)? as u64))
    };
    let min = rtts.iter().map(|(rtt, _)| rtt.min).min();
    let rtt = match (min, mean(|r| r.p50), mean(|r| r.p95), mean(|r| r.p99)) {
        (Some(min), Some(p50), Some(p95), Some(p99)) => Some(WindowRtt { min, p50, p95, p99 }),
        _ => None,
    };
    let settled: u128 = windows.iter().filter(|w| w.loss.is_some()).map(|w| u128::from(w.sent)).sum();
    let lost = windows.iter().filter_map(|w| Some(u128::from(w.loss?.ppm()) * u128::from(w.sent)));
    let loss = lost.sum::<u128>().checked_div(settled).map(|ppm| Ppm::from_ppm(ppm as u64));
    Some(LinkWindow {
        link: last.link.clone(),
        at: last.at,
        length: Span::from_micros(windows.iter().map(|w| w.length.micros()).sum()),
        sent: windows.iter().map(|w| w.sent).sum(),
        received: windows.iter().map(|w| w.received).sum(),
        rtt,
        loss,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn told(rtt_us: Option<u64>, sent: u64, loss: Option<u64>) -> LinkFigures {
        LinkFigures {
            link: LinkId::new("ab").unwrap(),
            window_us: 10_000_000,
            sent,
            received: if rtt_us.is_some() { sent } else { 0 },
            rtt_min_us: rtt_us,
            rtt_p50_us: rtt_us.map(|rtt| rtt + 10),
            rtt_p95_us: rtt_us.map(|rtt| rtt + 20),
            loss_forward_ppm: loss,
            loss_backward_ppm: None,
            jitter_us: None,
            last_reply_age_us: None,
            rtt_p99_us: rtt_us.map(|rtt| rtt + 30),
            bandwidth: None,
        }
    }

    #[test]
    fn a_minute_counts_each_window_once() {
        let mut minutes = Minutes::default();
        let link = LinkId::new("ab").unwrap();
        // a report every three seconds of a window of ten
        for second in (10..=60).step_by(3) {
            minutes.fold(&told(Some(if second < 40 { 1_000 } else { 3_000 }), 50, Some(10_000)), at(second));
        }
        assert!(minutes.over(at(59)).is_empty());
        let so_far = minutes.so_far(&link, at(59)).unwrap();
        // ends of the windows counted: 10, 22, 34, 46, 58
        assert_eq!((so_far.sent, so_far.received), (250, 250));
        let over = minutes.over(at(60));
        let rtt = over[0].rtt.unwrap();
        assert_eq!(
            (rtt.min.micros(), rtt.p50.micros(), rtt.p95.micros(), rtt.p99.micros()),
            (1_000, 1_810, 1_820, 1_830)
        );
        assert_eq!((over[0].loss.unwrap().ppm(), over[0].length.micros()), (10_000, 60_000_000));
        assert!(minutes.so_far(&link, at(61)).is_none());
        // silence is a window without round trips
        minutes.fold(&told(None, 50, Some(1_000_000)), at(80));
        let silent = &minutes.over(at(120))[0];
        assert_eq!((silent.rtt, silent.received, silent.loss.unwrap().ppm()), (None, 0, 1_000_000));
        assert!(minutes.over(at(2_000)).is_empty() && minutes.links.is_empty());
    }

    #[test]
    fn windows_put_together_keep_the_least_and_weigh_the_rest() {
        let us = Latency::from_micros;
        let window = |second: i64, rtt: u64, received: u64| LinkWindow {
            link: LinkId::new("ab").unwrap(),
            at: at(second),
            length: Span::from_micros(60_000_000),
            sent: 100,
            received,
            rtt: (received > 0).then(|| WindowRtt { min: us(rtt), p50: us(rtt), p95: us(rtt), p99: us(rtt) }),
            loss: Some(Ppm::from_ppm((100 - received) * 10_000)),
        };
        let one = together(&[window(60, 100, 75), window(120, 500, 25), window(180, 0, 0)]).unwrap();
        let rtt = one.rtt.unwrap();
        assert_eq!((rtt.min.micros(), rtt.p95.micros()), (100, 200));
        assert_eq!((one.at, one.sent, one.received), (at(180), 300, 100));
        assert_eq!(one.loss.unwrap().ppm(), 666_666);
        assert_eq!(together(&[]), None);
    }
}
