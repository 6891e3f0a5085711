//! Watches: what changes, in order, from a version on.

use super::{Target, selector, status};
use crate::{
    Shared,
    selector::Selector,
    store::{Change, Refused, Store},
};
use axum::{
    body::{Body, Bytes},
    http::header,
    response::Response,
};
use futures::stream;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

struct Watch {
    shared: Arc<Shared>,
    target: Target,
    selector: Selector,
    bookmarks: bool,
    /// Up to here everything was told.
    at: u64,
    heard: watch::Receiver<u64>,
    end: Instant,
    next_bookmark: Instant,
    /// The same, as far as the client was told of a version.
    told: Arc<AtomicU64>,
    /// What is there already, for watches without a version.
    first: Vec<Value>,
    is_over: bool,
}

pub(super) fn watch(shared: &Arc<Shared>, target: &Target, query: &BTreeMap<String, String>) -> Response {
    let store = shared.store();
    let selector = selector(query);
    let asked = query.get("resourceVersion").map_or("", String::as_str);
    let mut first = Vec::new();
    let at = match asked {
        "" | "0" => {
            let all = store.all(&target.resource, &target.namespace).map(|(_, object)| object);
            first.extend(all.filter(|object| selector.matches(object)).map(|object| event("ADDED", object)));
            store.version()
        }
        version => version.parse().unwrap_or(0),
    };
    let most = query.get("timeoutSeconds").and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let now = Instant::now();
    let watch = Watch {
        shared: Arc::clone(shared),
        target: target.clone(),
        selector,
        bookmarks: query.get("allowWatchBookmarks").is_some_and(|asked| asked == "true"),
        at,
        heard: store.heard(),
        told: shared.watching(&target.resource, at),
        end: now + most.unwrap_or(Duration::MAX).min(shared.options.watch_most),
        next_bookmark: now + shared.options.bookmark,
        first,
        is_over: false,
    };
    drop(store);
    let lines = stream::unfold(watch, |mut watch| async move {
        let lines = watch.next().await?;
        watch.told.store(watch.at, Ordering::SeqCst);
        Some((Ok::<Bytes, Infallible>(Bytes::from(lines)), watch))
    });
    Response::builder().header(header::CONTENT_TYPE, "application/json").body(Body::from_stream(lines)).unwrap()
}

impl Watch {
    /// The next events, a line each; `None`: it is over.
    async fn next(&mut self) -> Option<String> {
        loop {
            if self.is_over {
                return None;
            }
            self.heard.mark_unchanged();
            let events = self.events();
            if !events.is_empty() {
                return Some(events.iter().map(|event| event.to_string() + "\n").collect());
            }
            let now = Instant::now();
            if now >= self.end {
                // the real one says how far it is before it ends a watch
                self.is_over = true;
                return Some(if self.bookmarks { self.bookmark().to_string() + "\n" } else { String::new() });
            }
            if self.bookmarks && now >= self.next_bookmark {
                self.next_bookmark = now + self.shared.options.bookmark;
                return Some(self.bookmark().to_string() + "\n");
            }
            let wake = if self.bookmarks { self.end.min(self.next_bookmark) } else { self.end };
            let _ = tokio::time::timeout_at(wake, self.heard.changed()).await;
        }
    }

    fn events(&mut self) -> Vec<Value> {
        let shared = Arc::clone(&self.shared);
        let store = shared.store();
        let mut events = std::mem::take(&mut self.first);
        if self.at < store.floor {
            self.is_over = true;
            let gone = Refused(410, "Expired", format!("too old resource version: {} ({})", self.at, store.floor));
            events.push(json!({"type": "ERROR", "object": status(&gone)}));
            return events;
        }
        events.extend(self.since(&store));
        self.at = store.version();
        events
    }

    fn since(&self, store: &Store) -> Vec<Value> {
        let place = store.changes.partition_point(|change| change.version <= self.at);
        store.changes[place..].iter().filter_map(|change| self.of(change)).collect()
    }

    /// What a change is to this watch: an object that no more matches is gone.
    fn of(&self, change: &Change) -> Option<Value> {
        let is_here = self.target.namespace.is_empty() || change.key.namespace == self.target.namespace;
        if change.key.resource != self.target.resource || !is_here {
            return None;
        }
        let matches = |object: &Option<Value>| object.as_ref().is_some_and(|object| self.selector.matches(object));
        match (matches(&change.old), matches(&change.new)) {
            (false, true) => Some(event("ADDED", change.new.as_ref()?)),
            (true, true) => Some(event("MODIFIED", change.new.as_ref()?)),
            (true, false) => {
                let mut last = change.old.clone()?;
                last["metadata"]["resourceVersion"] = json!(change.version.to_string());
                Some(event("DELETED", &last))
            }
            (false, false) => None,
        }
    }

    fn bookmark(&self) -> Value {
        // a bookmark is an object of the kind that is watched, with nothing but a version
        let kind = match self.target.resource.as_str() {
            "pods" => "Pod",
            "nodes" => "Node",
            "batch/jobs" => "Job",
            _ => "Object",
        };
        let object = json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": self.at.to_string(), "creationTimestamp": null}});
        json!({"type": "BOOKMARK", "object": object})
    }
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}
