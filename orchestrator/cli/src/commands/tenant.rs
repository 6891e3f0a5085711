//! `rhumb tenant` and `rhumb quota`: who there is, and what each may hold.

use super::pages;
use crate::{
    client::{Client, Repeat, Send},
    exit::{CliError, Exit},
    output::{Output, Paint, say, table},
    show::{int, list, text, time},
};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};
use std::str::FromStr;

#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Make a tenant
    #[command(after_help = "Example:\n  rhumb tenant create vision-lab")]
    Create { name: String },
    /// List tenants with their quotas
    #[command(after_help = "Example:\n  rhumb tenant list")]
    List,
    /// Show a tenant
    #[command(after_help = "Example:\n  rhumb tenant get vision-lab")]
    Get { name: String },
    /// Close a tenant for good: nothing new is taken from it, its tokens open nothing; what runs goes on
    #[command(after_help = "Example:\n  rhumb tenant close vision-lab")]
    Close { name: String },
}

#[derive(Debug, Subcommand)]
pub enum QuotaCommand {
    /// What a tenant may hold, and what it holds now
    #[command(after_help = "Example:\n  rhumb quota get vision-lab")]
    Get { tenant: String },
    /// Say what a tenant may hold from now on; what is not named stays as it is
    #[command(after_help = "Examples:\n  rhumb quota set vision-lab --accelerators 64 --orders 100\n  \
                      rhumb quota set vision-lab --accelerators none")]
    Set(SetArgs),
}

#[derive(Debug, Args)]
pub struct SetArgs {
    tenant: String,
    #[command(flatten)]
    bounds: Bounds,
}

/// At least one of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Bounds {
    /// Accelerators that its orders and quotes hold, or `none` for as many as there are
    #[arg(long, value_name = "N|none")]
    accelerators: Option<Most>,
    /// Orders that have not ended
    #[arg(long, value_name = "N|none")]
    orders: Option<Most>,
    /// Binding quotes that have not ended
    #[arg(long, value_name = "N|none")]
    quotes: Option<Most>,
}

/// A bound, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Most(Option<u32>);

impl FromStr for Most {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let bound = text.parse().map_err(|_| format!("\"{text}\" is no bound: write a whole number, or none"))?;
        Ok(Self(Some(bound)))
    }
}

pub async fn main(command: TenantCommand, client: &Client, output: Output) -> Result<Exit, CliError> {
    match command {
        TenantCommand::Create { name } => {
            let send = Send { body: Some(json!({ "name": name }).to_string()), ..Send::default() };
            let made = client.call(Method::POST, &["v1", "admin", "tenants"], send, Repeat::Never).await?;
            output.show(&made, |o| tenants_table(&json!({ "items": [made] }), o))?;
        }
        TenantCommand::List => {
            let known = pages(client, &["v1", "admin", "tenants"]).await?;
            output.show(&known, |o| tenants_table(&known, o))?;
        }
        TenantCommand::Get { name } => {
            let found = client.get(&["v1", "admin", "tenants", &name], vec![]).await?;
            output.show(&found, |o| tenants_table(&json!({ "items": [found] }), o))?;
        }
        TenantCommand::Close { name } => {
            client.call(Method::DELETE, &["v1", "admin", "tenants", &name], Send::default(), Repeat::Safe).await?;
            say(&format!("{name} is closed: its tokens open nothing any more, what runs goes on"));
        }
    }
    Ok(Exit::Done)
}

pub async fn quota(command: QuotaCommand, client: &Client, output: Output) -> Result<Exit, CliError> {
    let found = match command {
        QuotaCommand::Get { tenant } => client.get(&["v1", "admin", "quotas", &tenant], vec![]).await?,
        QuotaCommand::Set(args) => {
            let path = ["v1", "admin", "quotas", args.tenant.as_str()];
            let mut quota = client.get(&path, vec![]).await?["quota"].take();
            let Bounds { accelerators, orders, quotes } = args.bounds;
            for (name, most) in [("accelerators", accelerators), ("orders", orders), ("quotes", quotes)] {
                if let Some(Most(most)) = most {
                    quota[name] = json!(most);
                }
            }
            let send = Send { body: Some(quota.to_string()), ..Send::default() };
            client.call(Method::PUT, &path, send, Repeat::Safe).await?
        }
    };
    output.show(&found, |_| quota_table(&found))?;
    Ok(Exit::Done)
}

fn bound(value: &Value, pointer: &str) -> String {
    int(value, pointer).map_or_else(|| "no bound".into(), |most| most.to_string())
}

fn tenants_table(known: &Value, output: Output) -> String {
    let rows = list(known, "/items").iter().map(|tenant| {
        let state = if tenant["closed"].is_null() {
            output.paint(Paint::Good, "open")
        } else {
            output.paint(Paint::Bad, "closed")
        };
        vec![
            text(tenant, "/name"),
            state,
            time(tenant, "/created"),
            bound(tenant, "/quota/accelerators"),
            bound(tenant, "/quota/orders"),
            bound(tenant, "/quota/quotes"),
        ]
    });
    table(&["TENANT", "STATE", "CREATED", "ACCELERATORS", "ORDERS", "QUOTES"], rows)
}

fn quota_table(found: &Value) -> String {
    let milli = int(found, "/held/accelerators_milli").unwrap_or(0);
    let held = rhumb_store::thousandths(u64::try_from(milli).unwrap_or(0));
    let rows = [
        vec!["accelerators".into(), held, bound(found, "/quota/accelerators")],
        vec!["live orders".into(), text(found, "/held/orders"), bound(found, "/quota/orders")],
        vec!["live quotes".into(), text(found, "/held/quotes"), bound(found, "/quota/quotes")],
    ];
    table(&["WHAT", "HELD", "QUOTA"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    #[test]
    fn a_quota_reads_as_what_is_held_of_what() {
        let found = json!({"tenant": "lab", "quota": {"accelerators": 8, "orders": null, "quotes": 2},
            "held": {"accelerators_milli": 1500, "orders": 3, "quotes": 0}});
        let text = quota_table(&found);
        let line = |what: &str| text.lines().find(|l| l.contains(what)).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(line("accelerators"), ["accelerators", "1.5", "8"]);
        assert_eq!(line("live orders"), ["live", "orders", "3", "no", "bound"]);
        assert_eq!(line("live quotes"), ["live", "quotes", "0", "2"]);
    }

    #[test]
    fn a_closed_tenant_is_shown_as_one() {
        let known = json!({"items": [{"name": "lab", "created": "2026-12-01T00:00:00Z", "closed": "2026-12-02T00:00:00Z",
            "quota": {"accelerators": null, "orders": null, "quotes": null}}]});
        assert!(tenants_table(&known, Output::plain(Format::Table)).contains("closed"));
    }

    #[test]
    fn a_bound_is_a_number_or_none() {
        assert_eq!("64".parse(), Ok(Most(Some(64))));
        assert_eq!("none".parse(), Ok(Most(None)));
        for wrong in ["", "-1", "1.5", "4294967296", "all"] {
            assert!(wrong.parse::<Most>().unwrap_err().contains("none"), "{wrong}");
        }
    }
}
