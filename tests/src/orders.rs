//! Orders, as the command line takes and shows them.

use crate::{Cli, cli::project, remains::items, secs, wait_until};
use serde_json::Value;
use std::{collections::BTreeMap, fs};

/// The text of an example, and its path from the project's folder.
pub fn example(name: &str) -> (String, String) {
    let path = format!("examples/{name}.yaml");
    let text = fs::read_to_string(project().join(&path)).unwrap_or_else(|e| panic!("cannot read {path}: {e}"));
    (path, text)
}

impl Cli {
    /// Orders the document in `file`; the answer is the order's id.
    pub fn order(&self, file: &str) -> String {
        let order = self.ok(&["order", "create", "-f", file]);
        assert_eq!(order["state"], "acknowledged", "{order}");
        text(&order["id"])
    }

    /// Orders a document.
    pub fn order_text(&self, name: &str, document: &str) -> String {
        let file = self.document(&format!("{name}.yaml"), document);
        self.order(&file)
    }

    pub fn get(&self, id: &str) -> Value {
        self.ok(&["order", "get", id])
    }

    /// Waits as a script does. The answer is the order.
    ///
    /// # Panics
    /// When the order ends otherwise or not in time, with its history.
    pub fn wait(&self, id: &str, state: &str, timeout: &str) -> Value {
        let answer = self.run(&["order", "wait", id, "--for", state, "--timeout", timeout]);
        assert_eq!(answer.code, 0, "{id} is not {state} after {timeout}: {}\n{}", answer.stderr, self.story(id));
        self.get(id)
    }

    /// An order's state and history, for people.
    pub fn story(&self, id: &str) -> String {
        let order = self.run(&["order", "get", id]).json;
        let events = self.run(&["order", "events", id]).json;
        let lines = items(&events).iter().map(|e| format!("  {} {} {}", e["at"], e["kind"], e["message"]));
        let head = format!(
            "{} {} {} generation {} reasons {} attention {}",
            order["name"], order["state"], order["phase"], order["generation"], order["reasons"], order["attention"]
        );
        std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n")
    }

    /// Output of an order's replicas, by component and replica.
    pub fn logs(&self, id: &str) -> BTreeMap<String, String> {
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        for chunk in items(&self.ok(&["order", "logs", id])) {
            let replica = format!("{}/{}", text(&chunk["component"]), chunk["replica"]);
            found.entry(replica).or_default().push_str(&text(&chunk["text"]));
        }
        found
    }
}

/// On the way to completion, in order.
const PHASES: [&str; 10] = [
    "reserving",
    "holding",
    "routing",
    "staging",
    "starting",
    "running",
    "stopping",
    "unrouting",
    "releasing",
    "settling",
];

/// Waits for just this phase.
///
/// # Panics
/// When the order has passed it: what comes next would prove nothing.
pub fn in_phase(cli: &Cli, id: &str, phase: &str) {
    let place = |phase: &str| PHASES.iter().position(|p| *p == phase);
    wait_until(secs(30), &format!("{id} is {phase}"), || {
        let order = cli.get(id);
        let now = text(&order["phase"]);
        if now == phase {
            return Ok(());
        }
        assert!(place(&now) < place(phase), "it has passed {phase}: {}", cli.story(id));
        Err(format!("it is {} {now}", order["state"]))
    });
}

/// A JSON string as it is.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A whole number.
pub fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

/// Sites of a component in an order's or quote's plan, with how many replicas stand there.
pub fn placed(holder: &Value, component: &str) -> BTreeMap<String, i64> {
    let components = holder["plan"]["components"].as_array().map_or(&[][..], Vec::as_slice);
    let found = components.iter().find(|c| c["name"] == component);
    let found = found.unwrap_or_else(|| panic!("no component {component} in the plan of {holder}"));
    let mut sites = BTreeMap::new();
    for a in found["assignments"].as_array().into_iter().flatten() {
        *sites.entry(text(&a["site"])).or_default() += int(&a["replicas"]);
    }
    sites
}

/// SHA-256 sums (64 hexadecimal digits) that a text names.
pub fn sums(text: &str) -> Vec<String> {
    let words = text.split_whitespace();
    words.filter(|w| w.len() == 64 && w.bytes().all(|b| b.is_ascii_hexdigit())).map(str::to_owned).collect()
}
