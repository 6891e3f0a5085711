//! The legs that fill one file.

use super::{
    Record, Span, StageKey, StagedInput, children, durable,
    file::{LegFile, saved},
    merged, name,
};
use crate::dataplane::overlay::{cell::lock, config::DatasetSource, spec::Fate};
use rhumb_model::DatasetName;
use ring::digest;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Read at a time for the checksum.
const HASH_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Group {
    dir: PathBuf,
    key: StageKey,
    datasets: Arc<dyn DatasetSource>,
    state: Mutex<State>,
    /// Held while the whole file is hashed and moved.
    finishing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    legs: BTreeMap<u32, Member>,
    tickets: u64,
    record: Option<Record>,
    disk: Disk,
}

/// Whether legs that an earlier process completed have been looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Disk {
    #[default]
    Unread,
    Read,
}

#[derive(Debug)]
struct Member {
    span: Span,
    arrival: Arrival,
    /// Which [`Leg`] speaks for it; `None` once its route is gone.
    ticket: Option<u64>,
    received: Arc<AtomicU64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    Pending,
    Complete,
}

/// One route's part of a group.
#[derive(Debug)]
pub(crate) struct Leg {
    group: Arc<Group>,
    leg: u32,
    span: Span,
    ticket: u64,
}

impl Leg {
    pub(crate) fn key(&self) -> &StageKey {
        &self.group.key
    }

    /// Blocks.
    pub(crate) fn open(&self) -> io::Result<LegFile> {
        self.group.open(self.leg, self.span)
    }

    /// All of this leg is written. When it is the last one missing, this returns once the file is whole, checked and in
    /// its place. Blocks.
    pub(crate) fn complete(&self, file: &LegFile) -> io::Result<()> {
        file.save()?;
        if let Some(member) = lock(&self.group.state).legs.get_mut(&self.leg) {
            member.arrival = Arrival::Complete;
        }
        self.group.finish()
    }

    /// Gives the leg up; true: nothing of the group is left to speak of. Blocks, briefly.
    pub(super) fn leave(&self) -> bool {
        self.group.leave(self.leg, self.ticket)
    }
}

impl Group {
    pub(super) fn new(dir: PathBuf, key: StageKey, datasets: Arc<dyn DatasetSource>) -> Self {
        Self { dir, key, datasets, state: Mutex::default(), finishing: Mutex::default() }
    }

    pub(super) fn join(group: &Arc<Self>, leg: u32, span: Span) -> Arc<Leg> {
        let mut state = lock(&group.state);
        state.tickets += 1;
        let ticket = state.tickets;
        let fresh = || Member { span, arrival: Arrival::Pending, ticket: None, received: Arc::default() };
        let member = state.legs.entry(leg).or_insert_with(fresh);
        if member.span != span {
            *member = fresh();
        }
        member.ticket = Some(ticket);
        Arc::new(Leg { group: Arc::clone(group), leg, span, ticket })
    }

    pub(super) fn is_live(&self) -> bool {
        lock(&self.state).legs.values().any(|member| member.ticket.is_some())
    }

    pub(super) fn input(&self) -> StagedInput {
        let state = lock(&self.state);
        let expected_bytes = merged(state.legs.values().map(|member| member.span)).iter().map(|span| span.bytes).sum();
        let received: u64 = state.legs.values().map(|member| member.received.load(Ordering::Relaxed)).sum();
        let record = state.record.as_ref().filter(|record| record.legs == spans(&state));
        StagedInput {
            path: self.whole(),
            expected_bytes,
            received_bytes: received.min(expected_bytes),
            sha256: record.map(|record| record.sha256.clone()),
        }
    }

    fn open(&self, leg: u32, span: Span) -> io::Result<LegFile> {
        fs::create_dir_all(&self.dir)?;
        let mut state = lock(&self.state);
        self.look(&mut state)?;
        let member = state.legs.get(&leg).ok_or_else(|| io::Error::other("its route is gone"))?;
        let received = Arc::clone(&member.received);
        let taken = self.key.fate == Fate::Dataset
            && state.record.as_ref().is_some_and(|record| record.legs.get(&leg) == Some(&span));
        if taken {
            return Ok(LegFile::taken(span, received));
        }
        let whole = self.whole();
        let path = if whole.exists() { whole } else { self.part() };
        LegFile::open(&path, self.progress(leg), span, received)
    }

    /// Legs whose routes ended before this process began still belong to the file.
    fn look(&self, state: &mut State) -> io::Result<()> {
        if state.disk == Disk::Read {
            return Ok(());
        }
        state.record = Record::read(&record_path(&self.dir, &self.key.dataset));
        let prefix = format!("{}.leg", self.key.dataset);
        for path in children(&self.dir)? {
            let leg = name(&path).strip_prefix(&prefix).and_then(|leg| leg.parse::<u32>().ok());
            if let (Some(leg), Some((span, bytes))) = (leg, saved(&path))
                && bytes == span.bytes
            {
                let received = Arc::new(AtomicU64::new(bytes));
                state.legs.entry(leg).or_insert(Member { span, arrival: Arrival::Complete, ticket: None, received });
            }
        }
        state.disk = Disk::Read;
        Ok(())
    }

    /// Hashes the file and puts it in its place, if all legs are there and this was not done for them yet.
    fn finish(&self) -> io::Result<()> {
        let _finishing = lock(&self.finishing);
        let legs = {
            let state = lock(&self.state);
            let pending = state.legs.values().any(|member| member.arrival == Arrival::Pending);
            let legs = spans(&state);
            if pending || state.record.as_ref().is_some_and(|record| record.legs == legs) {
                return Ok(());
            }
            legs
        };
        let (whole, part) = (self.whole(), self.part());
        let arrived = if whole.exists() { &whole } else { &part };
        let parts = merged(legs.values().copied());
        let sha256 = hash(arrived, &parts)?;
        match self.key.fate {
            Fate::Input => fs::rename(arrived, &whole)?,
            Fate::Dataset => {
                let end = parts.last().map_or(0, |span| span.offset + span.bytes);
                self.datasets.store(&self.key.dataset, arrived, end, &sha256)?;
            }
        }
        let record = Record { sha256, legs };
        durable(&record_path(&self.dir, &self.key.dataset), &record)?;
        lock(&self.state).record = Some(record);
        Ok(())
    }

    fn leave(&self, leg: u32, ticket: u64) -> bool {
        let mut state = lock(&self.state);
        let Some(member) = state.legs.get_mut(&leg) else { return false };
        if member.ticket != Some(ticket) {
            return false;
        }
        member.ticket = None;
        if member.arrival == Arrival::Pending {
            state.legs.remove(&leg);
            remove(&self.progress(leg));
        }
        let live = state.legs.values().any(|member| member.ticket.is_some());
        let over = !live && (self.key.fate == Fate::Dataset || state.legs.is_empty());
        if over {
            self.clear();
        }
        over
    }

    /// Removes every file of this dataset, and the folders if nothing else is in them.
    fn clear(&self) {
        let dataset = self.key.dataset.as_str();
        for path in children(&self.dir).unwrap_or_default() {
            if name(&path).split('.').next() == Some(dataset) {
                remove(&path);
            }
        }
        let order = self.dir.parent().unwrap_or(&self.dir);
        for dir in [&self.dir, order] {
            if fs::remove_dir(dir).is_err() {
                return;
            }
        }
    }

    fn whole(&self) -> PathBuf {
        self.dir.join(self.key.dataset.as_str())
    }

    fn part(&self) -> PathBuf {
        self.dir.join(format!("{}.part", self.key.dataset))
    }

    fn progress(&self, leg: u32) -> PathBuf {
        self.dir.join(format!("{}.leg{leg}", self.key.dataset))
    }
}

pub(super) fn record_path(dir: &Path, dataset: &DatasetName) -> PathBuf {
    dir.join(format!("{dataset}.json"))
}

fn spans(state: &State) -> BTreeMap<u32, Span> {
    state.legs.iter().map(|(leg, member)| (*leg, member.span)).collect()
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "cannot remove a staged file");
    }
}

/// SHA-256 of the parts of the file, in hexadecimal.
fn hash(path: &Path, parts: &[Span]) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut context = digest::Context::new(&digest::SHA256);
    let mut block = vec![0; HASH_BYTES];
    for part in parts {
        file.seek(SeekFrom::Start(part.offset))?;
        let mut left = part.bytes;
        while left > 0 {
            let most = HASH_BYTES.min(usize::try_from(left).unwrap_or(HASH_BYTES));
            let read = file.read(&mut block[..most])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            context.update(&block[..read]);
            left -= read as u64;
        }
    }
    let mut text = String::new();
    for octet in context.finish().as_ref() {
        write!(text, "{octet:02x}").expect("writing to a string cannot fail");
    }
    Ok(text)
}
