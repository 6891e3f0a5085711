//! What must stay true with time: quotes end, lost points are noticed, phases do not last for ever.

use crate::{
    desk::Desk,
    error::DeskError,
    hub::Pulse,
    sagas::{Mail, TICK},
};
use rhumb_model::PointName;
use rhumb_store::{Intent, Store};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

pub(crate) fn spawn<S: Store>(desk: &Desk<S>) {
    let desk = desk.clone();
    let tracker = desk.inner.tasks.clone();
    tracker.spawn(async move {
        let mut timer = tokio::time::interval(TICK);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut lost = BTreeSet::new();
        loop {
            tokio::select! {
                () = desk.inner.stop.cancelled() => return,
                _ = timer.tick() => {}
            }
            if let Err(error) = desk.reconcile(&mut lost).await {
                tracing::error!(%error, "reconciliation failed: it is tried again");
            }
        }
    });
}

impl<S: Store> Desk<S> {
    async fn reconcile(&self, lost: &mut BTreeSet<PointName>) -> Result<(), DeskError> {
        self.end_expired_quotes().await?;
        self.watch_points(lost).await?;
        self.post(Mail::Tick).await
    }

    async fn post(&self, mail: Mail) -> Result<(), DeskError> {
        self.inner.mail.send(mail).await.map_err(|_| DeskError::Stopping)
    }

    async fn end_expired_quotes(&self) -> Result<(), DeskError> {
        let now = self.now();
        let quotes = self.inner.store.live_quotes().await?;
        let ended: Vec<_> = quotes
            .into_iter()
            .filter(|q| q.expires <= now)
            .map(|q| Intent::EndQuote { quote: q.id, at: now })
            .collect();
        if !ended.is_empty() {
            self.inner.store.commit(ended).await?;
            self.inner.hub.place.notify_one();
        }
        Ok(())
    }

    /// A point that this process has not heard of yet counts from the process's start: a new orchestrator loses nobody.
    async fn watch_points(&self, lost: &mut BTreeSet<PointName>) -> Result<(), DeskError> {
        let started: Instant = self.inner.hub.started;
        let silent: Vec<(PointName, Duration)> = {
            let state = self.inner.hub.lock();
            state
                .points
                .iter()
                .map(|(name, p)| (name.clone(), p.last.as_ref().map_or(started, |l| l.heard).elapsed()))
                .collect()
        };
        let times = &self.inner.config.times;
        let lost_after = Duration::from_micros(times.lost_after.micros());
        for (point, age) in &silent {
            if *age <= lost_after {
                if lost.remove(point) {
                    tracing::info!(%point, "point is back");
                    self.inner.hub.pulse(Pulse::Site(point.clone()));
                    self.inner.hub.place.notify_one();
                }
                continue;
            }
            if lost.insert(point.clone()) {
                tracing::warn!(%point, "point has not been heard of: it takes no work");
                self.inner.hub.pulse(Pulse::Site(point.clone()));
            }
            self.post(Mail::SiteLost(point.clone())).await?;
        }
        for (point, age) in silent.into_iter().filter(|(_, age)| *age > lost_after) {
            self.post(Mail::Silent(point, age)).await?;
        }
        Ok(())
    }
}
