//! The workload that decisions are measured on: a fleet of core, cloud and edge sites in real cities, joined by several
//! carriers, and orders of two components and three flows, of which about one in twenty asks for what nobody has.

use super::{Size, demand, fleet, map::CITIES, mesh};
use crate::dice::Dice;
use jiff::Timestamp;
use rhumb_model::{DocumentError, FederationFile, Order};
use serde_json::{Value, json};

/// When everything is submitted: 11:17 in Shanghai, between two price edges.
pub const INSTANT: &str = "2026-12-01T03:17:00Z";
/// Datasets, and as many regions.
const NAMED: u32 = 100;

/// A fleet as it is measured by default: three links and a hundred accelerators for each site.
pub fn size(sites: u32) -> Size {
    Size { sites, links: sites.saturating_mul(3), accelerators: sites.saturating_mul(100) }
}

/// The federation; the same size and seed give the same document.
///
/// # Panics
/// If it is larger than a document may be: see [`try_federation`].
pub fn federation(size: Size, seed: u64) -> FederationFile {
    try_federation(size, seed).expect("a generated federation is sound")
}

/// The federation, or what is too large about its document.
pub fn try_federation(size: Size, seed: u64) -> Result<FederationFile, DocumentError> {
    let size = Size { sites: size.sites.max(2), ..size };
    let mut dice = Dice::new(seed);
    let sites = fleet::sites(&mut dice, size);
    let cities = fleet::cities(size.sites);
    let pops = mesh::pops(cities, size.sites);
    let links = mesh::links(&mut dice, &sites, &pops, size.links as usize);
    let transit: Vec<Value> = pops
        .iter()
        .map(|p| {
            let place = json!({"lat": super::map::degrees(p.spot.lat), "lon": super::map::degrees(p.spot.lon)});
            json!({"name": p.name, "place": place, "jurisdiction": CITIES[p.city].jurisdiction, "relay": true})
        })
        .collect();
    let large: Vec<&str> = sites.iter().filter(|s| s.tier != fleet::Tier::Edge).map(|s| s.name.as_str()).collect();
    let datasets: Vec<Value> = (0..NAMED)
        .map(|i| {
            // where there is room for them
            let at: std::collections::BTreeSet<&str> = (0..dice.between(1, 3)).map(|_| dice.one_of(&large)).collect();
            let gb = dice.one_of(&[50, 100, 200, 500, 1_000, 2_000, 4_000, 8_000]);
            json!({"name": format!("data-{i:03}"), "size": format!("{gb}GB"), "at": at})
        })
        .collect();
    let regions: Vec<Value> = (0..NAMED)
        .map(|i| {
            let at = &pops[dice.below(pops.len() as u64) as usize].name;
            json!({"name": format!("users-{i:03}"), "at": at, "access": format!("{}ms", dice.between(1, 8))})
        })
        .collect();
    let document = json!({
        "currency": "CNY",
        "rates": {"USD": 7.1},
        "at": INSTANT,
        "devices": fleet::devices(),
        "sites": sites.iter().map(|s| &s.document).collect::<Vec<_>>(),
        "transit": transit,
        "links": links,
        "datasets": datasets,
        "regions": regions,
    });
    FederationFile::read(&document.to_string())
}

/// `count` orders for a federation that `federation` made; the same federation and seed give the same orders.
pub fn orders(file: &FederationFile, count: u32, seed: u64) -> Vec<Order> {
    demand::orders(file, count, &mut Dice::new(seed ^ 0x5eed))
}

/// When the orders are submitted.
pub fn instant() -> Timestamp {
    INSTANT.parse().expect("a written instant is one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_federation::View;
    use std::collections::BTreeSet;

    #[test]
    fn a_fleet_has_what_is_asked_and_the_same_seed_gives_the_same_documents() {
        for sites in [2, 10, 100] {
            let size = size(sites);
            let file = federation(size, 7);
            assert_eq!((file.sites.len(), file.links.len()), (sites as usize, size.links as usize));
            let in_entry = |n: &rhumb_model::federation_file::NodeEntry| {
                n.count * n.accelerators.0.iter().map(|g| g.count).sum::<u32>()
            };
            let devices: u32 = file.sites.iter().flat_map(|s| &s.nodes).map(in_entry).sum();
            assert_eq!(devices, size.accelerators, "{sites} sites");
            assert_eq!(file, federation(size, 7));
            assert_ne!(file, federation(size, 8));
            assert_eq!(orders(&file, 20, 7), orders(&file, 20, 7));
            // every point can be reached from every other
            let view = View::from_file(&file).unwrap();
            assert_eq!(petgraph::algo::kosaraju_scc(&view.graph).len(), 1, "{sites} sites");
        }
    }

    #[test]
    fn orders_have_two_components_three_flows_and_a_third_of_the_flows_a_delay_bound() {
        let file = federation(size(40), 3);
        let orders = orders(&file, 600, 3);
        assert!(orders.iter().all(|o| o.components.len() == 2 && o.flows.len() == 3));
        let rates: BTreeSet<u64> =
            orders.iter().flat_map(|o| &o.flows).filter_map(|f| f.rate).map(rhumb_model::Bandwidth::kbps).collect();
        assert_eq!((rates.first(), rates.last()), (Some(&100_000), Some(&10_000_000)));
        let bounded = orders.iter().flat_map(|o| &o.flows).filter(|f| f.max_latency.is_some()).count();
        assert!((500..700).contains(&bounded), "{bounded} of 1800 flows have a bound");
    }
}
