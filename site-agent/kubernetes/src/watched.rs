//! Objects of one kind, as the API server tells them: listed once, then watched. After an error they are listed anew.

use crate::error;
use futures::StreamExt;
use kube::{
    Api, Resource,
    runtime::{
        reflector::{Store, store::Writer},
        watcher::{self, DefaultBackoff, Event},
    },
};
use serde::de::DeserializeOwned;
use std::{fmt, hash::Hash, pin::pin, sync::Arc, time::Duration};
use tokio::{sync::watch, task::AbortHandle};

/// How long one watch lasts before it is taken up again where it stood, in seconds. One that hangs is given up soon after.
pub(crate) const WATCH_SECONDS: u32 = 30;
/// How long the first list may take.
const FIRST: Duration = Duration::from_secs(10);

/// What can be watched.
pub(crate) trait Watchable:
    Resource<DynamicType: Clone + Eq + Hash + Unpin + Send + Sync>
    + Clone
    + fmt::Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Watchable for K where
    K: Resource<DynamicType: Clone + Eq + Hash + Unpin + Send + Sync>
        + Clone
        + fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Health {
    Starting,
    Good,
    /// Why the server does not tell what there is.
    Bad(String),
}

pub(crate) struct Watched<K: Watchable> {
    store: Store<K>,
    health: watch::Receiver<Health>,
    task: AbortHandle,
}

impl<K: Watchable> fmt::Debug for Watched<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("health", &*self.health.borrow()).finish_non_exhaustive()
    }
}

impl<K> Watched<K>
where
    K: Watchable,
{
    /// `trim` takes from each object what nobody reads. To be called below a runtime of tokio.
    pub(crate) fn start(api: Api<K>, kind: K::DynamicType, config: watcher::Config, trim: fn(&mut K)) -> Self {
        let writer = Writer::new(kind);
        let store = writer.as_reader();
        let (told, health) = watch::channel(Health::Starting);
        let task = tokio::spawn(keep(api, config.timeout(WATCH_SECONDS), writer, told, trim));
        Self { store, health, task: task.abort_handle() }
    }

    /// All of them, as of a moment ago; or why that is not known.
    pub(crate) async fn all(&self) -> Result<Vec<Arc<K>>, String> {
        let mut health = self.health.clone();
        let known = tokio::time::timeout(FIRST, health.wait_for(|health| *health != Health::Starting)).await;
        let Ok(Ok(health)) = known else { return Err("it does not answer".into()) };
        match &*health {
            Health::Bad(why) => Err(why.clone()),
            Health::Good | Health::Starting => Ok(self.store.state()),
        }
    }
}

impl<K: Watchable> Drop for Watched<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep<K>(
    api: Api<K>,
    config: watcher::Config,
    mut writer: Writer<K>,
    health: watch::Sender<Health>,
    trim: fn(&mut K),
) where
    K: Watchable,
{
    let mut pauses = DefaultBackoff::default();
    loop {
        let mut events = pin!(watcher::watcher(api.clone(), config.clone()));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let event = event.modify(trim);
                    writer.apply_watcher_event(&event);
                    if matches!(event, Event::InitDone) {
                        health.send_replace(Health::Good);
                        kube::runtime::utils::Backoff::reset(&mut pauses);
                    }
                }
                Err(error) => {
                    let why = error::chain(&error);
                    tracing::debug!(error = why, "a watch failed");
                    health.send_replace(Health::Bad(why));
                    break;
                }
            }
        }
        tokio::time::sleep(pauses.next().unwrap_or(FIRST)).await;
    }
}
