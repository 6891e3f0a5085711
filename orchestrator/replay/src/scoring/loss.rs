//! The loss of a node's free room, and the score that follows from it.

use super::{Crumbs, Demand, Free, Models, Need, Pick, crumbs::FINE, pick, pick::Valued};

/// How the parts of the loss are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weights {
    /// Needs that come by a device before what is left of it counts as lost.
    pub arrivals: u32,
    /// A device without processors or memory against a crumb of the same size, in thousandths.
    pub blend: u32,
    /// Processors that a device wants, in thousandths of the mix's mean.
    pub blend_cpu: u32,
    /// Memory that a device wants, in thousandths of the mix's mean.
    pub blend_memory: u32,
    /// Falls of loss within one step are equal; in thousandths of a device.
    pub step: u32,
}

impl Weights {
    /// Chosen on arrival orders drawn anew from the published lists, none of them one of the published runs. The
    /// allocation changes by less than 0.2 points where any of them is halved or doubled.
    pub const TUNED: Weights = Weights { arrivals: 80, blend: 700, blend_cpu: 850, blend_memory: 1000, step: 25 };
}

/// The device capacity of a node that the mix is expected not to use, in parts of 2^20 of a thousandth of a device.
#[derive(Debug, Clone)]
pub struct Loss {
    step: i64,
    blend: u64,
    blends: Vec<Blend>,
    crumbs: Crumbs,
}

/// What all needs that one model can serve want together.
#[derive(Debug, Clone, Copy)]
struct Blend {
    devices: u64,
    cpu: u64,
    memory: u64,
}

impl Loss {
    pub fn new(demand: &Demand, weights: Weights) -> Self {
        Self {
            step: i64::from(weights.step.max(1)) * FINE as i64,
            blend: u64::from(weights.blend),
            blends: (0..=Models::MAX as u8).map(|model| Blend::new(demand, model, &weights)).collect(),
            crumbs: Crumbs::new(demand, weights.arrivals),
        }
    }

    /// How good the node is for a need that fits, and the device for a share; `before` is the value of `free`.
    pub fn pick(&self, free: &Free, before: i64, need: &Need) -> Pick {
        pick(free, need, self, |after| (before - after).div_euclid(self.step))
    }
}

impl Valued for Loss {
    fn value(&self, free: &Free) -> i64 {
        let blend = self.blends[usize::from(free.model).min(Models::MAX)].stranded(free);
        (self.crumbs.of(free) + self.blend * blend * FINE / 1000) as i64
    }
}

impl Blend {
    fn new(demand: &Demand, model: u8, weights: &Weights) -> Self {
        let sum = |of: &dyn Fn(&Need) -> u32| -> u64 {
            let served = demand.types().iter().filter(|(need, _)| need.models.has(model));
            served.map(|(need, count)| u64::from(of(need)) * u64::from(*count)).sum()
        };
        let mut devices = sum(&|need| need.total_milli()) * 1000;
        let mut cpu = sum(&|need| need.cpu_milli) * u64::from(weights.blend_cpu);
        let mut memory = sum(&|need| need.memory_mib) * u64::from(weights.blend_memory);
        // so that a product with 32 bits does not overflow
        while devices >> 32 > 0 {
            (devices, cpu, memory) = (devices / 2, cpu / 2, memory / 2);
        }
        Self { devices, cpu: cpu.max(1), memory: memory.max(1) }
    }

    /// The idle devices for which a node has too few processors or too little memory, in thousandths.
    fn stranded(&self, free: &Free) -> u64 {
        let idle = u64::from(free.idle_milli());
        let by = |have: u32, per: u64| u64::from(have) * self.devices / per;
        idle - idle.min(by(free.cpu_milli, self.cpu)).min(by(free.memory_mib, self.memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(cpu_milli: u32, devices: u8, device_milli: u16) -> Need {
        Need { cpu_milli, memory_mib: 1, devices, device_milli, models: Models::ANY }
    }

    fn score(loss: &Loss, free: &Free, need: &Need) -> i64 {
        loss.pick(free, loss.value(free), need).score
    }

    #[test]
    fn a_share_goes_where_it_leaves_what_nobody_else_would_have_filled() {
        let loss = Loss::new(&Demand::of([need(1, 1, 470), need(1, 1, 530)]), Weights::TUNED);
        let room = Free::empty(1000, 1000, 0, 1);
        // 530 end as 0 or, after 470, as 60: 30 in the mean, and 1000 as 15; both fall to 0
        assert_eq!(score(&loss, &room.with_devices(&[530]), &need(1, 1, 530)), 1);
        assert_eq!(score(&loss, &room, &need(1, 1, 530)), 0);
        assert_eq!(loss.pick(&room.with_devices(&[1000, 530]), 0, &need(1, 1, 530)).device, 1);
    }

    #[test]
    fn processors_and_memory_are_kept_for_idle_devices() {
        let loss = Loss::new(&Demand::of([need(8000, 1, 1000)]), Weights::TUNED);
        let (narrow, wide) = (Free::empty(64_000, 1000, 0, 8), Free::empty(104_000, 1000, 0, 2));
        // 48 cores carry 7.058 devices at 6.8 each: 942 thousandths idle, of which 700 in a thousand count
        assert_eq!(score(&loss, &narrow, &need(16_000, 0, 0)), -27);
        assert_eq!(score(&loss, &wide, &need(16_000, 0, 0)), 0);
        // 1000 MiB carry all; 4 MiB carry 4 of 8 devices
        let short = Free { memory_mib: 5, ..narrow };
        assert_eq!(score(&loss, &short, &need(0, 0, 0)), -28);
    }
}
