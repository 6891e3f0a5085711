//! A batch with prices, pools and demands, as `rhumb place --joint` reads it.
//!
//! Jobs at nodes of a directed network ask for devices of one of several types. A job takes one pool and one path from
//! its node to the pool's site within its delay, or is rejected at its price. Pools and links are never overfilled.

mod number;
mod read;

pub use number::{Nano, Rounding};
pub use read::{MAX_BYTES, read};

use serde::{Serialize, Serializer};
use std::fmt;

/// What names a site or a job: a whole number or a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    Number(i64),
    Text(String),
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Text(t) => write!(f, "{t:?}"),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(n) => s.serialize_i64(*n),
            Self::Text(t) => s.serialize_str(t),
        }
    }
}

/// A sound instance: every node named exists, names are unique, quantities are finite and not negative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub name: String,
    /// Nodes are numbered from 0.
    pub nodes: u32,
    pub links: Vec<Link>,
    pub sites: Vec<Site>,
    pub jobs: Vec<Job>,
}

/// Directed; at most one from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub from: u32,
    pub to: u32,
    /// Milliseconds.
    pub delay: Nano,
    /// Mbit/s.
    pub capacity: Nano,
    /// USD for one Gbit/s and hour.
    pub price: Nano,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    pub id: Id,
    pub node: u32,
    /// At most one for each type of device.
    pub pools: Vec<Pool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub gpu: String,
    pub count: u32,
    /// USD for one device and hour.
    pub price: Nano,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: Id,
    /// Node.
    pub source: u32,
    pub gpus: u32,
    pub gpu_types: Vec<String>,
    /// Mbit/s.
    pub rate: Nano,
    /// Milliseconds; `None`: any.
    pub max_delay: Option<Nano>,
    pub hours: Nano,
    /// USD.
    pub reject: Nano,
}

/// What is wrong with a file of instances.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstanceError {
    #[error("not JSON at line {line}, column {column}: {reason}")]
    Syntax { line: usize, column: usize, reason: String },
    #[error("{0}: write an array of instances")]
    Form(String),
    #[error("instance {instance}: {field}: {reason}")]
    Field { instance: String, field: String, reason: String },
}
