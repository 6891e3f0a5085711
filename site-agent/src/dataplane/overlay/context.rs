//! What all routes of one overlay share.

use super::{
    cell::Changed,
    config::{DatasetSource, Limits},
    flows::Flows,
    staging::Staging,
    tls::Tls,
};
use rhumb_model::PointName;
use std::sync::{Arc, atomic::AtomicU64};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) point: PointName,
    pub(crate) limits: Limits,
    pub(crate) datasets: Arc<dyn DatasetSource>,
    pub(crate) staging: Staging,
    pub(crate) flows: Flows,
    /// Channels to and from neighbours.
    pub(crate) tls: Tls,
    pub(crate) changed: Changed,
    /// Connections closed because nobody expected them.
    pub(crate) refused: AtomicU64,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}
