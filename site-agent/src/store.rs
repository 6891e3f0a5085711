//! The datasets of this point.
//!
//! ```text
//! datasets/<name>          the content
//! datasets/<name>.sha256   its checksum, in hexadecimal
//! datasets/<name>.written  what work at this very site wrote, on its way to become the dataset
//! outputs/<order>/<generation>/<name>   what an order's work wrote to become a dataset
//! ```
//! A dataset's name holds no dot, so none of these meets another's. A dataset without its checksum is not offered.

use crate::{
    config::MadeDataset,
    dataplane::overlay::{DatasetRequest, DatasetSource, Origin},
    durable::{self, Keep},
};
use rhumb_model::{DatasetName, OrderId};
use rhumb_wire::report::HeldDataset;
use ring::digest;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

/// Read or made at a time.
const PIECE_BYTES: usize = 256 << 10;
const WRITTEN: &str = "written";

#[derive(Debug)]
pub struct DatasetStore {
    datasets: PathBuf,
    outputs: PathBuf,
    held: Mutex<BTreeMap<DatasetName, Held>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    /// Lower-case hexadecimal.
    pub(crate) sha256: String,
}

impl DatasetStore {
    /// Looks at what is there; a file without its checksum gets one. Reads such a file, so it may take long.
    pub fn open(data_dir: &Path) -> io::Result<Self> {
        let datasets = data_dir.join("datasets");
        fs::create_dir_all(&datasets)?;
        let mut held = BTreeMap::new();
        for entry in fs::read_dir(&datasets)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| DatasetName::new(name).ok());
            let Some(name) = name.filter(|_| path.is_file()) else { continue };
            let bytes = fs::metadata(&path)?.len();
            let sha256 = match fs::read_to_string(path.with_extension("sha256")) {
                Ok(known) if known.trim().len() == 64 => known.trim().to_owned(),
                _ => {
                    let sha256 = checksum(&mut File::open(&path)?)?;
                    write_checksum(&path, &sha256)?;
                    sha256
                }
            };
            held.insert(name, Held { bytes, sha256 });
        }
        let store = Self { datasets, outputs: data_dir.join("outputs"), held: Mutex::new(held) };
        store.take_over()?;
        Ok(store)
    }

    /// What was written here and not yet counted when an earlier start ended.
    fn take_over(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.datasets)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).and_then(|name| DatasetName::new(name).ok());
            if let Some(name) = name.filter(|_| path.extension().is_some_and(|kind| kind == WRITTEN)) {
                self.count(&name, &path)?;
            }
        }
        Ok(())
    }

    /// Takes what the work of an order wrote here as a dataset of this point; false: it wrote nothing of that name. The file
    /// is moved at once, and counts as soon as it has been read through.
    pub(crate) fn keep_output(
        self: &Arc<Self>,
        order: OrderId,
        generation: u64,
        name: &DatasetName,
    ) -> io::Result<bool> {
        let from = self.outputs(order, generation).join(name.as_str());
        let to = self.path(name).with_extension(WRITTEN);
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other?,
        }
        durable::sync_folder(&self.datasets)?;
        let (store, name) = (Arc::clone(self), name.clone());
        thread::Builder::new().name("dataset".into()).spawn(move || {
            if let Err(error) = store.count(&name, &to) {
                tracing::warn!(dataset = %name, %error, "what was written here cannot become a dataset; it is tried again at the next start");
            }
        })?;
        Ok(true)
    }

    fn count(&self, name: &DatasetName, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        let sha256 = checksum(&mut file)?;
        self.store(name, path, bytes, &sha256)
    }

    /// Makes a dataset unless it is there with this size. Its content follows from its name: every copy is the same, and
    /// a shorter one is the beginning of a longer one.
    pub fn make(&self, made: &MadeDataset) -> io::Result<()> {
        let bytes = made.size.bytes();
        if self.get(&made.name).is_some_and(|held| held.bytes == bytes) {
            return Ok(());
        }
        let draft = self.datasets.join(format!("{}.made", made.name));
        let mut file = BufWriter::with_capacity(PIECE_BYTES, File::create(&draft)?);
        let mut state = seed(&made.name);
        let mut left = bytes;
        while left > 0 {
            let word = next(&mut state).to_le_bytes();
            let part = left.min(word.len() as u64);
            file.write_all(&word[..part as usize])?;
            left -= part;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let sha256 = checksum(&mut File::open(&draft)?)?;
        self.store(&made.name, &draft, bytes, &sha256)
    }

    /// Every dataset here.
    pub fn list(&self) -> Vec<HeldDataset> {
        let shown = |(name, held): (&DatasetName, &Held)| HeldDataset {
            name: name.to_string(),
            bytes: held.bytes,
            sha256: held.sha256.clone(),
        };
        self.held().iter().map(shown).collect()
    }

    pub(crate) fn get(&self, name: &DatasetName) -> Option<Held> {
        self.held().get(name).cloned()
    }

    pub(crate) fn path(&self, name: &DatasetName) -> PathBuf {
        self.datasets.join(name.as_str())
    }

    /// Where an order's work writes what becomes datasets.
    pub(crate) fn outputs(&self, order: OrderId, generation: u64) -> PathBuf {
        self.outputs.join(order.to_string()).join(generation.to_string())
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<DatasetName, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DatasetSource for DatasetStore {
    fn open(&self, wanted: &DatasetRequest) -> io::Result<File> {
        match wanted.origin {
            Origin::Held => match self.get(&wanted.dataset) {
                Some(_) => File::open(self.path(&wanted.dataset)),
                None => Err(io::Error::new(io::ErrorKind::NotFound, "this site holds no copy of it")),
            },
            Origin::Produced => {
                let path = self.outputs(wanted.order, wanted.generation).join(wanted.dataset.as_str());
                File::open(&path).map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => io::Error::new(
                        error.kind(),
                        format!("the work wrote no dataset {} into its RHUMB_DATASET_ file", wanted.dataset),
                    ),
                    _ => error,
                })
            }
        }
    }

    fn store(&self, name: &DatasetName, arrived: &Path, bytes: u64, sha256: &str) -> io::Result<()> {
        let path = self.path(name);
        // a content without its checksum is read again at the next start; one with another's would be believed
        match fs::remove_file(path.with_extension("sha256")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::rename(arrived, &path)?;
        durable::sync_folder(&self.datasets)?;
        write_checksum(&path, sha256)?;
        self.held().insert(name.clone(), Held { bytes, sha256: sha256.to_owned() });
        Ok(())
    }
}

fn write_checksum(path: &Path, sha256: &str) -> io::Result<()> {
    durable::write(&path.with_extension("sha256"), sha256.as_bytes(), Keep::Safe)
}

/// SHA-256 of all that `source` gives, in lower-case hexadecimal.
pub(crate) fn checksum(source: &mut impl Read) -> io::Result<String> {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => context.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hex(context.finish().as_ref()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn seed(name: &DatasetName) -> u64 {
    let digest = digest::digest(&digest::SHA256, name.as_str().as_bytes());
    digest.as_ref().iter().take(8).fold(0, |seed, &byte| seed << 8 | u64::from(byte))
}

/// SplitMix64 (Steele, Lea, Flood 2014): a fixed sequence, whatever library version made the other copy.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::Bytes;

    fn made(name: &str, bytes: u64) -> MadeDataset {
        MadeDataset { name: name.parse().unwrap(), size: Bytes::from_bytes(bytes) }
    }

    #[test]
    fn copies_of_a_made_dataset_are_the_same_everywhere_and_differ_by_name() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (DatasetStore::open(one.path()).unwrap(), DatasetStore::open(two.path()).unwrap());
        here.make(&made("corpus", 100_003)).unwrap();
        here.make(&made("other", 100_003)).unwrap();
        there.make(&made("corpus", 100_003)).unwrap();
        assert_eq!(here.list()[0], there.list()[0]);
        assert_ne!(here.list()[0].sha256, here.list()[1].sha256);
        assert_eq!(here.list()[0].bytes, 100_003);
    }

    #[test]
    fn what_is_held_is_known_after_a_restart_also_without_its_checksum_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = DatasetStore::open(folder.path()).unwrap();
        store.make(&made("corpus", 1_000)).unwrap();
        let before = store.list();
        fs::remove_file(folder.path().join("datasets/corpus.sha256")).unwrap();
        assert_eq!(DatasetStore::open(folder.path()).unwrap().list(), before);
        assert_eq!(DatasetStore::open(folder.path()).unwrap().list(), before);
    }

    #[test]
    fn what_arrived_becomes_a_dataset_and_can_be_sent_on() {
        let folder = tempfile::tempdir().unwrap();
        let store = DatasetStore::open(folder.path()).unwrap();
        let arrived = folder.path().join("arrived");
        fs::write(&arrived, "abc").unwrap();
        let name: DatasetName = "result".parse().unwrap();
        let request = DatasetRequest {
            order: "0190d3a4-5b6c-7d8e-9f00-112233445566".parse().unwrap(),
            generation: 1,
            dataset: name.clone(),
            origin: Origin::Held,
        };
        assert!(DatasetSource::open(&store, &request).is_err());
        store.store(&name, &arrived, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad").unwrap();
        let sum = checksum(&mut DatasetSource::open(&store, &request).unwrap()).unwrap();
        assert_eq!(Some(sum), store.get(&name).map(|held| held.sha256));
        let produced = DatasetRequest { origin: Origin::Produced, ..request };
        let error = DatasetSource::open(&store, &produced).unwrap_err().to_string();
        assert!(error.contains("wrote no dataset result"), "{error}");
    }
}
