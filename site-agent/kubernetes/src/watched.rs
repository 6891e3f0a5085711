//! Objects of one kind, as the API server tells them: listed once, then watched. After an error they are listed anew.

use crate::error;
use futures::StreamExt;
use kube::{
    Api, Resource,
    runtime::{
        reflector::{self, Store, store::Writer},
        watcher::{self, DefaultBackoff, Event},
    },
};
use serde::de::DeserializeOwned;
use std::{fmt, pin::pin, sync::Arc, time::Duration};
use tokio::{sync::watch, task::AbortHandle};

/// How long one watch lasts before it is taken up again where it stood, in seconds. One that hangs is given up soon after.
pub(crate) const WATCH_SECONDS: u32 = 30;
/// How long the first list may take.
const FIRST: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Health {
    Starting,
    Good,
    /// Why the server does not tell what there is.
    Bad(String),
}

pub(crate) struct Watched<K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static> {
    store: Store<K>,
    health: watch::Receiver<Health>,
    task: AbortHandle,
}

impl<K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static> fmt::Debug for Watched<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("health", &*self.health.borrow()).finish_non_exhaustive()
    }
}

impl<K> Watched<K>
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// `trim` takes from each object what nobody reads. To be called below a runtime of tokio.
    pub(crate) fn start(api: Api<K>, config: watcher::Config, trim: fn(&mut K)) -> Self {
        let (store, writer) = reflector::store();
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

impl<K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static> Drop for Watched<K> {
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
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + Sync + 'static,
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
                    tracing::debug!(kind = %K::kind(&()), error = why, "a watch failed");
                    health.send_replace(Health::Bad(why));
                    break;
                }
            }
        }
        tokio::time::sleep(pauses.next().unwrap_or(FIRST)).await;
    }
}
