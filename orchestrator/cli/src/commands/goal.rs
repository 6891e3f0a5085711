//! What `order wait --for` waits for, and whether it was reached, passed or missed.

use rhumb_model::{OrderState, Phase};
use std::{fmt, str::FromStr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    State(OrderState),
    Phase(Phase),
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(state) = text.parse() {
            return Ok(Self::State(state));
        }
        text.parse().map(Self::Phase).map_err(|_| {
            let states = OrderState::ALL.iter().map(|s| s.as_str());
            let known: Vec<_> = states.chain(Phase::ALL.iter().map(|p| p.as_str())).collect();
            format!("it is no state or phase of an order: use one of {}", known.join(", "))
        })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(state) => state.fmt(f),
            Self::Phase(phase) => phase.fmt(f),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Waiting,
    /// Reached or passed.
    Reached,
    /// The order ended otherwise.
    Missed,
}

/// How far on its way to completion an unfinished state is.
fn rank(state: OrderState) -> u8 {
    match state {
        OrderState::Acknowledged => 0,
        OrderState::Pending => 1,
        OrderState::Held => 2,
        OrderState::InProgress => 3,
        OrderState::Completed
        | OrderState::Rejected
        | OrderState::Partial
        | OrderState::Failed
        | OrderState::Cancelling
        | OrderState::Cancelled => 4,
    }
}

/// Where an order in this state (and phase) is with regard to the goal.
pub fn progress(goal: Goal, state: OrderState, phase: Option<Phase>) -> Progress {
    use OrderState::{
        Acknowledged, Cancelled, Cancelling, Completed, Failed, Held, InProgress, Partial, Pending, Rejected,
    };
    let reached = match (goal, state) {
        (Goal::State(goal), state) if goal == state => true,
        (Goal::State(goal @ (Acknowledged | Pending | Held | InProgress)), Pending | Held | InProgress) => {
            rank(state) >= rank(goal)
        }
        // what is completed has passed everything on the way
        (Goal::State(Acknowledged | Pending | Held | InProgress) | Goal::Phase(_), Completed)
        | (Goal::State(Acknowledged), _)
        | (Goal::State(Cancelling), Cancelled) => true,
        (Goal::Phase(goal), InProgress) => phase.is_some_and(|p| p >= goal),
        // an order that is being cancelled goes through the last phases, and need not have been in those before
        (Goal::Phase(goal), Cancelling) => goal > Phase::Running && phase.is_some_and(|p| p >= goal),
        (
            Goal::State(_),
            Rejected | Partial | Failed | Cancelled | Cancelling | Acknowledged | Pending | Held | InProgress
            | Completed,
        )
        | (Goal::Phase(_), Rejected | Partial | Failed | Cancelled | Acknowledged | Pending | Held) => false,
    };
    match (reached, state.is_final()) {
        (true, _) => Progress::Reached,
        (false, true) => Progress::Missed,
        (false, false) => Progress::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OrderState as S;
    use Phase as P;

    fn of(goal: &str, state: S, phase: Option<P>) -> Progress {
        progress(goal.parse().unwrap(), state, phase)
    }

    #[test]
    fn a_phase_is_reached_from_it_on() {
        let cases = [
            (S::Acknowledged, None, Progress::Waiting),
            (S::Pending, None, Progress::Waiting),
            (S::InProgress, Some(P::Staging), Progress::Waiting),
            (S::InProgress, Some(P::Running), Progress::Reached),
            (S::InProgress, Some(P::Settling), Progress::Reached),
            (S::Completed, None, Progress::Reached),
            (S::Failed, None, Progress::Missed),
            (S::Rejected, None, Progress::Missed),
            (S::Cancelling, Some(P::Stopping), Progress::Waiting),
            (S::Cancelled, None, Progress::Missed),
        ];
        for (state, phase, expected) in cases {
            assert_eq!(of("running", state, phase), expected, "{state} {phase:?}");
        }
    }

    #[test]
    fn a_cancelled_order_has_its_last_phases_too() {
        assert_eq!(of("unrouting", S::Cancelling, Some(P::Releasing)), Progress::Reached);
        assert_eq!(of("settling", S::Cancelling, Some(P::Stopping)), Progress::Waiting);
    }

    #[test]
    fn states_are_reached_passed_or_missed() {
        let cases = [
            ("completed", S::InProgress, Progress::Waiting),
            ("completed", S::Completed, Progress::Reached),
            ("completed", S::Failed, Progress::Missed),
            ("completed", S::Partial, Progress::Missed),
            ("pending", S::Acknowledged, Progress::Waiting),
            ("pending", S::InProgress, Progress::Reached),
            ("pending", S::Rejected, Progress::Missed),
            ("acknowledged", S::Rejected, Progress::Reached),
            ("inProgress", S::Held, Progress::Waiting),
            ("inProgress", S::Completed, Progress::Reached),
            ("rejected", S::Rejected, Progress::Reached),
            ("rejected", S::Completed, Progress::Missed),
            ("cancelling", S::Cancelled, Progress::Reached),
            ("cancelled", S::Completed, Progress::Missed),
            ("cancelled", S::Cancelling, Progress::Waiting),
            ("failed", S::Failed, Progress::Reached),
        ];
        for (goal, state, expected) in cases {
            assert_eq!(of(goal, state, None), expected, "{goal} while {state}");
        }
    }

    #[test]
    fn a_final_state_never_waits_and_an_unfinished_one_is_never_missed() {
        let goals = S::ALL.iter().map(|s| Goal::State(*s)).chain(P::ALL.iter().map(|p| Goal::Phase(*p)));
        for goal in goals {
            for state in S::ALL {
                let found = progress(goal, *state, Some(P::Running));
                let impossible = if state.is_final() { Progress::Waiting } else { Progress::Missed };
                assert_ne!(found, impossible, "{goal} while {state}");
            }
        }
    }

    #[test]
    fn an_unknown_goal_names_the_known() {
        assert!("done".parse::<Goal>().unwrap_err().contains("completed"));
    }
}
