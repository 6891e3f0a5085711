//! Hosts without the Linux kernel: everything is refused with the reason.

use crate::{Intent, KernelError, Objects, Operation, Owner, Refusal, VniRange, Wanted};
use std::collections::BTreeMap;

/// As on Linux, where it can be opened.
#[derive(Debug)]
pub struct Kernel(());

#[derive(Debug, Default)]
pub struct Applied {
    pub refused: BTreeMap<Owner, Refusal>,
    pub failed: BTreeMap<Owner, String>,
    pub stuck: Vec<String>,
    pub changes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub received_bytes: u64,
    pub received_packets: u64,
    pub sent_bytes: u64,
    pub sent_packets: u64,
    pub dropped_packets: u64,
    pub waiting_bytes: u64,
}

impl Kernel {
    pub fn open(_pool: Option<VniRange>) -> Result<Self, KernelError> {
        Err(KernelError::Unsupported)
    }

    pub fn check(_segments: bool) -> Result<(), KernelError> {
        Err(KernelError::Unsupported)
    }

    pub async fn observe(&mut self) -> Result<&Objects, KernelError> {
        Err(KernelError::Unsupported)
    }

    pub fn look_again(&mut self) {}

    pub async fn plan(&mut self, _legs: &[Intent]) -> Result<(Wanted, Vec<Operation>), KernelError> {
        Err(KernelError::Unsupported)
    }

    pub async fn apply(&mut self, _legs: &[Intent]) -> Result<Applied, KernelError> {
        Err(KernelError::Unsupported)
    }

    pub async fn clear(&mut self) -> Result<Applied, KernelError> {
        Err(KernelError::Unsupported)
    }

    pub async fn perform(&mut self, _operations: &[Operation]) -> Result<(), KernelError> {
        Err(KernelError::Unsupported)
    }

    pub async fn counters(&mut self) -> Result<BTreeMap<Owner, BTreeMap<u32, Counters>>, KernelError> {
        Err(KernelError::Unsupported)
    }
}
