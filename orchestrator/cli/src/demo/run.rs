//! A demo's life: folder, emulator, orchestrator, agents, ready; then until it is asked to stop, and the stop.

use super::{
    FEDERATION, SERVER,
    children::{Children, Plan},
    control::{self, Controls},
    layout::{Layout, Saved},
    leftovers, ready,
    wan::Wan,
    world::World,
};
use crate::{
    client::Client,
    context::Context,
    exit::{CliError, Exit},
    files,
    output::{Output, Paint, progress, say, yaml},
};
use anyhow::Context as _;
use rhumb_agent::config::Listen;
use rhumb_control::secrets::write_private;
use rhumb_model::{FederationFile, document};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long the orchestrator may take to listen.
const SERVER_START: Duration = Duration::from_secs(20);
const SERVER_RESTART: Duration = Duration::from_secs(1);
/// How long the rest may take until it is said what is missing.
const READY: Duration = Duration::from_secs(15);
/// The orchestrator lets requests in progress end.
const SERVER_STOP: Duration = Duration::from_secs(12);
/// Agents give their work its grace.
const AGENTS_STOP: Duration = Duration::from_secs(45);
const LOOK: Duration = Duration::from_millis(100);

pub struct Ask {
    pub data: PathBuf,
    pub listen: SocketAddr,
    pub federation: Option<PathBuf>,
    pub fresh: bool,
    pub agent_restart: Duration,
    pub seed: u64,
}

pub async fn run(ask: Ask) -> Result<Exit, CliError> {
    let begun = Instant::now();
    let bar = progress("preparing");
    let (layout, _lock) = Layout::open(&ask.data, ask.fresh)?;
    if layout.pids().exists() {
        bar.set_message("ending what an earlier demo left");
        let earlier = layout.clone();
        // it waits for processes, and looks at all of them
        tokio::task::spawn_blocking(move || leftovers::end(&earlier)).await.map_err(anyhow::Error::from)?;
    }
    let world = federation(&ask, &layout)?;
    port_is_free(ask.listen)?;
    layout.turn_logs().context("cannot turn the logs")?;
    let secrets =
        std::iter::once(layout.admin_token()).chain(world.agents.iter().map(|p| layout.agent_token(p.as_str())));
    for path in secrets {
        Layout::token(&path).with_context(|| format!("cannot keep a token in {}", path.display()))?;
    }
    let (wan, saved) = Wan::start(&world.links, &world.agents, &world.home, ask.listen, ask.seed, &layout.saved())
        .map_err(anyhow::Error::from)?;
    let demo = Demo {
        controls: Arc::new(Controls {
            wan: Arc::new(wan),
            children: Arc::new(Children::new(layout.pids())),
            stop: CancellationToken::new(),
            stopped: CancellationToken::new(),
            url: std::sync::OnceLock::new(),
        }),
        layout,
        world,
    };
    let stop = demo.controls.stop.clone();
    hear_signals(&stop);
    let started = tokio::select! {
        started = demo.start(&ask, &saved, &bar, begun) => started,
        () = stop.cancelled() => Ok(()),
    };
    bar.finish_and_clear();
    if started.is_ok() {
        stop.cancelled().await;
    }
    demo.stop().await;
    started.map(|()| Exit::Done)
}

/// From the file named, else from the folder, else the one that ships; kept in the folder as it was written.
fn federation(ask: &Ask, layout: &Layout) -> Result<World, CliError> {
    let kept = layout.federation();
    let text = match &ask.federation {
        Some(path) => files::text(path, document::MAX_LARGE_BYTES)?,
        None if kept.exists() => files::text(&kept, document::MAX_LARGE_BYTES)?,
        None => FEDERATION.to_owned(),
    };
    let shown = ask.federation.as_ref().unwrap_or(&kept).display().to_string();
    let invalid = |e| CliError::Problem(Box::new(crate::exit::Problem::document(&shown, &e)));
    let world = World::new(FederationFile::read(&text).map_err(invalid)?)?;
    super::layout::replace(&kept, text.as_bytes()).with_context(|| format!("cannot write {}", kept.display()))?;
    Ok(world)
}

/// Said here in words; the orchestrator could only write it into its log.
fn port_is_free(listen: SocketAddr) -> Result<(), CliError> {
    match TcpListener::bind(listen) {
        Ok(_) => Ok(()),
        Err(e) => Err(CliError::Failed(format!(
            "cannot listen on {listen} ({e}): stop what listens there, perhaps another demo, or choose another with --listen"
        ))),
    }
}

/// First one: stop. Another: the wait for the children ends too.
fn hear_signals(stop: &CancellationToken) {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    for kind in kinds {
        let stop = stop.clone();
        match signal(kind) {
            Ok(mut heard) => drop(tokio::spawn(async move {
                heard.recv().await;
                stop.cancel();
            })),
            Err(error) => say(&format!("signals cannot be heard: {error}")),
        }
    }
}

struct Demo {
    layout: Layout,
    world: World,
    controls: Arc<Controls>,
}

impl Demo {
    async fn start(
        &self,
        ask: &Ask,
        saved: &Saved,
        bar: &indicatif::ProgressBar,
        begun: Instant,
    ) -> Result<(), CliError> {
        let (layout, world, controls) = (&self.layout, &self.world, &self.controls);
        layout.save(saved).context("cannot keep the ports")?;
        let listener = control::listen(layout).context("cannot listen for changes")?;
        tokio::spawn(control::serve(listener, Arc::clone(controls)));
        bar.set_message("starting the orchestrator");
        let address = self.start_server(ask.listen).await?;
        let token = Layout::token(&layout.admin_token()).context("cannot read the token")?;
        let context = Context { url: format!("http://{address}"), token: Some(token.clone()), token_file: None };
        let _ = controls.url.set(context.url.clone());
        write_private(&layout.context(), yaml(&context)?.as_bytes()).context("cannot write how to reach the demo")?;
        bar.set_message("starting the agents");
        for point in &world.agents {
            self.start_agent(point, ask.agent_restart)?;
        }
        tokio::spawn(follow_ports(
            Arc::clone(controls),
            layout.clone(),
            world.agents.iter().map(ToString::to_string).collect(),
        ));
        let client = Client::new(context.clone())?;
        let seen = |missing: &ready::Missing| bar.set_message(missing.words());
        let missing = ready::wait(&client, world, READY, seen).await;
        bar.finish_and_clear();
        if !missing.is_nothing() {
            say(&format!(
                "not everything is ready yet: {}; see {}",
                missing.words(),
                layout.root().join("logs").display()
            ));
        }
        self.announce(&context.url, &token, begun);
        Ok(())
    }

    async fn start_server(&self, listen: SocketAddr) -> Result<SocketAddr, CliError> {
        let (layout, controls) = (&self.layout, &self.controls);
        let path = layout.config(SERVER);
        let mut config = self.world.server(layout, listen, &controls.wan)?;
        fs::write(&path, yaml(&config)?).with_context(|| format!("cannot write {}", path.display()))?;
        // a demo that was killed has left the address that its orchestrator had
        drop(fs::remove_file(layout.address()));
        let arguments = ["server", "--config"].map(Into::into).into_iter();
        let arguments = arguments.chain([path.clone().into(), "--address-file".into(), layout.address().into()]);
        controls.children.add(Plan {
            name: SERVER.to_owned(),
            arguments: arguments.chain(["--stop-with-parent".into()]).collect(),
            log: layout.log(SERVER),
            pause: SERVER_RESTART,
            forget: Some(layout.address()),
        });
        let until = Instant::now() + SERVER_START;
        let address = loop {
            if let Some(address) = fs::read_to_string(layout.address()).ok().and_then(|t| t.parse::<SocketAddr>().ok())
            {
                break address;
            }
            let again = controls.children.status().iter().any(|c| c.name == SERVER && c.starts > 1);
            if again || Instant::now() >= until {
                return Err(CliError::Failed(format!(
                    "the orchestrator does not start; its log ends with\n{}",
                    self.log_end(SERVER)
                )));
            }
            tokio::time::sleep(LOOK).await;
        };
        controls.wan.aim_controls(address);
        if listen.port() == 0 {
            // started again, it is where it was
            config.listen = address;
            fs::write(&path, yaml(&config)?).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(address)
    }

    fn start_agent(&self, point: &rhumb_model::PointName, pause: Duration) -> anyhow::Result<()> {
        let (layout, name) = (&self.layout, point.as_str());
        let front = self.controls.wan.control_address(name).context("a point has no control channel")?;
        let path = layout.config(name);
        let config = yaml(&self.world.agent(layout, point, front))?;
        fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))?;
        self.controls.children.add(Plan {
            name: name.to_owned(),
            arguments: vec!["agent".into(), "--config".into(), path.into(), "--stop-with-parent".into()],
            log: layout.log(name),
            pause,
            forget: Some(layout.ports(name)),
        });
        Ok(())
    }

    fn log_end(&self, name: &str) -> String {
        let text = fs::read_to_string(self.layout.log(name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    fn announce(&self, url: &str, token: &str, begun: Instant) {
        let (world, out) = (&self.world, Output::new(None));
        let lines = [
            format!(
                "{}: {} sites, {} relay points, {} directed links; ready in {:.1} s",
                out.paint(Paint::Bold, "Rhumb demo"),
                world.file.sites.len(),
                world.relays(),
                world.links.len(),
                begun.elapsed().as_secs_f32()
            ),
            format!("console  {url}/#token={token}"),
            format!("data     {}", self.layout.root().display()),
            "try      rhumb site list; rhumb quote -f examples/training-near-data.yaml; rhumb demo wan set hk-sg --latency 200ms".to_owned(),
            "stop     Ctrl-C, or rhumb demo stop".to_owned(),
            String::new(),
            format!("RHUMB_URL={url}"),
            format!("RHUMB_TOKEN={token}"),
        ];
        out.tell(&lines.join("\n"));
    }

    /// The orchestrator first, so that it does not take what its agents stop for failures; then the agents with their work.
    async fn stop(self) {
        let Self { layout, world, controls } = self;
        say("stopping");
        let again = CancellationToken::new();
        hear_signals(&again);
        controls.children.end(&[SERVER.to_owned()], SERVER_STOP, again.cancelled()).await;
        let agents: Vec<String> = world.agents.iter().map(ToString::to_string).collect();
        controls.children.end(&agents, AGENTS_STOP, again.cancelled()).await;
        let left = layout.clone();
        // agents that were killed leave their work to its supervisors
        let swept = tokio::task::spawn_blocking(move || leftovers::end_runs(&left)).await;
        if let Err(error) = swept {
            say(&format!("what runs of killed agents left could not be ended: {error}"));
        }
        for path in [layout.socket(), layout.pids()] {
            drop(fs::remove_file(path));
        }
        controls.stopped.cancel();
        match Arc::try_unwrap(controls) {
            Ok(controls) => {
                if let Ok(wan) = Arc::try_unwrap(controls.wan) {
                    wan.stop().await;
                }
            }
            // a conversation still holds it, and ends with the process
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// What an agent writes of itself once it listens, on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Ports {
    reflector: u16,
    overlay: u16,
}

impl Ports {
    fn listen(self) -> Listen {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Listen { reflector: at(self.reflector), overlay: at(self.overlay) }
    }
}

/// Aims the emulator at the ports that agents have taken, and away from those that are gone.
async fn follow_ports(controls: Arc<Controls>, layout: Layout, agents: Vec<String>) {
    let mut known: BTreeMap<&String, Ports> = BTreeMap::new();
    while !controls.stopped.is_cancelled() {
        for name in &agents {
            let text = fs::read_to_string(layout.ports(name)).unwrap_or_default();
            let now: Option<Ports> = serde_json::from_str(&text).ok();
            if known.get(name).copied() != now {
                controls.wan.aim(name, now.map(Ports::listen));
                match now {
                    Some(ports) => drop(known.insert(name, ports)),
                    None => drop(known.remove(name)),
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = controls.stopped.cancelled() => {}
        }
    }
}
