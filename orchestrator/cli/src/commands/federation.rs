//! `rhumb site`, `link`, `path` and `route`.

use super::{
    enrol::{self, JoinArgs},
    explain,
    token::{self, TokenArgs},
    topology,
};
use crate::{
    client::{Client, Repeat, Send},
    exit::{CliError, Exit},
    output::{Output, Paint, say, table},
    show::{age, bytes, int, latency, list, money, or_dash, ppm, rate, text, time},
};
use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use rhumb_model::{Latency, Span};
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub enum SiteCommand {
    /// List sites with their free devices
    #[command(after_help = "Example:\n  rhumb site list")]
    List,
    /// Show a site with its nodes, devices and prices
    #[command(after_help = "Example:\n  rhumb site get shanghai-core")]
    Get { site: String },
    /// Start nothing new at a site; what runs there runs on
    #[command(after_help = "Example:\n  rhumb site drain shanghai-core")]
    Drain { site: String },
    /// Let a drained site take work again
    #[command(after_help = "Example:\n  rhumb site undrain shanghai-core")]
    Undrain { site: String },
    /// Make a token for the agent of a site or relay point
    #[command(
        after_help = "Examples:\n  rhumb site token shanghai-core > token && chmod 600 token\n  rhumb site token shanghai-core --join --ceiling 64"
    )]
    Token {
        #[command(flatten)]
        token: TokenArgs,
        #[command(flatten)]
        join: JoinArgs,
    },
    /// Certificates that the agent of a site or relay point was given
    #[command(after_help = "Example:\n  rhumb site certificates shanghai-core")]
    Certificates { site: String },
    /// Revoke a certificate: it opens nothing from then on
    #[command(after_help = "Example:\n  rhumb site revoke 4d5e0f7a9b3c41d28e6f00a1b2c3d4e5")]
    Revoke { serial: String },
}

#[derive(Debug, Subcommand)]
pub enum LinkCommand {
    /// List links: configured beside measured figures
    #[command(after_help = "Example:\n  rhumb link list")]
    List,
    /// Show a link, or what probes said of it over time
    #[command(after_help = "Examples:\n  rhumb link get hk-sg\n  rhumb link get hk-sg --history --since 6h")]
    Get {
        link: String,
        /// Percentiles and loss, window by window, oldest first
        #[arg(long)]
        history: bool,
        /// How far to look back
        #[arg(long, default_value = "24h", value_name = "TIME", requires = "history")]
        since: Span,
        /// Most windows; neighbours are put together where there are more
        #[arg(long, default_value_t = 500, value_name = "N", requires = "history", value_parser = clap::value_parser!(u32).range(1..=2_000))]
        points: u32,
    },
}

#[derive(Debug, Subcommand)]
pub enum RouteCommand {
    /// List live routes
    #[command(after_help = "Example:\n  rhumb route list --all")]
    List {
        /// Also those of orders that have ended
        #[arg(long)]
        all: bool,
    },
    /// Show the routes of an order, hop by hop
    #[command(after_help = "Example:\n  rhumb route get training-two-sites")]
    Get {
        /// Id, name or beginning of the id of the order
        order: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rhumb path shanghai-core singapore-cloud --mbps 20 --max-latency 50ms\n  \
                        rhumb path shanghai-core singapore-cloud --disjoint")]
pub struct PathArgs {
    from: String,
    to: String,
    /// Rate that must be free, in Mbit/s
    #[arg(long, default_value_t = 0)]
    mbps: u64,
    /// Largest one-way delay
    #[arg(long, value_name = "TIME")]
    max_latency: Option<Latency>,
    /// Volume to move, in 10^9 bytes
    #[arg(long, default_value_t = 0)]
    gb: u64,
    /// Also a backup, which shares none of these with the path: risks are links and shared-risk groups
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "risks")]
    disjoint: Option<Disjoint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Disjoint {
    Links,
    Points,
    Risks,
}

impl Disjoint {
    fn word(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Points => "points",
            Self::Risks => "risks",
        }
    }
}

pub async fn site(command: SiteCommand, client: &Client, output: Output) -> Result<Exit, CliError> {
    match command {
        SiteCommand::List => {
            let sites = client.get(&["v1", "sites"], vec![]).await?;
            output.show(&sites, |o| sites_table(&sites, o))?;
        }
        SiteCommand::Get { site } => {
            let site = client.get(&["v1", "sites", &site], vec![]).await?;
            output.show(&site, |o| site_table(&site, o))?;
        }
        SiteCommand::Drain { site } => drain(client, &site, "drain").await?,
        SiteCommand::Token { token, join } if join.join => {
            return enrol::join_token(token.subject(), &join, client, output).await;
        }
        SiteCommand::Token { token, .. } => return token::for_agent(token, client, output).await,
        SiteCommand::Certificates { site } => enrol::certificates(&site, client, output).await?,
        SiteCommand::Revoke { serial } => enrol::revoke(&serial, client).await?,
        SiteCommand::Undrain { site } => drain(client, &site, "undrain").await?,
    }
    Ok(Exit::Done)
}

async fn drain(client: &Client, site: &str, action: &str) -> Result<(), CliError> {
    client.call(Method::POST, &["v1", "admin", "sites", site, action], Send::default(), Repeat::Safe).await?;
    say(&format!("{site} {}", if action == "drain" { "takes no new work" } else { "takes work again" }));
    Ok(())
}

fn site_state(site: &Value, output: Output) -> String {
    let state = text(site, "/state");
    let paint = match state.as_str() {
        "ready" => Paint::Good,
        "draining" => Paint::Warn,
        _ => Paint::Bad,
    };
    output.paint(paint, &state)
}

fn models(site: &Value) -> String {
    let counts = list(site, "/accelerators").iter();
    let shown: Vec<_> =
        counts.map(|m| format!("{}/{} {}", text(m, "/free"), text(m, "/total"), text(m, "/model"))).collect();
    if shown.is_empty() { "-".into() } else { shown.join(", ") }
}

fn sites_table(sites: &Value, output: Output) -> String {
    let rows = list(sites, "/items").iter().map(|s| {
        vec![
            text(s, "/name"),
            text(s, "/tier"),
            text(s, "/jurisdiction"),
            site_state(s, output),
            models(s),
            list(s, "/nodes").len().to_string(),
            or_dash(int(s, "/observed_age_ms").map(age)),
        ]
    });
    table(&["SITE", "TIER", "IN", "STATE", "FREE DEVICES", "NODES>", "HEARD>"], rows)
}

fn site_table(site: &Value, output: Output) -> String {
    let labels: Vec<_> = list(site, "/labels").iter().filter_map(Value::as_str).collect();
    let mut lines = vec![
        format!(
            "{} {} in {}, {}",
            text(site, "/name"),
            text(site, "/tier"),
            text(site, "/jurisdiction"),
            site_state(site, output)
        ),
        format!("labels {}", if labels.is_empty() { "-".to_owned() } else { labels.join(", ") }),
    ];
    let currency = text(site, "/prices/currency");
    if let Some(prices) = site.pointer("/prices/devices").and_then(Value::as_object) {
        let each =
            prices.iter().map(|(model, micros)| format!("{model} {}", money(micros.as_i64().unwrap_or(0), &currency)));
        let factor = text(site, "/prices/factor_now");
        lines.push(format!("per device-hour {}; now times {factor}", each.collect::<Vec<_>>().join(", ")));
    }
    let rows = list(site, "/nodes").iter().map(|node| {
        let milli = |key: &str| int(node, key).unwrap_or(0) / 1_000;
        let gib = |key: &str| int(node, key).unwrap_or(0) >> 30;
        let devices = list(node, "/devices");
        let marks: String = devices.iter().map(topology::mark).collect();
        let model = devices.first().map_or_else(|| "-".into(), |d| text(d, "/model"));
        vec![
            text(node, "/name"),
            model,
            if marks.is_empty() { "-".into() } else { marks },
            format!("{}/{}", milli("/cpu_milli_free"), milli("/cpu_milli_total")),
            format!("{}/{} GiB", gib("/memory_bytes_free"), gib("/memory_bytes_total")),
        ]
    });
    lines.push(table(&["NODE", "MODEL", "DEVICES", "CORES>", "MEMORY>"], rows));
    lines.push(topology::LEGEND.into());
    let pictures = topology::pictures(list(site, "/nodes"));
    if !pictures.is_empty() {
        lines.push(format!("\n{pictures}"));
    }
    lines.join("\n")
}

pub async fn link(command: LinkCommand, client: &Client, output: Output) -> Result<Exit, CliError> {
    match command {
        LinkCommand::List => {
            let links = client.get(&["v1", "links"], vec![]).await?;
            output.show(&links, |o| links_table(list(&links, "/items"), o))?;
        }
        LinkCommand::Get { link, history: true, since, points } => {
            let back = jiff::SignedDuration::from_micros(i64::try_from(since.micros()).unwrap_or(i64::MAX));
            let from = jiff::Timestamp::now().checked_sub(back).unwrap_or(jiff::Timestamp::MIN);
            let query = vec![("from", from.to_string()), ("points", points.to_string())];
            let windows = client.get(&["v1", "links", &link, "history"], query).await?;
            output.show(&windows, |_| windows_table(list(&windows, "/items")))?;
        }
        LinkCommand::Get { link, .. } => {
            let link = client.get(&["v1", "links", &link], vec![]).await?;
            output
                .show(&link, |o| format!("{}\n{}", links_table(std::slice::from_ref(&link), o), link_details(&link)))?;
        }
    }
    Ok(Exit::Done)
}

/// What there is more to say of one link.
fn link_details(link: &Value) -> String {
    let mut lines = Vec::new();
    for known in list(link, "/bandwidths") {
        let measured = int(known, "/rate_kbps").map(rate);
        let what = if text(known, "/method") == "counters" { "left" } else { "carried" };
        let free = int(known, "/available_kbps").filter(|_| what == "carried");
        let free = free.map_or_else(String::new, |kbps| format!(", {} of it free", rate(kbps)));
        lines.push(format!(
            "bandwidth by {}: {} {what}{free}, confidence {}, {} old",
            text(known, "/method"),
            or_dash(measured),
            text(known, "/confidence"),
            or_dash(int(known, "/age_ms").map(age)),
        ));
    }
    if let (Some(min), Some(p95)) = (int(link, "/held_rtt_us/min"), int(link, "/held_rtt_us/p95")) {
        let last = int(link, "/rtt_us/p95").map(latency);
        lines.push(format!(
            "decisions rest on rtt min {}, p95 {} (of the last window: {})",
            latency(min),
            latency(p95),
            or_dash(last)
        ));
    }
    if link.pointer("/path_changed/at").is_some_and(Value::is_string) {
        let of = |pointer: &str| int(link, pointer).map(latency);
        let moved = of("/path_changed/min_from_us").zip(of("/path_changed/min_to_us"));
        let moved = moved.map_or_else(String::new, |(from, to)| format!(": rtt min from {from} to {to}"));
        lines.push(format!("path changed at {}{moved}", time(link, "/path_changed/at")));
    }
    lines.join("\n")
}

fn windows_table(windows: &[Value]) -> String {
    let rows = windows.iter().map(|w| {
        let rtt = |of: &str| or_dash(int(w, &format!("/rtt_us/{of}")).map(latency));
        let loss = or_dash(int(w, "/loss_ppm").map(ppm));
        let answered = format!("{}/{}", text(w, "/received"), text(w, "/sent"));
        let back = or_dash(int(w, "/loss_back_ppm").map(ppm));
        let pdv = or_dash(int(w, "/pdv_us").map(latency));
        vec![time(w, "/at"), rtt("min"), rtt("p50"), rtt("p95"), rtt("p99"), pdv, loss, back, answered]
    });
    table(&["until", "rtt min", "p50", "p95", "p99", "pdv", "loss", "loss back", "answered"], rows)
}

fn links_table(links: &[Value], output: Output) -> String {
    let rows = links.iter().map(|l| {
        let figure = |pointer| or_dash(int(l, pointer).map(latency));
        let stale = l.pointer("/stale") == Some(&Value::Bool(true));
        let measured = figure("/latency_us");
        let shown = if stale { output.paint(Paint::Bad, &format!("{measured} stale")) } else { measured };
        vec![
            text(l, "/id"),
            text(l, "/from"),
            text(l, "/to"),
            figure("/configured_latency_us"),
            shown,
            or_dash(int(l, "/rtt_us/p95").map(|us| latency(us / 2))),
            figure("/jitter_us"),
            or_dash(int(l, "/loss_ppm").map(ppm)),
            format!("{}/{}", rate(int(l, "/available_kbps").unwrap_or(0)), rate(int(l, "/capacity_kbps").unwrap_or(0))),
            or_dash(int(l, "/age_ms").map(age)),
        ]
    });
    let header = ["LINK", "FROM", "TO", "CONFIGURED>", "MEASURED>", "P95>", "JITTER>", "LOSS>", "FREE>", "AGE>"];
    table(&header, rows)
}

pub async fn path(args: &PathArgs, client: &Client, output: Output) -> Result<Exit, CliError> {
    let mut query = vec![("from", args.from.clone()), ("to", args.to.clone())];
    query.extend((args.mbps > 0).then(|| ("mbps", args.mbps.to_string())));
    query.extend((args.gb > 0).then(|| ("gb", args.gb.to_string())));
    query.extend(args.max_latency.map(|l| ("max_latency", l.to_string())));
    query.extend(args.disjoint.map(|d| ("disjoint", d.word().to_owned())));
    let found = client.get(&["v1", "paths"], query).await?;
    output.show(&found, |_| explain::path(&found))?;
    Ok(Exit::Done)
}

pub async fn route(command: RouteCommand, client: &Client, output: Output) -> Result<Exit, CliError> {
    match command {
        RouteCommand::List { all } => {
            let query = all.then(|| ("all", "true".to_owned())).into_iter().collect();
            let routes = client.get(&["v1", "routes"], query).await?;
            output.show(&routes, |_| routes_table(list(&routes, "/items")))?;
        }
        RouteCommand::Get { order } => {
            let id = super::reference::order(client, &order).await?;
            let routes = client.get(&["v1", "routes"], vec![("all", "true".to_owned())]).await?;
            let own: Vec<Value> = list(&routes, "/items").iter().filter(|r| text(r, "/order") == id).cloned().collect();
            if own.is_empty() {
                return Err(CliError::Failed(format!("order {id} has no routes")));
            }
            let whole = json!({ "items": own, "next": null });
            output.show(&whole, |_| routes_table(&own))?;
        }
    }
    Ok(Exit::Done)
}

fn routes_table(routes: &[Value]) -> String {
    let rows = routes.iter().map(|r| {
        let path: Vec<_> = list(r, "/path").iter().filter_map(Value::as_str).collect();
        let hops = list(r, "/hops").iter();
        let hops: Vec<_> =
            hops.map(|h| format!("{} {}", text(h, "/point"), bytes(int(h, "/bytes").unwrap_or(0)))).collect();
        vec![
            text(r, "/order_name"),
            text(r, "/leg"),
            text(r, "/from"),
            text(r, "/to"),
            text(r, "/state"),
            rate(int(r, "/rate_kbps").unwrap_or(0)),
            route_delay(r),
            path.join(", "),
            list(r, "/others").iter().map(other_path).collect::<Vec<_>>().join("; "),
            hops.join(" > "),
        ]
    });
    table(&["ORDER", "LEG>", "FROM", "TO", "STATE", "RATE>", "DELAY>", "PATH", "BESIDE", "BYTES BY HOP"], rows)
}

/// Measured and promised: by the links now, else over the path itself before it carried.
fn route_delay(route: &Value) -> String {
    let measured = ["/measured/links_latency_us", "/measured/latency_us"].iter().find_map(|at| int(route, at));
    let measured = measured.map_or_else(|| "-".to_owned(), latency);
    match int(route, "/promised_us") {
        Some(promised) => format!("{measured}/{}", latency(promised)),
        None => measured,
    }
}

fn other_path(path: &Value) -> String {
    let links: Vec<_> = list(path, "/path").iter().filter_map(Value::as_str).collect();
    format!("{} {}", text(path, "/role"), links.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    #[test]
    fn links_show_what_was_measured_beside_what_was_configured() {
        let link = json!({"id": "ab", "from": "a", "to": "b", "configured_latency_us": 8_526, "latency_us": 200_100,
            "rtt_us": {"min": 1, "p50": 2, "p95": 400_400}, "loss_ppm": 100, "jitter_us": 200, "capacity_kbps": 60_000,
            "available_kbps": 30_000, "age_ms": 300, "stale": false});
        let shown = links_table(&[link], Output::plain(Format::Table));
        let cells: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            cells,
            ["ab", "a", "b", "8.53ms", "200.1ms", "200.2ms", "0.20ms", "0.01%", "30Mbps/60Mbps", "300ms"]
        );
    }

    #[test]
    fn a_link_says_how_its_rate_is_known_and_what_decisions_rest_on() {
        let link = json!({"rtt_us": {"min": 1, "p50": 2, "p95": 41_000}, "held_rtt_us": {"min": 20_000, "p95": 22_000},
            "bandwidths": [
                {"rate_kbps": 40_000, "available_kbps": 40_000, "method": "counters", "confidence": "high", "age_ms": 4_000},
                {"rate_kbps": 99_000, "available_kbps": 61_000, "method": "trains", "confidence": "medium", "age_ms": 90_000}],
            "path_changed": {"at": "2026-11-30T12:00:00Z", "min_from_us": 20_000, "min_to_us": 40_000}});
        let lines: Vec<String> = link_details(&link).lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "bandwidth by counters: 40Mbps left, confidence high, 4s old");
        assert_eq!(lines[1], "bandwidth by trains: 99Mbps carried, 61Mbps of it free, confidence medium, 90s old");
        assert_eq!(lines[2], "decisions rest on rtt min 20.0ms, p95 22.0ms (of the last window: 41.0ms)");
        assert!(lines[3].ends_with(": rtt min from 20.0ms to 40.0ms"), "{}", lines[3]);
        assert_eq!(link_details(&json!({"bandwidths": [], "path_changed": null})), "");
    }

    #[test]
    fn a_link_that_was_never_measured_shows_no_figure() {
        let link = json!({"id": "ab", "from": "a", "to": "b", "configured_latency_us": 1, "latency_us": null, "rtt_us": null,
            "loss_ppm": null, "jitter_us": null, "capacity_kbps": 1, "available_kbps": 1, "age_ms": null, "stale": true});
        assert!(links_table(&[link], Output::plain(Format::Table)).contains("- stale"));
    }
}
