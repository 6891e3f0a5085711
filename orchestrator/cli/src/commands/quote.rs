//! `rhumb quote`.

use super::explain;
use crate::{
    client::{Client, Repeat, Send},
    exit::{CliError, Exit},
    files,
    output::{Output, Paint},
    show::{int, money, text, time},
};
use clap::Args;
use reqwest::Method;
use rhumb_model::Span;
use serde_json::Value;
use std::path::PathBuf;
use uuid::Uuid;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rhumb quote -f examples/training-near-data.yaml --hold 5m\n  \
                        rhumb quote -f - --dry-run < order.yaml")]
pub struct QuoteArgs {
    /// Order document, YAML or JSON; - is standard input
    #[arg(short, long, value_name = "ORDER")]
    file: PathBuf,
    /// How long the quote holds devices and link capacity (default 5 minutes)
    #[arg(long, value_name = "TIME")]
    hold: Option<Span>,
    /// Decide, hold nothing
    #[arg(long)]
    dry_run: bool,
    /// Idempotency key (default: a random one)
    #[arg(long)]
    key: Option<String>,
}

pub async fn quote(args: &QuoteArgs, client: &Client, output: Output) -> Result<Exit, CliError> {
    let mut query = Vec::new();
    query.extend(args.hold.map(|h| ("hold", h.to_string())));
    query.extend(args.dry_run.then(|| ("dry_run", "true".to_owned())));
    let send = Send {
        query,
        body: Some(files::order_text(&args.file)?),
        headers: vec![("idempotency-key", key(args.key.as_deref()))],
    };
    let quote = client.call(Method::POST, &["v1", "quotes"], send, Repeat::Safe).await?;
    output.show(&quote, |o| table(&quote, o))?;
    Ok(if text(&quote, "/outcome") == "plan" { Exit::Done } else { Exit::Failed })
}

/// The key that makes a repeated request one request.
pub fn key(given: Option<&str>) -> String {
    given.map_or_else(|| Uuid::new_v4().to_string(), str::to_owned)
}

fn table(quote: &Value, output: Output) -> String {
    let mut lines = Vec::new();
    if text(quote, "/outcome") == "plan" {
        let total = int(quote, "/plan/cost/total_micros").unwrap_or(0);
        let price = money(total, &text(quote, "/plan/cost/currency"));
        lines.push(format!("{} {price}", output.paint(Paint::Bold, "price")));
        if quote.pointer("/binding") == Some(&Value::Bool(true)) {
            lines.push(format!("quote {} holds until {}", text(quote, "/id"), time(quote, "/expires")));
            lines.push(format!("order it with: rhumb order create --quote {}", text(quote, "/id")));
        } else {
            lines.push(format!("quote {} holds nothing", text(quote, "/id")));
        }
    } else {
        lines.push(output.paint(Paint::Bad, "the order cannot be placed"));
    }
    lines.extend(explain::decision(quote, output));
    lines.join("\n")
}
