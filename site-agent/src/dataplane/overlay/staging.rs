//! Files that arrive: several legs write their parts of one file, and once all are there it is whole.
//!
//! ```text
//! inputs/<order>/<generation>/<dataset>.part     being written; byte i of it is byte i of the dataset
//!                             <dataset>.leg<n>   how much of leg n is certainly on the disk
//!                             <dataset>          whole, as far as this point's legs go
//!                             <dataset>.json     its SHA-256 and the parts it consists of
//! incoming/...                                   the same for what becomes a dataset here
//! ```
//! The SHA-256 is taken over the parts in order of their offset: of a file that arrived entire it is the file's.
//! A dataset's name holds no dot, so none of these names meets another's.

use super::{cell::lock, config::DatasetSource, spec::Fate};
use rhumb_model::{DatasetName, OrderId};
use rhumb_wire::report::RouteKey;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

mod file;
mod group;

pub(crate) use file::LegFile;
use group::Group;
pub(crate) use group::Leg;

/// A dataset on its way to, or arrived for, one order's work at this point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedInput {
    /// The file; complete once `sha256` is known.
    pub path: PathBuf,
    pub expected_bytes: u64,
    pub received_bytes: u64,
    /// Lower-case hexadecimal, over all parts this point was sent; `None` until all have arrived.
    pub sha256: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StageKey {
    pub(crate) fate: Fate,
    pub(crate) order: OrderId,
    pub(crate) generation: u64,
    pub(crate) dataset: DatasetName,
}

/// A part of a dataset, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// `<dataset>.json`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    sha256: String,
    legs: BTreeMap<u32, Span>,
}

impl Record {
    fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    fn bytes(&self) -> u64 {
        merged(self.legs.values().copied()).iter().map(|span| span.bytes).sum()
    }
}

/// The same bytes, none twice, in order.
fn merged(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let spans: BTreeSet<Span> = spans.filter(|span| span.bytes > 0).collect();
    let mut merged: Vec<Span> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.offset <= last.offset + last.bytes => {
                last.bytes = last.bytes.max(span.offset + span.bytes - last.offset);
            }
            _ => merged.push(span),
        }
    }
    merged
}

#[derive(Debug)]
pub(crate) struct Staging {
    data_dir: PathBuf,
    datasets: Arc<dyn DatasetSource>,
    groups: Mutex<BTreeMap<StageKey, Arc<Group>>>,
}

impl Staging {
    pub(crate) fn new(data_dir: &Path, datasets: Arc<dyn DatasetSource>) -> Self {
        Self { data_dir: data_dir.to_owned(), datasets, groups: Mutex::default() }
    }

    /// Where a route's file will be written. Touches no disk; the file counts as whole only once this part is there too.
    pub(crate) fn join(&self, key: StageKey, leg: u32, span: Span) -> Arc<Leg> {
        let mut groups = lock(&self.groups);
        let group = groups.entry(key.clone()).or_insert_with(|| {
            let dir = self.dir(key.fate, key.order, key.generation);
            Arc::new(Group::new(dir, key, Arc::clone(&self.datasets)))
        });
        Group::join(group, leg, span)
    }

    /// The route of this leg is gone. May block.
    pub(crate) fn leave(&self, leg: &Leg) {
        let mut groups = lock(&self.groups);
        if leg.leave() {
            groups.remove(leg.key());
        }
    }

    /// May block, briefly.
    pub(crate) fn input(&self, order: OrderId, generation: u64, dataset: &DatasetName) -> Option<StagedInput> {
        let key = StageKey { fate: Fate::Input, order, generation, dataset: dataset.clone() };
        if let Some(group) = lock(&self.groups).get(&key) {
            return Some(group.input());
        }
        let dir = self.dir(Fate::Input, order, generation);
        let record = Record::read(&group::record_path(&dir, dataset))?;
        let bytes = record.bytes();
        let path = dir.join(dataset.as_str());
        Some(StagedInput { path, expected_bytes: bytes, received_bytes: bytes, sha256: Some(record.sha256) })
    }

    /// Removes the inputs of every order and generation that is neither in `keep` nor still has a route here. May block.
    pub(crate) fn retain_inputs(&self, keep: &BTreeSet<(OrderId, u64)>) -> io::Result<()> {
        let mut groups = lock(&self.groups);
        groups.retain(|key, group| {
            key.fate == Fate::Dataset || keep.contains(&(key.order, key.generation)) || group.is_live()
        });
        let kept: BTreeSet<(String, String)> = keep
            .iter()
            .copied()
            .chain(groups.keys().filter(|key| key.fate == Fate::Input).map(|key| (key.order, key.generation)))
            .map(|(order, generation)| (order.to_string(), generation.to_string()))
            .collect();
        for order in children(&self.data_dir.join(folder(Fate::Input)))? {
            let mut left = false;
            for generation in children(&order)? {
                if kept.contains(&(name(&order), name(&generation))) {
                    left = true;
                } else {
                    fs::remove_dir_all(&generation)?;
                }
            }
            if !left {
                fs::remove_dir(&order)?;
            }
        }
        Ok(())
    }

    fn dir(&self, fate: Fate, order: OrderId, generation: u64) -> PathBuf {
        self.data_dir.join(folder(fate)).join(order.to_string()).join(generation.to_string())
    }
}

/// What one leg brings, for its route.
pub(crate) fn stage_key(route: &RouteKey, dataset: &DatasetName, fate: Fate) -> StageKey {
    StageKey { fate, order: route.order, generation: route.generation, dataset: dataset.clone() }
}

fn folder(fate: Fate) -> &'static str {
    match fate {
        Fate::Input => "inputs",
        Fate::Dataset => "incoming",
    }
}

/// Writes `value` so that after a loss of power the file holds either what it did or this.
fn durable(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let octets = serde_json::to_vec(value).map_err(io::Error::other)?;
    let draft = path.with_added_extension("new");
    let mut file = fs::File::create(&draft)?;
    file.write_all(&octets)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    // the rename itself, and any before it in the same folder
    fs::File::open(path.parent().unwrap_or(path))?.sync_all()
}

fn children(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
