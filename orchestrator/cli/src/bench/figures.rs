//! The figures of one run, and how they are shown.

use super::world::World;
use crate::{output::table, show};
use rhumb_placement::measure::Timings;
use serde::Serialize;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figures {
    pub sites: usize,
    /// As the file declares them: one both ways counts once.
    pub links: usize,
    pub accelerators: u64,
    pub decisions: u64,
    pub planned: u64,
    pub refused: u64,
    pub proven_optimal_pct: f64,
    pub p50_us: u64,
    pub p99_us: u64,
    /// Decisions and what it takes to apply them, one after the other on one core.
    pub decisions_per_s: f64,
    /// Taking a plan's share from the view.
    pub apply_p99_us: Option<u64>,
    /// With the reasons of all sites and what would help.
    pub refusal_p99_us: Option<u64>,
    pub gang512_p99_us: Option<u64>,
    /// Kinds of gang asked for, and those of them that fit.
    pub gang512_kinds: usize,
    pub gang512_planned: usize,
    pub view_update_p99_us: Option<u64>,
    /// Plans that the view could not take.
    pub not_applied: u64,
    /// The most that the process had in memory while it decided.
    pub rss_bytes: u64,
}

impl Figures {
    pub fn new(world: &World, timings: &Timings) -> Self {
        let decisions = timings.decisions.len();
        let planned = decisions - timings.refused;
        let seconds: f64 = timings.decisions.iter().chain(&timings.applied).map(Duration::as_secs_f64).sum();
        Self {
            sites: world.file.sites.len(),
            links: world.file.links.len(),
            accelerators: world.view.sites.iter().map(devices).sum(),
            decisions: decisions as u64,
            planned: planned as u64,
            refused: timings.refused as u64,
            proven_optimal_pct: if planned == 0 { 0.0 } else { timings.proven as f64 * 100.0 / planned as f64 },
            p50_us: percentile(&timings.decisions, 50).unwrap_or(0),
            p99_us: percentile(&timings.decisions, 99).unwrap_or(0),
            decisions_per_s: decisions as f64 / seconds.max(1e-9),
            apply_p99_us: percentile(&timings.applied, 99),
            refusal_p99_us: percentile(&timings.refusals, 99),
            gang512_p99_us: percentile(&timings.gangs, 99),
            gang512_kinds: timings.gang_kinds.0,
            gang512_planned: timings.gang_kinds.1,
            view_update_p99_us: percentile(&timings.reports, 99),
            not_applied: timings.not_applied.len() as u64,
            rss_bytes: peak_bytes(),
        }
    }

    pub fn table(&self) -> String {
        let rows = [
            ("federation", format!("{} sites, {} links, {} accelerators", self.sites, self.links, self.accelerators)),
            ("decisions", format!("{} ({} planned, {} refused)", self.decisions, self.planned, self.refused)),
            ("proven optimal", format!("{:.1} %", self.proven_optimal_pct)),
            ("per second, applied", format!("{:.0}", self.decisions_per_s)),
            ("p50, p99", format!("{} us, {} us", self.p50_us, self.p99_us)),
            ("apply p99", us(self.apply_p99_us)),
            ("refusal explained p99", us(self.refusal_p99_us)),
            ("gang of 512 p99", us(self.gang512_p99_us)),
            ("report folded in p99", us(self.view_update_p99_us)),
            ("memory", show::bytes(self.rss_bytes as i64)),
        ];
        table(&["FIGURE", "VALUE"], rows.map(|(name, value)| vec![name.to_owned(), value]))
    }
}

fn us(us: Option<u64>) -> String {
    show::or_dash(us.map(|us| format!("{us} us")))
}

/// One row a size.
pub(super) fn growth(all: &[Figures]) -> String {
    let row = |f: &Figures| {
        vec![
            f.sites.to_string(),
            f.links.to_string(),
            f.accelerators.to_string(),
            us(Some(f.p50_us)),
            us(Some(f.p99_us)),
            format!("{:.0}", f.decisions_per_s),
            format!("{:.1} %", f.proven_optimal_pct),
            us(f.refusal_p99_us),
            us(f.gang512_p99_us),
            us(f.view_update_p99_us),
            show::bytes(f.rss_bytes as i64),
        ]
    };
    let head = [
        "SITES",
        "LINKS",
        "ACCELERATORS",
        "P50",
        "P99",
        "PER S",
        "PROVEN",
        "REFUSAL P99",
        "GANG P99",
        "REPORT P99",
        "MEMORY",
    ];
    table(&head, all.iter().map(row))
}

fn devices(site: &rhumb_federation::ViewSite) -> u64 {
    let count = |n: &rhumb_federation::FreeNodes| {
        let per_node: u64 = n.shape.groups.iter().map(|g| u64::from(g.total)).sum();
        u64::from(n.count) * per_node
    };
    site.whole.iter().map(count).sum()
}

/// In microseconds, rounded up; the value that so many percent do not exceed.
fn percentile(times: &[Duration], percent: usize) -> Option<u64> {
    let mut times = times.to_vec();
    times.sort_unstable();
    let rank = (times.len() * percent).div_ceil(100);
    times.get(rank.saturating_sub(1)).map(|t| t.as_nanos().div_ceil(1_000) as u64)
}

/// Lets the kernel count the process's peak anew, where it can.
pub(super) fn forget_peak() {
    // without it the peak of reading the files counts too
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that the kernel saw this process have.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).map_or(0, |kib| kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let times: Vec<Duration> = (1..=100).rev().map(Duration::from_micros).collect();
        assert_eq!((percentile(&times, 50), percentile(&times, 99)), (Some(50), Some(99)));
        assert_eq!(percentile(&[Duration::from_micros(7)], 99), Some(7));
        assert_eq!(percentile(&[Duration::from_nanos(1_001)], 50), Some(2));
        assert_eq!(percentile(&[], 50), None);
    }
}
