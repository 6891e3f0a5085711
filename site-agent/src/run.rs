//! The agent as a process: opens what it needs, looks at the world, talks with the orchestrator, and ends in order.

use crate::{
    agent::{Agent, Envelope, Foundation, Outdated, SiteNodes, Visible, runs},
    carrier::{Carrier, Planes, shown},
    client::{Client, SyncError},
    config::{AgentConfig, Devices, Listen, OnShutdown, SyncConfig, duration},
    dataplane::{
        bgp::Steering,
        kernel::KernelRoutes,
        overlay::{self, Overlay, OverlayConfig},
    },
    device::{self, Seen},
    durable::{self, Keep},
    error::AgentError,
    host::BootTime,
    identity::{Credential, Held, keep_renewed},
    passive::Passive,
    probe::{self, Roster},
    scheduler,
    store::DatasetStore,
    telling::Telling,
    trains::{self, Trains},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use rhumb_probe::{Prober, ProberConfig, Reflector, ReflectorConfig};
use rhumb_runtimes::{AnyRuntime, Base};
use rhumb_wire::{NodeReport, SyncReply};
use serde::Serialize;
use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io::{self, Read},
    os::unix::fs::DirBuilderExt,
    path::Path,
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{oneshot, watch},
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};
use uuid::Uuid;

/// Output and counters are new often: a report of only those does not come sooner after another than this.
const TRAFFIC_INTERVAL: Duration = Duration::from_secs(1);
/// Least time between any two reports.
const LEAST_INTERVAL: Duration = Duration::from_millis(20);
/// For the last report.
const LAST_WORD: Duration = Duration::from_secs(2);
/// For work that is stopped with the agent, beyond its own grace.
const STOP_MARGIN: Duration = Duration::from_secs(10);
/// For routes to close.
const CLOSE_ROUTES: Duration = Duration::from_secs(5);

/// Runs the agent until `shutdown` is done. Needs a tokio runtime of several threads.
pub async fn run(config: AgentConfig, shutdown: impl Future<Output = ()>) -> Result<(), AgentError> {
    config.check()?;
    let credential = config.credential()?;
    let reply_bytes = config.limits.reply.bytes() as usize;
    let client = Client::new(&config.orchestrator, &credential, &config.sync, reply_bytes)?;
    let devices = config.devices.clone();
    let looked = spawn_blocking(move || device::inventory(devices.as_ref())).await.map_err(|_| AgentError::Panic)??;
    let device::Inventory { nodes, eye } = looked;
    let data_dir = prepare(&config.data_dir)?;
    let _lock = lock(&data_dir)?;
    let identities = match credential {
        Credential::Certificate(held) => Some(keep_renewed(held, data_dir.clone())),
        Credential::Token(_) => None,
    };
    let store = Arc::new(open_store(&config, data_dir.clone()).await?);
    let reflector = Reflector::bind(config.listen.reflector, ReflectorConfig::default())?;
    let mut random = StdRng::from_os_rng();
    let prober = Prober::start(ProberConfig { seed: random.random(), ..ProberConfig::default() })?;
    let datasets: Arc<dyn overlay::DatasetSource> = store.clone();
    let overlay = OverlayConfig {
        point: config.point.clone(),
        listen: config.listen.overlay,
        data_dir: data_dir.clone(),
        datasets,
        limits: overlay::Limits::default(),
    };
    let overlay = Arc::new(Overlay::start(overlay).await?);
    let ports = Listen { reflector: reflector.address(), overlay: overlay.local_addr() };
    write_ports(&data_dir, ports)?;
    let base = Base {
        owner: config.point.as_str(),
        runs: &runs(&data_dir),
        supervisor: config.supervisor.as_deref(),
        log_limit_bytes: config.limits.log.bytes(),
    };
    let runtime = scheduler::open(&config.runtime, base).await?;
    let site_nodes = match &config.devices {
        Some(Devices::Runtime { models, kinds }) => Some(SiteNodes { models: models.clone(), kinds: kinds.clone() }),
        _ => None,
    };
    let kernel = config.routes.kernel.clone().map(KernelRoutes::start).transpose()?;
    let steering = config.routes.bgp.as_ref().map(Steering::start).transpose()?;
    let carrier: Arc<dyn Carrier> = Arc::new(Planes::new(Arc::clone(&overlay), kernel, steering));
    let trains = Trains::start(&data_dir, random.random())?;
    let passive = Passive::start(Arc::clone(&carrier), config.interfaces.clone());
    let foundation = Foundation {
        point: config.point.clone(),
        data_dir,
        nodes,
        site_nodes,
        limits: config.limits,
        runtime,
        carrier,
        store,
        search_path: std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into()),
    };
    let agent = spawn_blocking(move || Agent::open(foundation)).await.map_err(|_| AgentError::Panic)??;
    tracing::info!(point = %config.point, reflector = %ports.reflector, overlay = %ports.overlay, "agent ready");
    let driver = Driver {
        agent: Some(agent),
        client,
        identities,
        orchestrator: config.orchestrator,
        reply_bytes,
        prober,
        reflector,
        trains,
        passive,
        telling: Telling::new(Instant::now().into_std()),
        roster: Roster::default(),
        ports,
        sync: config.sync,
        boot_id: Uuid::now_v7(),
        seq: 0,
        eye,
        told_inventory: None,
        told: Visible::default(),
        sent: Instant::now(),
        next: Instant::now(),
        failures: 0,
        failure: String::new(),
        outdated: None,
        random,
    };
    let done = driver.drive(shutdown, config.on_shutdown).await;
    if timeout(CLOSE_ROUTES, overlay.stop()).await.is_err() {
        tracing::warn!("routes are still closing");
    }
    done
}

/// Done when the process is asked to end: by a signal, or with `parent` by the end of standard input.
pub async fn shutdown_asked(parent: bool) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (gone, orphaned) = oneshot::channel::<()>();
    let orphaned = async move {
        if parent {
            // a thread of its own: a read of standard input cannot be given up
            std::thread::Builder::new().name("parent".into()).spawn(move || {
                let mut buffer = [0; 64];
                while io::stdin().lock().read(&mut buffer).is_ok_and(|length| length > 0) {}
                drop(gone);
            })?;
            let _ = orphaned.await;
            return Ok(());
        }
        std::future::pending().await
    };
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        done = orphaned => done,
    }
}

/// What the nodes have, once that changes.
async fn changed(eye: &mut Option<Seen>) -> Vec<NodeReport> {
    while let Some(seen) = eye {
        match seen.nodes.changed().await {
            Ok(()) => {
                if let Some(nodes) = seen.nodes.borrow_and_update().clone() {
                    return nodes;
                }
            }
            // nobody looks any more
            Err(_) => *eye = None,
        }
    }
    std::future::pending().await
}

/// What this agent is known by, once that changes.
async fn next_identity(identities: &mut Option<watch::Receiver<Held>>) -> Held {
    if let Some(changes) = identities {
        if changes.changed().await.is_ok() {
            return changes.borrow_and_update().clone();
        }
        *identities = None;
    }
    std::future::pending().await
}

type Answer = (BootTime, Result<SyncReply, SyncError>);
type Call = Pin<Box<dyn Future<Output = Answer> + Send>>;

struct Driver {
    /// `None`: a step is being made.
    agent: Option<Agent<AnyRuntime>>,
    client: Client,
    /// Certificates as they are renewed.
    identities: Option<watch::Receiver<Held>>,
    orchestrator: String,
    reply_bytes: usize,
    prober: Prober,
    reflector: Reflector,
    trains: Trains,
    passive: Passive,
    telling: Telling,
    roster: Roster,
    ports: Listen,
    sync: SyncConfig,
    boot_id: Uuid,
    seq: u64,
    /// What is seen of this host.
    eye: Option<Seen>,
    /// What the report on its way told of the nodes.
    told_inventory: Option<rhumb_wire::Telling>,
    /// What the last report said.
    told: Visible,
    /// When it was sent.
    sent: Instant,
    /// When the next one is due.
    next: Instant,
    failures: u32,
    /// Said once, not at every failure.
    failure: String,
    outdated: Option<Outdated>,
    random: StdRng,
}

impl Driver {
    async fn drive(mut self, shutdown: impl Future<Output = ()>, then: OnShutdown) -> Result<(), AgentError> {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut tick = interval(duration(self.sync.tick));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut call: Option<Call> = None;
        loop {
            let next = self.next;
            tokio::select! {
                () = &mut shutdown => break,
                answer = async { call.as_mut().expect("checked by the condition").await }, if call.is_some() => {
                    call = None;
                    let (sent, answer) = answer;
                    self.answer(sent, answer);
                    if self.step().await? || self.is_news() {
                        self.hurry();
                    }
                }
                () = sleep_until(next), if call.is_none() => {
                    let wait_ms = self.wait_ms();
                    call = Some(self.call(wait_ms));
                }
                nodes = changed(&mut self.eye) => {
                    if self.agent().renew(nodes) {
                        // the call on its way says what there was
                        call = None;
                        self.hurry();
                    }
                }
                held = next_identity(&mut self.identities) => {
                    let credential = Credential::Certificate(held);
                    self.client = Client::new(&self.orchestrator, &credential, &self.sync, self.reply_bytes)?;
                }
                _ = tick.tick() => {
                    if self.step().await? {
                        // as above
                        call = None;
                        self.hurry();
                    }
                    // what is new is told at once; the call that waits is given up, it had said all it had to say
                    if self.failures == 0 && (self.is_news() || self.has_traffic()) {
                        self.hurry();
                        if call.is_some() && self.next <= Instant::now() {
                            call = None;
                        }
                    }
                }
            }
        }
        drop(call);
        if then == OnShutdown::StopJobs {
            self.stop_jobs().await?;
        }
        let last = self.call(0);
        match timeout(LAST_WORD, last).await {
            Ok((_, Ok(_))) => {}
            Ok((_, Err(error))) => tracing::info!(error = shown(&error), "the last report was not answered"),
            Err(_) => tracing::info!("the last report was not answered in time"),
        }
        Ok(())
    }

    /// One look at the world, off the event loop: it reads and writes files. Whether the nodes are others now.
    async fn step(&mut self) -> Result<bool, AgentError> {
        let Some(mut agent) = self.agent.take() else { return Err(AgentError::Panic) };
        let agent = spawn_blocking(move || {
            agent.step(BootTime::now());
            agent
        });
        let agent = self.agent.insert(agent.await.map_err(|_| AgentError::Panic)?);
        let has_new_nodes = agent.has_new_nodes();
        if let Some(desired) = agent.desired().cloned() {
            self.roster.follow(&self.prober, &self.reflector, &desired).await;
            self.passive.follow(&desired);
            self.trains.follow(&desired, self.roster.mode(), |link| self.roster.address(link));
        }
        Ok(has_new_nodes)
    }

    fn agent(&mut self) -> &mut Agent<AnyRuntime> {
        self.agent.as_mut().expect("put back at the end of every step")
    }

    /// How long an answer may be held: several reports fit into the shortest lease.
    fn wait_ms(&mut self) -> u64 {
        // an order waits to hear that its routes are gone
        if self.agent().has_parting() {
            return 0;
        }
        let usual = self.sync.wait.micros() / 1_000;
        self.agent().shortest_lease_ms().map_or(usual, |lease| usual.min(lease / 4))
    }

    fn is_news(&mut self) -> bool {
        self.agent().visible() != self.told
    }

    fn has_traffic(&mut self) -> bool {
        self.sent.elapsed() >= TRAFFIC_INTERVAL && self.agent().has_output()
    }

    fn hurry(&mut self) {
        self.next = self.next.min((self.sent + LEAST_INTERVAL).max(Instant::now()));
    }

    /// A report of this moment, on its way.
    fn call(&mut self, wait_ms: u64) -> Call {
        self.seq += 1;
        // the most trusted first
        let bandwidths = |link: &_| self.passive.figure(link).into_iter().chain(self.trains.figure(link)).collect();
        let (links, now) = (probe::figures(&self.prober, bandwidths), Instant::now().into_std());
        self.telling.add(probe::windows(&self.prober), now);
        let (links, windows) = self.telling.next(links, now);
        let (pairs, trains) = (probe::pairs(&self.prober), trains::heard(&self.reflector));
        let envelope = Envelope {
            boot_id: self.boot_id,
            seq: self.seq,
            wait_ms,
            probe_port: self.ports.reflector.port(),
            overlay_port: self.ports.overlay.port(),
            links,
            windows,
            pairs,
            trains,
        };
        let figures = self.eye.as_ref().map(|eye| eye.figures.borrow().clone());
        let agent = self.agent();
        agent.measure(figures.unwrap_or_default());
        let visible = agent.visible();
        let (report, telling) = agent.report(envelope);
        (self.told, self.told_inventory) = (visible, Some(telling));
        self.sent = Instant::now();
        let (client, sent) = (self.client.clone(), BootTime::now());
        Box::pin(async move { (sent, client.sync(&report).await) })
    }

    fn answer(&mut self, sent: BootTime, answer: Result<SyncReply, SyncError>) {
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => return self.failed(&error),
        };
        if self.failures > 0 {
            tracing::info!(failures = self.failures, "the orchestrator answers again");
        }
        self.telling.answered();
        self.failures = 0;
        self.failure.clear();
        if let Some(telling) = self.told_inventory.take() {
            self.agent().told(telling, reply.inventory);
        }
        self.agent().answered(sent, BootTime::now());
        for ack in &reply.log_acks {
            self.agent().acknowledge(&ack.key, ack.up_to);
        }
        if let Some(desired) = reply.desired
            && let Err(error) = self.agent().accept(desired, sent)
        {
            if self.outdated != Some(error) {
                tracing::warn!(%error, "refused");
            }
            self.outdated = Some(error);
        }
        // an answer that was not held says nothing new: do not ask again at once
        let pause = Duration::from_millis(reply.pause_ms).max(LEAST_INTERVAL);
        self.next = (Instant::now() + pause).max(self.sent + duration(self.sync.interval));
    }

    fn failed(&mut self, error: &SyncError) {
        let text = shown(error);
        if self.failure == text {
            tracing::debug!(failures = self.failures, error = text, "no answer");
        } else {
            tracing::warn!(error = text, "no answer; what is known goes on");
            self.failure = text;
        }
        let most = duration(self.sync.backoff).saturating_mul(1 << self.failures.min(16));
        let most = most.min(duration(self.sync.backoff_max)).as_micros() as u64;
        self.failures += 1;
        // anywhere below the bound, so that agents that lost one orchestrator do not come back all at once
        let pause = self.random.random_range(most / 4..=most.max(1));
        self.next = Instant::now() + Duration::from_micros(pause);
    }

    async fn stop_jobs(&mut self) -> Result<(), AgentError> {
        self.agent().close();
        let longest = self.agent().longest_grace_ms();
        let until = Instant::now() + Duration::from_millis(longest) + STOP_MARGIN;
        loop {
            self.step().await?;
            if !self.agent().is_busy() {
                return Ok(());
            }
            if Instant::now() >= until {
                tracing::error!("work does not end; its supervisors go on trying");
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn prepare(data_dir: &Path) -> Result<std::path::PathBuf, AgentError> {
    let failed = |source| AgentError::Folder { path: data_dir.into(), source };
    // runs' secrets and outputs are nobody else's business
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(failed)?;
    fs::canonicalize(data_dir).map_err(failed)
}

fn lock(data_dir: &Path) -> Result<File, AgentError> {
    let failed = |source| AgentError::Folder { path: data_dir.into(), source };
    let file =
        File::options().create(true).truncate(false).write(true).open(data_dir.join("agent.lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(AgentError::Locked { path: data_dir.into() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

async fn open_store(config: &AgentConfig, data_dir: std::path::PathBuf) -> Result<DatasetStore, AgentError> {
    let made = config.datasets.clone();
    let work = move || {
        let store = DatasetStore::open(&data_dir).map_err(|source| AgentError::Folder { path: data_dir, source })?;
        for dataset in &made {
            let failed = |source| AgentError::Dataset { name: dataset.name.to_string(), source };
            store.make(dataset).map_err(failed)?;
        }
        Ok(store)
    };
    spawn_blocking(work).await.map_err(|_| AgentError::Panic)?
}

/// `ports.json`: where this agent listens, for whoever connects agents by hand.
#[derive(Debug, Serialize)]
struct Ports {
    reflector: u16,
    overlay: u16,
}

fn write_ports(data_dir: &Path, listen: Listen) -> Result<(), AgentError> {
    let ports = Ports { reflector: listen.reflector.port(), overlay: listen.overlay.port() };
    durable::write_json(&data_dir.join("ports.json"), &ports, Keep::Loose)
        .map_err(|source| AgentError::Folder { path: data_dir.into(), source })
}
