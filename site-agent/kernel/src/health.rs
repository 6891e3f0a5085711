//! Whether the far end of a tunnel answers, and which leg carries when it does not. Times are since any fixed moment.

use crate::{
    intent::{Intent, Stance},
    owner::Owner,
};
use std::{collections::BTreeMap, time::Duration};

/// How long is waited before something is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Without an answer for so long a tunnel is lost; at least four of its round trips.
    pub silence: Duration,
    /// What was lost must answer for so long before it is trusted again.
    pub hold_down: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { silence: Duration::from_millis(500), hold_down: Duration::from_secs(10) }
    }
}

/// Round trips that a silence lasts at least, so that distance is not taken for loss.
const LEAST_ROUND_TRIPS: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Health {
    /// It never answered.
    #[default]
    Unknown,
    Up,
    Down,
}

/// Questions that stay unanswered at least before that is a silence.
const LEAST_QUESTIONS: u32 = 3;

/// What is known of one tunnel's far end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch {
    /// Between two questions.
    pub(crate) every: Duration,
    health: Health,
    heard: Option<Duration>,
    /// Since when it has answered without a gap.
    since: Option<Duration>,
    /// Of the last answer.
    pub(crate) round_trip: Option<Duration>,
}

impl Watch {
    pub(crate) fn health(&self) -> Health {
        self.health
    }

    pub(crate) fn answered(&mut self, now: Duration, round_trip: Duration, patience: &Patience) {
        if self.heard.is_none_or(|heard| now.saturating_sub(heard) > self.silence(patience)) {
            self.since = Some(now);
        }
        (self.heard, self.round_trip) = (Some(now), Some(round_trip));
        self.look(now, patience);
    }

    /// Whether its health is another than before.
    pub(crate) fn look(&mut self, now: Duration, patience: &Patience) -> bool {
        let Some(heard) = self.heard else { return false };
        let silent = now.saturating_sub(heard) > self.silence(patience);
        let steady = self.since.is_some_and(|since| now.saturating_sub(since) >= patience.hold_down);
        let next = match self.health {
            _ if silent => Health::Down,
            Health::Down if !steady => Health::Down,
            Health::Unknown | Health::Up | Health::Down => Health::Up,
        };
        std::mem::replace(&mut self.health, next) != next
    }

    fn silence(&self, patience: &Patience) -> Duration {
        let distance = self.round_trip.unwrap_or_default() * LEAST_ROUND_TRIPS;
        patience.silence.max(distance).max(self.every * LEAST_QUESTIONS)
    }
}

/// The legs as they are to stand now: a lost one gives its traffic to the leg that protects it, as long as that answers.
pub(crate) fn stances(legs: &[Intent], health: impl Fn(&Owner) -> Health) -> Vec<Intent> {
    let down = |owner: &Owner| health(owner) == Health::Down;
    let mut swapped: BTreeMap<Owner, Stance> = BTreeMap::new();
    for leg in legs {
        let Some(primary) = leg.protects else { continue };
        if down(&primary) && health(&leg.owner) == Health::Up {
            swapped.insert(primary, Stance::Standby);
            swapped.insert(leg.owner, Stance::Carrying);
        }
    }
    legs.iter()
        .map(|leg| Intent { stance: swapped.get(&leg.owner).copied().unwrap_or(leg.stance), ..leg.clone() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn silence_is_loss_and_a_lost_one_must_answer_for_long() {
        let patience = Patience { silence: 500 * MS, hold_down: 10_000 * MS };
        let mut watch = Watch::default();
        assert!(!watch.look(60_000 * MS, &patience), "what never answered is not lost");
        watch.answered(60_000 * MS, 20 * MS, &patience);
        assert_eq!(watch.health(), Health::Up);
        assert!(!watch.look(60_500 * MS, &patience));
        assert!(watch.look(60_501 * MS, &patience) && watch.health() == Health::Down);
        // it flaps: each gap begins the wait anew
        for at in [61_000, 61_100, 62_000, 62_100] {
            watch.answered(at * MS, 20 * MS, &patience);
            assert_eq!(watch.health(), Health::Down, "{at}");
        }
        for at in (62_200..72_000).step_by(100) {
            watch.answered(at * MS, 20 * MS, &patience);
            assert_eq!(watch.health(), Health::Down, "{at}");
        }
        watch.answered(72_001 * MS, 20 * MS, &patience);
        assert_eq!(watch.health(), Health::Up);
    }

    #[test]
    fn distance_is_not_taken_for_loss() {
        let patience = Patience { silence: 500 * MS, hold_down: 10_000 * MS };
        let mut watch = Watch::default();
        watch.answered(Duration::ZERO, 300 * MS, &patience);
        assert!(!watch.look(1_200 * MS, &patience) && watch.look(1_201 * MS, &patience));
        // nor is one that is seldom asked
        let mut watch = Watch { every: 1_000 * MS, ..Watch::default() };
        watch.answered(Duration::ZERO, 20 * MS, &patience);
        assert!(!watch.look(3_000 * MS, &patience) && watch.look(3_001 * MS, &patience));
    }
}
