//! The nouns of the field: names, quantities, sites, devices, links, orders, plans, refusals.
//!
//! Invariants
//! - Pure: no runtime, clock, socket or environment. Documents come in as text and go out as text.
//! - A quantity is a type named by its kind and built by its unit; what the unit cannot hold exactly is refused.
//! - Every document refuses unknown keys and names the nearest known one.

pub mod calendar;
pub mod document;
pub mod federation_file;
pub mod fit;
pub mod id;
pub mod link;
pub mod money;
pub mod name;
pub mod order;
mod order_check;
pub mod plan;
pub mod price;
pub mod quantity;
pub mod ratio;
pub mod refusal;
pub mod role;
pub mod site;
pub mod slice;
pub mod state;
pub mod tariff;

pub use calendar::{Calendar, Slots};
pub use document::{DocumentError, Problem};
pub use federation_file::FederationFile;
pub use id::{OrderId, QuoteId, TokenId};
pub use link::{BandwidthMethod, Confidence, Link};
pub use money::{Amount, Currency};
pub use name::{
    ComponentName, DatasetName, Jurisdiction, Label, LinkId, ModelName, NodeName, OrderName, PointName, ProviderName,
    RegionName, SiteName, SrlgName, TenantName,
};
pub use order::Order;
pub use plan::{Cost, Leg, Plan};
pub use quantity::{Bandwidth, Bytes, Cores, Demand, Latency, Ppm, Share, Span};
pub use ratio::{Decimal, Ratio};
pub use refusal::{Change, Reason, ReasonKind, Refusal, Verdict};
pub use role::{Action, Role, Scope};
pub use site::{Device, Node, Site};
pub use slice::SliceProfile;
pub use state::{OrderState, Phase, RouteState};
