//! Points, the taps between them, and waiting for what must come.

use base64::{Engine, engine::general_purpose::STANDARD};
use rhumb_agent::dataplane::overlay::{DatasetRequest, DatasetSource, Limits, Origin, Overlay, OverlayConfig};
use rhumb_model::{Bandwidth, ComponentName, DatasetName, LinkId, OrderId, PointName};
use rhumb_wire::{
    Duty, PeerLink, Role, Route, RouteEndState, RoutePurpose, RouteStatus,
    report::{AssignmentKey, RouteKey},
};
use ring::digest::{SHA256, digest};
use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);
pub const GENERATION: u64 = 3;

pub fn order() -> OrderId {
    OrderId(Uuid::from_u128(0x1234))
}

pub fn key(leg: u32) -> RouteKey {
    RouteKey { order: order(), generation: GENERATION, leg, path: 0 }
}

pub fn dataset(name: &str) -> DatasetName {
    DatasetName::new(name).unwrap()
}

/// The same bytes for the same seed, without a pattern that a shift would hide.
pub fn payload(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

pub fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().fold(String::new(), |text, octet| format!("{text}{octet:02x}"))
}

/// Returns once `condition` holds; panics with what `state` says if it does not in time.
pub async fn until<S: std::fmt::Debug>(what: &str, state: impl Fn() -> S, condition: impl Fn(&S) -> bool) -> S {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = state();
        if condition(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "{what} did not come; last seen: {now:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// `datasets/` holds what the point has, `produced/` what work wrote.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl DatasetSource for Folder {
    fn open(&self, wanted: &DatasetRequest) -> io::Result<File> {
        let folder = match wanted.origin {
            Origin::Held => "datasets",
            Origin::Produced => "produced",
        };
        File::open(self.0.join(folder).join(wanted.dataset.as_str()))
    }

    fn store(&self, name: &DatasetName, arrived: &Path, bytes: u64, sha256: &str) -> io::Result<()> {
        let to = self.0.join("datasets").join(name.as_str());
        fs::create_dir_all(self.0.join("datasets"))?;
        fs::rename(arrived, &to)?;
        fs::write(to.with_extension("sha256"), format!("{sha256} {bytes}"))
    }
}

pub struct Point {
    pub name: PointName,
    pub overlay: Overlay,
    pub dir: TempDir,
    pub links: Vec<PeerLink>,
    pub peers: Vec<PointName>,
}

impl Point {
    pub async fn start(name: &str) -> Self {
        Self::start_in(name, tempfile::tempdir().unwrap(), Limits::default()).await
    }

    async fn start_in(name: &str, dir: TempDir, limits: Limits) -> Self {
        let name = PointName::new(name).unwrap();
        let config = OverlayConfig {
            point: name.clone(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: dir.path().to_owned(),
            datasets: Arc::new(Folder(dir.path().to_owned())),
            limits,
        };
        let overlay = Overlay::start(config).await.unwrap();
        Self { name, overlay, dir, links: Vec::new(), peers: Vec::new() }
    }

    pub fn write(&self, folder: &str, name: &str, bytes: &[u8]) {
        let folder = self.dir.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), bytes).unwrap();
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    pub fn apply(&self, routes: &[Route]) {
        self.overlay.apply(routes, &self.links, &self.peers);
    }

    pub fn status(&self, leg: u32) -> Option<RouteStatus> {
        self.overlay.status().into_iter().find(|status| status.key == key(leg))
    }

    pub async fn state(&self, leg: u32, state: RouteEndState) -> RouteStatus {
        let what = format!("{state:?} of leg {leg} at {}", self.name);
        let found = until(&what, || self.status(leg), |s| s.as_ref().is_some_and(|s| s.state == state)).await;
        found.unwrap()
    }
}

/// `a -> b -> c ...`, a tap on every link.
pub struct Chain {
    pub points: Vec<Point>,
    pub taps: Vec<Tap>,
}

impl Chain {
    pub async fn new(names: &[&str]) -> Self {
        Self::with_limits(names, Limits::default()).await
    }

    pub async fn with_limits(names: &[&str], limits: Limits) -> Self {
        let mut points = Vec::new();
        for name in names {
            points.push(Point::start_in(name, tempfile::tempdir().unwrap(), limits).await);
        }
        let mut taps = Vec::new();
        for n in 1..points.len() {
            let tap = Tap::start(points[n].overlay.local_addr()).await;
            let to = points[n].name.clone();
            points[n - 1].links.push(PeerLink { link: link_id(n), to, overlay: tap.address.to_string() });
            let previous = points[n - 1].name.clone();
            points[n].peers.push(previous);
            taps.push(tap);
        }
        Self { points, taps }
    }

    pub fn source(&self) -> &Point {
        &self.points[0]
    }

    pub fn sink(&self) -> &Point {
        &self.points[self.points.len() - 1]
    }

    /// The route at point `n` of a path along the whole chain.
    pub fn route(&self, n: usize, leg: u32, rate: Bandwidth, purpose: &RoutePurpose, encrypted: bool) -> Route {
        let last = self.points.len() - 1;
        let end = n == 0 || n == last;
        Route {
            key: key(leg),
            role: match n {
                0 => Role::Source,
                n if n == last => Role::Sink,
                _ => Role::Relay,
            },
            next_link: (n < last).then(|| link_id(n + 1)),
            previous: (n > 0).then(|| self.points[n - 1].name.clone()),
            rate,
            purpose: purpose.clone(),
            key_base64: (encrypted && end).then(|| STANDARD.encode([9; 32])),
            hop_secret_base64: Some(STANDARD.encode([u8::try_from(leg).unwrap(); 32])),
            duty: Duty::Carry,
            silence_ms: None,
            kernel: None,
        }
    }

    /// Applies, at every point, one route along the whole chain per given leg.
    pub fn apply(&self, legs: &[(u32, Bandwidth, RoutePurpose)]) {
        self.apply_sealed(legs, false);
    }

    pub fn apply_sealed(&self, legs: &[(u32, Bandwidth, RoutePurpose)], encrypted: bool) {
        for (n, point) in self.points.iter().enumerate() {
            let routes: Vec<Route> =
                legs.iter().map(|(leg, rate, purpose)| self.route(n, *leg, *rate, purpose, encrypted)).collect();
            point.apply(&routes);
        }
    }

    /// Ends point `n` and starts it anew on its folder; its neighbours reach it as before.
    pub async fn restart(&mut self, n: usize) {
        let fresh = Point::start("unborn").await;
        let old = std::mem::replace(&mut self.points[n], fresh);
        old.overlay.stop().await;
        let Point { name, overlay, dir, links, peers } = old;
        drop(overlay);
        let mut back = Point::start_in(name.as_str(), dir, Limits::default()).await;
        (back.links, back.peers) = (links, peers);
        self.taps[n - 1].retarget(back.overlay.local_addr());
        self.points[n] = back;
    }

    /// Every point counts `bytes` and is done.
    pub async fn all_done(&self, leg: u32, bytes: u64) {
        for point in &self.points {
            let status = point.state(leg, RouteEndState::Done).await;
            assert_eq!(status.bytes, bytes, "at {}", point.name);
        }
    }
}

pub fn link_id(n: usize) -> LinkId {
    LinkId::new(&format!("link-{n}")).unwrap()
}

pub fn transfer(name: &str, offset: u64, bytes: u64) -> RoutePurpose {
    RoutePurpose::Transfer { dataset: name.to_owned(), offset, bytes, write: false, start: true }
}

/// The same, not to begin yet.
pub fn held(name: &str, offset: u64, bytes: u64) -> RoutePurpose {
    RoutePurpose::Transfer { dataset: name.to_owned(), offset, bytes, write: false, start: false }
}

pub fn assignment(component: &str, replica: u32) -> AssignmentKey {
    let component = ComponentName::new(component).unwrap();
    AssignmentKey { order: order(), generation: GENERATION, component, replica }
}

/// A TCP proxy: remembers what passes towards the next point, and can cut.
pub struct Tap {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    target: Mutex<SocketAddr>,
    seen: Mutex<Vec<u8>>,
    passed: AtomicU64,
    opened: AtomicU64,
    live: AtomicU64,
    closed: AtomicBool,
    frozen: AtomicBool,
    cut: Mutex<CancellationToken>,
}

impl Tap {
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            seen: Mutex::default(),
            passed: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            live: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            cut: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(carry(Arc::clone(&serving), client));
            }
        });
        Self { address, shared, task }
    }

    pub fn retarget(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap() = target;
    }

    /// Ends all connections; new ones are taken as before.
    pub fn cut(&self) {
        let old = std::mem::take(&mut *self.shared.cut.lock().unwrap());
        old.cancel();
    }

    /// Whether new connections are refused.
    pub fn close(&self, closed: bool) {
        self.shared.closed.store(closed, Ordering::SeqCst);
        if closed {
            self.cut();
        }
    }

    /// Nothing passes any more, and nobody is told.
    pub fn freeze(&self, frozen: bool) {
        self.shared.frozen.store(frozen, Ordering::SeqCst);
    }

    pub fn saw(&self, marker: &[u8]) -> bool {
        self.shared.seen.lock().unwrap().windows(marker.len()).any(|window| window == marker)
    }

    /// Octets so far, both ways.
    pub fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::SeqCst)
    }

    /// Connections so far.
    pub fn opened(&self) -> u64 {
        self.shared.opened.load(Ordering::SeqCst)
    }

    pub fn live(&self) -> u64 {
        self.shared.live.load(Ordering::SeqCst)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(shared: Arc<Shared>, client: TcpStream) {
    if shared.closed.load(Ordering::SeqCst) {
        return;
    }
    let cut = shared.cut.lock().unwrap().clone();
    let target = *shared.target.lock().unwrap();
    let Ok(server) = TcpStream::connect(target).await else { return };
    shared.opened.fetch_add(1, Ordering::SeqCst);
    shared.live.fetch_add(1, Ordering::SeqCst);
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = cut.cancelled() => {}
        () = copy(from_client, to_server, &shared) => {}
        () = copy(from_server, to_client, &shared) => {}
    }
    shared.live.fetch_sub(1, Ordering::SeqCst);
}

async fn copy(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, shared: &Shared) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        while shared.frozen.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        shared.seen.lock().unwrap().extend_from_slice(&buffer[..read]);
        shared.passed.fetch_add(read as u64, Ordering::SeqCst);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
