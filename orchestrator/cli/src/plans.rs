//! `rhumb audit` offline: plans checked again against their orders and a federation file.

use crate::{
    exit::{CliError, Exit},
    files,
    output::{Output, Paint},
    place,
    show::{list, text},
};
use clap::Args;
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{Order, Plan, document};
use rhumb_placement::{Policy, Request, Sequence};
use serde_json::{Value, json};
use std::{cmp::Reverse, path::PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rhumb audit\n  \
                        rhumb place --federation f.yaml --order a.yaml b.yaml -o json > plans.json; \
                        rhumb audit --federation f.yaml --plans plans.json\n  \
                        rhumb audit --federation f.yaml --plans plans.json -o json\n\n\
                        PLANS is what `rhumb place -o json` or `rhumb bench place --plans` wrote. The plans of a batch hold together.\n\
                        Of a list of {order, plan, at} each holds by itself; with a turn, on what the turns of its round before it\n\
                        left. Refusals are passed over. Orders that PLANS does not have are given by --order, in its order.")]
pub struct AuditArgs {
    /// Federation file that the plans were made on; without it, the live server is checked
    #[arg(long, value_name = "FILE", requires = "plans")]
    pub federation: Option<PathBuf>,
    /// Plans to check
    #[arg(long, value_name = "FILE", requires = "federation")]
    plans: Option<PathBuf>,
    /// The plans' orders, where the plans do not hold them
    #[arg(long = "order", value_name = "FILE", num_args = 1.., requires = "plans")]
    orders: Vec<PathBuf>,
    /// Rules of the decision (default: the orchestrator's)
    #[arg(long, value_name = "FILE", requires = "plans")]
    policy: Option<PathBuf>,
    /// Instant of the decisions (default: the file's `at`, else the plan's start)
    #[arg(long, value_name = "TIME", requires = "plans")]
    at: Option<Timestamp>,
}

/// A plan with what it answers.
struct Entry {
    order: Order,
    plan: Plan,
    at: Option<Timestamp>,
    hold: Hold,
}

/// What was taken before a plan was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hold {
    /// What the turns of its round before it took.
    Turn { round: u64, turn: u64 },
    /// What the plans of its batch took that were decided on before.
    Together,
    /// Nothing.
    Alone,
}

pub fn main(args: &AuditArgs, output: Output) -> Result<Exit, CliError> {
    let (Some(federation), Some(plans)) = (&args.federation, &args.plans) else {
        return Err(CliError::Usage("give a federation file with --federation and plans with --plans".into()));
    };
    let file = files::federation(federation)?;
    let view = place::view(federation, &file)?;
    let policy = place::policy(args.policy.as_deref())?;
    let orders = args.orders.iter().map(|path| files::order(path)).collect::<Result<Vec<_>, _>>()?;
    let document: Value = files::read(plans)?;
    let mut entries = entries(&document, &orders)?;
    for entry in &mut entries {
        entry.at = args.at.or(entry.at).or(file.at).or(Some(entry.plan.start));
    }
    let violations = check(entries, &view, &policy);
    let value = json!({ "clean": violations.is_empty(), "violations": violations });
    output.show(&value, |o| audit_table(&value, o))?;
    Ok(if violations.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Plans that hold together are checked in the turn in which they were decided on.
fn check(mut entries: Vec<Entry>, view: &View, policy: &Policy) -> Vec<Value> {
    entries.sort_by_cached_key(|e| {
        let text = serde_json::to_string(&e.order).unwrap_or_default();
        let batch = (Reverse(e.order.terms.priority.unwrap_or(50)), e.at, e.order.name.clone(), text);
        (e.hold, (e.hold == Hold::Together).then_some(batch))
    });
    let mut violations = Vec::new();
    let mut sequence = Sequence::new(view);
    let mut before = None;
    for entry in &entries {
        let round = match entry.hold {
            Hold::Turn { round, .. } => Some(Some(round)),
            Hold::Together => Some(None),
            Hold::Alone => None,
        };
        if round.is_none() || before != round {
            sequence = Sequence::new(view);
        }
        before = round;
        let request = Request::new(&entry.order, entry.at.unwrap_or(entry.plan.start));
        let turn = match entry.hold {
            Hold::Turn { turn, .. } => format!("turn {turn}, "),
            _ => String::new(),
        };
        let found = sequence.check(&entry.plan, &request, policy);
        violations.extend(found.iter().map(
            |v| json!({ "invariant": v.invariant, "detail": format!("{turn}{}: {}", entry.order.name, v.detail) }),
        ));
    }
    violations
}

/// The plans of the document with their orders; refusals are passed over.
fn entries(document: &Value, orders: &[Order]) -> Result<Vec<Entry>, CliError> {
    let wrong = |why: String| CliError::Usage(format!("the plans cannot be read: {why}"));
    let plans: Vec<&Value> = match document {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) if map.contains_key("plans") => list(document, "/plans").iter().collect(),
        one => vec![one],
    };
    let mut found = Vec::new();
    for (index, value) in plans.iter().enumerate() {
        let Some(plan) = value.get("plan").filter(|p| !p.is_null()) else {
            if text(value, "/outcome") == "refusal" || value.get("plan").is_some() {
                continue;
            }
            return Err(wrong(format!("entry {index} has no plan: use what `rhumb place -o json` prints")));
        };
        let plan: Plan = document::convert(plan.clone()).map_err(|e| wrong(format!("plan {index}: {e}")))?;
        let order = match value.get("order") {
            Some(order) => Order::from_value(order.clone()).map_err(|e| wrong(format!("order {index}: {e}")))?,
            None => orders.get(index).cloned().ok_or_else(|| {
                wrong(format!(
                    "plan {index} comes without its order: give the orders with --order, in the plans' order"
                ))
            })?,
        };
        let at = value.get("at").and_then(Value::as_str).map(str::parse).transpose();
        let at = at.map_err(|e: jiff::Error| wrong(format!("at of entry {index}: {e}")))?;
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        let hold = match number("turn") {
            Some(turn) => Hold::Turn { round: number("round").unwrap_or(0), turn },
            None if document.is_array() => Hold::Alone,
            None => Hold::Together,
        };
        found.push(Entry { order, plan, at, hold });
    }
    Ok(found)
}

/// A live or offline audit for people.
pub fn audit_table(found: &Value, output: Output) -> String {
    if found.pointer("/clean") == Some(&Value::Bool(true)) {
        return output.paint(Paint::Good, "clean");
    }
    let lines = list(found, "/violations").iter();
    let lines = lines.map(|v| format!("{}  {}", output.paint(Paint::Bad, &text(v, "/invariant")), text(v, "/detail")));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::FederationFile;
    use rhumb_placement::decision_json;

    const FEDERATION: &str = "currency: CNY\ndevices: {H100: {memory: 80GiB, fp16: 1.0}}\nsites:\n  \
        - {name: a, prices: {H100: 10 CNY}, nodes: [{count: 1, accelerators: {model: H100, count: 8}, cpu: 8, memory: 64GiB}]}\n";
    const ORDER: &str = "name: one\nclass: training\ncomponents:\n  \
        - {name: t, need: {accelerators: {count: 8, models: [H100]}, cpu: 1, memory: 1GiB}, work: {duration: 1h}, run: {command: [x]}}\n";

    fn world() -> (View, Order, Value) {
        let view = View::from_file(&FederationFile::read(FEDERATION).unwrap()).unwrap();
        let order = Order::read(ORDER).unwrap();
        let request = Request::new(&order, "2026-12-01T00:00:00Z".parse().unwrap());
        let value = decision_json(&rhumb_placement::place(&view, &request, &Policy::default()), 1);
        (view, order, value)
    }

    fn found(document: &Value, orders: &[Order], view: &View) -> Vec<Value> {
        check(entries(document, orders).unwrap(), view, &Policy::default())
    }

    #[test]
    fn a_plan_that_fits_is_clean_and_twice_the_same_together_is_not() {
        let (view, order, value) = world();
        assert_eq!(found(&value, std::slice::from_ref(&order), &view), Vec::<Value>::new());
        let orders = [order.clone(), order];
        assert!(!found(&json!({ "plans": [value, value] }), &orders, &view).is_empty());
        assert_eq!(found(&json!([value, value]), &orders, &view), Vec::<Value>::new());
    }

    #[test]
    fn plans_with_turns_hold_on_what_the_turns_of_their_round_before_them_left() {
        let (view, order, value) = world();
        let entry = |round: u64, turn: u64| json!({"order": order, "plan": value["plan"], "turn": turn, "round": round, "at": "2026-12-01T00:00:00Z"});
        let one_each = json!([entry(0, 0), entry(1, 1)]);
        assert_eq!(found(&one_each, &[], &view), Vec::<Value>::new());
        let both = found(&json!([entry(0, 1), entry(0, 0)]), &[], &view);
        assert_eq!(both.len(), 1, "{both:?}");
        assert_eq!(both[0]["invariant"], "nodes");
        assert!(both[0]["detail"].as_str().unwrap().starts_with("turn 1, one: "), "{both:?}");
    }

    #[test]
    fn a_changed_cost_is_found() {
        let (view, order, mut value) = world();
        value["plan"]["cost"]["compute_micros"] = json!(1);
        assert!(!found(&value, &[order], &view).is_empty());
    }

    #[test]
    fn a_plan_without_its_order_says_what_to_give() {
        let (_, _, value) = world();
        let Err(error) = entries(&value, &[]) else { panic!("taken without an order") };
        assert!(error.to_string().contains("--order"), "{error}");
    }
}
