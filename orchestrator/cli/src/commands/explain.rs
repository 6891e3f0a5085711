//! Decisions in words: what was chosen, what is dearer and by how much, what was refused and what would help.

use crate::{
    client::Client,
    exit::{CliError, Exit},
    output::{Output, Paint, say, yaml},
    show::{assignments, difference, int, latency, leg, list, money, reason, sites, terms, text, time},
};
use rhumb_model::{FederationFile, OrderState};
use serde_json::Value;
use std::path::Path;

/// `order explain`; with `export`, the view that it was decided on goes into that file.
pub async fn explain(id: &str, export: Option<&Path>, client: &Client, output: Output) -> Result<Exit, CliError> {
    let query = export.map(|_| ("view", "true".to_owned())).into_iter().collect();
    let mut view = client.get(&["v1", "orders", id, "explain"], query).await?;
    let exported = view.as_object_mut().and_then(|o| o.remove("view")).filter(|v| !v.is_null());
    if let Some(path) = export {
        let value =
            exported.ok_or_else(|| CliError::Failed(format!("order {id} has not been decided on yet: wait for it")))?;
        std::fs::write(path, federation(&value)?)
            .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", path.display())))?;
        say(&format!("the view of {} is in {}", time(&view, "/decided_at"), path.display()));
    }
    output.show(&view, |o| why(&view, o))?;
    Ok(Exit::Done)
}

/// A federation file in YAML that reads back as exactly this one.
fn federation(value: &Value) -> Result<String, CliError> {
    let read = |text: &str| {
        FederationFile::read(text)
            .map_err(|e| CliError::Failed(format!("the server's view is no federation file: {e}")))
    };
    let plain = serde_json::to_string_pretty(value).map_err(anyhow::Error::from)?;
    let file = read(&plain)?;
    // JSON is YAML too, and stands in where the shorter form would not say the same
    let short = yaml(&file)?;
    Ok(if read(&short).is_ok_and(|again| again == file) { short } else { plain })
}

fn why(view: &Value, output: Output) -> String {
    let ended = text(view, "/state").parse::<OrderState>().is_ok_and(OrderState::is_final);
    let phase = match text(view, "/phase").as_str() {
        phase if phase != "-" && !ended => format!(" ({phase})"),
        _ => String::new(),
    };
    let mut lines = vec![format!(
        "{} {} is {}{phase}",
        output.paint(Paint::Bold, &text(view, "/name")),
        text(view, "/id"),
        text(view, "/state")
    )];
    if text(view, "/attention") != "-" {
        lines.push(output.paint(Paint::Warn, &format!("attention: {}", text(view, "/attention"))));
    }
    if text(view, "/decided_at") != "-" {
        lines.push(format!("decided on the view of {}", time(view, "/decided_at")));
    }
    lines.extend(decision(view, output));
    lines.join("\n")
}

/// Plan or reasons, and what is said of every site, of anything that carries a decision.
pub fn decision(view: &Value, output: Output) -> Vec<String> {
    let mut lines = Vec::new();
    let plan = view.pointer("/plan").filter(|p| !p.is_null());
    let currency = plan.map_or_else(String::new, |p| text(p, "/cost/currency"));
    if let Some(plan) = plan {
        let total = int(plan, "/cost/total_micros").unwrap_or(0);
        lines.push(format!("\n{} at {}", output.paint(Paint::Good, "chosen"), sites(plan).join(", ")));
        lines.extend(assignments(plan).into_iter().map(|a| format!("  {a}")));
        lines.extend(list(plan, "/flows").iter().map(|l| format!("  {}", leg(l))));
        lines.push(format!("  start {}, finish {}", time(plan, "/start"), time(plan, "/finish")));
        let cost = plan.pointer("/cost").unwrap_or(&Value::Null);
        lines.push(format!("  cost {}: {}", money(total, &currency), terms(cost, money)));
        lines.push(format!("  {}", certificate(plan, &currency)));
    }
    let reasons = list(view, "/reasons");
    if plan.is_none() && !reasons.is_empty() {
        lines.push(format!("\n{}", output.paint(Paint::Bad, "does not fit")));
        lines.extend(reasons.iter().map(|r| format!("  {}", reason(r))));
    }
    lines.extend(verdicts(view, &currency, output));
    let changes = list(view, "/would_fit_if");
    if !changes.is_empty() {
        lines.push(format!("\n{}", output.paint(Paint::Bold, "would fit if")));
        lines.extend(changes.iter().map(|c| {
            let cost = int(c, "/cost_micros").map(|m| money(m, &currency)).unwrap_or_default();
            format!(
                "  {} were {} in place of {} (then {})",
                text(c, "/pointer"),
                text(c, "/to"),
                text(c, "/from"),
                cost.trim()
            )
        }));
    }
    lines
}

fn certificate(plan: &Value, currency: &str) -> String {
    let bound = int(plan, "/lower_bound_micros").map_or_else(String::new, |b| money(b, currency));
    if plan.pointer("/proven_optimal") == Some(&Value::Bool(true)) {
        return "no plan is cheaper: proven".to_owned();
    }
    let percent = int(plan, "/gap_ppm").unwrap_or(0) as f64 / 1e4;
    format!("no plan costs less than {bound}: at most {percent:.2} % could be saved")
}

fn verdicts(view: &Value, currency: &str, output: Output) -> Vec<String> {
    let mut sites: Vec<&Value> = list(view, "/sites").iter().collect();
    let mut lines = Vec::new();
    sites.sort_by_key(|s| int(s, "/delta_micros").unwrap_or(0));
    let of = |kind: &str| sites.iter().filter(|s| text(s, "/verdict") == kind).copied().collect::<Vec<_>>();
    let dearer = of("dearer");
    if !dearer.is_empty() {
        lines.push(format!("\n{}", output.paint(Paint::Warn, "dearer")));
        lines.extend(dearer.iter().map(|s| {
            let by = int(s, "/delta_micros").map_or_else(String::new, |d| difference(d, currency));
            let terms = s.pointer("/delta").filter(|d| !d.is_null()).map(|d| format!(": {}", terms(d, difference)));
            format!("  {} {by}{}", text(s, "/site"), terms.unwrap_or_default())
        }));
    }
    let refused = of("refused");
    if !refused.is_empty() {
        lines.push(format!("\n{}", output.paint(Paint::Bad, "refused")));
        let because = |s: &Value| match s.pointer("/reason").and_then(Value::as_object) {
            // the line begins with the site
            Some(found) => {
                reason(&found.iter().filter(|(key, _)| *key != "site").map(|(k, v)| (k.clone(), v.clone())).collect())
            }
            None => "-".to_owned(),
        };
        lines.extend(refused.iter().map(|s| format!("  {}: {}", text(s, "/site"), because(s))));
    }
    lines
}

/// A path with its points and price.
pub fn path(view: &Value) -> String {
    let mut lines = way(view, &text(view, "/currency"));
    if let Some(backup) = view.pointer("/backup").filter(|b| !b.is_null()) {
        let way = way(backup, &text(view, "/currency"));
        lines
            .extend(way.iter().enumerate().map(|(i, l)| if i == 0 { format!("backup {l}") } else { format!("  {l}") }));
    }
    if view.pointer("/proven_cheapest") == Some(&Value::Bool(false)) {
        lines.push("a cheaper pair may exist: the search ended at its limit".into());
    }
    let limits = names(view, "/limited_by");
    if !limits.is_empty() {
        let all = crate::show::rate(int(view, "/carries_kbps").unwrap_or(0));
        lines.push(format!("all paths together have {all} free, limited by {}", limits.join(", ")));
    }
    lines.join("\n")
}

fn names(view: &Value, pointer: &str) -> Vec<String> {
    list(view, pointer).iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// Points, links, delay and price of one path.
fn way(view: &Value, currency: &str) -> Vec<String> {
    let links = names(view, "/path");
    let mut lines = vec![format!(
        "{}: {}",
        names(view, "/points").join(" > "),
        if links.is_empty() { "the same point".to_owned() } else { links.join(", ") }
    )];
    if !links.is_empty() {
        lines.push(format!(
            "one way {}, {} free",
            latency(int(view, "/latency_us").unwrap_or(0)),
            crate::show::rate(int(view, "/free_kbps").unwrap_or(0))
        ));
        let price = |pointer| money(int(view, pointer).unwrap_or(0), currency);
        lines.push(format!("transfer {}, path {} per hour", price("/transfer_micros"), price("/path_micros_per_hour")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use serde_json::json;

    #[test]
    fn the_why_names_chosen_dearer_and_refused_by_term() {
        let cost = json!({"total_micros": 3_000_000, "compute_micros": 2_900_000, "path_micros": 0, "transfer_micros": 100_000,
            "time_micros": 0, "lateness_micros": 0, "fragmentation_micros": 0, "currency": "CNY"});
        let delta = json!({"total_micros": 500_000, "compute_micros": -100_000, "path_micros": 0, "transfer_micros": 600_000,
            "time_micros": 0, "lateness_micros": 0, "fragmentation_micros": 0, "currency": "CNY"});
        let view = json!({
            "id": "x", "name": "train", "state": "inProgress", "phase": "running", "decided_at": "2026-12-01T00:00:00Z",
            "plan": {"components": [{"name": "t", "assignments": [{"site": "a", "replicas": 1, "model": "H100", "devices_per_replica": 8}]}],
                "flows": [], "start": "2026-12-01T00:00:00Z", "finish": "2026-12-01T01:00:00Z", "cost": cost,
                "lower_bound_micros": 3_000_000, "gap_ppm": 0, "proven_optimal": true},
            "sites": [
                {"site": "a", "verdict": "chosen"},
                {"site": "b", "verdict": "dearer", "delta_micros": 500_000, "delta": delta},
                {"site": "c", "verdict": "refused", "reason": {"reason": "latency", "needed": "50ms", "free": "75.015ms"}}],
            "would_fit_if": [],
        });
        let shown = why(&view, Output::plain(Format::Table));
        for part in [
            "train x is inProgress (running)",
            "chosen at a",
            "cost 3.00 CNY: compute 2.90 CNY, transfer 0.10 CNY",
            "proven",
            "b +0.50 CNY: compute -0.10 CNY, transfer +0.60 CNY",
            "c: latency: needed 50ms, free 75.015ms",
        ] {
            assert!(shown.contains(part), "{part} is missing in\n{shown}");
        }
    }

    #[test]
    fn an_exported_view_reads_back_as_the_same_federation() {
        let text = include_str!("../../../../deploy/demo/federation.yaml");
        let file = FederationFile::read(text).unwrap();
        let written = federation(&serde_json::to_value(&file).unwrap()).unwrap();
        assert_eq!(FederationFile::read(&written).unwrap(), file);
    }

    #[test]
    fn a_path_shows_its_backup_and_what_limits_all_paths() {
        let view = json!({"path": ["ab"], "points": ["a", "b"], "latency_us": 5_000, "free_kbps": 40_000, "transfer_micros": 0,
            "path_micros_per_hour": 0, "currency": "CNY", "proven_cheapest": false, "carries_kbps": 70_000, "limited_by": ["ab", "ub"],
            "backup": {"path": ["au", "ub"], "points": ["a", "u", "b"], "latency_us": 9_000, "free_kbps": 30_000,
                "transfer_micros": 0, "path_micros_per_hour": 0}});
        let shown = path(&view);
        for part in ["a > b: ab", "backup a > u > b: au, ub", "may exist", "70Mbps free, limited by ab, ub"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}
