//! From path to path: a leg's paths come, take over, and go.

use super::{LegTerms, NewPath, Present, Sight, Stepper};
use crate::{
    leg::{LegState, Trouble},
    path::{PathRole, PathState},
    rules::RouteRules,
    saga::{Goal, Stamp},
};
use jiff::{SignedDuration, Timestamp};
use rhumb_model::{Phase, PointName};
use rhumb_wire::{RouteEndState, RouteStatus};

/// Moves are counted for so long.
const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// Paths that did not do are remembered, the last few.
const REFUSED: usize = 8;

/// What a point said of a path, when it said it.
pub(super) struct Heard<'a> {
    pub point: &'a PointName,
    pub current: bool,
    pub seen: Stamp,
    pub at: Timestamp,
    pub phase: Phase,
}

/// What followed at once.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Paths that failed there, with what was said.
    pub failed: Vec<(u32, String)>,
    /// The source has the leg's bytes take another path than before.
    pub took: bool,
    /// Links of paths that were there, should be, and are not.
    pub missing: Vec<String>,
}

impl LegState {
    /// Folds in what a point says of the leg's paths.
    pub(super) fn hear(&mut self, heard: &Heard<'_>, statuses: &[&RouteStatus]) -> Told {
        let mut told_now = Told::default();
        let done = self.is_done();
        let status = |path: u32| statuses.iter().find(|r| r.key.leg == self.leg && r.key.path == path).copied();
        let told: Vec<_> = self.paths.iter().map(|p| status(p.path)).collect();
        for (path, status) in self.paths.iter_mut().zip(told) {
            if !path.is_held() || !path.points.contains(heard.point) {
                continue;
            }
            let known = path.seen.contains_key(heard.point);
            if let Some(message) = path.hear(heard, status) {
                told_now.failed.push((path.path, message));
            }
            if known && path.is_wanted() && !path.seen.contains_key(heard.point) {
                told_now.missing.push(path.named());
            }
        }
        if heard.point == self.source() && heard.current && heard.seen >= self.barrier && !done {
            let carrying = statuses.iter().find(|r| r.key.leg == self.leg && r.carrying);
            if let Some(now) = carrying.map(|r| r.key.path) {
                told_now.took = self.carried_by(now);
            }
        }
        told_now
    }

    /// The source has the leg's bytes take that path.
    fn carried_by(&mut self, now: u32) -> bool {
        if now == self.carried_by || !self.paths.iter().any(|p| p.path == now && p.is_held()) {
            return false;
        }
        let before = std::mem::replace(&mut self.carried_by, now);
        let mut reached = 0;
        if let Some(path) = self.path_mut(before) {
            let at_source = path.bytes.get(path.source()).copied().unwrap_or(0);
            path.stood_at = path.stood_at.max(at_source);
            reached = path.stood_at;
        }
        if let Some(path) = self.path_mut(now) {
            path.skipped = path.skipped.saturating_add(reached.saturating_sub(path.stood_at));
        }
        true
    }

    /// The path that carries becomes what `of` is, and `of` carries.
    fn swap(&mut self, of: u32, then: PathRole, at: Timestamp) {
        for path in &mut self.paths {
            if path.role == PathRole::Carry {
                path.role = then;
                if then != PathRole::Backup {
                    path.until = Some(at);
                }
            } else if path.path == of {
                if path.role == PathRole::Next {
                    path.since = Some(at);
                }
                path.until = None;
                path.role = PathRole::Carry;
            }
        }
    }

    pub(super) fn close(&mut self, number: u32, barrier: Stamp, at: Timestamp) {
        if let Some(path) = self.path_mut(number) {
            path.role = PathRole::Closing;
            path.barrier = barrier;
            path.gone.clear();
            path.until.get_or_insert(at);
        }
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.paths.iter().any(|p| matches!(p.role, PathRole::Next | PathRole::Leaving))
    }

    fn is_good(&self, path: &PathState, rules: &RouteRules) -> bool {
        let holds = self.rate_of(path) >= self.rate;
        let failed = path.seen.values().any(|s| *s == RouteEndState::Failed);
        holds && !failed && path.is_active() && path.late_since.is_none() && path.fault(self, rules).is_none()
    }

    /// What is wrong with the path that carries, once it has been so for long enough.
    fn ails(&self, rules: &RouteRules, now: Timestamp) -> Option<String> {
        let carry = self.carry();
        let long = |since: Option<Timestamp>, least| since.is_some_and(|s| now.duration_since(s) >= least);
        let failed = carry.seen.iter().find(|(_, s)| **s == RouteEndState::Failed);
        if let Some((point, _)) = failed {
            return Some(format!("its path over {} failed at {point}", carry.named()));
        }
        if long(carry.lost_since, rules.lost()) {
            return Some(format!("its path over {} is lost", carry.named()));
        }
        if let Some(rate) = carry.rate.filter(|rate| *rate < self.rate) {
            return Some(format!("{rate} over {}, {} promised", carry.named(), self.rate));
        }
        if !long(carry.late_since, rules.confirm()) {
            return None;
        }
        let late = || Some(format!("{} over {}, {} promised", carry.sight?, carry.named(), self.bound?));
        carry.fault(self, rules).or_else(late)
    }
}

impl PathState {
    /// Gives why it failed there, if it did just now.
    fn hear(&mut self, heard: &Heard<'_>, status: Option<&RouteStatus>) -> Option<String> {
        let done = self.is(heard.point, RouteEndState::Done);
        let Some(r) = status else {
            if self.role == PathRole::Closing && heard.seen >= self.barrier {
                self.gone.insert(heard.point.clone());
                self.silent.remove(heard.point);
            } else if heard.current && !done {
                self.seen.remove(heard.point);
            }
            return None;
        };
        let bytes = self.bytes.entry(heard.point.clone()).or_default();
        *bytes = (*bytes).max(r.bytes.saturating_add(r.bytes_back));
        if self.role == PathRole::Closing || done {
            return None;
        }
        self.seen.insert(heard.point.clone(), r.state);
        if heard.point == self.source() {
            self.figures = r.figures.or(self.figures);
            match r.state {
                RouteEndState::Active | RouteEndState::Done => self.lost_since = None,
                // what is built for the first time is not lost
                RouteEndState::Building if heard.phase <= Phase::Routing || self.role == PathRole::Next => {}
                RouteEndState::Building | RouteEndState::Degraded | RouteEndState::Failed => {
                    if (Phase::Routing..=Phase::Running).contains(&heard.phase) {
                        self.lost_since.get_or_insert(heard.at);
                    }
                }
            }
        }
        (r.state == RouteEndState::Failed).then(|| r.message.clone())
    }

    /// Whether it is slower than promised, by its own figures or by those of its links.
    fn judge(&mut self, fault: bool, late: Option<bool>, at: Timestamp) {
        match (fault, late) {
            (true, _) | (_, Some(true)) => {
                self.late_since.get_or_insert(at);
            }
            (false, Some(false)) => self.late_since = None,
            (false, None) => {}
        }
    }
}

impl Stepper {
    /// After anything was heard or has passed: what follows for the paths of a leg.
    pub(super) fn settle_paths(&mut self, index: usize, took: bool) {
        let (now, next, rules, phase) = (self.now, self.next, self.saga.rules, self.saga.phase);
        let dead = &self.saga.dead;
        let leg = &mut self.saga.legs[index];
        let mut said = Vec::new();
        let mut changed = false;
        let taken = leg.paths.iter().find(|p| took && p.path == leg.carried_by).map(|p| (p.path, p.role));
        match taken {
            // the source has helped itself
            Some((path, PathRole::Backup)) => {
                leg.swap(path, PathRole::Backup, now);
                changed = true;
                said.push(format!("flow {} has taken to its backup over {}", leg.flow, leg.carry().named()));
            }
            Some((path, PathRole::Next)) => {
                leg.swap(path, PathRole::Leaving, now);
                changed = true;
            }
            _ => {}
        }
        let ready = leg.with_role(PathRole::Next).filter(|p| leg.is_good(p, &rules)).map(|p| p.path);
        if let Some(path) = ready {
            leg.swap(path, PathRole::Leaving, now);
            leg.trouble = None;
            changed = true;
            said.push(format!("flow {} takes to {}", leg.flow, leg.carry().named()));
        }
        let carries = leg.carried_by == leg.carry().path || phase <= Phase::Routing || leg.is_done();
        let leaving = leg.with_role(PathRole::Leaving).map(|p| p.path);
        if let Some(path) = leaving.filter(|_| carries) {
            leg.close(path, next, now);
            // what never carried a byte is not waited for either
            leg.carried_by = leg.carry().path;
            changed = true;
        }
        for path in leg.paths.iter_mut().filter(|p| p.role == PathRole::Closing) {
            if path.points.iter().all(|p| path.gone.contains(p) || dead.contains(p)) {
                path.silent.extend(path.points.iter().filter(|p| !path.gone.contains(*p)).cloned());
                path.role = PathRole::Gone;
                said.push(format!("nothing is left of flow {}'s path over {}", leg.flow, path.named()));
            }
        }
        if changed {
            leg.barrier = next;
            self.desired_changed = true;
        }
        for message in said {
            self.note("route", message);
        }
    }

    /// What the links say of the paths, and what the time that has passed means.
    pub(super) fn watch(&mut self, sights: &[Sight]) {
        let (now, rules) = (self.now, self.saga.rules);
        for index in 0..self.saga.legs.len() {
            let leg = &mut self.saga.legs[index];
            let bound = leg.bound;
            let faults: Vec<bool> = leg.paths.iter().map(|p| p.fault(leg, &rules).is_some()).collect();
            for (path, fault) in leg.paths.iter_mut().zip(faults).filter(|(p, _)| p.is_wanted()) {
                let seen = sights.iter().find(|s| s.leg == leg.leg && s.path == path.path).map(|s| s.latency);
                path.sight = seen.or(path.sight);
                let late = match (bound, seen) {
                    (Some(bound), Some(seen)) if rules.is_late(seen, bound) => Some(true),
                    // in between it stays what it was
                    (Some(bound), Some(seen)) => (seen <= bound).then_some(false),
                    (None, _) => Some(false),
                    (Some(_), None) => (!fault && path.sight.is_none()).then_some(false),
                };
                path.judge(fault, late, now);
            }
            let goes_on = self.saga.goal == Goal::Complete
                && (Phase::Routing..=Phase::Running).contains(&self.saga.phase)
                && self.needs_leg(&self.saga.legs[index]);
            if goes_on {
                self.mind_tunnels(index);
                self.mind_next(index);
                // what it takes to may ail as well, or end the trouble: both are seen at once
                while self.mind_carry(index) {}
                self.mind_backup(index);
            }
            self.settle_paths(index, false);
        }
    }

    /// A path that does not come up, or is no better, is given up.
    fn mind_next(&mut self, index: usize) {
        let (now, next, rules) = (self.now, self.next, self.saga.rules);
        let leg = &mut self.saga.legs[index];
        let Some(path) = leg.with_role(PathRole::Next) else { return };
        let failed = path.seen.values().any(|s| *s == RouteEndState::Failed);
        let old = |since: Option<Timestamp>, most| since.is_some_and(|s| now.duration_since(s) > most);
        let late = old(path.late_since, rules.confirm());
        if !(failed || late || old(path.begun, rules.build())) {
            return;
        }
        let why = path.fault(leg, &rules).unwrap_or_else(|| "it did not come up".to_owned());
        let (number, links) = (path.path, path.links.clone());
        if !late && path.fault(leg, &rules).is_none() && self.relays_instead(index, number, &why) {
            return;
        }
        let leg = &mut self.saga.legs[index];
        let Some(path) = leg.with_role(PathRole::Next) else { return };
        let message = format!("flow {} does not take to {}: {why}", leg.flow, path.named());
        leg.refuse(links);
        leg.close(number, next, now);
        leg.barrier = next;
        self.desired_changed = true;
        self.note("route", message);
    }

    /// Gives whether another path carries from now on: one that was on its way out and goes then, or a backup that is good.
    fn mind_carry(&mut self, index: usize) -> bool {
        let (now, next, rules) = (self.now, self.next, self.saga.rules);
        let leg = &mut self.saga.legs[index];
        let cause = leg.ails(&rules, now);
        // what is to carry is lost before it did: what did goes on
        let back = leg.with_role(PathRole::Leaving).map(|p| (p.path, PathRole::Closing));
        let good = |p: &&PathState| leg.is_good(p, &rules);
        let backup = leg.with_role(PathRole::Backup).filter(good).map(|p| (p.path, PathRole::Backup));
        let takes = cause.is_some() && (back.is_some() || backup.is_some());
        let message = match (cause, back.or(backup)) {
            (Some(cause), Some((path, then))) => {
                let before = leg.carry().path;
                leg.swap(path, then, now);
                if then == PathRole::Closing {
                    leg.close(before, next, now);
                }
                leg.barrier = next;
                self.desired_changed = true;
                format!("flow {} takes to {}: {cause}", leg.flow, leg.carry().named())
            }
            (Some(cause), None) if leg.trouble.is_none() => {
                let message = format!("flow {} is out of its promise: {cause}", leg.flow);
                leg.trouble = Some(Trouble { cause, since: now, stuck: None });
                message
            }
            (None, _) if leg.trouble.is_some() => {
                leg.trouble = None;
                format!("flow {} keeps its promise again over {}", leg.flow, leg.carry().named())
            }
            _ => return false,
        };
        self.note("route", message);
        takes
    }

    fn mind_backup(&mut self, index: usize) {
        let (now, rules) = (self.now, self.saga.rules);
        let leg = &mut self.saga.legs[index];
        let long = |since: Option<Timestamp>, least| since.is_some_and(|s| now.duration_since(s) >= least);
        let fails = |p: &PathState| {
            p.seen.values().any(|s| *s == RouteEndState::Failed)
                || long(p.lost_since, rules.lost())
                || long(p.late_since, rules.confirm())
        };
        let stands = leg.with_role(PathRole::Backup).is_some_and(|p| !fails(p));
        let message = match (leg.protected && !stands, leg.bare.is_some()) {
            (true, false) => {
                leg.bare = Some(Trouble { cause: "its backup is lost".to_owned(), since: now, stuck: None });
                format!("flow {} is without a backup", leg.flow)
            }
            (false, true) => {
                leg.bare = None;
                format!("flow {} has a backup", leg.flow)
            }
            _ => return,
        };
        self.note("route", message);
    }

    /// A path whose links are held by now.
    pub(super) fn reroute(&mut self, NewPath { leg, links, points, role }: NewPath) {
        let (now, next) = (self.now, self.next);
        let goes_on = self.saga.goal == Goal::Complete && (Phase::Routing..=Phase::Running).contains(&self.saga.phase);
        let Some(leg) = self.saga.legs.iter_mut().find(|l| l.leg == leg).filter(|_| goes_on) else { return };
        let ends = points.first() == Some(leg.source()) && points.last() == Some(leg.sink());
        let known = leg.paths.iter().any(|p| p.is_held() && p.links == links);
        if !ends || known || points.len() != links.len() + 1 || (role == PathRole::Next && leg.is_moving()) {
            return;
        }
        let former = leg.with_role(PathRole::Backup).map(|p| p.path);
        if let Some(former) = former.filter(|_| role == PathRole::Backup) {
            leg.close(former, next, now);
        }
        let number = leg.paths.iter().map(|p| p.path).max().map_or(0, |n| n + 1);
        let mut path = PathState::new(number, links, points, role);
        path.begun = Some(now);
        let message = if role == PathRole::Backup {
            path.since = Some(now);
            leg.bare = None;
            format!("flow {} gets a backup over {}", leg.flow, path.named())
        } else {
            leg.moves.retain(|at| now.duration_since(*at) < HOUR);
            leg.moves.push(now);
            format!("flow {} is to move to {}", leg.flow, path.named())
        };
        if let Some(trouble) = leg.trouble.as_mut() {
            trouble.stuck = None;
        }
        leg.paths.push(path);
        leg.barrier = next;
        self.desired_changed = true;
        self.note("route", message);
    }

    /// There is no other path. Before anything was moved, another place may do; after that the order has to bear it.
    pub(super) fn no_path(&mut self, leg: u32, role: PathRole, reason: String) {
        let now = self.now;
        let Some(leg) = self.saga.legs.iter_mut().find(|l| l.leg == leg) else { return };
        let slow = role != PathRole::Backup && leg.carry().late_since.is_some();
        let trouble = if role == PathRole::Backup { &mut leg.bare } else { &mut leg.trouble };
        let Some(trouble) = trouble.as_mut() else { return };
        let known = trouble.stuck.as_ref().is_some_and(|(_, why)| *why == reason);
        let cause = format!("flow {}: {}, and there is no other path: {reason}", leg.flow, trouble.cause);
        trouble.stuck = Some((now, reason));
        if self.saga.phase == Phase::Routing && slow {
            self.turn(Goal::Replace, cause);
        } else if !known {
            self.note("route", cause);
        }
    }

    /// Other terms of legs whose links hold enough by now.
    pub(super) fn amend(&mut self, terms: &[LegTerms]) {
        let now = self.now;
        for of in terms {
            let Some(leg) = self.saga.legs.iter_mut().find(|l| l.leg == of.leg) else { continue };
            if leg.rate == of.rate && leg.bound == of.bound {
                continue;
            }
            if leg.rate != of.rate {
                if of.paths == Present::Stay {
                    let before = leg.rate;
                    leg.paths.iter_mut().filter(|p| p.is_held()).for_each(|p| p.rate = Some(p.rate.unwrap_or(before)));
                } else {
                    leg.paths.iter_mut().for_each(|p| p.rate = None);
                }
                leg.former_rates.push((now, leg.rate));
                leg.rate = of.rate;
            }
            leg.bound = of.bound;
            let message = match of.bound {
                Some(bound) => format!("flow {} has {} within {bound}", leg.flow, of.rate),
                None => format!("flow {} has {}", leg.flow, of.rate),
            };
            self.desired_changed = true;
            self.note("route", message);
        }
    }
}

impl LegState {
    fn refuse(&mut self, links: Vec<rhumb_model::LinkId>) {
        self.refused.push(links);
        if self.refused.len() > REFUSED {
            self.refused.remove(0);
        }
    }
}
