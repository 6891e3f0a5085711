//! The published policies' scores, 0 to 100, each with its device for a share. Where a formula was published in floating
//! point, it is computed so: its rounding decides which nodes are equal.

use super::node::Node;
use crate::scoring::{Demand, Fragment, Free, Loss, Need, Pick, Valued, Weights, pick};

/// Scores one node for a need that fits it.
pub(super) trait Scorer {
    /// Of a node's room, kept with the node until that changes.
    fn value(&self, _free: &Free) -> i64 {
        0
    }

    fn score(&self, node: &Node, need: &Need) -> Pick;
}

/// The largest node in thousandths of a core, and in thousandths of a device.
const CPU: f64 = 128_000.0;
const DEVICES: f64 = 8000.0;

pub(super) struct BestFit;
pub(super) struct DotProd;
pub(super) struct Clustering;
pub(super) struct Packing;

/// By how much the measure of the typical pods falls.
pub(super) struct Fgd(Fragment);

pub(super) struct Rhumb(Loss);

impl Scorer for BestFit {
    fn score(&self, node: &Node, need: &Need) -> Pick {
        let cpu = f64::from(node.free.cpu_milli - need.cpu_milli) / CPU;
        let devices = f64::from(node.idle_milli - need.total_milli()) / DEVICES;
        Pick { score: (100.0 * (1.0 - (0.5 * cpu + 0.5 * devices))) as i64, device: node.fullest(need) }
    }
}

impl Scorer for DotProd {
    fn score(&self, node: &Node, need: &Need) -> Pick {
        let cpu = f64::from(node.free.cpu_milli) / CPU * f64::from(need.cpu_milli) / CPU;
        let devices = f64::from(node.idle_milli) / DEVICES * f64::from(need.total_milli()) / DEVICES;
        Pick { score: (100.0 * (1.0 - f64::midpoint(cpu, devices))) as i64, device: node.fullest(need) }
    }
}

impl Scorer for Clustering {
    fn score(&self, node: &Node, need: &Need) -> Pick {
        let device = node.fullest(need);
        if need.devices == 0 {
            return Pick { score: 0, device };
        }
        let kinds = node.kinds.iter().filter(|there| **there).count();
        let base = match (node.kinds[Node::kind(need)], kinds) {
            (true, 1) => 75,
            (true, _) => 50,
            (false, 0) => 25,
            (false, _) => 0,
        };
        Pick { score: base + 25 * (8000 - i64::from(node.idle_milli)) / 8000, device }
    }
}

impl Scorer for Packing {
    fn score(&self, node: &Node, need: &Need) -> Pick {
        let device = node.fullest(need);
        let whole = node.free.whole();
        let left = node.free.devices().get(usize::from(device)).copied().map_or(0, i64::from);
        let score = if need.devices == 0 {
            0
        } else if whole == node.free.devices().len() {
            (33 - whole as i64).max(whole as i64)
        } else if need.is_share() && left < 1000 {
            (100 - left * 100 / 1000 / 10).max(50)
        } else {
            (50 - i64::from(need.devices)).max(33)
        };
        Pick { score, device }
    }
}

impl Fgd {
    /// Of the most frequent pods, 95 % of the list.
    pub(super) fn new(demand: &Demand) -> Self {
        Self(typical(demand))
    }
}

/// The measure that fragmentation is reported in: memory is not looked at.
pub(super) fn typical(demand: &Demand) -> Fragment {
    Fragment::new(&demand.without_memory().typical(950))
}

impl Scorer for Fgd {
    fn value(&self, free: &Free) -> i64 {
        self.0.value(free)
    }

    fn score(&self, node: &Node, need: &Need) -> Pick {
        let unit = 1000.0 * self.0.total() as f64;
        pick(&node.free, need, &self.0, |after| {
            let fall = (node.value - after) as f64 / unit;
            (100.0 / (1.0 + (-fall).exp())) as i64
        })
    }
}

impl Rhumb {
    pub(super) fn new(demand: &Demand) -> Self {
        Self(Loss::new(demand, Weights::TUNED))
    }
}

impl Scorer for Rhumb {
    fn value(&self, free: &Free) -> i64 {
        self.0.value(free)
    }

    fn score(&self, node: &Node, need: &Need) -> Pick {
        self.0.pick(&node.free, node.value, need)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoring::Models;

    fn need(devices: u8, device_milli: u16) -> Need {
        Need { cpu_milli: 8000, memory_mib: 0, devices, device_milli, models: Models::ANY }
    }

    fn single(milli: u16) -> Need {
        need(1, milli)
    }

    fn scores(node: &mut Node, need: &Need) -> [(i64, u8); 5] {
        let fgd = Fgd(Fragment::new(&Demand::of([470, 470, 470, 1000].map(single))));
        node.value = fgd.value(&node.free);
        let scorers: [&dyn Scorer; 5] = [&BestFit, &DotProd, &Clustering, &Packing, &fgd];
        scorers.map(|scorer| scorer.score(node, need)).map(|pick| (pick.score, pick.device))
    }

    /// Computed by hand from the published formulas.
    #[test]
    fn scores_are_the_published_ones() {
        let mut node = Node::new(0, Free::empty(96_000, 0, 0, 8));
        // best fit 100 - 34.375 - 47.0625, dot product 100 - (4.6875 + 5.875) / 2; an idle node 25; all whole 33 - 8;
        // 530 are lost to one in four: sigmoid(-0.1325)
        assert_eq!(scores(&mut node, &need(1, 470)), [(18, 0), (94, 0), (25, 0), (25, 0), (46, 0)]);
        node.take(&need(1, 470), 3);
        // the device with 530 left is the fullest: 75 + 25 x 470 / 8000, 100 - 53 / 10, and 60 lost to all for 530 to one
        assert_eq!(scores(&mut node, &need(1, 470)), [(24, 3), (95, 3), (76, 3), (95, 3), (51, 3)]);
        // two whole devices of a used node; nothing is lost or gained
        assert_eq!(scores(&mut node, &need(2, 1000)), [(34, 0), (86, 0), (1, 0), (48, 0), (50, 0)]);
        node.take(&need(2, 1000), 0);
        // two kinds are there: 50 + 25 x 2470 / 8000
        assert_eq!(scores(&mut node, &need(1, 470))[2], (57, 3));
        // processors alone
        assert_eq!(scores(&mut node, &need(0, 0))[2..4], [(0, 0), (0, 0)]);
    }
}
