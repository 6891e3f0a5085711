//! The command line, in one tree.

use crate::{
    agent::AgentArgs,
    bench::BenchCommand,
    commands::{
        federation::{LinkCommand, PathArgs, RouteCommand, SiteCommand},
        order::OrderCommand,
        quote::QuoteArgs,
        tenant::{QuotaCommand, TenantCommand},
        token::TokenCommand,
    },
    demo::DemoArgs,
    output::Format,
    paths::PathsArgs,
    place::PlaceArgs,
    plans::AuditArgs,
    probe::ProbeCommand,
    replay::ReplayArgs,
    server::ServerArgs,
};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

#[derive(Debug, Parser)]
#[command(
    name = "rhumb",
    version,
    about = "Orders for compute and the network that it needs, decided as one",
    after_help = "Examples:\n  rhumb demo                                    a whole federation on this machine\n  \
                  rhumb quote -f examples/training-near-data.yaml\n  \
                  rhumb order create -f examples/training-near-data.yaml\n\n\
                  The server is named by --context, else by RHUMB_URL and RHUMB_TOKEN, else it is the demo of ./rhumb-data.",
    propagate_version = true,
    max_term_width = 110,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Args)]
pub struct Global {
    /// How the result is printed (default: table)
    #[arg(short, long, value_enum, global = true, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// URL of the orchestrator, in place of RHUMB_URL
    #[arg(long, global = true)]
    pub url: Option<String>,
    /// Server of this name in $XDG_CONFIG_HOME/rhumb/config.yaml
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a whole federation on this machine, or change the one that runs
    Demo(DemoArgs),
    /// Run the orchestrator
    Server(ServerArgs),
    /// Run the agent of a site or relay point
    Agent(AgentArgs),
    /// Measure a path with STAMP or TWAMP-Light probes, or answer them
    #[command(subcommand, after_help = "Example:\n  rhumb probe send 192.0.2.1:862 --count 100")]
    Probe(ProbeCommand),
    /// Ask for a price, a place and a path
    Quote(QuoteArgs),
    /// Order work, and see what became of it
    #[command(subcommand, after_help = "Example:\n  rhumb order create -f examples/pipeline.yaml")]
    Order(OrderCommand),
    /// Sites with their devices
    #[command(subcommand, after_help = "Example:\n  rhumb site list")]
    Site(SiteCommand),
    /// Links, as configured and as measured
    #[command(subcommand, after_help = "Example:\n  rhumb link list -o json")]
    Link(LinkCommand),
    /// The path that placement would use between two points, with its cost
    Path(PathArgs),
    /// Routes that orders have
    #[command(subcommand, after_help = "Example:\n  rhumb route list")]
    Route(RouteCommand),
    /// Decide offline, on files
    Place(PlaceArgs),
    /// Route a whole demand matrix so that the fullest link is as empty as possible
    Paths(PathsArgs),
    /// Replay a workload under several policies, in simulated time
    Replay(ReplayArgs),
    /// Measure this program
    #[command(subcommand, after_help = "Example:\n  rhumb bench place --sites 100")]
    Bench(BenchCommand),
    /// Check the invariants of the live server, or of plans offline
    Audit(AuditArgs),
    /// Who may order
    #[command(subcommand, after_help = "Example:\n  rhumb tenant create vision-lab")]
    Tenant(TenantCommand),
    /// What a tenant may hold
    #[command(subcommand, after_help = "Example:\n  rhumb quota set vision-lab --accelerators 64")]
    Quota(QuotaCommand),
    /// Tokens of people, programs and sites' operators
    #[command(subcommand, after_help = "Example:\n  rhumb token create vision-lab")]
    Token(TokenCommand),
    /// Print the completion script of a shell
    #[command(after_help = "Example:\n  rhumb completion bash > /etc/bash_completion.d/rhumb")]
    Completion { shell: Shell },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn walk(command: &clap::Command, path: &str, found: &mut Vec<(String, String)>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        found.push((path.to_owned(), help));
        for next in command.get_subcommands().filter(|c| c.get_name() != "help") {
            walk(next, &format!("{path} {}", next.get_name()), found);
        }
    }

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_of_every_command_has_an_example_of_it() {
        let mut commands = Vec::new();
        walk(&Cli::command(), "rhumb", &mut commands);
        assert!(commands.len() > 35, "{commands:?}");
        for (path, help) in commands {
            assert!(help.contains("Example") && help.contains(&path), "{path}: {help}");
        }
    }

    #[test]
    fn wrong_usage_is_refused_before_anything_is_asked() {
        for line in [
            "rhumb order create",
            "rhumb order create -f a.yaml --quote 0190d3a4-5b6c-7d8e-9f00-112233445566",
            "rhumb order wait x --for done",
            "rhumb order wait x --for running --timeout 5",
            "rhumb quote -f a.yaml --hold 5",
            "rhumb path a b --max-latency 20",
            "rhumb path a b --disjoint=roads",
            "rhumb paths --wan d",
            "rhumb demo wan set ab",
            "rhumb demo wan set ab --latency 200",
            "rhumb demo wan set ab --loss 1",
            "rhumb site list -o xml",
            "rhumb place --federation f.yaml",
            "rhumb place --joint f.json --order a.yaml",
            "rhumb replay --federation f.yaml",
            "rhumb quota set lab",
            "rhumb quota set lab --orders few",
            "rhumb token create lab --role root",
            "rhumb token create lab --sites a",
        ] {
            let error = Cli::try_parse_from(line.split(' ')).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn the_lines_of_the_contract_are_understood() {
        for line in [
            "rhumb demo --listen 127.0.0.1:0 --data d --federation f.yaml --fresh",
            "rhumb demo wan set ab --latency 200ms --loss 1% --rate 50Mbps",
            "rhumb demo wan cut ab --one-way --data d",
            "rhumb demo --data d agent stop shanghai-core",
            "rhumb server --config c.yaml",
            "rhumb agent --config c.yaml --stop-with-parent",
            "rhumb probe send 127.0.0.1:862 --count 10 --interval 10ms --key k -o json",
            "rhumb probe reflect --listen 127.0.0.1:862",
            "rhumb quote -f - --hold 5m --dry-run",
            "rhumb order wait x --for completed --timeout 60s",
            "rhumb order list --state pending,inProgress --all -o yaml",
            "rhumb path a b --mbps 5 --max-latency 20ms --gb 3",
            "rhumb path a b --disjoint",
            "rhumb path --disjoint=points a b",
            "rhumb paths --wan d --net sndlib/abilene --split",
            "rhumb place --federation f --order a b --order c --policy p --at 2026-12-01T09:00:00Z",
            "rhumb place --joint f.json.gz -o json",
            "rhumb replay --federation f --jobs j.csv --policy fifo --policy p.yaml --seed 7 --durations known --events e --plot o.html",
            "rhumb replay openb --nodes n --pods p --arrivals a --ranks r --policy fgd --seeds 42..51 --assignments f",
            "rhumb audit",
            "rhumb tenant close lab",
            "rhumb quota set lab --accelerators 64 --quotes none",
            "rhumb token create lab",
            "rhumb token create --role site-operator --sites a,b",
            "rhumb token revoke x -o json",
            "rhumb audit --federation f --plans p --order a",
            "rhumb completion zsh",
        ] {
            Cli::try_parse_from(line.split(' ')).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }
}
