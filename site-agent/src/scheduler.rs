//! The runtime that the settings name.

use rhumb_runtimes::{AnyRuntime, Base, RuntimeError, RuntimeSettings};

/// Makes folders, and begins to watch where there is something to watch.
#[cfg_attr(not(feature = "kubernetes"), expect(clippy::unused_async))]
pub(crate) async fn open(settings: &RuntimeSettings, base: Base<'_>) -> Result<AnyRuntime, RuntimeError> {
    match settings {
        #[cfg(feature = "kubernetes")]
        RuntimeSettings::Kubernetes(kubernetes) => rhumb_kubernetes::open(kubernetes, base).await,
        settings => AnyRuntime::open(settings, base),
    }
}
