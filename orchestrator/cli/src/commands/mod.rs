//! Commands that ask a server.

mod enrol;
pub mod explain;
pub mod federation;
pub mod follow;
pub mod goal;
pub mod order;
pub mod quote;
pub mod reference;
pub mod tenant;
pub mod token;
mod topology;

use crate::{
    args::{Command, Global},
    client::Client,
    context::Asked,
    exit::{CliError, Exit},
    output::Output,
    show,
};
use serde_json::{Value, json};

pub fn main(command: Command, global: &Global, output: Output) -> Result<Exit, CliError> {
    let asked = Asked::new(global.context.clone(), global.url.clone());
    let client = Client::new(asked.server()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(anyhow::Error::from)?;
    runtime.block_on(run(command, &client, output))
}

async fn run(command: Command, client: &Client, output: Output) -> Result<Exit, CliError> {
    match command {
        Command::Quote(args) => quote::quote(&args, client, output).await,
        Command::Order(command) => order::main(command, client, output).await,
        Command::Site(command) => federation::site(command, client, output).await,
        Command::Link(command) => federation::link(command, client, output).await,
        Command::Path(args) => federation::path(&args, client, output).await,
        Command::Route(command) => federation::route(command, client, output).await,
        Command::Token(command) => token::main(command, client, output).await,
        Command::Tenant(command) => tenant::main(command, client, output).await,
        Command::Quota(command) => tenant::quota(command, client, output).await,
        Command::Audit(_) => audit(client, output).await,
        Command::Demo(_)
        | Command::Server(_)
        | Command::Agent(_)
        | Command::Probe(_)
        | Command::Place(_)
        | Command::Paths(_)
        | Command::Replay(_)
        | Command::Bench(_)
        | Command::Completion { .. } => Err(CliError::Usage("this command asks no server".into())),
    }
}

/// All pages of a list as one.
async fn pages(client: &Client, path: &[&str]) -> Result<Value, CliError> {
    const PAGE: &str = "200";
    let mut items = Vec::new();
    let mut query = vec![("limit", PAGE.to_owned())];
    loop {
        let mut page = client.get(path, query).await?;
        if let Some(found) = page["items"].as_array_mut() {
            items.append(found);
        }
        let Some(next) = page["next"].as_str() else { break };
        query = vec![("limit", PAGE.to_owned()), ("cursor", next.to_owned())];
    }
    Ok(json!({ "items": items, "next": null }))
}

async fn audit(client: &Client, output: Output) -> Result<Exit, CliError> {
    let found = client.get(&["v1", "admin", "audit"], vec![]).await?;
    output.show(&found, |o| crate::plans::audit_table(&found, o))?;
    let clean = found.pointer("/clean").and_then(Value::as_bool);
    match clean {
        Some(true) => Ok(Exit::Done),
        Some(false) => Ok(Exit::Failed),
        None => Err(CliError::Failed(format!("the audit has no verdict: {}", show::text(&found, "")))),
    }
}
