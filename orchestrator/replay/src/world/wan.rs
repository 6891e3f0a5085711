//! Links: what they carry, and the delay they have against the one that was probed.

use super::World;
use crate::{dice, time::Micros};
use petgraph::graph::EdgeIndex;
use rhumb_federation::View;
use rhumb_model::{
    LinkId,
    quantity::{Bandwidth, Latency},
};

/// A directed link.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    edge: EdgeIndex,
    /// What can be reserved, and is, in kbit/s.
    capacity: u64,
    held: u64,
    /// The true delay, in microseconds.
    latency: u64,
    up: bool,
    /// Fixed by its id, so that noise does not depend on the order of links.
    seed: u64,
}

/// What a job asks of one link in each of its phases (bringing data in, running, taking results out), in kbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Number of the link, in order of id.
    pub link: usize,
    pub kbps: [u64; 3],
}

impl Load {
    /// What is held from a phase on: the most of it and those to come.
    pub fn from(&self, phase: usize) -> u64 {
        self.kbps[phase.min(3)..].iter().copied().max().unwrap_or(0)
    }
}

impl Wire {
    pub fn all(view: &View) -> Vec<Self> {
        let wire = |(id, edge): (&LinkId, &EdgeIndex)| {
            let link = &view.graph[*edge];
            Self {
                edge: *edge,
                capacity: link.free.kbps(),
                held: 0,
                latency: link.latency.micros(),
                up: true,
                seed: dice::of_text(id.as_str()),
            }
        };
        view.links.iter().map(wire).collect()
    }

    pub fn numbers(view: &View) -> Vec<usize> {
        let mut numbers = vec![0; view.graph.edge_count()];
        view.links.values().enumerate().for_each(|(number, edge)| numbers[edge.index()] = number);
        numbers
    }
}

impl World {
    /// The number of a link.
    pub fn link_number(&self, id: &LinkId) -> Option<usize> {
        self.view.links.get(id).map(|edge| self.numbers[edge.index()])
    }

    pub fn link_id(&self, number: usize) -> &LinkId {
        &self.view.graph[self.wires[number].edge].id
    }

    /// The link's price per 10^9 bytes, and per Mbit/s and hour, in micro-units.
    pub fn tariff(&self, number: usize) -> (rhumb_model::Ratio, rhumb_model::Ratio) {
        let link = &self.view.graph[self.wires[number].edge];
        (link.per_gb_micros, link.per_mbps_hour_micros)
    }

    /// True delay of a path.
    pub fn delay(&self, links: &[usize]) -> Micros {
        Micros(links.iter().map(|n| self.wires[*n].latency as i64).sum())
    }

    /// Takes or gives back capacity. False: there is not so much, and nothing is changed.
    pub fn hold(&mut self, number: usize, more: u64, less: u64) -> bool {
        let wire = &mut self.wires[number];
        let held = (wire.held + more).saturating_sub(less);
        if more > less && (held > wire.capacity || !wire.up) {
            return false;
        }
        wire.held = held;
        self.show_free(number);
        true
    }

    /// False: it was so before.
    pub fn set_link(&mut self, number: usize, up: bool) -> bool {
        if self.wires[number].up == up {
            return false;
        }
        self.wires[number].up = up;
        self.show_free(number);
        true
    }

    pub fn set_delay(&mut self, number: usize, latency: Latency) {
        let wire = &mut self.wires[number];
        wire.latency = latency.micros();
        self.view.graph[wire.edge].latency = latency;
    }

    fn show_free(&mut self, number: usize) {
        let wire = &self.wires[number];
        let free = if wire.up { wire.capacity.saturating_sub(wire.held) } else { 0 };
        self.view.graph[wire.edge].free = Bandwidth::from_kbps(free);
    }

    /// Probes every link: each is seen off its true delay by up to `noise_ppm` either way.
    pub fn probe(&mut self, noise_ppm: u64, seed: u64, round: u64) {
        for wire in &self.wires {
            let span = wire.latency.saturating_mul(noise_ppm) / 1_000_000;
            let off = dice::mix(&[seed, wire.seed, round]) % (2 * span + 1);
            self.view.graph[wire.edge].latency = Latency::from_micros((wire.latency - span.min(wire.latency)) + off);
        }
    }
}
