//! A route as the kernel's driver needs it: checked against what this point offers.

use super::{KernelSettings, owner};
use ipnet::Ipv4Net;
use rhumb_kernel::{Allow, Ends, Intent, Pass, Place, PoolError, Service, Stance, Tunnel, Vni};
use rhumb_wire::{Duty, KernelRoute, Role, Route};
use std::net::IpAddr;

/// Why a route cannot be stated; shown in its status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum IntentError {
    #[error("a {role:?} route needs {what}")]
    Missing { role: Role, what: &'static str },
    #[error(transparent)]
    Number(#[from] PoolError),
    #[error("tunnels cannot end at {address} here; use an address of this point's offer")]
    Address { address: IpAddr },
    #[error("{network} is not behind this point; use a network of its offer")]
    Network { network: Ipv4Net },
    #[error("{network} at the far end holds {held} of this point; name networks that do not meet")]
    Meets { network: Ipv4Net, held: String },
    #[error("this point is no segment of others' ways; set routes.kernel.segment")]
    Segment,
}

pub(super) fn intent(route: &Route, settings: &KernelSettings) -> Result<Intent, IntentError> {
    let missing = |what| IntentError::Missing { role: route.role, what };
    let kernel = route.kernel.as_ref().ok_or_else(|| missing("to say how the kernel carries it"))?;
    let next = || kernel.next.as_ref().ok_or_else(|| missing("a tunnel to the next point"));
    let previous = || kernel.previous.as_ref().ok_or_else(|| missing("a tunnel from the previous point"));
    let place = match (route.role, &kernel.previous, &kernel.next) {
        (Role::Source, ..) => Place::Source { next: tunnel(next()?, settings)? },
        (Role::Sink, ..) => Place::Sink { previous: tunnel(previous()?, settings)? },
        (Role::Relay, None, None) => {
            let segment = settings.segment.as_ref().ok_or(IntentError::Segment)?;
            Place::Transit { sid: segment.address, device: segment.link.clone() }
        }
        (Role::Relay, ..) => {
            Place::Relay { previous: tunnel(previous()?, settings)?, next: tunnel(next()?, settings)? }
        }
    };
    let (own, far) = match route.role {
        Role::Source => (&kernel.source_networks[..], &kernel.sink_networks[..]),
        Role::Sink => (&kernel.sink_networks[..], &kernel.source_networks[..]),
        Role::Relay => (&[][..], &[][..]),
    };
    let behind = |network: &&Ipv4Net| settings.networks.iter().any(|mine| mine.contains(*network));
    if let Some(network) = own.iter().find(|network| !behind(network)) {
        return Err(IntentError::Network { network: *network });
    }
    for network in far {
        meets(*network, kernel, settings)?;
    }
    Ok(Intent {
        owner: owner(&route.key),
        place,
        rate: route.rate,
        mtu: kernel.mtu,
        dscp: kernel.dscp,
        stance: match route.duty {
            Duty::Carry => Stance::Carrying,
            Duty::Standby => Stance::Standby,
            Duty::Measure => Stance::Idle,
        },
        source: kernel.source_networks.clone(),
        sink: kernel.sink_networks.clone(),
        ends: Ends { source: kernel.source, sink: kernel.sink },
        allow: allow(kernel),
        protects: None,
    })
}

/// What goes to a far network leaves through the tunnel: nothing of this point, nor the tunnel's own packets, may be in it.
fn meets(network: Ipv4Net, kernel: &KernelRoute, settings: &KernelSettings) -> Result<(), IntentError> {
    let mine = settings.networks.iter().find(|mine| mine.contains(&network) || network.contains(*mine));
    let tunnels = kernel.previous.iter().chain(&kernel.next);
    let outer = tunnels.flat_map(|tunnel| [tunnel.local, tunnel.remote]).find(|address| match address {
        IpAddr::V4(address) => network.contains(address),
        IpAddr::V6(_) => false,
    });
    let held = mine.map(|mine| mine.trunc().to_string()).or_else(|| outer.map(|address| address.to_string()));
    held.map_or(Ok(()), |held| Err(IntentError::Meets { network, held }))
}

fn tunnel(wanted: &rhumb_wire::Tunnel, settings: &KernelSettings) -> Result<Tunnel, IntentError> {
    let rhumb_wire::Tunnel { number, local, remote, own, peer, segments } = wanted.clone();
    // the agent has the last word on where its host is reached
    let ours = match local {
        IpAddr::V6(local) if !segments.is_empty() => settings.locator.is_some_and(|locator| locator.contains(&local)),
        _ => settings.underlay.contains(&local),
    };
    if !ours {
        return Err(IntentError::Address { address: local });
    }
    Ok(Tunnel { vni: Vni::new(number)?, local, remote, own, peer, segments })
}

fn allow(kernel: &KernelRoute) -> Allow {
    let Some(passes) = &kernel.allow else { return Allow::Networks };
    let pass = |pass: &rhumb_wire::Pass| Pass {
        from: pass.from,
        to: pass.to,
        service: match pass.service {
            rhumb_wire::Service::Any => Service::Any,
            rhumb_wire::Service::Icmp => Service::Icmp,
            rhumb_wire::Service::Tcp { port } => Service::Tcp(port),
            rhumb_wire::Service::Udp { port } => Service::Udp(port),
        },
    };
    Allow::Only(passes.iter().map(pass).collect())
}
