//! Relays in the agents: every point of the path passes the leg's frames on to the next, at the leg's rate.

use rhumb_model::PointName;
use rhumb_provision::{Ask, LegPurpose, RouteProvider};
use rhumb_wire::{Role, Route, RoutePurpose, report::RouteKey};

/// On a protected leg a hop that says nothing for so long is lost: together with the way back to the source and the opening
/// of the other path this stays below two seconds.
const PROTECTED_SILENCE_MS: u64 = 800;

/// The provider that needs no privileges: TCP from agent to agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overlay;

impl RouteProvider for Overlay {
    fn name(&self) -> &'static str {
        "overlay"
    }

    fn hops(&self, ask: &Ask<'_>) -> Vec<(PointName, Route)> {
        let (leg, path) = (ask.leg, ask.path);
        let last = path.points.len() - 1;
        path.points
            .iter()
            .enumerate()
            .map(|(i, point)| {
                let end = i == 0 || i == last;
                let route = Route {
                    key: RouteKey { order: ask.order, generation: ask.generation, leg: leg.leg, path: path.path },
                    role: match i {
                        0 => Role::Source,
                        _ if i == last => Role::Sink,
                        _ => Role::Relay,
                    },
                    next_link: path.links.get(i).cloned(),
                    previous: i.checked_sub(1).map(|before| path.points[before].clone()),
                    rate: leg.rate_of(path),
                    purpose: purpose(ask),
                    // relays carry what they cannot read
                    key_base64: (end && leg.encrypted).then(|| ask.secrets.seal_base64.clone()),
                    hop_secret_base64: Some(ask.secrets.hop_base64.clone()),
                    duty: ask.duty,
                    silence_ms: leg.protected.then_some(PROTECTED_SILENCE_MS),
                    kernel: None,
                };
                (point.clone(), route)
            })
            .collect()
    }
}

fn purpose(ask: &Ask<'_>) -> RoutePurpose {
    let (dataset, offset, bytes, write) = match &ask.leg.purpose {
        LegPurpose::Inbound { dataset, offset, bytes } => (dataset, offset, bytes, false),
        LegPurpose::Outbound { dataset, offset, bytes } => (dataset, offset, bytes, true),
        LegPurpose::Stream => return RoutePurpose::Stream { flow: ask.leg.flow },
    };
    RoutePurpose::Transfer { dataset: dataset.clone(), offset: *offset, bytes: *bytes, write, start: ask.start }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::{Bandwidth, LinkId, OrderId};
    use rhumb_provision::{LegSecrets, LegState, PathRole, PathState};
    use rhumb_wire::Duty;

    #[test]
    fn relays_never_get_the_seal_and_the_ends_do() {
        let point = |n: &str| PointName::new(n).unwrap();
        let links = vec![LinkId::new("a-r").unwrap(), LinkId::new("r-b").unwrap()];
        let path = PathState::new(4, links, vec![point("a"), point("r"), point("b")], PathRole::Backup);
        let purpose = LegPurpose::Inbound { dataset: "corpus".into(), offset: 5, bytes: 7 };
        let leg = LegState::new(3, 1, path, Bandwidth::from_mbps(20), purpose, true);
        let secrets = LegSecrets { hop_base64: "hop".into(), seal_base64: "seal".into() };
        let order = OrderId(uuid::Uuid::nil());
        let (path, duty) = (&leg.paths[0], Duty::Standby);
        let hops = Overlay.hops(&Ask { order, generation: 2, leg: &leg, path, duty, start: true, secrets: &secrets });
        let roles: Vec<_> = hops.iter().map(|(p, r)| (p.as_str(), r.role)).collect();
        assert_eq!(roles, [("a", Role::Source), ("r", Role::Relay), ("b", Role::Sink)]);
        let sealed: Vec<_> = hops.iter().map(|(_, r)| r.key_base64.is_some()).collect();
        assert_eq!(sealed, [true, false, true]);
        assert_eq!(hops[1].1.previous, Some(point("a")));
        assert_eq!(hops[2].1.next_link, None);
        assert!(hops.iter().all(|(_, r)| r.key.path == 4 && r.duty == Duty::Standby && r.silence_ms.is_none()));
        assert!(hops.iter().all(|(_, r)| r.hop_secret_base64.as_deref() == Some("hop")));
    }
}
