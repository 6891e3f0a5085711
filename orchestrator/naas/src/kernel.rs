//! Tunnels in the points' kernels: one for each path of a leg, through the segments of the points between where they have
//! some, else from point to point.

use crate::Overlay;
use rhumb_model::PointName;
use rhumb_provision::{Ask, Carriage, RouteProvider};
use rhumb_wire::{KernelOffer, KernelRoute, Route, Tunnel, TunnelNumbers};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A point as its agent last said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelPoint {
    pub offer: KernelOffer,
    pub overlay_port: u16,
}

/// Why a path cannot be a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("the agent at {0} carries no routes in its kernel")]
    NoOffer(PointName),
    #[error("{from} and {to} have not the same tunnel numbers; configure one range and one block for both")]
    Numbers { from: PointName, to: PointName },
    #[error("tunnel number {number} is not one that {point} may use")]
    Number { number: u32, point: PointName },
    #[error("{0} tunnel numbers were given where {1} are needed")]
    Count(usize, usize),
    #[error("{from} and {to} have no underlay addresses of one family")]
    NoAddresses { from: PointName, to: PointName },
    #[error("tunnel number {number} has no pair of addresses inside")]
    NoInside { number: u32 },
}

/// How a path's tunnels run, before they have numbers.
#[derive(Debug)]
pub struct Layout<'a> {
    path: Vec<(&'a PointName, &'a KernelPoint)>,
    /// Of the points between, for one tunnel from end to end; `None`: a tunnel for each link.
    segments: Option<Vec<Ipv6Addr>>,
}

impl<'a> Layout<'a> {
    /// `points` as their agents say, `path` from the source to the sink.
    pub fn of(points: &'a BTreeMap<PointName, KernelPoint>, path: &'a [PointName]) -> Result<Self, Unfit> {
        let found =
            path.iter().map(|name| points.get(name).map(|p| (name, p)).ok_or_else(|| Unfit::NoOffer(name.clone())));
        let path: Vec<_> = found.collect::<Result<_, _>>()?;
        let segments: Option<Vec<Ipv6Addr>> =
            path[1..path.len() - 1].iter().map(|(_, point)| point.offer.segment).collect();
        let layout = Self { segments: segments.filter(|s| s.is_empty() || located(&path)), path };
        for ((from, near), (to, far)) in layout.tunnels() {
            if near.offer.numbers != far.offer.numbers {
                return Err(Unfit::Numbers { from: from.clone(), to: to.clone() });
            }
        }
        Ok(layout)
    }

    /// How many numbers it takes.
    pub fn count(&self) -> usize {
        self.tunnels().len()
    }

    /// What they are to be out of.
    pub fn numbers(&self) -> TunnelNumbers {
        self.path[0].1.offer.numbers
    }

    /// What every point of the path has to have, in its order.
    pub fn carried_by(&self, numbers: &[u32]) -> Result<Vec<KernelRoute>, Unfit> {
        let pairs = self.tunnels();
        if numbers.len() != pairs.len() {
            return Err(Unfit::Count(numbers.len(), pairs.len()));
        }
        let segments = self.segments.clone().unwrap_or_default();
        let tunnels: Vec<(Tunnel, Tunnel)> = pairs
            .into_iter()
            .zip(numbers)
            .map(|((near, far), number)| tunnel(*number, near, far, &segments))
            .collect::<Result<_, _>>()?;
        let (first, last) = (&tunnels[0].0, &tunnels[tunnels.len() - 1].1);
        let ends = Ends::of(first, last, &self.path);
        let end = self.path.len() - 1;
        let route = |at: usize| {
            let (previous, next) = match (&self.segments, at) {
                (Some(_), 0) => (None, Some(first.clone())),
                (Some(_), at) if at == end => (Some(last.clone()), None),
                (Some(_), _) => (None, None),
                (None, at) => {
                    (at.checked_sub(1).map(|hop| tunnels[hop].1.clone()), tunnels.get(at).map(|(near, _)| near.clone()))
                }
            };
            ends.route(previous, next, at == 0 || at == end)
        };
        Ok((0..self.path.len()).map(route).collect())
    }

    /// The two ends of every tunnel.
    fn tunnels(&self) -> Vec<(End<'a>, End<'a>)> {
        match &self.segments {
            Some(_) => vec![(self.path[0], self.path[self.path.len() - 1])],
            None => self.path.windows(2).map(|pair| (pair[0], pair[1])).collect(),
        }
    }
}

type End<'a> = (&'a PointName, &'a KernelPoint);

/// Both ends of a tunnel.
fn tunnel(
    number: u32,
    (from, near): End<'_>,
    (to, far): End<'_>,
    segments: &[Ipv6Addr],
) -> Result<(Tunnel, Tunnel), Unfit> {
    if !near.offer.numbers.contains(number) {
        return Err(Unfit::Number { number, point: from.clone() });
    }
    let (low, high) = near.offer.numbers.inside(number).ok_or(Unfit::NoInside { number })?;
    let addresses = if segments.is_empty() {
        let pairs = near.offer.underlay.iter().flat_map(|a| far.offer.underlay.iter().map(move |b| (*a, *b)));
        pairs.into_iter().find(|(a, b)| a.is_ipv4() == b.is_ipv4())
    } else {
        near.offer.address_of(number).zip(far.offer.address_of(number)).map(|(a, b)| (IpAddr::V6(a), IpAddr::V6(b)))
    };
    let (local, remote) = addresses.ok_or_else(|| Unfit::NoAddresses { from: from.clone(), to: to.clone() })?;
    let mut back = segments.to_vec();
    back.reverse();
    Ok((
        Tunnel { number, local, remote, own: low, peer: high, segments: segments.to_vec() },
        Tunnel { number, local: remote, remote: local, own: high, peer: low, segments: back },
    ))
}

/// The provider for every path as it was decided: tunnels in the kernels, or the agents' relays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AsDecided;

impl RouteProvider for AsDecided {
    fn name(&self) -> &'static str {
        "as decided"
    }

    fn hops(&self, ask: &Ask<'_>) -> Vec<(PointName, Route)> {
        let hops = Overlay.hops(ask);
        match &ask.path.carriage {
            Carriage::Tunnels(routes) if routes.len() == hops.len() => {
                let carried = hops.into_iter().zip(routes);
                carried
                    .map(|((point, route), kernel)| (point, Route { kernel: Some(kernel.clone()), ..route }))
                    .collect()
            }
            _ => hops,
        }
    }
}

/// Whether tunnels through segments can end at both ends.
fn located(path: &[End<'_>]) -> bool {
    [path[0], path[path.len() - 1]].iter().all(|(_, point)| point.offer.locator.is_some())
}

/// What every point of a path is told of its ends.
struct Ends<'a> {
    source: Ipv4Addr,
    sink: Ipv4Addr,
    from: &'a PointName,
    to: &'a PointName,
    overlay_port: u16,
}

impl<'a> Ends<'a> {
    fn of(near: &Tunnel, far: &Tunnel, path: &[End<'a>]) -> Self {
        let (from, (to, last)) = (path[0].0, path[path.len() - 1]);
        Self { source: near.own, sink: far.own, from, to, overlay_port: last.overlay_port }
    }

    fn route(&self, previous: Option<Tunnel>, next: Option<Tunnel>, end: bool) -> KernelRoute {
        let peer = if previous.is_none() { self.to } else { self.from };
        KernelRoute {
            previous,
            next,
            source: self.source,
            sink: self.sink,
            peer: end.then(|| peer.clone()),
            overlay_port: self.overlay_port,
            source_networks: Vec::new(),
            sink_networks: Vec::new(),
            allow: None,
            mtu: None,
            dscp: 0,
        }
    }
}
