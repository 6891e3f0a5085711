//! Small federations and traces that are drawn.

use proptest::prelude::*;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Ppm};
use rhumb_replay::{Durations, Happening, Policy, Replayed, Setup, Workload, replay, trace};
use std::fmt::Write;

/// Sites with so many nodes of eight, in a ring of links of so many Gbit/s, and one across.
#[derive(Debug, Clone)]
pub struct Small {
    pub nodes: Vec<u32>,
    pub gbps: u32,
    /// (seconds since the one before, seconds, accelerators, owner)
    pub rows: Vec<(u32, u32, u32, u32)>,
}

pub fn small() -> impl Strategy<Value = Small> {
    let devices = prop_oneof![4 => 1..=8_u32, 1 => 9..=40_u32];
    let row = (0..200_u32, 1..2_000_u32, devices, 0..3_u32);
    // a link of the ring carries its own pair of sites and two more at the most, 1 Gbit/s each
    (prop::collection::vec(1..4_u32, 2..5), prop_oneof![Just(4), Just(10), Just(40)], prop::collection::vec(row, 1..60))
        .prop_map(|(nodes, gbps, rows)| Small { nodes, gbps, rows })
}

impl Small {
    /// `reversed`: sites and links come the other way round.
    pub fn federation(&self, reversed: bool) -> String {
        let count = self.nodes.len();
        let site = |(i, nodes): (usize, &u32)| {
            format!(
                "  - {{name: s{i}, prices: {{A100: {} CNY, windows: [{{from: \"22:00\", to: \"06:00\", tz: Asia/Shanghai, factor: 0.5}}]}}, \
                 nodes: [{{count: {nodes}, accelerators: {{model: A100, count: 8}}}}]}}\n",
                10 + i
            )
        };
        let link = |i: usize| {
            format!(
                "  - {{id: l{i}, from: s{i}, to: s{}, both_ways: true, capacity: {}Gbps, latency: {}ms, per_gb: 0.0{} CNY, per_mbps_hour: 0.001 CNY}}\n",
                (i + 1) % count,
                self.gbps,
                5 + i,
                2 + i
            )
        };
        let mut sites: Vec<String> = self.nodes.iter().enumerate().map(site).collect();
        // two sites are joined once
        let mut links: Vec<String> = (0..if count == 2 { 1 } else { count }).map(link).collect();
        if reversed {
            sites.reverse();
            links.reverse();
        }
        format!(
            "currency: CNY\ndevices: {{A100: {{memory: 80GiB, fp16: 1}}}}\nsites:\n{}links:\n{}",
            sites.concat(),
            links.concat()
        )
    }

    pub fn view(&self, reversed: bool) -> View {
        View::from_file(&FederationFile::read(&self.federation(reversed)).unwrap()).unwrap()
    }

    pub fn workload(&self, view: &View) -> Workload {
        let mut text = "submit_s,duration_s,num_gpus,vc\n".to_owned();
        let mut at = 0;
        for (gap, runs, devices, owner) in &self.rows {
            at += gap;
            writeln!(text, "{at},{runs},{devices},o{owner}").unwrap();
        }
        trace::read(&text, view).unwrap()
    }
}

pub fn run(view: &View, workload: &Workload, policy: &Policy, happenings: &[Happening]) -> Replayed {
    let noise = Ppm::from_ppm(50_000);
    replay(Setup { view, workload, policy, seed: 7, durations: Durations::Hidden, noise, happenings }).unwrap()
}
