//! The unix sockets at which an order's processes meet its flows.
//!
//! ```text
//! <data_dir>/flows/<order and generation>/<component>-<replica>/flow<n>.sock          the process connects here
//!                                                              /flow<n>.listen.sock   or listens here by itself
//! ```
//! A socket's path has at most 107 bytes, so folders are named by short hashes; where the data folder itself is too deep,
//! they lie in a folder of the same owner below the system's temporary one. All folders have mode 0700.

use super::{
    cell::lock,
    config::{Limits, OverlayError},
    desk::Desk,
};
use rhumb_model::{ComponentName, OrderId};
use rhumb_wire::{FlowEndpoint, report::AssignmentKey};
use ring::digest;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs::{self, DirBuilder},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{net::UnixListener, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What `sockaddr_un` holds, less its closing NUL.
pub(crate) const PATH_BYTES_MAX: usize = 107;
/// The longest path below the root: `/` 10 `/` 6 `-` 5 `/flow` 5 `.listen.sock`.
const BELOW_ROOT_BYTES: usize = 1 + 10 + 1 + 6 + 1 + 5 + 5 + 5 + 12;
/// Rest after a failed accept: out of descriptors passes, but not within microseconds.
const ACCEPT_REST: Duration = Duration::from_millis(50);

type FlowKey = (OrderId, u64, u32);

#[derive(Debug)]
pub(crate) struct Flows {
    root: PathBuf,
    waiting_max: usize,
    tasks: TaskTracker,
    stop: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    desks: BTreeMap<FlowKey, Arc<Desk>>,
    sockets: BTreeMap<(AssignmentKey, u32), Socket>,
}

#[derive(Debug)]
struct Socket {
    wanted: FlowEndpoint,
    stop: CancellationToken,
}

impl Flows {
    pub(crate) fn new(
        data_dir: &Path,
        limits: &Limits,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Result<Self, OverlayError> {
        let root = root(data_dir).map_err(|source| OverlayError::Folder { path: data_dir.to_owned(), source })?;
        Ok(Self { root, waiting_max: limits.waiting, tasks, stop, state: Mutex::default() })
    }

    pub(crate) fn socket(
        &self,
        order: OrderId,
        generation: u64,
        component: &ComponentName,
        replica: u32,
        flow: u32,
    ) -> PathBuf {
        let dir = self.dir(order, generation).join(format!("{}-{replica}", short(&[component.as_str()], 6)));
        dir.join(format!("flow{flow}.sock"))
    }

    /// The desk of a flow, for a route of it.
    pub(crate) fn desk(&self, order: OrderId, generation: u64, flow: u32) -> Arc<Desk> {
        self.desk_in(&mut lock(&self.state), (order, generation, flow))
    }

    /// A leg's route is gone.
    pub(crate) fn leg_gone(&self, order: OrderId, generation: u64, flow: u32, leg: u32) {
        let mut state = lock(&self.state);
        if let Some(desk) = state.desks.get(&(order, generation, flow)) {
            desk.leg_gone(leg);
        }
        state.close_idle();
    }

    /// Listens for the process of `key`. The same again changes nothing.
    pub(crate) fn ensure(&self, key: &AssignmentKey, wanted: &FlowEndpoint) -> Result<(), OverlayError> {
        let mut state = lock(&self.state);
        let place = (key.clone(), wanted.flow);
        if state.sockets.get(&place).is_some_and(|socket| socket.wanted == *wanted) {
            return Ok(());
        }
        let path = self.socket(key.order, key.generation, &key.component, key.replica, wanted.flow);
        let listens_at = path.with_extension("listen.sock");
        if listens_at.as_os_str().as_bytes().len() > PATH_BYTES_MAX {
            return Err(OverlayError::PathTooLong { path: listens_at });
        }
        let desk = self.desk_in(&mut state, (key.order, key.generation, wanted.flow));
        let replica = (key.component.clone(), key.replica);
        if !state.sockets.contains_key(&place) {
            let listener = listen(&path).map_err(|source| OverlayError::Socket { path, source })?;
            let stop = self.stop.child_token();
            let (stopped, replica, desk) = (stop.clone(), replica.clone(), Arc::clone(&desk));
            self.tasks.spawn(async move {
                let accept = async {
                    loop {
                        match listener.accept().await {
                            Ok((stream, _)) => desk.arrive(replica.clone(), stream),
                            Err(error) => {
                                tracing::debug!(%error, "cannot accept a connection to a flow");
                                sleep(ACCEPT_REST).await;
                            }
                        }
                    }
                };
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = accept => {}
                }
            });
            state.sockets.insert(place.clone(), Socket { wanted: wanted.clone(), stop });
        }
        if let Some(socket) = state.sockets.get_mut(&place) {
            socket.wanted = wanted.clone();
        }
        desk.set_endpoint(replica, wanted.clone(), listens_at);
        Ok(())
    }

    /// Closes the sockets and connections of this generation of the order, and removes their folder.
    pub(crate) fn remove(&self, order: OrderId, generation: u64) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.forget(|key| key.order == order && key.generation == generation);
        gone(fs::remove_dir_all(self.dir(order, generation)))
    }

    /// The same for all that is not in `keep`, whoever made it.
    pub(crate) fn retain(&self, keep: &BTreeSet<(OrderId, u64)>) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.forget(|key| !keep.contains(&(key.order, key.generation)));
        let kept: BTreeSet<PathBuf> = keep.iter().map(|(order, generation)| self.dir(*order, *generation)).collect();
        for entry in fs::read_dir(&self.root)? {
            let dir = entry?.path();
            if !kept.contains(&dir) {
                gone(fs::remove_dir_all(dir))?;
            }
        }
        Ok(())
    }

    fn dir(&self, order: OrderId, generation: u64) -> PathBuf {
        self.root.join(short(&[&order.to_string(), &generation.to_string()], 10))
    }

    fn desk_in(&self, state: &mut State, key: FlowKey) -> Arc<Desk> {
        let new = || Desk::new(self.waiting_max, self.tasks.clone(), self.stop.child_token());
        Arc::clone(state.desks.entry(key).or_insert_with(new))
    }
}

impl State {
    fn forget(&mut self, which: impl Fn(&AssignmentKey) -> bool) {
        let desks = &self.desks;
        self.sockets.retain(|(key, flow), socket| {
            if !which(key) {
                return true;
            }
            socket.stop.cancel();
            if let Some(desk) = desks.get(&(key.order, key.generation, *flow)) {
                desk.remove_endpoint(&(key.component.clone(), key.replica));
            }
            false
        });
        self.close_idle();
    }

    fn close_idle(&mut self) {
        self.desks.retain(|_, desk| {
            let idle = desk.is_idle();
            if idle {
                desk.close();
            }
            !idle
        });
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    // of a process that is no more: only one overlay uses a data folder
    gone(fs::remove_file(path))?;
    UnixListener::bind(path)
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Prepares and gives the folder all sockets lie below.
fn root(data_dir: &Path) -> io::Result<PathBuf> {
    let near = data_dir.join("flows");
    let root = if near.as_os_str().as_bytes().len() + BELOW_ROOT_BYTES <= PATH_BYTES_MAX {
        near
    } else {
        let data_dir = data_dir.to_string_lossy();
        std::env::temp_dir().join(format!("rhumb-{}", short(&[&data_dir], 12)))
    };
    match DirBuilder::new().mode(0o700).create(&root) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // others may write into the system's temporary folder: what lies there must be ours
            let (found, ours) = (fs::symlink_metadata(&root)?, fs::metadata(data_dir)?);
            if !found.is_dir() || found.uid() != ours.uid() {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} is not ours", root.display())));
            }
            fs::set_permissions(&root, fs::Permissions::from_mode(0o700))?;
        }
        other => other?,
    }
    Ok(root)
}

/// So many hexadecimal digits of a hash of `parts`.
fn short(parts: &[&str], digits: usize) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    let mut text = String::new();
    for octet in context.finish().as_ref() {
        write!(text, "{octet:02x}").expect("writing to a string cannot fail");
    }
    text.truncate(digits);
    text
}
