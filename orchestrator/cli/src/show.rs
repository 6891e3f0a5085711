//! Quantities and parts of answers in words, for people. What a server left out shows as `-`.

use jiff::Timestamp;
use serde_json::Value;

/// The text at a JSON pointer.
pub fn text(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => "-".into(),
        Some(Value::String(s)) => s.clone(),
        Some(other) => other.to_string(),
    }
}

pub fn int(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn or_dash(found: Option<String>) -> String {
    found.unwrap_or_else(|| "-".into())
}

/// Micro-units with two to six decimals, as many as it needs.
pub fn money(micros: i64, currency: &str) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let magnitude = micros.unsigned_abs();
    let mut decimals = format!("{:06}", magnitude % 1_000_000);
    while decimals.len() > 2 && decimals.ends_with('0') {
        decimals.pop();
    }
    format!("{sign}{}.{decimals} {currency}", magnitude / 1_000_000)
}

/// With its sign, for differences.
pub fn difference(micros: i64, currency: &str) -> String {
    let sign = if micros < 0 { "" } else { "+" };
    format!("{sign}{}", money(micros, currency))
}

/// A delay in milliseconds, to the microsecond below 10 ms.
pub fn latency(us: i64) -> String {
    if us >= 10_000 { format!("{:.1}ms", us as f64 / 1e3) } else { format!("{:.2}ms", us as f64 / 1e3) }
}

pub fn rate(kbps: i64) -> String {
    rhumb_model::Bandwidth::from_kbps(kbps.unsigned_abs()).to_string()
}

pub fn bytes(bytes: i64) -> String {
    let bytes = bytes.unsigned_abs();
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match units.iter().find(|(_, size)| bytes as f64 >= *size) {
        Some((unit, size)) => format!("{:.1}{unit}", bytes as f64 / size),
        None => format!("{bytes}B"),
    }
}

/// How long ago, or how long, in the largest fitting unit.
pub fn age(ms: i64) -> String {
    match ms {
        ..=999 => format!("{ms}ms"),
        1_000..=119_999 => format!("{}s", ms / 1_000),
        120_000..=7_199_999 => format!("{}min", ms / 60_000),
        7_200_000..=172_799_999 => format!("{}h", ms / 3_600_000),
        _ => format!("{}d", ms / 86_400_000),
    }
}

/// Loss as a percentage.
pub fn ppm(ppm: i64) -> String {
    format!("{}%", rhumb_model::Decimal::from_micros(ppm * 100))
}

/// An instant to the second, in UTC.
pub fn time(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).and_then(Value::as_str);
    or_dash(found.map(|t| t.parse::<Timestamp>().map_or_else(|_| t.to_owned(), seconds)))
}

fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// An instant of today as a clock time with milliseconds.
pub fn clock(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).and_then(Value::as_str);
    let shown =
        |t: &str| t.parse::<Timestamp>().map_or_else(|_| t.to_owned(), |at| at.strftime("%H:%M:%S%.3f").to_string());
    or_dash(found.map(shown))
}

/// A reason of refusal in one line.
pub fn reason(value: &Value) -> String {
    let of = [("/site", "at"), ("/component", "for"), ("/flow", "on flow")];
    let of = of.iter().filter(|(key, _)| value.pointer(key).is_some_and(|v| !v.is_null()));
    let of: Vec<String> = of.map(|(key, word)| format!(" {word} {}", text(value, key))).collect();
    let (needed, free) = (text(value, "/needed"), text(value, "/free"));
    let short = if needed == "-" && free == "-" { String::new() } else { format!(": needed {needed}, free {free}") };
    format!("{}{}{short}", text(value, "/reason"), of.concat())
}

/// Where a plan's components stand: `trainer 2x8 H100 at shanghai-core`.
pub fn assignments(plan: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for component in list(plan, "/components") {
        for a in list(component, "/assignments") {
            let devices = match text(a, "/model").as_str() {
                "-" => String::new(),
                model => format!(" x {} {model}", text(a, "/devices_per_replica")),
            };
            lines.push(format!(
                "{} {}{devices} at {}",
                text(component, "/name"),
                text(a, "/replicas"),
                text(a, "/site")
            ));
        }
    }
    lines
}

/// The sites of a plan, each once, in plan order.
pub fn sites(plan: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for a in list(plan, "/components").iter().flat_map(|c| list(c, "/assignments")) {
        let site = text(a, "/site");
        if !found.contains(&site) {
            found.push(site);
        }
    }
    found
}

/// One leg of a plan in a line.
pub fn leg(leg: &Value) -> String {
    let path: Vec<String> = list(leg, "/path").iter().filter_map(|l| l.as_str().map(str::to_owned)).collect();
    let way = if path.is_empty() { "same site".to_owned() } else { path.join(", ") };
    let mut what = Vec::new();
    let positive = |key: &str| int(leg, key).filter(|n| *n > 0);
    what.extend(positive("/volume_bytes").map(bytes));
    what.extend(positive("/rate_kbps").map(|r| format!("at {}", rate(r))));
    what.extend(positive("/demand_mrps").map(|d| format!("{} rps", d as f64 / 1e3)));
    what.extend(positive("/latency_us").map(latency));
    format!(
        "{} ({}) to {} ({}): {way}{}{}",
        text(leg, "/from"),
        text(leg, "/from_site"),
        text(leg, "/to"),
        text(leg, "/to_site"),
        if what.is_empty() { "" } else { "; " },
        what.join(", ")
    )
}

/// The terms of a cost that are not zero: `compute 3.20 CNY, path 0.01 CNY`.
pub fn terms(cost: &Value, shown: impl Fn(i64, &str) -> String) -> String {
    let currency = text(cost, "/currency");
    let names = ["compute", "path", "transfer", "time", "lateness", "fragmentation"];
    let term = |name: &&str| {
        let micros = int(cost, &format!("/{name}_micros")).filter(|m| *m != 0)?;
        Some(format!("{name} {}", shown(micros, &currency)))
    };
    let parts: Vec<String> = names.iter().filter_map(term).collect();
    if parts.is_empty() { "nothing".into() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_are_short_and_right() {
        assert_eq!(money(1_234_500, "CNY"), "1.2345 CNY");
        assert_eq!(money(-5_000_000, "CNY"), "-5.00 CNY");
        assert_eq!(money(1, "CNY"), "0.000001 CNY");
        assert_eq!(difference(20_000, "CNY"), "+0.02 CNY");
        assert_eq!((latency(8_526), latency(75_015)), ("8.53ms".into(), "75.0ms".into()));
        assert_eq!((bytes(12_000_000), bytes(12)), ("12.0MB".into(), "12B".into()));
        assert_eq!((age(999), age(61_000), age(7_200_000)), ("999ms".into(), "61s".into(), "2h".into()));
        assert_eq!(ppm(100), "0.01%");
        assert_eq!(rate(30_000), "30Mbps");
    }

    #[test]
    fn a_plan_reads_as_a_sentence() {
        let plan = json!({
            "components": [{"name": "trainer", "assignments": [
                {"site": "a", "replicas": 2, "model": "H100", "devices_per_replica": 8},
                {"site": "b", "replicas": 1, "model": null, "devices_per_replica": 0}]}],
        });
        assert_eq!(assignments(&plan), ["trainer 2 x 8 H100 at a", "trainer 1 at b"]);
        assert_eq!(sites(&plan), ["a", "b"]);
        let way = json!({"from": "dataset/c", "from_site": "a", "to": "trainer", "to_site": "b", "path": ["ab", "bc~"],
            "volume_bytes": 12_000_000, "rate_kbps": 20_000, "latency_us": 8_526, "demand_mrps": 0});
        assert_eq!(leg(&way), "dataset/c (a) to trainer (b): ab, bc~; 12.0MB, at 20Mbps, 8.53ms");
    }

    #[test]
    fn a_reason_says_what_is_short_of_what() {
        let r = json!({"reason": "latency", "flow": 1, "needed": "5ms", "free": "8.526ms at the least"});
        assert_eq!(reason(&r), "latency on flow 1: needed 5ms, free 8.526ms at the least");
        assert_eq!(
            reason(&json!({"reason": "model", "needed": "H100", "free": "none"})),
            "model: needed H100, free none"
        );
    }
}
