//! The demo's folder: what lies where, whose it is, and that one demo uses it at a time.
//!
//! ```text
//! .rhumb-demo       marks the folder as a demo's: nothing else is ever removed
//! lock              held while a demo runs here
//! demo.json         the emulator's ports, kept from start to start
//! demo.sock         takes `rhumb demo wan|status|stop|agent`
//! pids.json         name to process number of every child that lives
//! token             of the administrator of tenant `demo`; tokens/NAME of each agent
//! context.yaml      how client commands reach this demo
//! federation.yaml   the federation it was made with
//! config/NAME.yaml  of each child; logs/NAME.log what it said
//! server/           the orchestrator's database and secret; agents/NAME/ each agent's data
//! ```

use super::SERVER;
use crate::{context::CONTEXT_FILE, exit::CliError};
use rhumb_control::secrets::{new_token, write_private};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

const MARKER: &str = ".rhumb-demo";
const LOCK: &str = "lock";
/// A log that is longer begins anew, and the former one is kept beside it.
const MOST_LOG_BYTES: u64 = 8 << 20;

#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

/// Held as long as the demo runs.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What must be the same at the next start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Ports of the emulator's fronts by directed link: probes, routes.
    pub fronts: BTreeMap<String, (u16, u16)>,
    /// Ports of the control channels by point.
    pub controls: BTreeMap<String, u16>,
}

impl Layout {
    /// Only where things would lie; nothing is made.
    pub fn at(root: &Path) -> Self {
        Self { root: fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf()) }
    }

    /// Makes the folder or takes it up; `fresh` removes what an earlier demo left in it.
    pub fn open(root: &Path, fresh: bool) -> Result<(Self, Lock), CliError> {
        let shown = root.display();
        let failed = |what: &str, e: &io::Error| CliError::Failed(format!("cannot {what} {shown}: {e}"));
        DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(|e| failed("make the folder", &e))?;
        let root = fs::canonicalize(root).map_err(|e| failed("find the folder", &e))?;
        let layout = Self { root };
        let names = layout.names().map_err(|e| failed("read the folder", &e))?;
        if !names.is_empty() && !layout.root.join(MARKER).exists() {
            return Err(CliError::Failed(format!(
                "{shown} is not empty and no demo's folder: choose another with --data"
            )));
        }
        fs::write(layout.root.join(MARKER), "the data folder of `rhumb demo`; --fresh empties it\n")
            .map_err(|e| failed("write into", &e))?;
        let lock = layout.lock().map_err(|e| failed("lock", &e))?;
        let Some(lock) = lock else {
            return Err(CliError::Failed(format!(
                "a demo is running in {shown}: stop it with `rhumb demo stop --data {shown}`, or choose another folder with --data"
            )));
        };
        if fresh {
            super::leftovers::end(&layout);
            layout.clear().map_err(|e| failed("empty", &e))?;
        }
        for folder in ["config", "logs", "tokens", "server", "agents"] {
            let path = layout.root.join(folder);
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|e| failed("make folders in", &e))?;
        }
        Ok((layout, lock))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.root)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn lock(&self) -> io::Result<Option<Lock>> {
        let file = File::options().create(true).truncate(false).write(true).open(self.root.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// A demo runs here.
    pub fn is_in_use(&self) -> bool {
        self.root.join(LOCK).exists() && self.lock().is_ok_and(|lock| lock.is_none())
    }

    fn clear(&self) -> io::Result<()> {
        for name in self.names()?.iter().filter(|n| ![MARKER, LOCK].contains(&n.as_str())) {
            let path = self.root.join(name);
            // a link is removed, not followed
            if fs::symlink_metadata(&path)?.is_dir() { fs::remove_dir_all(&path)? } else { fs::remove_file(&path)? }
        }
        Ok(())
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn socket(&self) -> PathBuf {
        self.root.join("demo.sock")
    }

    pub fn pids(&self) -> PathBuf {
        self.root.join("pids.json")
    }

    pub fn admin_token(&self) -> PathBuf {
        self.root.join("token")
    }

    pub fn agent_token(&self, point: &str) -> PathBuf {
        self.root.join("tokens").join(point)
    }

    pub fn context(&self) -> PathBuf {
        self.root.join(CONTEXT_FILE)
    }

    pub fn federation(&self) -> PathBuf {
        self.root.join("federation.yaml")
    }

    pub fn config(&self, name: &str) -> PathBuf {
        self.root.join("config").join(format!("{name}.yaml"))
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(format!("{name}.log"))
    }

    pub fn agents(&self) -> PathBuf {
        self.root.join("agents")
    }

    pub fn agent(&self, point: &str) -> PathBuf {
        self.agents().join(point)
    }

    /// Where an agent writes the ports it took.
    pub fn ports(&self, point: &str) -> PathBuf {
        self.agent(point).join("ports.json")
    }

    pub fn server(&self) -> PathBuf {
        self.root.join(SERVER)
    }

    /// Where the orchestrator writes the address it took.
    pub fn address(&self) -> PathBuf {
        self.server().join("address")
    }

    /// The token in the file, made where there is none.
    pub fn token(path: &Path) -> io::Result<String> {
        match fs::read_to_string(path) {
            Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            Ok(_) => Self::make_token(path),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Self::make_token(path),
            Err(e) => Err(e),
        }
    }

    fn make_token(path: &Path) -> io::Result<String> {
        let token = new_token()?;
        write_private(path, token.as_bytes())?;
        Ok(token)
    }

    /// What an earlier start kept; nothing where it cannot be read.
    pub fn saved(&self) -> Saved {
        let text = fs::read_to_string(self.root.join("demo.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub fn save(&self, saved: &Saved) -> io::Result<()> {
        replace(&self.root.join("demo.json"), &serde_json::to_vec_pretty(saved)?)
    }

    /// Keeps logs from growing without end, from start to start.
    pub fn turn_logs(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join("logs"))? {
            let entry = entry?;
            if entry.path().extension().is_some_and(|e| e == "log") && entry.metadata()?.len() > MOST_LOG_BYTES {
                fs::rename(entry.path(), entry.path().with_extension("log.1"))?;
            }
        }
        Ok(())
    }
}

/// Writes a file whole or not at all.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    fs::write(&draft, content)?;
    fs::rename(draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(root: &Path, fresh: bool) -> String {
        Layout::open(root, fresh).unwrap_err().to_string()
    }

    #[test]
    fn a_folder_of_somebody_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "x").unwrap();
        assert!(refused(folder.path(), true).contains("no demo's folder"));
        assert!(folder.path().join("thesis.tex").exists());
        assert!(!folder.path().join(MARKER).exists());
    }

    #[test]
    fn fresh_empties_a_demos_folder_and_a_second_start_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("demo");
        let saved = Saved { controls: BTreeMap::from([("a".into(), 7)]), ..Saved::default() };
        let (layout, lock) = Layout::open(&root, false).unwrap();
        layout.save(&saved).unwrap();
        let token = Layout::token(&layout.admin_token()).unwrap();
        drop(lock);
        let (layout, lock) = Layout::open(&root, false).unwrap();
        assert_eq!(layout.saved(), saved);
        assert_eq!(Layout::token(&layout.admin_token()).unwrap(), token);
        drop(lock);
        let (layout, _lock) = Layout::open(&root, true).unwrap();
        assert_eq!(layout.saved(), Saved::default());
        assert!(!layout.admin_token().exists());
    }

    #[test]
    fn a_folder_in_use_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("demo");
        let (_layout, _lock) = Layout::open(&root, false).unwrap();
        assert!(refused(&root, true).contains("rhumb demo stop"));
    }

    #[test]
    fn tokens_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Layout::token(&path).unwrap();
        assert!(token.len() >= 40);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
