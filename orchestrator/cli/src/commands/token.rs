//! `rhumb token`, and `site token`: credentials that an administrator makes, shown this once, lists and revokes.

use super::pages;
use crate::{
    client::{Client, Repeat, Send},
    exit::{CliError, Exit},
    output::{Output, Paint, say, table},
    show::{list, text, time},
};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use reqwest::Method;
use rhumb_model::Role;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token for people and programs of a tenant, for a site's operator, or for an administrator
    #[command(after_help = "Examples:\n  rhumb token create vision-lab --expires 2027-01-01T00:00:00Z\n  \
                      rhumb token create vision-lab --role viewer\n  \
                      rhumb token create --role site-operator --sites shanghai-1,shanghai-2")]
    Create(NewTokenArgs),
    /// List tokens, newest first: who they are for, never what they are
    #[command(after_help = "Example:\n  rhumb token list")]
    List,
    /// Revoke a token: the next request with it is refused
    #[command(after_help = "Example:\n  rhumb token revoke 0190d3a4-5b6c-7d8e-9f00-112233445566")]
    Revoke {
        /// As `rhumb token list` shows it
        id: String,
    },
}

#[derive(Debug, Args)]
pub struct NewTokenArgs {
    /// Tenant that the token is for (default: one's own)
    tenant: Option<String>,
    /// What its holder may: viewer, member, tenant-admin, site-operator or platform-admin
    #[arg(long, default_value = "member")]
    role: Role,
    /// Sites of a site operator, with commas
    #[arg(long, value_name = "SITES", value_delimiter = ',', conflicts_with = "tenant")]
    sites: Option<Vec<String>>,
    /// When it ends (default: it does not)
    #[arg(long, value_name = "TIME")]
    expires: Option<Timestamp>,
}

/// Of an agent.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// Who the token is for
    subject: String,
    /// When it ends (default: it does not)
    #[arg(long, value_name = "TIME")]
    expires: Option<Timestamp>,
}

impl TokenArgs {
    pub fn subject(&self) -> &str {
        &self.subject
    }
}

pub async fn main(command: TokenCommand, client: &Client, output: Output) -> Result<Exit, CliError> {
    match command {
        TokenCommand::Create(args) => {
            let whom = match (&args.tenant, &args.sites) {
                (Some(tenant), _) => format!("{} of {tenant}", args.role),
                (None, Some(sites)) => format!("{} of {}", args.role, sites.join(", ")),
                (None, None) => args.role.to_string(),
            };
            let body = json!({
                "role": args.role, "tenant": args.tenant, "sites": args.sites, "expires": args.expires,
            });
            create(&body, &whom, client, output).await
        }
        TokenCommand::List => {
            let known = pages(client, &["v1", "admin", "tokens"]).await?;
            output.show(&known, |o| tokens_table(&known, o))?;
            Ok(Exit::Done)
        }
        TokenCommand::Revoke { id } => {
            client.call(Method::DELETE, &["v1", "admin", "tokens", &id], Send::default(), Repeat::Safe).await?;
            say(&format!("{id} opens nothing any more"));
            Ok(Exit::Done)
        }
    }
}

/// For the agent of a point.
pub async fn for_agent(args: TokenArgs, client: &Client, output: Output) -> Result<Exit, CliError> {
    let body = json!({ "kind": "agent", "subject": args.subject, "expires": args.expires });
    create(&body, &format!("agent {}", args.subject), client, output).await
}

/// The token alone on standard output, so that it can be put where it belongs.
async fn create(body: &Value, whom: &str, client: &Client, output: Output) -> Result<Exit, CliError> {
    let headers = vec![("idempotency-key", super::quote::key(None))];
    let send = Send { body: Some(body.to_string()), headers, ..Send::default() };
    // one whose answer was lost is not shown again
    let made = client.call(Method::POST, &["v1", "admin", "tokens"], send, Repeat::Never).await?;
    output.show(&made, |_| text(&made, "/token"))?;
    say(&format!("keep it now: only its hash is stored, and it is not shown again ({whom})"));
    Ok(Exit::Done)
}

fn tokens_table(known: &Value, output: Output) -> String {
    let rows = list(known, "/items").iter().map(|token| {
        let sites: Vec<String> = list(token, "/sites").iter().map(|s| text(s, "")).collect();
        let whom = if sites.is_empty() {
            let of = if token["tenant"].is_null() { "/point" } else { "/tenant" };
            text(token, of)
        } else {
            sites.join(", ")
        };
        let state = if token["revoked"].is_null() {
            output.paint(Paint::Good, "good")
        } else {
            output.paint(Paint::Bad, "revoked")
        };
        vec![
            text(token, "/id"),
            text(token, "/role"),
            whom,
            state,
            time(token, "/created"),
            time(token, "/expires"),
            text(token, "/created_by"),
        ]
    });
    table(&["ID", "ROLE", "OF", "STATE", "CREATED", "EXPIRES", "BY"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    #[test]
    fn the_table_says_whose_each_token_is() {
        let known = json!({"items": [
            {"id": "a", "role": "viewer", "tenant": "lab", "sites": null, "point": null, "created": "2026-12-01T00:00:00Z",
             "expires": null, "revoked": null, "created_by": "x"},
            {"id": "b", "role": "site-operator", "tenant": null, "sites": ["east", "west"], "point": null,
             "created": "2026-12-01T00:00:00Z", "expires": null, "revoked": "2026-12-01T00:00:00Z", "created_by": "x"},
        ]});
        let text = tokens_table(&known, Output::plain(Format::Table));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().any(|l| l.contains("viewer") && l.contains("lab") && l.contains("good")), "{text}");
        assert!(lines.iter().any(|l| l.contains("east, west") && l.contains("revoked")), "{text}");
    }
}
