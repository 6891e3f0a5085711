//! What an agent posts, and what it gets back.

use crate::{desired::Desired, inventory::InventoryUpdate, kernel::KernelOffer};
use rhumb_model::{
    Bandwidth, BandwidthMethod, Confidence, LinkId, OrderId,
    name::{ComponentName, NodeName, PointName},
    quantity::{Bytes, Cores},
    site::Device,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Body of `POST /agent/v1/sync`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub protocol: u32,
    pub point: PointName,
    /// New at every start of the agent.
    pub boot_id: Uuid,
    /// Rises by one with every report of this boot.
    pub seq: u64,
    /// The desired state this agent works on: `(epoch, generation)` last accepted.
    pub epoch: u64,
    pub generation: u64,
    /// How long the orchestrator may hold the answer while nothing newer exists.
    pub wait_ms: u64,
    /// Where other agents reach this one; absent where links are configured with addresses.
    #[serde(default)]
    pub probe_port: Option<u16>,
    #[serde(default)]
    pub overlay_port: Option<u16>,
    /// How its kernel can carry routes; absent: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelOffer>,
    /// All of them. Absent: as `inventory` says, or unchanged since the last report of this boot that was answered.
    #[serde(default)]
    pub nodes: Option<Vec<NodeReport>>,
    #[serde(default)]
    pub inventory: InventoryUpdate,
    /// Every assignment the agent knows of, live or ended and not yet forgotten (always the full set).
    pub assignments: Vec<AssignmentStatus>,
    /// Every route end or hop (always the full set).
    pub routes: Vec<RouteStatus>,
    /// Of links that were not told of for the longest: a report has room for so many.
    pub links: Vec<LinkFigures>,
    /// Recorded windows, told until a report with them is answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowFigures>,
    #[serde(default)]
    pub pairs: Vec<PairFigures>,
    #[serde(default)]
    pub trains: Vec<TrainHeard>,
    #[serde(default)]
    pub logs: Vec<LogChunk>,
    /// Datasets that this site holds, with sizes (full set).
    #[serde(default)]
    pub datasets: Vec<HeldDataset>,
    /// Work found that nobody ordered; what it holds is not well in `nodes`, but `unmanaged`.
    #[serde(default)]
    pub unmanaged: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldDataset {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    pub name: NodeName,
    pub devices: Vec<Device>,
    pub cpu: Cores,
    pub memory: Bytes,
    #[serde(default)]
    pub rack: Option<String>,
    #[serde(default)]
    pub nvl_domain: Option<String>,
    /// What of the devices is not known, and why: its place in `devices` holds nothing that was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownValue>,
    /// Network ports of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortReport>,
}

/// A network port, whose speed is a ceiling for every link through it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortReport {
    pub name: String,
    /// Absent: not known, or the port is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_kbps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownValue {
    /// Index of the device.
    pub device: u32,
    /// Such as `memory`.
    pub value: String,
    pub why: String,
}

/// Identity of one replica's work: an assignment is never reused for another generation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AssignmentKey {
    pub order: OrderId,
    pub generation: u64,
    pub component: ComponentName,
    pub replica: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssignmentState {
    /// Devices are leased, nothing runs yet; inputs may be arriving.
    Leased,
    /// Leased, and every input file is complete and its checksum right.
    Staged,
    Running,
    /// Ended by itself; `exit_code` or `signal` say how.
    Exited,
    /// Stopped because the desired state, a cancel or an ended lease asked for it; nothing of it runs.
    Stopped,
    /// The agent refuses it (device taken, unknown device, fenced); `message` says why.
    Refused,
    /// It ran when last seen and left no exit record (the host was restarted).
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignmentStatus {
    pub key: AssignmentKey,
    pub state: AssignmentState,
    #[serde(default)]
    pub exit_code: Option<i32>,
    #[serde(default)]
    pub signal: Option<i32>,
    /// Length of the run, by the agent's monotonic clock; of a running one so far.
    #[serde(default)]
    pub ran_us: u64,
    /// Wall clock of the agent, informative.
    #[serde(default)]
    pub started_us: Option<i64>,
    /// Per input file of this replica: bytes arrived.
    #[serde(default)]
    pub staged_bytes: u64,
    /// SHA-256 (hex) per input, once complete.
    #[serde(default)]
    pub staged_sha256: Vec<String>,
    /// What the work named as its last checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    #[serde(default)]
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RouteKey {
    pub order: OrderId,
    pub generation: u64,
    /// Index of the leg in the plan.
    pub leg: u32,
    /// Which of the leg's paths, numbered as they were chosen.
    #[serde(default)]
    pub path: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteEndState {
    /// Known, not yet usable (next hop not reached).
    Building,
    /// Ready to pass bytes (at the source: verified end to end through every hop).
    Active,
    /// A transfer over it ended: all bytes delivered and acknowledged by the sink.
    Done,
    Degraded,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteStatus {
    pub key: RouteKey,
    pub state: RouteEndState,
    /// Payload bytes passed on (hop), sent (source) or received (sink), headers and cipher overhead not counted.
    pub bytes: u64,
    /// Bytes in the other direction, for streams.
    #[serde(default)]
    pub bytes_back: u64,
    #[serde(default)]
    pub message: String,
    /// At the source: what was measured over this very path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<RouteFigures>,
    /// At the source: the leg's bytes take this path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub carrying: bool,
}

/// What the source found out about a path, by bytes of its own over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteFigures {
    /// The shortest round trip of the last probes.
    pub rtt_us: u64,
    /// Rate at which the test's bytes came out at the sink, and the rate they were sent at, which is the route's as far as
    /// so few bytes can tell; `None`: not tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tested: Option<TestedRate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedRate {
    pub sent: Bandwidth,
    pub arrived: Bandwidth,
}

/// Figures of one directed link by the prober of its `from` end, over the last window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkFigures {
    pub link: LinkId,
    pub window_us: u64,
    pub sent: u64,
    pub received: u64,
    /// `None`: nothing was received in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_p50_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_p95_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_forward_ppm: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_backward_ppm: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reply_age_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_p99_us: Option<u64>,
    /// What is known of the rate the link carries, at most one by each method.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bandwidths: Vec<BandwidthFigures>,
    /// The last three recorded windows measured nothing: what is known is old.
    #[serde(default)]
    pub stale: bool,
}

/// One recorded window of a directed link, whose probes are all answered or given up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WindowFigures {
    pub link: LinkId,
    /// Orders the windows of one boot: when it began, by the agent's own clock.
    pub start_ms: u64,
    /// Since it ended.
    pub age_ms: u64,
    /// Counts and histograms, as the prober writes them down.
    pub record: serde_json::Value,
    /// The path is another than in the windows before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<PathChange>,
}

/// What a window has shown of the path: more or fewer hops, or a least round trip that has moved for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    /// From and to, where the least round trip has moved.
    #[serde(default)]
    pub min_moved_us: Option<(u64, u64)>,
}

/// What a link carries, or has left where counters say so, as its `from` end found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthFigures {
    pub rate_kbps: u64,
    /// What of it others leave free, where the method tells.
    #[serde(default)]
    pub available_kbps: Option<u64>,
    pub method: BandwidthMethod,
    pub confidence: Confidence,
    /// Names the link in the receiver's word about the same trains.
    pub label: u32,
    pub age_us: u64,
}

/// What a reflector counted of somebody's packet trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainHeard {
    /// As the sender named the link.
    pub label: u32,
    /// The highest rate that came.
    pub rate_kbps: u64,
    pub age_us: u64,
}

/// Round trips of the whole way to a point, over the last window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairFigures {
    pub to: PointName,
    pub sent: u64,
    pub received: u64,
    pub rtt_min_us: Option<u64>,
    pub rtt_p50_us: Option<u64>,
    pub rtt_p95_us: Option<u64>,
    pub last_reply_age_us: Option<u64>,
}

/// Output of one replica since the last report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChunk {
    pub key: AssignmentKey,
    /// Offset of the first byte in the replica's log; a repeated chunk is recognised by it.
    pub offset: u64,
    /// How many bytes of the output this chunk stands for.
    pub bytes: u64,
    /// UTF-8, invalid bytes replaced.
    pub text: String,
}

/// Answer of `POST /agent/v1/sync`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncReply {
    /// Echo of the report answered.
    pub seq: u64,
    /// Absent: nothing newer than what the report names.
    pub desired: Option<Desired>,
    /// How long without an answered report the agent may keep leased work; see `Assignment::lease_ms`.
    pub log_acks: Vec<LogAck>,
    /// Pause before the next report, where the orchestrator asks for one.
    pub pause_ms: u64,
    /// Number of the inventory that is known here, if it is the report's; else the next report must hold all of it.
    #[serde(default)]
    pub inventory: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogAck {
    pub key: AssignmentKey,
    pub up_to: u64,
}

/// Whether it can be what names a checkpoint: one line that is not empty, of at most 1,024 bytes.
pub fn is_checkpoint_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= CHECKPOINT_BYTES_MAX && !name.contains(char::is_control)
}

/// Longest name of a checkpoint.
pub const CHECKPOINT_BYTES_MAX: usize = 1_024;
