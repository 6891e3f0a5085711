//! Why the agent cannot start or go on.

use crate::dataplane::overlay::OverlayError;
use rhumb_devices::catalogue::CatalogueError;
use rhumb_kernel::KernelError;
use rhumb_model::DocumentError;
use rhumb_probe::ProbeError;
use rhumb_runtimes::RuntimeError;
use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("cannot read {what} {path}; check that it exists and may be read", path = path.display())]
    Read { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the configuration {path} is not valid", path = path.display())]
    Config { path: PathBuf, source: DocumentError },
    #[error("{setting} {value} is not valid: {remedy}")]
    Setting { setting: &'static str, value: String, remedy: &'static str },
    #[error("cannot prepare the data folder {path}; it must be writable", path = path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("the data folder {path} is in use by another agent; give each agent its own", path = path.display())]
    Locked { path: PathBuf },
    #[error("cannot make the dataset {name}")]
    Dataset { name: String, source: io::Error },
    #[error("cannot open the runtime")]
    Runtime(#[from] RuntimeError),
    #[error("cannot measure links")]
    Probe(#[from] ProbeError),
    #[error("cannot carry routes")]
    Overlay(#[from] OverlayError),
    #[error("cannot reach the orchestrator at {url}")]
    Reach { url: String, source: reqwest::Error },
    #[error("this agent has no identity: {reason}")]
    Identity { reason: String },
    #[error("cannot carry routes in the kernel; check the agent's rights, or leave out routes.kernel")]
    Kernel(#[from] KernelError),
    #[error("cannot announce routes by BGP; see routes.bgp")]
    Bgp(#[from] rhumb_bgp::BgpError),
    #[error("cannot make an HTTP client")]
    Client(#[source] reqwest::Error),
    #[error("cannot read the device catalogue {path}", path = path.display())]
    Catalogue { path: PathBuf, source: CatalogueError },
    #[error("cannot see this host's devices")]
    Devices(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("a step of the agent panicked; its records on disk are whole, start it again")]
    Panic,
}
