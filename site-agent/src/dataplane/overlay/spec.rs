//! A route as this point needs it: checked, and cut into what identifies it and what may change in place.

use super::secret::Secret;
use rhumb_model::{Bandwidth, DatasetName, LinkId, PointName};
use rhumb_wire::{Duty, PeerLink, Role, Route, RoutePurpose, report::RouteKey};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A change of any of this makes another route: the old one is torn down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteSpec {
    pub key: RouteKey,
    pub place: Place,
    pub job: Job,
    /// At the ends of an encrypted route.
    pub seal: Option<Secret>,
    /// Shared by the hops.
    pub hop: Option<Secret>,
    /// What of a neighbour counts as lost, where the route says so.
    pub silence: Option<Duration>,
}

/// Where on the path this point stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Source { next: LinkId },
    Relay { previous: PointName, next: LinkId },
    Sink { previous: PointName },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Job {
    Transfer { dataset: DatasetName, offset: u64, bytes: u64, fate: Fate },
    Stream { flow: u32 },
}

/// What becomes of a transfer at its sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// A file the order's work reads.
    Input,
    /// A dataset of the sink.
    Dataset,
}

/// What changes while the route stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tuning {
    pub rate: Bandwidth,
    /// Transfers send from now on.
    pub go: Go,
    /// What the path is there for.
    pub duty: Duty,
    /// Where the next hop is reached; `None` while its link is not known.
    pub next: Option<PeerLink>,
    /// Whether the previous hop may connect.
    pub previous: Admission,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Go {
    Hold,
    Send,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Allowed,
    Barred,
}

impl RouteSpec {
    pub(crate) fn previous(&self) -> Option<&PointName> {
        match &self.place {
            Place::Source { .. } => None,
            Place::Relay { previous, .. } | Place::Sink { previous } => Some(previous),
        }
    }

    pub(crate) fn next(&self) -> Option<&LinkId> {
        match &self.place {
            Place::Source { next } | Place::Relay { next, .. } => Some(next),
            Place::Sink { .. } => None,
        }
    }
}

/// Less would be a late timer.
const SILENCE_LEAST_MS: u64 = 100;

/// Why a route cannot be served; shown in its status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SpecError {
    #[error("a {role:?} route needs {what}")]
    Missing { role: Role, what: &'static str },
    #[error("a rate of 0 moves nothing; reserve some bandwidth")]
    NoRate,
    #[error("the transfer names no dataset: {0}")]
    Dataset(rhumb_model::name::NameError),
    #[error("bytes {offset} + {bytes} lie beyond any file")]
    Range { offset: u64, bytes: u64 },
    #[error("the {0} is not base64 of 32 octets")]
    Secret(&'static str),
}

/// The route as `route` states it.
pub(crate) fn spec(route: &Route) -> Result<RouteSpec, SpecError> {
    let missing = |what| SpecError::Missing { role: route.role, what };
    let next = || route.next_link.clone().ok_or_else(|| missing("a link to its next hop"));
    let previous = || route.previous.clone().ok_or_else(|| missing("the name of its previous hop"));
    let place = match route.role {
        Role::Source => Place::Source { next: next()? },
        Role::Relay => Place::Relay { previous: previous()?, next: next()? },
        Role::Sink => Place::Sink { previous: previous()? },
    };
    if route.rate.is_zero() {
        return Err(SpecError::NoRate);
    }
    let job = match &route.purpose {
        RoutePurpose::Transfer { dataset, offset, bytes, write, .. } => {
            let dataset = DatasetName::new(dataset).map_err(SpecError::Dataset)?;
            let (offset, bytes) = (*offset, *bytes);
            // what a file's length can be
            if offset.checked_add(bytes).is_none_or(|end| i64::try_from(end).is_err()) {
                return Err(SpecError::Range { offset, bytes });
            }
            Job::Transfer { dataset, offset, bytes, fate: if *write { Fate::Dataset } else { Fate::Input } }
        }
        RoutePurpose::Stream { flow } => Job::Stream { flow: *flow },
    };
    let secret = |text: &Option<String>, what| match text {
        None => Ok(None),
        Some(text) => Secret::from_base64(text).map(Some).ok_or(SpecError::Secret(what)),
    };
    Ok(RouteSpec {
        key: route.key.clone(),
        place,
        job,
        seal: secret(&route.key_base64, "key")?,
        hop: secret(&route.hop_secret_base64, "hop secret")?,
        silence: route.silence_ms.map(|ms| Duration::from_millis(ms.max(SILENCE_LEAST_MS))),
    })
}

/// What of it may change.
pub(crate) fn tuning(
    route: &Route,
    spec: &RouteSpec,
    links: &BTreeMap<&LinkId, &PeerLink>,
    peers: &BTreeSet<PointName>,
) -> Tuning {
    let start = matches!(route.purpose, RoutePurpose::Transfer { start: true, .. });
    let known = spec.previous().is_none_or(|previous| peers.contains(previous));
    Tuning {
        rate: route.rate,
        go: if start { Go::Send } else { Go::Hold },
        duty: route.duty,
        next: spec.next().and_then(|link| links.get(link)).map(|&link| link.clone()),
        previous: if known { Admission::Allowed } else { Admission::Barred },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::OrderId;
    use uuid::Uuid;

    fn route() -> Route {
        Route {
            key: RouteKey { order: OrderId(Uuid::nil()), generation: 1, leg: 0, path: 0 },
            role: Role::Relay,
            next_link: Some(LinkId::new("b-c").unwrap()),
            previous: Some(PointName::new("a").unwrap()),
            rate: Bandwidth::from_mbps(10),
            purpose: RoutePurpose::Transfer {
                dataset: "corpus".into(),
                offset: 0,
                bytes: 5,
                write: false,
                start: false,
            },
            key_base64: None,
            hop_secret_base64: None,
            duty: Duty::Carry,
            silence_ms: None,
            kernel: None,
        }
    }

    #[test]
    fn a_route_that_cannot_be_served_says_why() {
        let said = |change: fn(&mut Route)| {
            let mut route = route();
            change(&mut route);
            spec(&route).unwrap_err().to_string()
        };
        assert_eq!(said(|r| r.next_link = None), "a Relay route needs a link to its next hop");
        assert_eq!(said(|r| r.previous = None), "a Relay route needs the name of its previous hop");
        assert_eq!(said(|r| r.rate = Bandwidth::ZERO), "a rate of 0 moves nothing; reserve some bandwidth");
        let secret = said(|r| r.hop_secret_base64 = Some("hidden".into()));
        assert_eq!(secret, "the hop secret is not base64 of 32 octets");
        let escape = said(|r| {
            let (dataset, offset) = ("../x".into(), 0);
            r.purpose = RoutePurpose::Transfer { dataset, offset, bytes: 1, write: false, start: false };
        });
        assert!(escape.contains("dataset name"), "{escape}");
        let beyond = said(|r| {
            let (dataset, offset) = ("x".into(), u64::MAX);
            r.purpose = RoutePurpose::Transfer { dataset, offset, bytes: 1, write: false, start: false };
        });
        assert!(beyond.contains("beyond any file"), "{beyond}");
    }

    #[test]
    fn rate_start_address_and_peers_change_in_place() {
        let (mut route, mut links, mut peers) = (route(), BTreeMap::new(), BTreeSet::new());
        let before = spec(&route).unwrap();
        let blind = tuning(&route, &before, &links, &peers);
        assert_eq!((blind.next, blind.previous, blind.go), (None, Admission::Barred, Go::Hold));
        route.rate = Bandwidth::from_mbps(20);
        let (dataset, offset) = ("corpus".into(), 0);
        route.purpose = RoutePurpose::Transfer { dataset, offset, bytes: 5, write: false, start: true };
        let to = PointName::new("c").unwrap();
        let link = PeerLink { link: LinkId::new("b-c").unwrap(), to, overlay: "127.0.0.1:1".into() };
        links.insert(&link.link, &link);
        peers.insert(PointName::new("a").unwrap());
        let after = spec(&route).unwrap();
        assert_eq!(before, after);
        let seeing = tuning(&route, &after, &links, &peers);
        assert_eq!((seeing.rate.kbps(), seeing.go, seeing.previous), (20_000, Go::Send, Admission::Allowed));
        assert_eq!(seeing.next.unwrap(), link);
    }
}
