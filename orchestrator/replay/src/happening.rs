//! What befalls sites and links during a replay, as a file says it.

use crate::time::Micros;
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{
    DocumentError, LinkId, Problem, SiteName, document,
    quantity::{Latency, Span},
};
use serde::{Deserialize, Serialize};

/// `{after: 36h, site: shanghai, state: down}`, `{at: 2026-01-02T00:00:00Z, link: sh-wh, latency: 200ms}`. `after` counts
/// from the first submission. A link declared both ways changes both ways unless `one_way`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Happening {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<UpDown>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    #[serde(default)]
    pub one_way: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpDown {
    Up,
    Down,
}

/// A happening with everything looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Site(usize, UpDown),
    Link(usize, UpDown),
    Delay(usize, Latency),
}

/// Reads the list as YAML or JSON.
pub fn read(text: &str) -> Result<Vec<Happening>, DocumentError> {
    document::read_large(text)
}

/// The changes with their instants, in order of time. `number` gives a link's number.
pub(crate) fn changes(
    happenings: &[Happening],
    view: &View,
    first: Micros,
    number: impl Fn(&LinkId) -> Option<usize>,
) -> Result<Vec<(Micros, Change)>, DocumentError> {
    let mut changes = Vec::new();
    let mut problems = Vec::new();
    for (index, happening) in happenings.iter().enumerate() {
        let mut wrong = |reason: String| problems.push(Problem::new(format!("/{index}"), reason));
        let at = match (happening.at, happening.after) {
            (Some(at), None) => Micros::from(at),
            (None, Some(after)) => first + Micros(after.micros() as i64),
            _ => {
                wrong("when it happens is not clear: give one of \"at\" and \"after\"".into());
                continue;
            }
        };
        match (&happening.site, &happening.link, happening.state, happening.latency) {
            (Some(name), None, Some(state), None) => match view.site_index(name) {
                Some(site) => changes.push((at, Change::Site(site, state))),
                None => wrong(format!("there is no site {name}: name one of the federation's")),
            },
            (None, Some(id), state, latency) if state.is_some() != latency.is_some() => {
                let Some(link) = view.link(id) else {
                    wrong(format!("there is no link {id}: name one of the federation's"));
                    continue;
                };
                let back = link.link.reverse.as_ref().filter(|_| !happening.one_way);
                for number in [Some(id), back].into_iter().flatten().filter_map(&number) {
                    changes.extend(state.map(|state| (at, Change::Link(number, state))));
                    changes.extend(latency.map(|latency| (at, Change::Delay(number, latency))));
                }
            }
            _ => {
                wrong(
                    "what happens is not clear: give a site with a state, or a link with a state or a latency".into(),
                );
            }
        }
    }
    DocumentError::unless_empty(problems)?;
    changes.sort_by_key(|(at, _)| *at);
    Ok(changes)
}
