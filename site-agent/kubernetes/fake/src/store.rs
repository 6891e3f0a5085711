//! Objects, their versions, and everything that happened to them since the last compaction.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::sync::watch;
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// With its group: `pods`, `batch/jobs`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// One change: what was and what is.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) old: Option<Value>,
    pub(crate) new: Option<Value>,
}

/// What the server answers instead: code, reason and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub u16, pub &'static str, pub String);

#[derive(Debug)]
pub struct Store {
    version: u64,
    /// What happened up to here is forgotten.
    pub(crate) floor: u64,
    objects: BTreeMap<Key, Value>,
    pub(crate) changes: Vec<Change>,
    told: watch::Sender<u64>,
}

impl Store {
    pub(crate) fn new() -> Self {
        // not from 1: a version is no count of objects
        Self {
            version: 1_000,
            floor: 1_000,
            objects: BTreeMap::new(),
            changes: Vec::new(),
            told: watch::Sender::new(1_000),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn heard(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
    }

    /// Forgets all that was.
    pub fn forget(&mut self) {
        self.floor = self.version;
        self.changes.clear();
    }

    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key)
    }

    /// All of one resource; an empty namespace is every one.
    pub fn all<'a>(&'a self, resource: &'a str, namespace: &'a str) -> impl Iterator<Item = (&'a Key, &'a Value)> + 'a {
        let of = move |key: &&Key| key.resource == resource && (namespace.is_empty() || key.namespace == namespace);
        self.objects.iter().filter(move |(key, _)| of(key))
    }

    pub fn create(&mut self, key: &Key, mut object: Value) -> Result<Value, Refused> {
        if self.objects.contains_key(key) {
            let message = format!("{} \"{}\" already exists", key.resource, key.name);
            return Err(Refused(409, "AlreadyExists", message));
        }
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(key.name);
        if !key.namespace.is_empty() {
            metadata["namespace"] = json!(key.namespace);
        }
        metadata["uid"] = json!(Uuid::now_v7().to_string());
        metadata["creationTimestamp"] = json!(now());
        metadata["generation"] = json!(1);
        Ok(self.put(key, object))
    }

    /// Writes what the server itself knows to be right.
    pub fn put(&mut self, key: &Key, mut object: Value) -> Value {
        let old = self.objects.get(key).cloned();
        if let Some(old) = &old {
            // a write that changes nothing is none
            object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            if *old == object {
                return object;
            }
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let is_done = !object["metadata"]["deletionTimestamp"].is_null()
            && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
            && key.resource != "pods";
        if is_done {
            return self.remove(key).unwrap_or(object);
        }
        self.objects.insert(key.clone(), object.clone());
        self.happened(Change { version: self.version, key: key.clone(), old, new: Some(object.clone()) });
        object
    }

    /// Changes an object in place, if it is there.
    pub fn change(&mut self, key: &Key, change: impl FnOnce(&mut Value)) {
        if let Some(mut object) = self.objects.get(key).cloned() {
            change(&mut object);
            self.put(key, object);
        }
    }

    pub fn remove(&mut self, key: &Key) -> Option<Value> {
        let mut old = self.objects.remove(key)?;
        self.version += 1;
        let before = old.clone();
        old["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.happened(Change { version: self.version, key: key.clone(), old: Some(before), new: None });
        Some(old)
    }

    fn happened(&mut self, change: Change) {
        self.changes.push(change);
        self.told.send_replace(self.version);
    }
}

pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
