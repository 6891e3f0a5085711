//! `rhumb site token --join`, `certificates`, `revoke`: who may be an agent.

use crate::{
    client::{Client, Repeat, Send},
    exit::{CliError, Exit},
    output::{Output, Paint, say, table},
    show::{list, text},
};
use clap::Args;
use reqwest::Method;
use rhumb_model::Span;
use serde_json::{Value, json};

/// How an agent is to join.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Make a token by which the agent joins once and gets a certificate, for `rhumb agent --join`
    #[arg(long)]
    pub join: bool,
    /// How long the agent may take to join
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "join")]
    life: Span,
    /// Accelerators that the site may ever report (default: as many as it has)
    #[arg(long, value_name = "N", requires = "join")]
    ceiling: Option<u32>,
}

/// The token alone on standard output.
pub async fn join_token(point: &str, args: &JoinArgs, client: &Client, output: Output) -> Result<Exit, CliError> {
    let body = json!({ "point": point, "life": args.life.to_string(), "most_accelerators": args.ceiling }).to_string();
    let send = Send { body: Some(body), ..Send::default() };
    // one whose answer was lost is not shown again
    let made = client.call(Method::POST, &["v1", "admin", "join-tokens"], send, Repeat::Never).await?;
    output.show(&made, |_| text(&made, "/token"))?;
    say(&format!(
        "good once, for the agent of {point}, until {}: RHUMB_JOIN_TOKEN=... rhumb agent --join URL",
        text(&made, "/expires")
    ));
    Ok(Exit::Done)
}

pub async fn certificates(point: &str, client: &Client, output: Output) -> Result<(), CliError> {
    let known = client.get(&["v1", "admin", "points", point, "certificates"], vec![]).await?;
    output.show(&known, |o| certificates_table(&known, o))
}

fn certificates_table(known: &Value, output: Output) -> String {
    let rows = list(known, "/items").iter().map(|c| {
        let revoked = text(c, "/revoked");
        let state = if c["revoked"].is_null() {
            output.paint(Paint::Good, "good")
        } else {
            output.paint(Paint::Bad, "revoked")
        };
        vec![text(c, "/serial"), state, text(c, "/issued"), text(c, "/expires"), revoked, text(c, "/most_accelerators")]
    });
    table(&["SERIAL", "STATE", "ISSUED", "EXPIRES", "REVOKED", "CEILING"], rows)
}

pub async fn revoke(serial: &str, client: &Client) -> Result<(), CliError> {
    client.call(Method::DELETE, &["v1", "admin", "certificates", serial], Send::default(), Repeat::Safe).await?;
    say(&format!("{serial} opens nothing any more"));
    Ok(())
}
