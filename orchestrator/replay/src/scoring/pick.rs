//! The best devices of one node for a need.

use super::{Free, Need};

/// A measure of a node's free room; less is better.
pub trait Valued {
    fn value(&self, free: &Free) -> i64;
}

/// How good a node is, and on which device a share goes (whole devices: the first ones).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    pub score: i64,
    pub device: u8,
}

/// Scores every different way to put `need` on the node, `score` of the value after it; the first of the best ones.
/// The need must fit.
pub fn pick(free: &Free, need: &Need, measure: &impl Valued, score: impl Fn(i64) -> i64) -> Pick {
    let after = |device: usize| score(measure.value(&free.take(need, device)));
    if !need.is_share() {
        return Pick { score: after(0), device: 0 };
    }
    let devices = free.devices();
    let mut best: Option<Pick> = None;
    for (device, left) in devices.iter().enumerate() {
        if *left < need.device_milli || devices[..device].contains(left) {
            continue;
        }
        let score = after(device);
        if best.is_none_or(|best| score > best.score) {
            best = Some(Pick { score, device: device as u8 });
        }
    }
    best.unwrap_or(Pick { score: i64::MIN, device: 0 })
}
