//! Kubernetes as a runtime: each run is a Job, or a gang one indexed Job, whose container is a supervisor. What it is to run and
//! how it ended stand in the run's folder on a volume that agent and pods share, as with other schedulers; the cluster's word
//! counts where there is no record.
//!
//! Invariants
//! - What is ours is in the agent's namespace and carries its mark; a name alone makes nothing ours, and nothing else is touched.
//! - An ended job is removed once its run's folder is, that is after its end was acknowledged.
//! - What was just made is known although no watch has told of it yet; without a watch that is up to date nothing is said.

mod cluster;
mod error;
pub mod multikueue;
mod node;
mod object;
mod pod;
mod quantity;
mod state;
mod watched;

pub use cluster::Cluster;

use kube::{
    Client,
    config::{Config, KubeConfigOptions, Kubeconfig},
};
use rhumb_runtimes::{
    AnyRuntime, Base, KubernetesSettings, RuntimeError,
    batch::{Batch, Environment, Ground},
    supervisor_of,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// What a runtime's answers from memory may be behind.
const POLL: Duration = Duration::from_millis(200);
/// Longest silence of the server: beyond that of a watch, which ends by itself.
const SILENCE: Duration = Duration::from_secs(watched::WATCH_SECONDS as u64 + 15);
const CONNECT: Duration = Duration::from_secs(10);
/// Where the agent puts its supervisor for pods.
const SUPERVISOR: &str = ".supervisor";

/// The runtime of these settings. Makes folders and begins to watch; to be called below a runtime of tokio.
pub async fn open(settings: &KubernetesSettings, base: Base<'_>) -> Result<AnyRuntime, RuntimeError> {
    let failed = |source| RuntimeError::Run { what: "keep", path: settings.shared.clone(), source };
    fs::create_dir_all(&settings.shared).map_err(failed)?;
    let supervisor = match &settings.supervisor {
        Some(path) => path.clone(),
        None => lend(&supervisor_of(base), &settings.shared).map_err(failed)?,
    };
    if !base.runs.starts_with(settings.mount()) {
        let (data, volume) = (base.runs.display(), settings.mount().display());
        tracing::warn!(%data, %volume, "pods do not see the agent's data: orders with datasets need data_dir on the volume");
    }
    let ground = Ground {
        owner: base.owner.to_owned(),
        root: settings.shared.clone(),
        supervisor,
        log_limit_bytes: base.log_limit_bytes,
        poll: POLL,
        kill_wait: Duration::from_micros(settings.kill_wait.micros()),
        environment: Environment::Image,
    };
    let cluster = Cluster::new(
        client_of(settings.kubeconfig.as_deref(), settings.context.as_deref()).await?,
        settings.clone(),
        base.owner.to_owned(),
    );
    Ok(AnyRuntime::other(Batch::new(ground, cluster)))
}

async fn client_of(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, RuntimeError> {
    // an error says that one is set already
    let _ = rustls::crypto::ring::default_provider().install_default();
    let refuse = |why: String| error::answered("read how to reach the cluster", why);
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match (kubeconfig, context) {
        (Some(path), _) => {
            let read = Kubeconfig::read_from(path).map_err(|error| refuse(error::chain(&error)))?;
            Config::from_custom_kubeconfig(read, &options).await.map_err(|error| refuse(error::chain(&error)))?
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(|error| refuse(error::chain(&error)))?,
        (None, None) => Config::infer().await.map_err(|error| refuse(error::chain(&error)))?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    // whoever asks tries again, and must not wait for long
    config.default_retry = false;
    Client::try_from(config).map_err(|error| refuse(error::chain(&error)))
}

/// Puts the supervisor where pods see it, and gives that place. Running ones keep the one that they began with.
fn lend(own: &Path, shared: &Path) -> io::Result<PathBuf> {
    let place = shared.join(SUPERVISOR);
    let (from, there) = (fs::metadata(own)?, fs::metadata(&place));
    let is_same = there.is_ok_and(|there| there.len() == from.len() && there.modified().ok() >= from.modified().ok());
    if !is_same {
        let fresh = shared.join(format!("{SUPERVISOR}.{}", std::process::id()));
        fs::copy(own, &fresh)?;
        fs::rename(&fresh, &place)?;
    }
    Ok(place)
}
