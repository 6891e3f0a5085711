//! The `overlay` data plane: relays in the agents carry an order's bytes along the path that was decided, without any
//! privilege.
//!
//! A route is a **circuit** of TCP connections, each opened by the upstream hop over the link the path names. The source
//! opens it through all relays, the sink answers through all of them, and only then is the route `Active` at the source.
//! Relays keep nothing; when any connection is lost the source builds the circuit anew and the ends go on from what the
//! other has.
//!
//! Invariants
//! - No byte enters a route that its two ends do not carry exactly once and in order, whatever connections are lost. A
//!   stream survives the loss of connections; it ends when one of its two agents ends, and its processes see that.
//! - Counters are how far payload has come, at every hop alike: a finished transfer counts its volume everywhere. What is
//!   sent again is counted apart.
//! - A source keeps to its route's rate; a relay lets no more pass than that and some head-room. Everything that queues is
//!   bounded, and what is full holds back whoever fills it.
//! - A hop talks only to the neighbour its route names, after both have proved the route's secret, and then within a channel
//!   of TLS that both have proved it for. Nobody else hears a word, and nobody between them can read or change one.
//! - Relays of an encrypted route never see its key or a byte of its payload.
//! - [`Overlay::apply`] states all routes there should be; what is not named is torn down, with its sockets and files.

mod admission;
mod bucket;
mod cell;
mod circuit;
mod config;
mod context;
mod desk;
mod flows;
pub mod frame;
mod hop;
mod leg;
mod listener;
mod mux;
mod pace;
mod relay;
mod seal;
mod secret;
mod spec;
mod staging;
mod standby;
mod stream;
mod table;
mod tls;
mod transfer_sink;
mod transfer_source;

pub use config::{DatasetRequest, DatasetSource, Limits, Origin, OverlayConfig, OverlayError};
pub use staging::StagedInput;

use context::Context;
use flows::Flows;
use rhumb_model::{ComponentName, DatasetName, LinkId, OrderId, PointName};
use rhumb_wire::{
    FlowEndpoint, PeerLink, Route, RouteStatus,
    report::{AssignmentKey, RouteKey},
};
use staging::Staging;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use table::Table;
use tls::Tls;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The routes of one point. Ends with everything it opened when it is dropped; [`Overlay::stop`] also waits for that.
#[derive(Debug)]
pub struct Overlay {
    context: Arc<Context>,
    table: Arc<Table>,
    address: SocketAddr,
}

impl Overlay {
    /// Listens for neighbours. There are no routes until [`Overlay::apply`]. Needs a tokio runtime with I/O and time.
    pub async fn start(config: OverlayConfig) -> Result<Self, OverlayError> {
        let OverlayConfig { point, listen, data_dir, datasets, limits } = config;
        let folder = |source| OverlayError::Folder { path: data_dir.clone(), source };
        fs::create_dir_all(&data_dir).map_err(folder)?;
        // processes with another working directory get paths below it
        let root = fs::canonicalize(&data_dir).map_err(folder)?;
        let refused = |source| OverlayError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let flows = Flows::new(&root, &limits, tasks.clone(), stop.clone())?;
        let staging = Staging::new(&root, Arc::clone(&datasets));
        let context = Arc::new(Context {
            point,
            limits,
            datasets,
            staging,
            flows,
            tls: Tls::new()?,
            changed: Arc::new(watch::Sender::new(0)),
            refused: AtomicU64::new(0),
            tasks,
            stop,
        });
        let table = Arc::new(Table::default());
        let (accepting, stopped) =
            (listener::run(Arc::clone(&context), Arc::clone(&table), listener), context.stop.clone());
        context.tasks.spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = accepting => {}
            }
        });
        Ok(Self { context, table, address })
    }

    /// Where neighbours connect.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// States the whole set of routes there should be here, over which links neighbours are reached, and which points may
    /// connect. The same again changes nothing; a rate, a start or an address changes in place.
    pub fn apply(&self, routes: &[Route], links: &[PeerLink], peers: &[PointName]) {
        self.table.apply(&self.context, routes, links, peers);
    }

    /// Every route here, by key. One that was torn down is listed until its connections are closed.
    pub fn status(&self) -> Vec<RouteStatus> {
        self.table.status()
    }

    /// Payload octets that this point has sent over each of these links since it started, repeated ones included. What goes
    /// back on a route leaves by the one link to its previous hop; of several the first.
    pub fn passed(&self, links: &[PeerLink]) -> BTreeMap<LinkId, u64> {
        self.table.passed(links)
    }

    /// Changes with the state of any route, and when one that was torn down is gone.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.context.changed.subscribe()
    }

    /// Payload bytes of a route that passed here more than once, because a connection was lost.
    pub fn sent_again_bytes(&self, key: &RouteKey) -> u64 {
        self.table.sent_again(key)
    }

    /// Connections closed because nobody expected them.
    pub fn refused_connections(&self) -> u64 {
        self.context.refused.load(Ordering::Relaxed)
    }

    /// What has arrived of a dataset for the work of an order; `None` while no route brings it. Survives restarts.
    pub fn input(&self, order: OrderId, generation: u64, dataset: &DatasetName) -> Option<StagedInput> {
        self.context.staging.input(order, generation, dataset)
    }

    /// The path at which a replica meets a flow, whether or not it exists yet. A process that would rather listen binds
    /// the same path with `.listen.sock` in place of `.sock`.
    pub fn flow_socket(
        &self,
        order: OrderId,
        generation: u64,
        component: &ComponentName,
        replica: u32,
        flow: u32,
    ) -> PathBuf {
        self.context.flows.socket(order, generation, component, replica, flow)
    }

    /// Listens at a replica's flow socket. All endpoints of an order on this point should stand before any of its
    /// processes starts. The same again changes nothing.
    pub fn ensure_endpoint(&self, key: &AssignmentKey, endpoint: &FlowEndpoint) -> Result<(), OverlayError> {
        self.context.flows.ensure(key, endpoint)
    }

    /// Closes the flow sockets of an order's generation and every connection at them, and removes their folder.
    pub fn remove_endpoints(&self, order: OrderId, generation: u64) -> io::Result<()> {
        self.context.flows.remove(order, generation)
    }

    /// Removes flow sockets and inputs of every order and generation not in `keep`, also those an earlier process left.
    /// Inputs that a route is bringing stay.
    pub fn retain(&self, keep: &BTreeSet<(OrderId, u64)>) -> io::Result<()> {
        self.context.flows.retain(keep)?;
        self.context.staging.retain_inputs(keep)
    }

    /// Closes everything and waits until that is done. What has arrived in part stays for the next start.
    pub async fn stop(&self) {
        self.context.stop.cancel();
        self.context.tasks.close();
        self.context.tasks.wait().await;
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        self.context.stop.cancel();
    }
}
