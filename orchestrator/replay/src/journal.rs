//! What happened in a replay, in order: enough to check it by other means, and to draw it.

use crate::time::Micros;
use rhumb_model::{LinkId, ModelName, SiteName};
use serde::Serialize;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    pub at: Micros,
    pub event: Event,
}

/// `job` is the place of a job in order of submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Event {
    Submitted {
        job: usize,
    },
    /// Could not fit even if nothing else ran.
    Rejected {
        job: usize,
    },
    /// Devices and links are held from now on, and data moves.
    Placed {
        job: usize,
        held: Arc<Held>,
    },
    /// The data is there, and links hold what running needs.
    Started {
        job: usize,
    },
    /// Devices are free again, and results move.
    Ended {
        job: usize,
    },
    /// Links are free again too.
    Finished {
        job: usize,
    },
    /// Its site or path is gone; everything is free, and it waits again.
    Lost {
        job: usize,
    },
    SiteDown {
        site: SiteName,
    },
    SiteUp {
        site: SiteName,
    },
    LinkDown {
        link: LinkId,
    },
    LinkUp {
        link: LinkId,
    },
}

/// What one job holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    pub seats: Vec<HeldSeat>,
    pub links: Vec<HeldLink>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldSeat {
    pub component: usize,
    pub site: SiteName,
    /// Number of the node in the replay.
    pub host: usize,
    pub model: Option<ModelName>,
    /// Indices within the node.
    pub devices: Vec<u32>,
}

/// While data comes in, while the job runs, while results go out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldLink {
    pub link: LinkId,
    pub kbps: [u64; 3],
}
