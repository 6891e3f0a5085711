//! Generations that were here, remembered for good: what comes back from before them is refused although no record of it is
//! left. A line for each replica whose records were removed, in the data folder.

use crate::durable::{self, Keep};
use rhumb_wire::report::AssignmentKey;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Replicas remembered; the oldest orders are dropped beyond it, whose numbers begin with their time.
const MOST: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Fences {
    path: PathBuf,
    /// By everything but the generation, which is the highest seen.
    highest: BTreeMap<AssignmentKey, AssignmentKey>,
    /// In the file, replaced ones too.
    lines: usize,
}

impl Fences {
    pub(crate) fn open(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join("fences");
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let mut fences = Self { path, highest: BTreeMap::new(), lines: 0 };
        // the last line may have been cut off with the power; its run has its record still
        for key in text.lines().filter_map(parse) {
            fences.note(key);
        }
        fences.lines = text.lines().count();
        Ok(fences)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &AssignmentKey> {
        self.highest.values()
    }

    /// To be called before the records of `key` are removed.
    pub(crate) fn keep(&mut self, key: &AssignmentKey) -> io::Result<()> {
        if !self.note(key.clone()) {
            return Ok(());
        }
        if self.lines >= 2 * self.highest.len().max(1_000) {
            return self.write();
        }
        let mut file = File::options().create(true).append(true).open(&self.path)?;
        file.write_all(line(key).as_bytes())?;
        file.sync_data()?;
        self.lines += 1;
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let text: String = self.highest.values().map(line).collect();
        durable::write(&self.path, text.as_bytes(), Keep::Safe)?;
        self.lines = self.highest.len();
        Ok(())
    }

    /// Whether it was not known.
    fn note(&mut self, key: AssignmentKey) -> bool {
        let identity = AssignmentKey { generation: 0, ..key.clone() };
        if self.highest.get(&identity).is_some_and(|seen| seen.generation >= key.generation) {
            return false;
        }
        self.highest.insert(identity, key);
        while self.highest.len() > MOST {
            self.highest.pop_first();
        }
        true
    }
}

fn line(key: &AssignmentKey) -> String {
    format!("{} {} {} {}\n", key.order, key.generation, key.component, key.replica)
}

fn parse(line: &str) -> Option<AssignmentKey> {
    let mut words = line.split(' ');
    let mut next = || words.next();
    Some(AssignmentKey {
        order: next()?.parse().ok()?,
        generation: next()?.parse().ok()?,
        component: next()?.parse().ok()?,
        replica: next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn key(order: u128, generation: u64) -> AssignmentKey {
        let order = Uuid::from_u128(order).to_string().parse().unwrap();
        AssignmentKey { order, generation, component: "trainer".parse().unwrap(), replica: 0 }
    }

    #[test]
    fn the_highest_generation_is_there_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let mut fences = Fences::open(folder.path()).unwrap();
        for (order, generation) in [(1, 2), (2, 1), (1, 1), (1, 3)] {
            fences.keep(&key(order, generation)).unwrap();
        }
        let mut file = File::options().append(true).open(folder.path().join("fences")).unwrap();
        file.write_all(b"0190d3a4-5b6c-7d8e-9f").unwrap();
        let fences = Fences::open(folder.path()).unwrap();
        assert_eq!(fences.keys().cloned().collect::<Vec<_>>(), [key(1, 3), key(2, 1)]);
    }

    #[test]
    fn the_file_does_not_grow_with_what_it_repeats() {
        let folder = tempfile::tempdir().unwrap();
        let mut fences = Fences::open(folder.path()).unwrap();
        for generation in 1..=2_500 {
            fences.keep(&key(1, generation)).unwrap();
        }
        let text = std::fs::read_to_string(folder.path().join("fences")).unwrap();
        assert!(text.lines().count() <= 2_000, "{}", text.lines().count());
        assert_eq!(Fences::open(folder.path()).unwrap().keys().next(), Some(&key(1, 2_500)));
    }
}
