//! Following an order: until a goal, its history, its output.

use super::goal::{Goal, Progress, progress};
use crate::{
    client::Client,
    exit::{CliError, Exit},
    output::{self, Format, Output, Paint},
    show::{clock, list, reason, text},
};
use rhumb_model::{OrderState, Span};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Time between questions: quick at first, so that a change of seconds is seen at once, then easy on the server.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

struct Pace(Duration);

impl Pace {
    fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    async fn rest(&mut self, until: Option<Instant>) {
        let left = until.map_or(self.0, |until| until.saturating_duration_since(Instant::now()));
        tokio::time::sleep(self.0.min(left)).await;
        self.0 = self.0.mul_f32(1.02).min(LONGEST_PAUSE);
    }
}

/// The order, once it has reached or passed the goal.
pub async fn wait(id: &str, goal: Goal, timeout: Span, client: &Client) -> Result<Value, CliError> {
    let until = Instant::now() + Duration::from_micros(timeout.micros());
    let bar = output::progress(format!("waiting for {goal}"));
    let mut pace = Pace::new();
    let mut last: Option<Value> = None;
    loop {
        match client.get(&["v1", "orders", id], vec![]).await {
            Ok(order) => {
                let state = text(&order, "/state");
                bar.set_message(format!(
                    "waiting for {goal}, now {state} {}",
                    text(&order, "/phase").trim_matches('-')
                ));
                let known = state.parse().map(|state| progress(goal, state, text(&order, "/phase").parse().ok()));
                match known {
                    Ok(Progress::Reached) => return Ok(order),
                    Ok(Progress::Missed) => {
                        return Err(CliError::Failed(format!("order {id} is {state}, not {goal}{}", because(&order))));
                    }
                    Ok(Progress::Waiting) | Err(_) => last = Some(order),
                }
            }
            // an orchestrator that is being started again; before its first answer there may be none at all
            Err(CliError::Unreachable { .. }) if last.is_some() && Instant::now() < until => {}
            Err(error) => return Err(error),
        }
        if Instant::now() >= until {
            let now =
                last.as_ref().map_or_else(String::new, |o| format!(": it is {}{}", text(o, "/state"), because(o)));
            return Err(CliError::Failed(format!("order {id} has not reached {goal} within {timeout}{now}")));
        }
        pace.rest(Some(until)).await;
    }
}

fn because(order: &Value) -> String {
    let mut lines: Vec<String> = list(order, "/reasons").iter().map(|r| format!("\n  {}", reason(r))).collect();
    let attention = text(order, "/attention");
    if attention != "-" {
        lines.push(format!("\n  {attention}"));
    }
    lines.concat()
}

/// The order's history; with `follow`, until it has ended.
pub async fn events(id: &str, follow: bool, client: &Client, output: Output) -> Result<Exit, CliError> {
    let feed = Feed { id, part: "events", follow, client };
    feed.run(output, |events, o| events.iter().map(|event| event_line(event, o)).collect::<Vec<_>>().join("\n")).await
}

fn event_line(event: &Value, output: Output) -> String {
    let phase = match text(event, "/phase").as_str() {
        "-" => String::new(),
        phase => format!("{} ", output.paint(Paint::Bold, phase)),
    };
    format!("{}  {phase}{}", output.paint(Paint::Dim, &clock(event, "/at")), text(event, "/message"))
}

/// What the replicas wrote; with `follow`, until the order has ended.
pub async fn logs(id: &str, follow: bool, client: &Client, output: Output) -> Result<Exit, CliError> {
    let feed = Feed { id, part: "logs", follow, client };
    feed.run(output, log_lines).await
}

/// Chunks that continue each other are one text; each line says whose it is.
fn log_lines(chunks: &[Value], output: Output) -> String {
    let mut texts: Vec<(String, String)> = Vec::new();
    for chunk in chunks {
        let who = format!("{}/{}.{}", text(chunk, "/component"), text(chunk, "/replica"), text(chunk, "/generation"));
        let said = text(chunk, "/text");
        match texts.iter_mut().find(|(w, _)| *w == who) {
            Some((_, all)) => all.push_str(&said),
            None => texts.push((who, said)),
        }
    }
    let mark = |who: &str| output.paint(Paint::Dim, &format!("{who} |"));
    let lines = texts.iter().flat_map(|(who, said)| said.lines().map(move |line| format!("{} {line}", mark(who))));
    lines.collect::<Vec<_>>().join("\n")
}

/// One of an order's growing lists.
struct Feed<'a> {
    id: &'a str,
    part: &'a str,
    follow: bool,
    client: &'a Client,
}

impl Feed<'_> {
    async fn run(&self, output: Output, table: impl Fn(&[Value], Output) -> String) -> Result<Exit, CliError> {
        let mut pace = Pace::new();
        let mut after = None;
        let mut all = Vec::new();
        let mut begun = false;
        loop {
            // asked before the list, so that nothing is added to it after its last look
            let ended = !self.follow || self.ended(begun).await?;
            loop {
                let page = match self.page(after.as_ref()).await {
                    // while it is being started again
                    Err(CliError::Unreachable { .. }) if begun && self.follow => break,
                    page => page?,
                };
                begun = true;
                let (items, next) = (list(&page, "/items"), page.pointer("/next").filter(|n| !n.is_null()));
                if self.follow && !items.is_empty() {
                    for item in items {
                        if output.format() != Format::Table {
                            output.item(item, |_| String::new())?;
                        }
                    }
                    if output.format() == Format::Table {
                        output.tell(&table(items, output));
                    }
                } else {
                    all.extend_from_slice(items);
                }
                let seen = items.last().map(|last| after_item(self.part, last));
                after =
                    next.map(|n| n.as_str().map_or_else(|| n.to_string(), str::to_owned)).or(seen.flatten()).or(after);
                if items.is_empty() || next.is_none() {
                    break;
                }
            }
            if ended {
                break;
            }
            pace.rest(None).await;
        }
        if !self.follow {
            let whole = json!({ "items": all, "next": null });
            output.show(&whole, |o| table(&all, o))?;
        }
        Ok(Exit::Done)
    }

    async fn page(&self, after: Option<&String>) -> Result<Value, CliError> {
        let query = after.map(|a| ("after", a.clone())).into_iter().collect();
        self.client.get(&["v1", "orders", self.id, self.part], query).await
    }

    async fn ended(&self, begun: bool) -> Result<bool, CliError> {
        match self.client.get(&["v1", "orders", self.id], vec![]).await {
            Ok(order) => Ok(text(&order, "/state").parse().is_ok_and(OrderState::is_final)),
            Err(CliError::Unreachable { .. }) if begun => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Where the list goes on after its last page: events are numbered, logs say it themselves.
fn after_item(part: &str, last: &Value) -> Option<String> {
    (part == "events").then(|| text(last, "/number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_one_replica_are_one_text() {
        let chunk = |component: &str, said: &str| json!({"generation": 1, "component": component, "replica": 0, "offset": 0, "text": said});
        let shown =
            log_lines(&[chunk("a", "one\ntw"), chunk("b", "x\n"), chunk("a", "o\n")], Output::plain(Format::Table));
        assert_eq!(shown, "a/0.1 | one\na/0.1 | two\nb/0.1 | x");
    }

    #[test]
    fn an_event_is_a_line() {
        let event = json!({"at": "2026-12-01T01:02:03.456789Z", "phase": "running", "message": "order runs"});
        assert_eq!(event_line(&event, Output::plain(Format::Table)), "01:02:03.456  running order runs");
    }
}
