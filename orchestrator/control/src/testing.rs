//! For the tests of crates that stand on this one: agents that do what they are told at once, or just not, and a store
//! that loses answers.

mod agent;
mod flaky;

pub use agent::{Conduct, FakeAgent};
pub use flaky::{FlakyStore, Trouble};

/// Two sites with eight accelerators each on either side of a relay; one dataset, at the eastern one.
pub const FEDERATION: &str = "
currency: CNY
devices:
  H100: {memory: 80GiB, fp16: 1.0}
sites:
  - {name: east, jurisdiction: CN, prices: {H100: 28 CNY, cpu: 0.2 CNY}, nodes: [{count: 1, accelerators: {model: H100, count: 8, islands: [8]}, cpu: 96, memory: 1TiB}]}
  - {name: west, jurisdiction: CN, prices: {H100: 20 CNY, cpu: 0.2 CNY}, nodes: [{count: 1, accelerators: {model: H100, count: 8, islands: [8]}, cpu: 96, memory: 1TiB}]}
transit: [{name: pop, jurisdiction: CN, relay: true}]
links:
  - {id: e-p, from: east, to: pop, both_ways: true, capacity: 100Mbps, latency: 5ms, jurisdictions: [CN], per_gb: 0.1 CNY}
  - {id: p-w, from: pop, to: west, both_ways: true, capacity: 100Mbps, latency: 5ms, jurisdictions: [CN], per_gb: 0.1 CNY}
datasets: [{name: corpus, size: 4MB, at: [east]}]
regions: [{name: users, at: pop, access: 1ms}]
";

/// The points of `FEDERATION` that have agents.
pub const POINTS: [&str; 3] = ["east", "west", "pop"];

/// An order for all devices of one site; its data comes from `east`.
pub fn training(name: &str, site: &str) -> String {
    format!(
        "name: {name}\nclass: training\ncomponents:\n  - name: trainer\n    need: {{accelerators: {{count: 8, models: [H100], interconnect: nvlink}}, cpu: 8, memory: 8GiB}}\n    \
         work: {{duration: 6s}}\n    run: {{command: [\"true\"]}}\nflows: [{{from: dataset/corpus, to: trainer}}]\nconstraints: {{sites: [{site}]}}\n"
    )
}

/// An order for a few cores at one site.
pub fn small(name: &str, site: &str) -> String {
    format!(
        "name: {name}\nclass: processing\ncomponents:\n  - name: job\n    need: {{cpu: 4, memory: 1GiB}}\n    work: {{duration: 6s}}\n    \
         run: {{command: [\"true\"]}}\nconstraints: {{sites: [{site}]}}\n"
    )
}
