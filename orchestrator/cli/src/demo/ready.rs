//! When a demo is ready: every agent has reported and every link has a figure.

use super::world::World;
use crate::{
    client::Client,
    show::{list, text},
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

const LOOK: Duration = Duration::from_millis(100);

/// What is not there yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Missing {
    pub points: Vec<String>,
    pub links: Vec<String>,
}

impl Missing {
    pub fn is_nothing(&self) -> bool {
        self.points.is_empty() && self.links.is_empty()
    }

    pub fn words(&self) -> String {
        let some = |names: &[String]| {
            let more = if names.len() > 5 { ", ..." } else { "" };
            format!("{}{more}", names.iter().take(5).cloned().collect::<Vec<_>>().join(", "))
        };
        match (self.points.len(), self.links.len()) {
            (0, 0) => "everything is there".into(),
            (0, n) => format!("{n} links without a figure ({})", some(&self.links)),
            (n, _) => format!("{n} agents without a report ({})", some(&self.points)),
        }
    }
}

/// Waits until nothing is missing, or the limit; `seen` is told what is missing at each look.
pub async fn wait(client: &Client, world: &World, limit: Duration, seen: impl Fn(&Missing)) -> Missing {
    let until = Instant::now() + limit;
    loop {
        let missing = look(client, world).await;
        seen(&missing);
        if missing.is_nothing() || Instant::now() >= until {
            return missing;
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn look(client: &Client, world: &World) -> Missing {
    let get = async |noun| client.get(&["v1", noun], vec![]).await.unwrap_or(Value::Null);
    let (sites, transit, links) = tokio::join!(get("sites"), get("transit"), get("links"));
    missing(world, &[&sites, &transit], &links)
}

fn missing(world: &World, points: &[&Value], links: &Value) -> Missing {
    let mut there = BTreeSet::new();
    for point in points.iter().flat_map(|p| list(p, "/items")) {
        if matches!(text(point, "/state").as_str(), "ready" | "draining") {
            there.insert(text(point, "/name"));
        }
    }
    let measured = list(links, "/items").iter().filter(|l| l.pointer("/latency_us").is_some_and(Value::is_number));
    let measured: BTreeSet<String> = measured.map(|l| text(l, "/id")).collect();
    // a link to a point without an agent cannot be measured
    let measurable = world.links.iter().filter(|l| world.agents.contains(&l.from) && world.agents.contains(&l.to));
    Missing {
        points: world.agents.iter().map(ToString::to_string).filter(|p| !there.contains(p)).collect(),
        links: measurable.map(|l| l.id.to_string()).filter(|l| !measured.contains(l)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::FederationFile;
    use serde_json::json;

    #[test]
    fn a_demo_is_ready_when_every_agent_has_reported_and_every_measurable_link_has_a_figure() {
        let text = "currency: CNY\nsites: [{name: a}, {name: b}]\ntransit: [{name: r, relay: true}, {name: o}]\nlinks:\n  \
            - {id: ar, from: a, to: r, both_ways: true, capacity: 20Mbps, latency: 5ms}\n  \
            - {id: ao, from: a, to: o, both_ways: true, capacity: 20Mbps, latency: 5ms}\n";
        let world = World::new(FederationFile::read(text).unwrap()).unwrap();
        let point = |name: &str, state: &str| json!({"name": name, "state": state});
        let sites = json!({"items": [point("a", "ready"), point("b", "never_seen")]});
        let relays = json!({"items": [point("r", "ready"), point("o", "never_seen")]});
        let link = |id: &str, us: Value| json!({"id": id, "latency_us": us});
        let links = json!({"items": [link("ar", json!(5_000)), link("ar~", Value::Null), link("ao", Value::Null)]});
        let found = missing(&world, &[&sites, &relays], &links);
        assert_eq!(found, Missing { points: vec!["b".into()], links: vec!["ar~".into()] });
        let sites = json!({"items": [point("a", "ready"), point("b", "ready")]});
        let links = json!({"items": [link("ar", json!(5_000)), link("ar~", json!(5_000))]});
        assert!(missing(&world, &[&sites, &relays], &links).is_nothing());
    }
}
