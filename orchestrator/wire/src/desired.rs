//! The desired state of one point: everything that should be there, and nothing else.

use crate::kernel::KernelRoute;
use crate::report::{AssignmentKey, RouteKey};
use rhumb_model::{
    Bandwidth, LinkId, SliceProfile,
    name::{NodeName, PointName},
    quantity::{Bytes, Cores},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Desired {
    pub epoch: u64,
    pub generation: u64,
    /// What is not listed is stopped, and its directory removed once it has ended.
    pub assignments: Vec<Assignment>,
    /// What is not listed is torn down.
    pub routes: Vec<Route>,
    pub probes: Vec<ProbeTarget>,
    /// Points to which the whole way is measured, for want of anything that measures its parts.
    #[serde(default)]
    pub pairs: Vec<PairTarget>,
    /// Whom this point reaches over which link, for probes and overlay.
    pub links: Vec<PeerLink>,
    /// Only these points may open overlay connections here.
    pub peers: Vec<PointName>,
    /// Shared by all agents: probes and trains carry proof of it, and those without are not answered. 32 octets, base64.
    #[serde(default)]
    pub probe_key_base64: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerLink {
    pub link: LinkId,
    pub to: PointName,
    /// `host:port` of the peer's overlay listener, as reached over this link.
    pub overlay: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeTarget {
    pub link: LinkId,
    /// `host:port` of the peer's reflector, as reached over this link.
    pub address: String,
    pub interval_ms: u64,
    /// Committed rate of the link: counters say what is left of it, and budgets are shares of it.
    #[serde(default)]
    pub capacity: Option<Bandwidth>,
    /// Mean time between runs of packet trains; `None`: none.
    #[serde(default)]
    pub trains_every_ms: Option<u64>,
}

/// A point beyond transit that nothing is known of: only the sum of the way there can be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairTarget {
    pub to: PointName,
    /// `host:port` of its reflector.
    pub address: String,
    pub interval_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssignmentGoal {
    /// Lease the devices, accept inputs, start nothing.
    Lease,
    /// Run the command (once; a run that ended is not repeated under the same key).
    Run,
    /// Stop it and keep its record until it is no longer listed.
    Stop,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    pub key: AssignmentKey,
    pub goal: AssignmentGoal,
    pub node: NodeName,
    /// Numbers of pieces (`rhumb_model::site::Piece`): whole devices by index, or slices; the agent refuses if one is leased
    /// to another key.
    pub devices: Vec<u32>,
    /// Where it is not whole devices that are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<DevicePart>,
    pub cpu: Cores,
    pub memory: Bytes,
    /// argv; never passed to a shell.
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub inputs: Vec<InputFile>,
    /// Files that the work writes, for flows from its component to a dataset.
    #[serde(default)]
    pub outputs: Vec<OutputFile>,
    pub endpoints: Vec<FlowEndpoint>,
    /// With failover: without an answered report for this long the agent stops the work by itself.
    pub lease_ms: Option<u64>,
    /// Between the polite signal and the kill.
    pub grace_ms: u64,
    /// Sent first, such as `SIGUSR1`; the polite signal follows at half of the grace.
    #[serde(default)]
    pub checkpoint_signal: Option<String>,
    /// W3C trace context of the order.
    #[serde(default)]
    pub traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "RunTerms::is_usual")]
    pub terms: RunTerms,
}

/// What not every run has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunTerms {
    /// The component's replicas at this site start together or not at all.
    pub gang: bool,
    /// Container image; runtimes without containers leave it to the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Another command or image by the family of the devices.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variants: BTreeMap<String, RunVariant>,
    /// What names the checkpoint that the run is to go on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_from: Option<String>,
}

impl RunTerms {
    fn is_usual(&self) -> bool {
        self == &Self::default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunVariant {
    /// Empty: as without a variant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// What of each of its devices an assignment has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum DevicePart {
    /// Beside others, who are told their shares as well. Without a word of its memory it is that share of the device's.
    Share {
        thousandths: u16,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_bytes: Option<u64>,
    },
    /// Slices of this profile; what has another one now is refused.
    Slice { profile: SliceProfile },
}

/// A file that must have arrived before the command starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    pub dataset: String,
    /// Leg that brings it; `None`: this site holds a copy.
    pub leg: Option<u32>,
    pub bytes: u64,
    /// Where several sites share one dataset: the part of it, as an offset.
    pub offset: u64,
}

/// A file that the command writes and that becomes (part of) a dataset once the command has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    pub dataset: String,
    /// Leg that takes it away; `None`: the dataset's place is this very site.
    pub leg: Option<u32>,
    /// How much of the dataset the work at this site writes.
    pub bytes: u64,
}

/// A unix socket (mode 0700 directory) of one replica for one of its flows. Bytes written to it come out at the peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowEndpoint {
    /// Index of the flow in the order; gives the variable's name `RHUMB_FLOW_<n>`.
    pub flow: u32,
    /// Legs of this flow that begin or end at this site.
    pub legs: Vec<u32>,
    pub role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Source,
    Relay,
    Sink,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Route {
    pub key: RouteKey,
    pub role: Role,
    /// Link to the next hop; `None` at the sink.
    pub next_link: Option<LinkId>,
    /// Point that the previous hop is; `None` at the source.
    pub previous: Option<PointName>,
    pub rate: Bandwidth,
    pub purpose: RoutePurpose,
    /// At the two ends of an encrypted route only: 32 octets, base64. Relays never get it.
    #[serde(default)]
    pub key_base64: Option<String>,
    /// Shared by all hops of this route: a connection without proof of it is not accepted. 32 octets, base64.
    #[serde(default)]
    pub hop_secret_base64: Option<String>,
    /// Of the leg's paths, which takes its bytes.
    #[serde(default)]
    pub duty: Duty,
    /// A neighbour that is silent for so long is given up, and bytes take another path; `None`: as the agent sees fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
    /// How the kernel carries it; `None`: the agents' relays do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelRoute>,
}

/// What a path is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Duty {
    /// The leg's bytes take it as long as it stands.
    #[default]
    Carry,
    /// It is built and measured; the leg's bytes take it while the path that should carry them is lost.
    Standby,
    /// It is built and measured, and no bytes take it before that is changed.
    Measure,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum RoutePurpose {
    /// Moves part of a dataset from the source's store to the sink. `write` at the sink: becomes a dataset there;
    /// otherwise it is an input of the order's assignments.
    Transfer { dataset: String, offset: u64, bytes: u64, write: bool, start: bool },
    /// Carries whatever the flow's sockets send.
    Stream { flow: u32 },
}
