//! Relays in the agents: every point of the path passes the leg's frames on to the next, at the leg's rate.

use rhumb_model::PointName;
use rhumb_provision::{Ask, LegPurpose, RouteProvider};
use rhumb_wire::{Role, Route, RoutePurpose, report::RouteKey};

/// The provider that needs no privileges: TCP from agent to agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overlay;

impl RouteProvider for Overlay {
    fn name(&self) -> &'static str {
        "overlay"
    }

    fn hops(&self, ask: &Ask<'_>) -> Vec<(PointName, Route)> {
        let leg = ask.leg;
        let last = leg.points.len() - 1;
        leg.points
            .iter()
            .enumerate()
            .map(|(i, point)| {
                let end = i == 0 || i == last;
                let route = Route {
                    key: RouteKey { order: ask.order, generation: ask.generation, leg: leg.leg },
                    role: match i {
                        0 => Role::Source,
                        _ if i == last => Role::Sink,
                        _ => Role::Relay,
                    },
                    next_link: leg.links.get(i).cloned(),
                    previous: i.checked_sub(1).map(|before| leg.points[before].clone()),
                    rate: leg.rate,
                    purpose: purpose(ask),
                    // relays carry what they cannot read
                    key_base64: (end && leg.encrypted).then(|| ask.secrets.seal_base64.clone()),
                    hop_secret_base64: Some(ask.secrets.hop_base64.clone()),
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
    use rhumb_provision::{LegSecrets, LegState};
    use std::collections::BTreeMap;

    #[test]
    fn relays_never_get_the_seal_and_the_ends_do() {
        let point = |n: &str| PointName::new(n).unwrap();
        let leg = LegState {
            leg: 3,
            flow: 1,
            links: vec![LinkId::new("a-r").unwrap(), LinkId::new("r-b").unwrap()],
            points: vec![point("a"), point("r"), point("b")],
            rate: Bandwidth::from_mbps(20),
            purpose: LegPurpose::Inbound { dataset: "corpus".into(), offset: 5, bytes: 7 },
            encrypted: true,
            seen: BTreeMap::new(),
            bytes: BTreeMap::new(),
        };
        let secrets = LegSecrets { hop_base64: "hop".into(), seal_base64: "seal".into() };
        let order = OrderId(uuid::Uuid::nil());
        let hops = Overlay.hops(&Ask { order, generation: 2, leg: &leg, start: true, secrets: &secrets });
        let roles: Vec<_> = hops.iter().map(|(p, r)| (p.as_str(), r.role)).collect();
        assert_eq!(roles, [("a", Role::Source), ("r", Role::Relay), ("b", Role::Sink)]);
        let sealed: Vec<_> = hops.iter().map(|(_, r)| r.key_base64.is_some()).collect();
        assert_eq!(sealed, [true, false, true]);
        assert_eq!(hops[1].1.previous, Some(point("a")));
        assert_eq!(hops[2].1.next_link, None);
        assert!(hops.iter().all(|(_, r)| r.hop_secret_base64.as_deref() == Some("hop")));
    }
}
