//! The federation view: sites, links and their figures folded into one immutable picture that a decision is made on.
//!
//! Invariants
//! - Pure: reports, samples and `now` come in as arguments; nothing is read.
//! - Staleness is decided here alone.
//! - A `View` never changes; the next one has a higher generation.

pub mod assemble;
pub mod bandwidth;
pub mod export;
pub mod figures;
mod held;
pub mod sanity;
pub mod view;

pub use assemble::{Base, Live, LiveNode, LiveSite};
pub use bandwidth::{BandwidthBook, BandwidthClaim, BandwidthFigure, Limit};
pub use figures::{FigureBook, LinkFigure, LinkSample, PathNews, SampleError};
pub use sanity::{LinkWord, Objection, ProberFault, Review, Sanity};
pub use view::{FreeNodes, View, ViewDataset, ViewLink, ViewPath, ViewPoint, ViewRegion, ViewSite};
