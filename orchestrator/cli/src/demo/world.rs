//! What a federation file makes of a demo: its points, and the configuration of every child.

use super::{SERVER, TENANT, layout::Layout, wan::Wan};
use crate::exit::CliError;
use rhumb_agent::{
    AgentConfig,
    config::{Devices, Limits as AgentLimits, Listen, MadeDataset, OnShutdown, SyncConfig},
};
use rhumb_control::{
    ServerConfig,
    config::{Endpoint, Limits, Times, TokenEntry},
};
use rhumb_model::{Bytes, FederationFile, Link, PointName, Role, Span, federation_file::SiteEntry, site::Tier};
use rhumb_placement::Policy;
use std::{collections::BTreeMap, net::SocketAddr};

/// Larger datasets are no demo's: their bytes are made at every site that has them.
const MOST_DATASET: Bytes = Bytes::from_bytes(1_000_000_000);

#[derive(Debug)]
pub struct World {
    pub file: FederationFile,
    pub links: Vec<Link>,
    /// Points with an agent: sites first, then relay points.
    pub agents: Vec<PointName>,
    /// Where the orchestrator is.
    pub home: PointName,
}

impl World {
    pub fn new(file: FederationFile) -> Result<Self, CliError> {
        let sites = file.sites.iter().map(|s| &s.name);
        let relays = file.transit.iter().filter(|t| t.relay).map(|t| &t.name);
        let agents: Vec<PointName> = sites.chain(relays).cloned().collect();
        let core = file.sites.iter().find(|s| s.tier == Tier::Core).or(file.sites.first());
        let Some(home) = core.map(|s| s.name.clone()) else {
            return Err(CliError::Usage("the federation has no site: a demo needs one".into()));
        };
        if agents.iter().any(|p| p.as_str() == SERVER) {
            return Err(CliError::Usage(format!(
                "a point is called {SERVER}, as the demo's orchestrator is: rename it"
            )));
        }
        if let Some(large) = file.datasets.iter().find(|d| d.size > MOST_DATASET) {
            return Err(CliError::Usage(format!(
                "dataset {} has {}: the demo makes its bytes, so use at most {MOST_DATASET}",
                large.name, large.size
            )));
        }
        Ok(Self { links: file.directed_links(), agents, home, file })
    }

    pub fn relays(&self) -> usize {
        self.agents.len() - self.file.sites.len()
    }

    /// Links whose far end has an agent, each reached through its own front alone.
    fn endpoints(&self, wan: &Wan) -> anyhow::Result<BTreeMap<rhumb_model::LinkId, Endpoint>> {
        let reached = self.links.iter().filter(|l| self.agents.contains(&l.to) && self.agents.contains(&l.from));
        let endpoint = |link: &Link| {
            let probe = wan.probe_address(link.id.as_str())?.to_string();
            Ok((link.id.clone(), Endpoint { probe, overlay: wan.overlay_address(link.id.as_str())?.to_string() }))
        };
        reached.map(endpoint).collect()
    }

    pub fn server(&self, layout: &Layout, listen: SocketAddr, wan: &Wan) -> anyhow::Result<ServerConfig> {
        let hosts = self.agents.iter().filter_map(|p| wan.control_address(p.as_str())).map(|a| a.to_string());
        let agent = |point: &PointName| TokenEntry {
            file: layout.agent_token(point.as_str()),
            kind: Role::Agent,
            subject: point.to_string(),
        };
        let admin = TokenEntry { file: layout.admin_token(), kind: Role::PlatformAdmin, subject: TENANT.to_owned() };
        Ok(ServerConfig {
            identity: rhumb_control::config::IdentityConfig::default(),
            provider: rhumb_control::config::Provider::default(),
            routes: rhumb_control::config::RouteRules::default(),
            tls: None,
            listen,
            hosts: hosts.collect(),
            database: format!("sqlite:{}", layout.server().join("rhumb.db").display()),
            federation: layout.federation(),
            secret_file: layout.server().join("secret"),
            tokens: std::iter::once(admin).chain(self.agents.iter().map(agent)).collect(),
            endpoints: self.endpoints(wan)?,
            points: BTreeMap::new(),
            policy: Policy::default(),
            // one token serves everything that is tried here, at once
            limits: Limits { requests_per_second: 2_000, request_burst: 4_000, ..Limits::default() },
            times: Times::default(),
        })
    }

    pub fn agent(&self, layout: &Layout, point: &PointName, orchestrator: SocketAddr) -> AgentConfig {
        let site = self.file.sites.iter().find(|s| &s.name == point);
        let here = |site: &SiteEntry| {
            let held = self.file.datasets.iter().filter(|d| d.at.contains(&site.name));
            held.map(|d| MadeDataset { name: d.name.clone(), size: d.size }).collect()
        };
        AgentConfig {
            point: point.clone(),
            orchestrator: format!("http://{orchestrator}"),
            token: None,
            token_file: Some(layout.agent_token(point.as_str())),
            data_dir: layout.agent(point.as_str()),
            listen: Listen::default(),
            devices: site.map(|s| Devices::File { kinds: self.file.devices.clone(), nodes: s.nodes.clone() }),
            datasets: site.map(here).unwrap_or_default(),
            runtime: rhumb_agent::runtimes::RuntimeSettings::default(),
            interfaces: BTreeMap::new(),
            routes: rhumb_agent::config::Routes::default(),
            // after a restart of the orchestrator, a second is long here
            sync: SyncConfig { backoff_max: Span::from_micros(1_000_000), ..SyncConfig::default() },
            limits: AgentLimits::default(),
            on_shutdown: OnShutdown::StopJobs,
            stop_with_parent: false,
            supervisor: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<World, CliError> {
        World::new(FederationFile::read(text).unwrap())
    }

    #[test]
    fn the_federation_that_ships_makes_a_demo() {
        let world = read(super::super::FEDERATION).unwrap();
        assert!(world.file.sites.len() >= 8 && world.relays() >= 2 && world.links.len() >= 20);
        assert_eq!(world.home.as_str(), "shanghai-core");
    }

    #[test]
    fn a_dataset_that_would_fill_the_disk_is_refused() {
        let text = "currency: CNY\nsites: [{name: a}]\ndatasets: [{name: corpus, size: 2TB, at: [a]}]\n";
        assert!(read(text).unwrap_err().to_string().contains("corpus has 2TB"));
    }

    #[test]
    fn an_agent_has_its_sites_nodes_and_datasets_and_a_relay_has_none() {
        let text = "currency: CNY\ndevices: {H100: {memory: 80GiB, fp16: 1.0}}\n\
            sites: [{name: a, nodes: [{count: 2, accelerators: {model: H100, count: 8}, cpu: 8, memory: 64GiB}]}]\n\
            transit: [{name: r, relay: true}, {name: o}]\ndatasets: [{name: d, size: 1MB, at: [a]}]\n";
        let world = read(text).unwrap();
        assert_eq!(world.agents.iter().map(PointName::as_str).collect::<Vec<_>>(), ["a", "r"]);
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::at(folder.path());
        let address = "127.0.0.1:1".parse().unwrap();
        let site = world.agent(&layout, &world.agents[0], address);
        assert_eq!(site.datasets.len(), 1);
        assert!(site.devices.is_some() && site.check().is_ok());
        // what is written is what the agent reads
        let again: AgentConfig = rhumb_model::document::read(&crate::output::yaml(&site).unwrap()).unwrap();
        assert_eq!((again.devices, again.datasets), (site.devices, site.datasets));
        let relay = world.agent(&layout, &world.agents[1], address);
        assert!(relay.devices.is_none() && relay.datasets.is_empty());
    }
}
