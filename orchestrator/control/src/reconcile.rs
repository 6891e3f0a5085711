//! What must stay true with time: quotes end, lost points are noticed, phases do not last for ever, what is kept for a
//! while is forgotten.

use crate::{
    desk::Desk,
    error::DeskError,
    hub::Pulse,
    metrics as names,
    sagas::{Mail, TICK},
};
use jiff::SignedDuration;
use rhumb_model::PointName;
use rhumb_store::{Intent, Store};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// How often quotes of other orchestrators are looked for.
const LOOK: Duration = Duration::from_secs(30);
/// Agents may wait this long for a leader that is gone before they turn to another one: their time-out, and how long an
/// answer is held back.
const UNHEARD: Duration = Duration::from_secs(15);
/// How often old idempotency keys are forgotten.
const FORGET: Duration = Duration::from_hours(1);

pub(crate) fn spawn<S: Store>(desk: &Desk<S>) {
    desk.keep_running("reconciler", run);
}

async fn run<S: Store>(desk: Desk<S>) {
    let mut timer = tokio::time::interval(TICK);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut lost = BTreeSet::new();
    let (mut looked, mut forgot): (Option<Instant>, Option<Instant>) = (None, None);
    let due = |last: Option<Instant>, every| last.is_none_or(|at| at.elapsed() >= every);
    loop {
        tokio::select! {
            () = desk.inner.stop.cancelled() => return,
            _ = timer.tick() => {}
        }
        // each by itself: a store that is away must not hide that a point is lost
        if desk.watch_points(&mut lost).await.is_err() || desk.post(Mail::Tick).await.is_err() {
            return;
        }
        let now = desk.now();
        desk.avoid().retain(|_, avoid| !avoid.is_over(now));
        said("quotes could not be ended", desk.end_expired_quotes().await);
        if due(looked, LOOK) {
            looked = Some(Instant::now());
            said("quotes could not be read", desk.look_for_quotes().await);
        }
        if due(forgot, FORGET) {
            forgot = Some(Instant::now());
            said("old idempotency keys could not be forgotten", desk.forget_keys().await);
            said("old windows of links could not be forgotten", desk.forget_windows().await);
        }
    }
}

fn said(what: &str, done: Result<(), DeskError>) {
    if let Err(error) = done {
        tracing::warn!(error = &error as &dyn std::error::Error, "{what}: it is tried again");
    }
}

impl<S: Store> Desk<S> {
    async fn post(&self, mail: Mail) -> Result<(), DeskError> {
        self.inner.mail.send(mail).await.map_err(|_| DeskError::Stopping)
    }

    async fn end_expired_quotes(&self) -> Result<(), DeskError> {
        let now = self.now();
        let expired = self.roll().expired(now);
        if expired.is_empty() {
            return Ok(());
        }
        // one that became an order is refused, and is no quote any more either
        self.inner.store.commit(expired.iter().map(|id| Intent::EndQuote { quote: *id, at: now }).collect()).await?;
        let mut roll = self.roll();
        for id in expired {
            roll.drop_quote(id);
        }
        drop(roll);
        self.inner.hub.wake_placer_for_all();
        Ok(())
    }

    async fn look_for_quotes(&self) -> Result<(), DeskError> {
        let quotes = self.inner.store.live_quotes().await?;
        self.roll().add_quotes(&quotes);
        Ok(())
    }

    async fn forget_keys(&self) -> Result<(), DeskError> {
        let life = i64::try_from(self.inner.config.times.key_life.micros()).unwrap_or(i64::MAX);
        let Ok(before) = self.now().checked_sub(SignedDuration::from_micros(life)) else { return Ok(()) };
        self.inner.store.commit(vec![Intent::Forget { before, at: self.now() }]).await?;
        Ok(())
    }

    /// A point that this process has not heard of yet counts from some time after its start: a new leader loses nobody.
    async fn watch_points(&self, lost: &mut BTreeSet<PointName>) -> Result<(), DeskError> {
        let started: Instant = self.inner.hub.started;
        let silent: Vec<(PointName, Duration)> = {
            let state = self.inner.hub.lock();
            state
                .points
                .iter()
                .map(|(name, p)| (name.clone(), p.last.as_ref().map_or(started + UNHEARD, |l| l.heard).elapsed()))
                .collect()
        };
        let lost_after = Duration::from_micros(self.inner.config.times.lost_after.micros());
        for (point, age) in silent {
            if age <= lost_after {
                if lost.remove(&point) {
                    tracing::info!(%point, "point is back");
                    self.inner.hub.pulse(Pulse::Site(point));
                    self.inner.hub.wake_placer_for_all();
                }
                continue;
            }
            if lost.insert(point.clone()) {
                tracing::warn!(%point, "point has not been heard of: it takes no work");
                self.inner.hub.pulse(Pulse::Site(point.clone()));
            }
            self.post(Mail::SiteLost(point.clone())).await?;
            self.post(Mail::Silent(point, age)).await?;
        }
        metrics::gauge!(names::POINTS_LOST).set(lost.len() as f64);
        Ok(())
    }
}
