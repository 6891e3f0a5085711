//! The input files of one assignment: brought by routes, or parts of datasets this site holds.

use crate::{
    carrier::Carrier,
    durable,
    store::{DatasetStore, checksum},
};
use rhumb_model::{DatasetName, OrderId};
use rhumb_wire::{InputFile, report::AssignmentKey};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

/// How far an input is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Staged {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// Lower-case hexadecimal; `None`: not complete.
    pub(crate) sha256: Option<String>,
    /// Why it will not become complete as things are.
    pub(crate) trouble: Option<String>,
}

/// A part of a dataset held here, cut out for an order's work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    order: OrderId,
    generation: u64,
    dataset: DatasetName,
    offset: u64,
    bytes: u64,
}

/// `None`: being cut.
type Cuts = Arc<Mutex<BTreeMap<Part, Option<Result<String, String>>>>>;

#[derive(Debug)]
pub(crate) struct Inputs {
    parts: PathBuf,
    store: Arc<DatasetStore>,
    cuts: Cuts,
}

impl Inputs {
    pub(crate) fn new(data_dir: &Path, store: Arc<DatasetStore>) -> Self {
        Self { parts: data_dir.join("parts"), store, cuts: Cuts::default() }
    }

    /// How far `input` is; begins what there is to do for it here.
    pub(crate) fn look(&self, key: &AssignmentKey, input: &InputFile, carrier: &dyn Carrier) -> Staged {
        let dataset = match DatasetName::new(&input.dataset) {
            Ok(dataset) => dataset,
            Err(error) => return Staged { trouble: Some(error.to_string()), ..Staged::default() },
        };
        match input.leg {
            Some(_) => brought(key, &dataset, input, carrier),
            None => self.local(key, dataset, input),
        }
    }

    fn local(&self, key: &AssignmentKey, dataset: DatasetName, input: &InputFile) -> Staged {
        let Some(held) = self.store.get(&dataset) else {
            let trouble = Some(format!("this site holds no copy of dataset {dataset}"));
            return Staged { trouble, ..Staged::default() };
        };
        let path = self.store.path(&dataset);
        if input.offset == 0 && input.bytes >= held.bytes {
            return Staged { path, bytes: input.bytes, sha256: Some(held.sha256), trouble: None };
        }
        if input.offset.checked_add(input.bytes).is_none_or(|end| end > held.bytes) {
            let (offset, bytes) = (input.offset, input.bytes);
            let trouble = Some(format!(
                "dataset {dataset} has {} bytes here, {bytes} from {offset} on are asked for",
                held.bytes
            ));
            return Staged { path, trouble, ..Staged::default() };
        }
        let (order, generation) = (key.order, key.generation);
        let part = Part { order, generation, dataset, offset: input.offset, bytes: input.bytes };
        self.cut(part, path)
    }

    fn cut(&self, part: Part, from: PathBuf) -> Staged {
        let name = format!("{}.{}.{}", part.dataset, part.offset, part.bytes);
        let path = self.folder(part.order, part.generation).join(name);
        let bytes = part.bytes;
        let mut cuts = lock(&self.cuts);
        match cuts.get(&part) {
            Some(Some(Ok(sha256))) => Staged { path, bytes, sha256: Some(sha256.clone()), trouble: None },
            Some(Some(Err(trouble))) => Staged { path, trouble: Some(trouble.clone()), ..Staged::default() },
            Some(None) => Staged { path, ..Staged::default() },
            None => {
                let (all, to, wanted) = (Arc::clone(&self.cuts), path.clone(), part.clone());
                let work = move || {
                    let done = cut(&wanted, &from, &to).map_err(|error| format!("cannot cut out a dataset: {error}"));
                    lock(&all).insert(wanted, Some(done));
                };
                let begun = thread::Builder::new().name("cut".into()).spawn(work).is_ok();
                if begun {
                    cuts.insert(part, None);
                }
                Staged { path, ..Staged::default() }
            }
        }
    }

    fn folder(&self, order: OrderId, generation: u64) -> PathBuf {
        self.parts.join(order.to_string()).join(generation.to_string())
    }

    /// Removes the parts and outputs of `gone`.
    pub(crate) fn forget(&self, order: OrderId, generation: u64) -> io::Result<()> {
        lock(&self.cuts).retain(|part, done| (part.order, part.generation) != (order, generation) || done.is_none());
        for folder in [self.folder(order, generation), self.store.outputs(order, generation)] {
            durable::remove_folder(&folder)?;
            if let Some(parent) = folder.parent() {
                // of an order's other generations something may be left
                let _ = fs::remove_dir(parent);
            }
        }
        Ok(())
    }

    /// Orders' generations of which parts or outputs lie here.
    pub(crate) fn present(&self) -> BTreeSet<(OrderId, u64)> {
        let outputs = self.store.outputs(OrderId(uuid::Uuid::nil()), 0);
        let outputs = outputs.parent().and_then(Path::parent).map(Path::to_owned);
        let mut found = BTreeSet::new();
        for root in outputs.into_iter().chain([self.parts.clone()]) {
            for order in children(&root) {
                for generation in children(&order) {
                    if let (Some(order), Some(generation)) = (parsed(&order), parsed(&generation)) {
                        found.insert((order, generation));
                    }
                }
            }
        }
        found
    }
}

fn brought(key: &AssignmentKey, dataset: &DatasetName, input: &InputFile, carrier: &dyn Carrier) -> Staged {
    match carrier.input(key.order, key.generation, dataset) {
        None => Staged::default(),
        Some(staged) => {
            let whole = staged.sha256.filter(|_| staged.received_bytes >= input.bytes);
            Staged { path: staged.path, bytes: staged.received_bytes.min(input.bytes), sha256: whole, trouble: None }
        }
    }
}

/// Copies the part into its own file; gives its checksum.
fn cut(part: &Part, from: &Path, to: &Path) -> io::Result<String> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut source = File::open(from)?;
    source.seek(SeekFrom::Start(part.offset))?;
    let draft = to.with_added_extension("new");
    let copied = io::copy(&mut source.take(part.bytes), &mut File::create(&draft)?)?;
    if copied != part.bytes {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the dataset became shorter"));
    }
    fs::rename(&draft, to)?;
    checksum(&mut File::open(to)?)
}

fn children(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

fn parsed<T: std::str::FromStr>(path: &Path) -> Option<T> {
    path.file_name()?.to_str()?.parse().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
