//! `rhumb token`, and `site token`: credentials that an administrator makes, shown this once.

use crate::{
    client::{Client, Repeat, Send},
    exit::{CliError, Exit},
    output::{Output, say},
    show::text,
};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::json;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token for people and programs of a tenant
    #[command(after_help = "Example:\n  rhumb token create vision-lab --expires 2027-01-01T00:00:00Z")]
    Create(TokenArgs),
}

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

/// What a token opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tenant,
    Agent,
}

/// The token alone on standard output, so that it can be put where it belongs.
pub async fn create(kind: Kind, args: TokenArgs, client: &Client, output: Output) -> Result<Exit, CliError> {
    let kind = match kind {
        Kind::Tenant => "tenant",
        Kind::Agent => "agent",
    };
    let body = json!({ "kind": kind, "subject": args.subject, "expires": args.expires }).to_string();
    let headers = vec![("idempotency-key", super::quote::key(None))];
    let send = Send { body: Some(body), headers, ..Send::default() };
    // one whose answer was lost is not shown again
    let made = client.call(Method::POST, &["v1", "admin", "tokens"], send, Repeat::Never).await?;
    output.show(&made, |_| text(&made, "/token"))?;
    say(&format!("keep it now: only its hash is stored, and it is not shown again ({kind} {})", args.subject));
    Ok(Exit::Done)
}
