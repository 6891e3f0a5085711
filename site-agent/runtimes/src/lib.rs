//! Runtimes: what a site runs work with, behind one trait. Whether and when anything runs is the agent's business.
//!
//! Invariants
//! - A run is started once per key, at most, whatever is killed when and whatever the site cleans up.
//! - What is ours carries its order and generation and a number of its own; a name alone makes nothing ours.
//! - What is not ours is counted and never touched.
//! - A command is an argument vector; no text of an order reaches a shell.
//! - A run says `ended` only when nothing of it runs.

mod any;
pub mod batch;
mod cgroup;
pub mod durable;
mod erased;
mod family;
pub mod folder;
pub mod host;
mod http;
mod log;
mod pinning;
mod process;
mod ray;
mod runtime;
mod settings;
mod shell;
mod slurm;
mod spec;
mod supervisor;

pub use any::{AnyRuntime, Base, supervisor_of};
pub use process::ProcessRuntime;
pub use runtime::{DeviceFamily, Ended, How, Listing, NodeStock, Observed, Runtime, RuntimeError, Usage, Work};
pub use settings::{
    Confinement, KubernetesQueue, KubernetesSettings, KubernetesVolume, KubernetesWorkload, ProcessSettings,
    RaySettings, RuntimeSettings, SettingsError, SlurmAccess, SlurmSettings, Visible,
};
pub use spec::admit;
pub use supervisor::{SUPERVISE, supervise_main};
