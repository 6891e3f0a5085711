//! `rhumb order`.

use super::{explain, follow, goal::Goal, quote::key, reference};
use crate::{
    client::{Client, Repeat, Send},
    exit::{CliError, Exit},
    files,
    output::{Output, Paint, table},
    show::{age, assignments, int, leg, list, money, reason, sites, terms, text, time},
};
use clap::{Args, Subcommand};
use reqwest::Method;
use rhumb_model::{OrderState, QuoteId, Span};
use serde_json::{Value, json};
use std::path::PathBuf;
use uuid::Uuid;

#[derive(Debug, Subcommand)]
pub enum OrderCommand {
    /// Order work; the answer comes as soon as the order is durable
    #[command(after_help = "Examples:\n  id=$(rhumb order create -f examples/pipeline.yaml)\n  \
                            rhumb order create --quote 0190d3a4-5b6c-7d8e-9f00-112233445566")]
    Create(CreateArgs),
    /// List orders, newest first
    #[command(after_help = "Example:\n  rhumb order list --state pending,inProgress")]
    List(ListArgs),
    /// Show an order: its state, plan, cost and usage
    #[command(after_help = "Example:\n  rhumb order get corpus-pretrain -o json")]
    Get(OneArgs),
    /// Say why the order is where it is, and why not elsewhere
    #[command(after_help = "Examples:\n  rhumb order explain training-near-data\n  \
                            rhumb order explain 0190d3a4 --export view.yaml && \
                            rhumb place --federation view.yaml --order order.yaml")]
    Explain(ExplainArgs),
    /// Show the order's history
    #[command(after_help = "Example:\n  rhumb order events failover --follow")]
    Events(FollowArgs),
    /// Stop the order and give back everything that it holds
    #[command(after_help = "Example:\n  rhumb order cancel service-near-users")]
    Cancel(OneArgs),
    /// Change a live order
    #[command(after_help = "Example:\n  rhumb order amend service-near-users -f order.yaml")]
    Amend(AmendArgs),
    /// Wait until the order has reached or passed a state or phase
    #[command(after_help = "Example:\n  rhumb order wait training-near-data --for completed --timeout 60s")]
    Wait(WaitArgs),
    /// Show what the order's replicas have written
    #[command(after_help = "Example:\n  rhumb order logs training-near-data --follow")]
    Logs(FollowArgs),
    /// Show the bill by item
    #[command(after_help = "Example:\n  rhumb order usage training-near-data")]
    Usage(OneArgs),
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Order document, YAML or JSON; - is standard input
    #[arg(short, long, value_name = "ORDER", required_unless_present = "quote", conflicts_with = "quote")]
    file: Option<PathBuf>,
    /// Take up this quote
    #[arg(long, value_name = "ID")]
    quote: Option<QuoteId>,
    /// Idempotency key: the same key gives the same order (default: a random one)
    #[arg(long)]
    key: Option<String>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Orders in these states only
    #[arg(long, value_delimiter = ',')]
    state: Vec<OrderState>,
    /// Orders of this name only
    #[arg(long)]
    name: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Every page
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

#[derive(Debug, Args)]
pub struct OneArgs {
    /// Id, or the name if only one order has it, or the first 8 or more characters of the id
    #[arg(value_name = "ORDER")]
    order: String,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Write the view that the decision was made on as a federation file
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct FollowArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Go on until the order has ended
    #[arg(short, long)]
    follow: bool,
}

#[derive(Debug, Args)]
pub struct AmendArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Order document, YAML or JSON; - is standard input
    #[arg(short, long, value_name = "ORDER")]
    file: PathBuf,
}

#[derive(Debug, Args)]
pub struct WaitArgs {
    #[command(flatten)]
    one: OneArgs,
    /// State (such as completed) or phase (such as running)
    #[arg(long = "for", value_name = "STATE|PHASE")]
    goal: Goal,
    /// Give up after this time
    #[arg(long, default_value = "60s", value_name = "TIME")]
    timeout: Span,
}

pub async fn main(command: OrderCommand, client: &Client, output: Output) -> Result<Exit, CliError> {
    match command {
        OrderCommand::Create(args) => create(args, client, output).await,
        OrderCommand::List(args) => list_orders(args, client, output).await,
        OrderCommand::Get(args) => {
            let order = call(Method::GET, &args, None, client).await?;
            output.show(&order, |o| order_table(&order, o))?;
            Ok(Exit::Done)
        }
        OrderCommand::Explain(args) => {
            let id = reference::order(client, &args.one.order).await?;
            explain::explain(&id, args.export.as_deref(), client, output).await
        }
        OrderCommand::Events(args) => {
            let id = reference::order(client, &args.one.order).await?;
            follow::events(&id, args.follow, client, output).await
        }
        OrderCommand::Logs(args) => {
            let id = reference::order(client, &args.one.order).await?;
            follow::logs(&id, args.follow, client, output).await
        }
        OrderCommand::Cancel(args) => {
            let order = call(Method::DELETE, &args, None, client).await?;
            output.show(&order, |o| state_line(&order, o))?;
            Ok(Exit::Done)
        }
        OrderCommand::Amend(args) => {
            let body = files::order_text(&args.file)?;
            let order = call(Method::PATCH, &args.one, Some(body), client).await?;
            output.show(&order, |o| state_line(&order, o))?;
            Ok(Exit::Done)
        }
        OrderCommand::Wait(args) => {
            let id = reference::order(client, &args.one.order).await?;
            let order = follow::wait(&id, args.goal, args.timeout, client).await?;
            output.show(&order, |o| state_line(&order, o))?;
            Ok(Exit::Done)
        }
        OrderCommand::Usage(args) => {
            let id = reference::order(client, &args.order).await?;
            let usage = client.get(&["v1", "orders", &id, "usage"], vec![]).await?;
            output.show(&usage, |_| usage_table(&usage))?;
            Ok(Exit::Done)
        }
    }
}

async fn call(method: Method, args: &OneArgs, body: Option<String>, client: &Client) -> Result<Value, CliError> {
    let id = reference::order(client, &args.order).await?;
    // reading is safe to repeat, and so is cancelling what is being cancelled
    let repeat = if method == Method::PATCH { Repeat::Never } else { Repeat::Safe };
    client.call(method, &["v1", "orders", &id], Send { body, ..Send::default() }, repeat).await
}

async fn create(args: CreateArgs, client: &Client, output: Output) -> Result<Exit, CliError> {
    let body = match (&args.file, args.quote) {
        (Some(file), _) => files::order_text(file)?,
        (None, Some(quote)) => json!({ "quote_id": quote.to_string() }).to_string(),
        (None, None) => return Err(CliError::Usage("give an order with -f, or a quote with --quote".into())),
    };
    let headers = vec![("idempotency-key", key(args.key.as_deref())), ("traceparent", traceparent())];
    let send = Send { body: Some(body), headers, ..Send::default() };
    // the key makes it one order however often it is asked
    let order = client.call(Method::POST, &["v1", "orders"], send, Repeat::Safe).await?;
    output.show(&order, |_| text(&order, "/id"))?;
    Ok(Exit::Done)
}

/// The caller's trace context (`TRACEPARENT`), or a new one: every order has one from its first request on.
fn traceparent() -> String {
    std::env::var("TRACEPARENT").ok().filter(|t| t.len() == 55 && t.is_ascii()).unwrap_or_else(|| {
        let span = Uuid::new_v4().simple().to_string();
        format!("00-{}-{}-01", Uuid::new_v4().simple(), &span[..16])
    })
}

async fn list_orders(args: ListArgs, client: &Client, output: Output) -> Result<Exit, CliError> {
    let mut fixed = Vec::new();
    if !args.state.is_empty() {
        let states: Vec<_> = args.state.iter().map(|s| s.as_str()).collect();
        fixed.push(("state", states.join(",")));
    }
    fixed.extend(args.name.map(|n| ("name", n)));
    fixed.push(("limit", if args.all { "200".to_owned() } else { args.limit.to_string() }));
    let mut page = client.get(&["v1", "orders"], fixed.clone()).await?;
    if args.all {
        let mut items = list(&page, "/items").to_vec();
        while let Some(next) = page.pointer("/next").and_then(Value::as_str) {
            let mut query = fixed.clone();
            query.push(("cursor", next.to_owned()));
            page = client.get(&["v1", "orders"], query).await?;
            items.extend_from_slice(list(&page, "/items"));
        }
        page = json!({ "items": items, "next": null });
    }
    output.show(&page, |o| {
        let rows = list(&page, "/items").iter().map(|order| {
            let places = order.pointer("/plan").map(sites).unwrap_or_default().join(", ");
            vec![
                text(order, "/id"),
                text(order, "/name"),
                text(order, "/class"),
                state(order, o),
                if places.is_empty() { "-".to_owned() } else { places },
                cost(order),
                time(order, "/created"),
            ]
        });
        table(&["ID", "NAME", "CLASS", "STATE", "WHERE", "COST>", "CREATED"], rows)
    })?;
    Ok(Exit::Done)
}

/// `inProgress/running`, in the colour of how it is.
fn state(order: &Value, output: Output) -> String {
    let word = text(order, "/state");
    let paint = match word.as_str() {
        "completed" => Paint::Good,
        "rejected" | "failed" | "partial" => Paint::Bad,
        "cancelled" => Paint::Dim,
        "inProgress" => Paint::Bold,
        _ => Paint::Warn,
    };
    let ended = word.parse::<OrderState>().is_ok_and(OrderState::is_final);
    let mut shown = match text(order, "/phase").as_str() {
        phase if phase != "-" && !ended => format!("{word}/{phase}"),
        _ => word,
    };
    if order.pointer("/stale") == Some(&Value::Bool(true)) {
        shown.push_str(" (stale)");
    }
    output.paint(paint, &shown)
}

fn cost(order: &Value) -> String {
    let micros = int(order, "/cost/total_micros");
    micros.map_or_else(|| "-".into(), |m| money(m, &text(order, "/cost/currency")))
}

fn state_line(order: &Value, output: Output) -> String {
    format!("{} {} {}", text(order, "/id"), text(order, "/name"), state(order, output))
}

fn order_table(order: &Value, output: Output) -> String {
    let mut lines = vec![state_line(order, output)];
    if text(order, "/attention") != "-" {
        lines.push(output.paint(Paint::Warn, &format!("attention: {}", text(order, "/attention"))));
    }
    lines.extend(list(order, "/reasons").iter().map(|r| format!("  waits: {}", reason(r))));
    if let Some(plan) = order.pointer("/plan").filter(|p| !p.is_null()) {
        lines.extend(assignments(plan).into_iter().map(|a| format!("  {a}")));
        lines.extend(list(plan, "/flows").iter().map(|l| format!("  {}", leg(l))));
        lines.push(format!("  start {}, finish {}", time(plan, "/start"), time(plan, "/finish")));
    }
    if let Some(cost) = order.pointer("/cost").filter(|c| !c.is_null()) {
        let total = int(cost, "/total_micros").unwrap_or(0);
        lines.push(format!("  cost {}: {}", money(total, &text(cost, "/currency")), terms(cost, money)));
    }
    if let Some(usage) = order.pointer("/usage").filter(|u| !u.is_null()) {
        let billed = int(usage, "/cost_micros").unwrap_or(0);
        lines.push(format!("  billed {}", money(billed, text(order, "/cost/currency").trim_matches('-')).trim()));
    }
    if let Some(ms) = int(order, "/observed_age_ms") {
        lines.push(format!("  heard of {} ago", age(ms)));
    }
    lines.push(format!(
        "  tenant {}, generation {}, created {}, updated {}",
        text(order, "/tenant"),
        text(order, "/generation"),
        time(order, "/created"),
        time(order, "/updated")
    ));
    lines.join("\n")
}

fn usage_table(usage: &Value) -> String {
    let currency = text(usage, "/currency");
    let rows = list(usage, "/items").iter().map(|item| {
        let subject = if item.get("site").is_some() { text(item, "/site") } else { text(item, "/link") };
        let quantity = item.pointer("/quantity").and_then(Value::as_f64).unwrap_or(0.0);
        vec![
            text(item, "/kind"),
            subject,
            format!("{quantity:.6}"),
            money(int(item, "/cost_micros").unwrap_or(0), &currency),
        ]
    });
    let total = money(int(usage, "/total_micros").unwrap_or(0), &currency);
    format!("{}\ntotal {total}", table(&["KIND", "WHERE", "QUANTITY>", "COST>"], rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_trace_context_is_well_formed() {
        let made = traceparent();
        let parts: Vec<&str> = made.split('-').collect();
        assert_eq!(parts.iter().map(|p| p.len()).collect::<Vec<_>>(), [2, 32, 16, 2], "{made}");
    }

    #[test]
    fn the_bill_ends_with_its_total() {
        let usage = json!({"items": [
            {"kind": "accelerator_seconds", "site": "a", "quantity": 96.0, "cost_micros": 10},
            {"kind": "gb_moved", "link": "ab", "quantity": 0.012, "cost_micros": 1_500_000}],
            "total_micros": 1_500_010, "currency": "CNY"});
        let shown = usage_table(&usage);
        assert!(shown.contains("gb_moved") && shown.contains("ab") && shown.ends_with("total 1.50001 CNY"), "{shown}");
    }
}
