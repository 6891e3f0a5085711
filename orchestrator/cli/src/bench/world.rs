//! What decisions are asked of: generated, or read from files.

use super::{BenchArgs, write};
use crate::{exit::CliError, files, place};
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Order, document};
use rhumb_placement::generate::{Size, workload};
use serde_json::Value;
use std::path::Path;

pub(super) struct World {
    pub file: FederationFile,
    pub view: View,
    pub orders: Vec<Order>,
    pub submit: Timestamp,
    pub decisions: usize,
}

/// Decisions on a generated fleet where no number is asked for.
const DECISIONS: u32 = 1_000;
/// Orders for each site of a generated fleet: what they take together leaves room, so that what is refused is refused for
/// its own sake and not because all is taken.
const ORDERS_PER_SITE: u32 = 4;

impl World {
    pub fn new(args: &BenchArgs, sites: u32) -> Result<Self, CliError> {
        if let (Some(federation), Some(orders)) = (&args.federation, &args.orders) {
            let file = files::federation(federation)?;
            let orders = read_orders(orders)?;
            let decisions = args.decisions.map_or(orders.len(), |n| n as usize);
            let submit = place::instant(None, &file);
            return Ok(Self { view: place::view(federation, &file)?, orders, submit, decisions, file });
        }
        let usual = workload::size(sites);
        let size = Size {
            links: args.links.unwrap_or(usual.links),
            accelerators: args.accelerators.unwrap_or(usual.accelerators),
            ..usual
        };
        let decisions = args.decisions.unwrap_or(DECISIONS);
        let file = workload::try_federation(size, args.seed).map_err(|e| {
            let Size { sites, links, accelerators } = size;
            CliError::Usage(format!(
                "a fleet of {sites} sites, {links} links and {accelerators} accelerators cannot be made: {e}: give fewer"
            ))
        })?;
        let view = View::from_file(&file).map_err(anyhow::Error::from)?;
        let orders = workload::orders(&file, decisions.min(sites.saturating_mul(ORDERS_PER_SITE)), args.seed);
        Ok(Self { view, orders, submit: workload::instant(), decisions: decisions as usize, file })
    }

    /// The documents, so that the same decisions can be made and checked elsewhere.
    pub fn write(&self, folder: &Path) -> Result<(), CliError> {
        std::fs::create_dir_all(folder)
            .map_err(|e| CliError::Failed(format!("cannot make the folder {}: {e}", folder.display())))?;
        write(&folder.join("federation.json"), &self.file)?;
        write(&folder.join("orders.json"), &self.orders)
    }
}

/// A list, a map with `orders`, or one document after the other: lines of JSON, or YAML between lines of `---`.
fn read_orders(path: &Path) -> Result<Vec<Order>, CliError> {
    let text = files::text(path, document::MAX_LARGE_BYTES)?;
    let shown = path.display();
    let orders = documents(&text)
        .map_err(|e| CliError::Usage(format!("{shown} is not valid: {e}")))?
        .into_iter()
        .enumerate()
        .map(|(index, document)| {
            Order::from_value(document)
                .map_err(|e| CliError::Usage(format!("order {index} of {shown} is not valid: {e}")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    if orders.is_empty() {
        return Err(CliError::Usage(format!("{shown} has no orders: give at least one")));
    }
    Ok(orders)
}

fn documents(text: &str) -> Result<Vec<Value>, document::DocumentError> {
    let one = |text: &str| document::read_large::<Value>(text);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let whole = |line: &&str| line.trim_start().starts_with('{') && line.trim_end().ends_with('}');
    if lines.len() > 1 && lines.iter().all(whole) {
        return lines.into_iter().map(one).collect();
    }
    let parts: Vec<&str> = text.split("\n---").filter(|p| !p.trim_matches(['-', '\n', ' ']).is_empty()).collect();
    if parts.len() > 1 {
        return parts.into_iter().map(one).collect();
    }
    Ok(match one(text)? {
        Value::Array(list) => list,
        Value::Object(mut map) if map.contains_key("orders") => match map.remove("orders") {
            Some(Value::Array(list)) => list,
            other => other.into_iter().collect(),
        },
        order => vec![order],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_from_a_list_a_map_lines_and_yaml_documents() {
        let forms = [
            "[{\"name\": \"a\"}, {\"name\": \"b\"}]",
            "orders:\n  - {name: a}\n  - {name: b}\n",
            "{\"name\": \"a\"}\n{\"name\": \"b\"}\n",
            "---\nname: a\n---\nname: b\n",
        ];
        for form in forms {
            let names: Vec<_> = documents(form).unwrap().iter().map(|d| d["name"].clone()).collect();
            assert_eq!(names, ["a", "b"], "{form}");
        }
    }
}
