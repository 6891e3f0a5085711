//! Whose probes an agent answers.

use crate::{
    orchestrator::{Agent, Orchestrator},
    world::{PATIENCE, desired, until},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rhumb_probe::{Key, Mode, Prober, ProberConfig, Target};
use std::{net::SocketAddr, time::Duration};

#[test]
fn an_agent_that_knows_the_key_answers_only_who_has_it() {
    let (folder, orchestrator) = (tempfile::tempdir().unwrap(), Orchestrator::start());
    let agent = Agent::start(&orchestrator, orchestrator.config(folder.path()));
    let octets = [7; 32];
    let mut wanted = desired(1, 1, Vec::new());
    wanted.probe_key_base64 = Some(STANDARD.encode(octets));
    orchestrator.want(wanted);
    let port = until("the reflector's port", || orchestrator.last()?.probe_port);
    let reflector = SocketAddr::from(([127, 0, 0, 1], port));
    let prober = |mode| {
        let prober = Prober::start(ProberConfig { mode, window: PATIENCE, ..ProberConfig::default() }).unwrap();
        prober.set_targets(vec![Target { interval: Duration::from_millis(20), ..Target::new("it", reflector) }]);
        prober
    };
    let friend = prober(Mode::Authenticated(Key::new(&octets).unwrap()));
    until("an answer", || friend.snapshot().first().filter(|seen| seen.received >= 5).cloned());
    // the key is in use by now: a stranger's probes come to nothing
    let stranger = prober(Mode::Open);
    let seen = until("probes sent", || stranger.snapshot().first().filter(|seen| seen.sent >= 20).cloned());
    assert_eq!(seen.received, 0, "{seen:?}");
    agent.end(&orchestrator).unwrap();
}
