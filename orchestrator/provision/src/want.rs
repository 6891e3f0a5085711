//! What a saga lacks: paths that somebody with a view has to look for.

use crate::{
    leg::{LegState, Trouble},
    path::{PathRole, PathState},
    saga::{Goal, Saga},
};
use jiff::{SignedDuration, Timestamp};
use rhumb_model::{Bandwidth, Latency, LinkId, Phase};
use std::collections::{BTreeMap, BTreeSet};

/// Another path for a leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    pub leg: u32,
    /// `Next`: to carry; `Backup`: to stand by.
    pub role: PathRole,
    pub rate: Bandwidth,
    pub bound: Option<Latency>,
    /// No path that is one of these.
    pub not: Vec<Vec<LinkId>>,
    /// No link, and no risk, of these: the path that stays beside it.
    pub apart: BTreeSet<LinkId>,
    /// What the leg holds already.
    pub held: BTreeMap<LinkId, Bandwidth>,
}

impl Saga {
    /// Legs that should have another path now: out of their promise for long enough, not moved a moment ago, and not more
    /// often than is good for them.
    pub fn wants(&self, now: Timestamp) -> Vec<Want> {
        let goes_on = self.goal == Goal::Complete && (Phase::Routing..=Phase::Running).contains(&self.phase);
        let needed = |l: &&LegState| l.is_needed(self);
        self.legs.iter().filter(|_| goes_on).filter(needed).filter_map(|l| self.want(l, now)).collect()
    }

    fn want(&self, leg: &LegState, now: Timestamp) -> Option<Want> {
        let since = |at: &Timestamp| now.duration_since(*at);
        let rested = |t: &Trouble| t.stuck.as_ref().is_none_or(|(at, _)| since(at) >= self.rules.retry());
        let backup = leg.with_role(PathRole::Backup);
        if let Some(trouble) = leg.trouble.as_ref().filter(|_| !leg.is_moving()) {
            // one that is lost is not left waiting
            let lost = leg.carry().lost_since.is_some();
            let held_down = !lost && leg.moves.last().is_some_and(|at| since(at) < self.rules.hold_down());
            if held_down || leg.has_moved_enough(self, now) || !rested(trouble) {
                return None;
            }
            let apart = backup.filter(|_| leg.protected);
            return Some(self::want(leg, PathRole::Next, apart));
        }
        let bare = leg.bare.as_ref().filter(|t| rested(t) && !leg.is_moving());
        bare.map(|_| self::want(leg, PathRole::Backup, Some(leg.carry())))
    }

    /// What a person should know of the routes: which flow is out of its promise and stays so, and why.
    pub fn route_attention(&self, now: Timestamp) -> Option<String> {
        let running = self.goal == Goal::Complete && (Phase::Staging..=Phase::Running).contains(&self.phase);
        let told = |leg: &LegState| {
            if let Some(trouble) = &leg.trouble {
                let why = match &trouble.stuck {
                    Some((_, reason)) => format!("there is no other path: {reason}"),
                    None if leg.has_moved_enough(self, now) => {
                        format!("it was moved {} times within an hour", leg.moves.len())
                    }
                    None => return None,
                };
                return Some(format!("flow {} is out of its promise: {}; {why}", leg.flow, trouble.cause));
            }
            let (_, reason) = leg.bare.as_ref()?.stuck.as_ref()?;
            Some(format!("flow {} has no backup: {reason}", leg.flow))
        };
        self.legs.iter().filter(|l| running && l.is_needed(self)).find_map(told)
    }
}

impl LegState {
    fn has_moved_enough(&self, saga: &Saga, now: Timestamp) -> bool {
        let hour = SignedDuration::from_hours(1);
        let recent = self.moves.iter().filter(|at| now.duration_since(**at) < hour).count();
        recent >= saga.rules.moves_per_hour as usize
    }
}

fn want(leg: &LegState, role: PathRole, apart: Option<&PathState>) -> Want {
    let held = leg.paths.iter().filter(|p| p.is_held()).map(|p| p.links.clone());
    Want {
        leg: leg.leg,
        role,
        rate: leg.rate,
        bound: leg.bound,
        not: held.chain(leg.refused.iter().cloned()).collect(),
        apart: apart.into_iter().flat_map(|p| p.links.iter().cloned()).collect(),
        held: leg.held_links(),
    }
}
