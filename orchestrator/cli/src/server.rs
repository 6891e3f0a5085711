//! `rhumb server`: the orchestrator.

mod lead;

use crate::{
    exit::{CliError, Exit},
    files, telemetry,
};
use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use lead::{Candidate, Led};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use rhumb_api::{App, Gate, Hosts, router, serve, serve_tls};
use rhumb_control::{
    Base, Desk, DeskError, ServerConfig,
    config::TokenEntry,
    secrets::{Secret, sha256},
};
use rhumb_model::{Role, Scope, TokenId};
use rhumb_store::{AnyStore, Conflict, Intent, Outcome, PostgresLimits, Store, StoreError, TokenRecord};
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

const UPKEEP: Duration = Duration::from_secs(5);
/// Pause after the orders could not be taken up.
const AGAIN: Duration = Duration::from_millis(500);
/// A shorter one is lost by chance.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  rhumb server --config /etc/rhumb/server.yaml\n\nRelative paths in the file count from the working folder."
)]
pub struct ServerArgs {
    /// Configuration, YAML or JSON
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Stop when standard input ends, that is when the parent is gone
    #[arg(long)]
    stop_with_parent: bool,
    /// Write the listening address here once it is known
    #[arg(long, value_name = "FILE", hide = true)]
    address_file: Option<PathBuf>,
}

pub fn main(args: &ServerArgs) -> Result<Exit, CliError> {
    let config: ServerConfig = files::read(&args.config)?;
    let file = files::federation(&config.federation)?;
    let base = Base::new(file)
        .map_err(|e| CliError::Failed(format!("federation file {} is not valid: {e}", config.federation.display())))?;
    let _telemetry = telemetry::start("rhumb-server")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(anyhow::Error::from)?;
    let stop = CancellationToken::new();
    if args.stop_with_parent {
        stop_with_parent(stop.clone());
    }
    runtime.block_on(run(config, base, args.address_file.as_deref(), stop))?;
    Ok(Exit::Done)
}

async fn run(
    config: ServerConfig,
    base: Base,
    address_file: Option<&Path>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listen = config.listen;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}: stop what listens there, or choose another `listen`"))?;
    let address = listener.local_addr().context("cannot find the listening address")?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "listening beyond this machine: put a proxy with TLS in front");
    }
    let store = open(&config.database).await?;
    put_tokens(&store, &config.tokens).await?;
    let secret = Secret::load(&config.secret_file)
        .with_context(|| format!("cannot load the secret from {}", config.secret_file.display()))?;
    let mut names = config.hosts.clone();
    let secure = match &config.tls {
        None => None,
        Some(tls) => {
            // tried now, so that a bad address is known before this process has to lead
            let at = bind_tls(tls.listen).await?.local_addr().context("cannot find the listening address")?;
            names.extend(tls.names.iter().map(|name| format!("{name}:{}", at.port())));
            Some(at)
        }
    };
    let lease = Duration::from_micros(config.times.leader_lease.micros());
    anyhow::ensure!(lease >= SHORTEST_LEASE, "`times.leader_lease` is {lease:?}: make it at least {SHORTEST_LEASE:?}");
    let connections = config.limits.connections;
    let hosts = Hosts::new(address, &names);
    let metrics = recorder()?;
    keep_metrics(metrics.clone(), stop.clone());
    let gate = Gate::default();
    let serving = tokio::spawn(serve(listener, gate.router(hosts.clone()), connections, stop.clone()));
    let candidate = Candidate::new(store.clone(), lease);
    let office = Office { candidate, base, config, secret, secure, hosts, metrics, gate };
    tokio::spawn(hear_signals(stop.clone()));
    let announce = || address_file.map_or(Ok(()), |path| write_address(path, address));
    let mut next = office.candidate.try_lead().await.context("cannot ask who leads")?;
    if next.is_none() {
        tracing::info!(%address, "standing by: another orchestrator leads");
        announce()?;
    }
    while !stop.is_cancelled() {
        let led = if let Some(led) = next.take() {
            led
        } else {
            tokio::select! {
                led = office.candidate.stand_by() => led?,
                () = stop.cancelled() => break,
            }
        };
        office.lead(&led, &stop, &announce).await?;
    }
    serving.await.context("the accept loop panicked")?.context("cannot accept connections")?;
    store.close().await;
    Ok(())
}

/// What it takes to lead, again and again.
struct Office {
    candidate: Candidate,
    base: Base,
    config: ServerConfig,
    secret: Secret,
    /// Where agents that have joined are served by who leads.
    secure: Option<SocketAddr>,
    hosts: Hosts,
    metrics: PrometheusHandle,
    gate: Gate,
}

impl Office {
    /// Leads until the lease is lost, or until `stop`, when the lease is given up.
    async fn lead(
        &self,
        led: &Led,
        stop: &CancellationToken,
        announce: &impl Fn() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (base, config, secret) = (self.base.clone(), self.config.clone(), self.secret.clone());
        let kept = self.candidate.keep(led);
        tokio::pin!(kept);
        let desk = tokio::select! {
            desk = Desk::lead(self.candidate.store(), led.epoch, base, config, secret) => desk,
            why = &mut kept => {
                tracing::warn!(why, "standing by: lost the lead before the orders were taken up");
                return Ok(());
            }
        };
        let desk = match desk {
            Ok(desk) => desk,
            // as a lease is waited for, by who shares a database
            Err(DeskError::Store(error @ (StoreError::Unavailable { .. } | StoreError::Fenced { .. })))
                if self.candidate.shares() =>
            {
                tracing::warn!(%error, "standing by: the orders could not be taken up");
                self.candidate.give_up(led).await;
                tokio::time::sleep(AGAIN).await;
                return Ok(());
            }
            Err(error) => return Err(error).context("cannot take up the orders"),
        };
        let term_end = CancellationToken::new();
        let router = router(App::new(desk.clone(), Some(self.metrics.clone())), self.hosts.clone());
        self.gate.open(router, led.term.clone());
        let securely = self.serve_securely(&desk, term_end.clone()).await?;
        announce()?;
        tracing::info!(epoch = led.epoch, "orchestrator is ready");
        tokio::select! {
            why = &mut kept => {
                self.gate.close();
                term_end.cancel();
                tracing::warn!(why, epoch = led.epoch, "standing by: this orchestrator leads no more");
                // nothing it does counts any more: nobody waits for its end
                tokio::spawn(async move { desk.stop().await });
                return Ok(());
            }
            () = stop.cancelled() => {}
        }
        tracing::info!("orchestrator is stopping");
        term_end.cancel();
        // long answers end with the loops, so both end together
        let ending = async { tokio::join!(securely, desk.stop()) };
        let (secured, ()) = tokio::select! {
            ended = ending => ended,
            why = &mut kept => anyhow::bail!("the lead was lost while stopping: {why}"),
        };
        secured.context("the accept loop of TLS panicked")?.context("cannot accept connections with TLS")?;
        self.candidate.give_up(led).await;
        Ok(())
    }

    async fn serve_securely(
        &self,
        desk: &Desk<AnyStore>,
        end: CancellationToken,
    ) -> anyhow::Result<JoinHandle<io::Result<()>>> {
        let (Some(tls), Some(address)) = (&self.config.tls, self.secure) else {
            return Ok(tokio::spawn(async { Ok(()) }));
        };
        let listener = bind_tls(address).await?;
        let current = rhumb_api::tls::keep(desk, &tls.names).context("cannot make a certificate")?;
        tracing::info!(%address, "agents that have joined are served here");
        let router = self.gate.router(self.hosts.clone());
        Ok(tokio::spawn(serve_tls(listener, router, current, self.config.limits.connections, end)))
    }
}

async fn bind_tls(listen: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(listen).await;
    bound.with_context(|| format!("cannot listen on {listen}: stop what listens there, or choose another `tls.listen`"))
}

async fn hear_signals(stop: CancellationToken) {
    if let Err(error) = asked_to_stop(&stop).await {
        tracing::error!(error = &*error, "signals cannot be heard");
    }
    stop.cancel();
}

async fn open(database: &str) -> anyhow::Result<AnyStore> {
    let path = database.strip_prefix("sqlite:").map(|p| p.strip_prefix("//").unwrap_or(p));
    if let Some(folder) = path.and_then(|p| Path::new(p).parent()).filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    AnyStore::open(database, PostgresLimits::default()).await.context("cannot open the database")
}

/// What the files hold is known by its hash alone from here on.
async fn put_tokens(store: &AnyStore, entries: &[TokenEntry]) -> anyhow::Result<()> {
    let mut intents = Vec::with_capacity(entries.len());
    for entry in entries {
        let text = std::fs::read_to_string(&entry.file)
            .with_context(|| format!("cannot read the token file {}", entry.file.display()))?;
        let token = text.trim();
        anyhow::ensure!(
            token.len() >= 32,
            "the token in {} is too short: use at least 32 characters",
            entry.file.display()
        );
        let now = Timestamp::now();
        let scope = scope(entry)?;
        if let Some(tenant) = scope.tenant() {
            intents.push(Intent::KnowTenant { name: tenant.clone(), at: now });
        }
        intents.push(Intent::PutToken(TokenRecord {
            id: TokenId(uuid::Uuid::now_v7()),
            sha256: sha256(token.as_bytes()),
            role: entry.kind,
            scope,
            created: now,
            created_by: "configuration".to_owned(),
            expires: None,
            revoked: None,
        }));
    }
    for outcome in store.commit(intents).await.context("cannot store the tokens")? {
        match outcome {
            // the file is older than the decision to close it
            Outcome::Refused(Conflict::Tenant(tenant)) => {
                tracing::warn!(%tenant, "a token of the configuration opens nothing: its tenant is closed");
            }
            Outcome::Refused(why) => anyhow::bail!("a token was refused: {why}"),
            _ => {}
        }
    }
    Ok(())
}

fn scope(entry: &TokenEntry) -> anyhow::Result<Scope> {
    let subject = &entry.subject;
    let wrong = || format!("\"{subject}\" is no subject for the token in {}", entry.file.display());
    Ok(match entry.kind {
        Role::Agent => Scope::Point(subject.parse().with_context(wrong)?),
        Role::SiteOperator => {
            let sites = subject.split(',').map(|s| s.trim().parse());
            Scope::Sites(sites.collect::<Result<_, _>>().with_context(wrong)?)
        }
        Role::Viewer | Role::Member | Role::TenantAdmin | Role::PlatformAdmin => {
            Scope::Tenant(subject.parse().with_context(wrong)?)
        }
    })
}

fn recorder() -> anyhow::Result<PrometheusHandle> {
    PrometheusBuilder::new().install_recorder().context("cannot set up the metrics")
}

fn keep_metrics(metrics: PrometheusHandle, stop: CancellationToken) {
    tokio::spawn(async move {
        let mut timer = tokio::time::interval(UPKEEP);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = timer.tick() => metrics.run_upkeep(),
            }
        }
    });
}

/// Whole or not at all: who waits for the file reads it at once.
fn write_address(path: &Path, address: SocketAddr) -> anyhow::Result<()> {
    let draft = path.with_extension("new");
    std::fs::write(&draft, address.to_string())
        .and_then(|()| std::fs::rename(&draft, path))
        .with_context(|| format!("cannot write the address to {}", path.display()))
}

/// SIGTERM, SIGINT, or `stop`.
pub async fn asked_to_stop(stop: &CancellationToken) -> anyhow::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
        () = stop.cancelled() => {}
    }
    Ok(())
}

/// Cancels when standard input ends. A thread of its own: a blocked read cannot be called off.
pub fn stop_with_parent(stop: CancellationToken) {
    std::thread::spawn(move || {
        // how it ends makes no difference
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        stop.cancel();
    });
}
