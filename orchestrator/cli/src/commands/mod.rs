//! Commands that ask a server.

mod enrol;
pub mod explain;
pub mod federation;
pub mod follow;
pub mod goal;
pub mod order;
pub mod quote;
pub mod reference;
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
        Command::Token(token::TokenCommand::Create(args)) => {
            token::create(token::Kind::Tenant, args, client, output).await
        }
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

async fn audit(client: &Client, output: Output) -> Result<Exit, CliError> {
    let found = client.get(&["v1", "admin", "audit"], vec![]).await?;
    output.show(&found, |o| crate::plans::audit_table(&found, o))?;
    let clean = found.pointer("/clean").and_then(serde_json::Value::as_bool);
    match clean {
        Some(true) => Ok(Exit::Done),
        Some(false) => Ok(Exit::Failed),
        None => Err(CliError::Failed(format!("the audit has no verdict: {}", show::text(&found, "")))),
    }
}
