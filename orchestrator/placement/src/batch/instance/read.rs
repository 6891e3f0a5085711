//! From text to sound instances; every error names the instance, the field, what was found and what to write.

use super::{Id, Instance, InstanceError, Job, Link, Nano, Pool, Rounding, Site};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The longest text that is read.
pub const MAX_BYTES: usize = 64 << 20;
/// Numbers above this are taken for mistakes: sums of products of them stay within what is computed with.
const MOST: Nano = Nano(1_000_000_000 * 1_000_000_000);
const MOST_NODES: u64 = 100_000;

/// Reads an array of instances.
pub fn read(text: &str) -> Result<Vec<Instance>, InstanceError> {
    let value: Value = serde_json::from_str(text).or_else(|e| {
        // writers that know no better write NaN; as a text it is refused where it stands
        serde_json::from_str(&quoted(text)).map_err(|_| InstanceError::Syntax {
            line: e.line(),
            column: e.column(),
            reason: e.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
        })
    })?;
    let Value::Array(list) = value else {
        return Err(InstanceError::Form(format!("the file holds {}", kind(&value))));
    };
    let mut instances: Vec<Instance> = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        let name = value.get("name").and_then(Value::as_str).map_or_else(|| index.to_string(), str::to_owned);
        let instance = instance(value).map_err(|(field, reason)| InstanceError::Field {
            instance: name.clone(),
            field,
            reason,
        })?;
        if instances.iter().any(|i| i.name == instance.name) {
            let reason = format!("{:?} is the name of two instances: rename one", instance.name);
            return Err(InstanceError::Field { instance: name, field: "name".to_owned(), reason });
        }
        instances.push(instance);
    }
    Ok(instances)
}

/// Field and reason.
type Wrong = (String, String);

fn instance(value: &Value) -> Result<Instance, Wrong> {
    let top = Fields::new(value, "", &["name", "nodes", "links", "sites", "jobs"])?;
    let name = top.text("name")?;
    let nodes = top.whole("nodes", MOST_NODES)? as u32;
    let links =
        top.list("links", |f| link(f, nodes), &["from", "to", "delay_ms", "capacity_mbps", "usd_per_gbit_h"])?;
    unique(links.iter().map(|l| (l.from, l.to)), "links", |(from, to)| {
        format!("two links from {from} to {to}: a plan could not say which it takes, give one")
    })?;
    let sites = top.list("sites", |f| site(f, nodes), &["id", "node", "pools"])?;
    unique(sites.iter().map(|s| s.id.clone()), "sites", |id| format!("{id} is the id of two sites: rename one"))?;
    let keys = ["id", "source", "gpus", "gpu_types", "mbps", "max_delay_ms", "hours", "reject_usd"];
    let jobs = top.list("jobs", |f| job(f, nodes), &keys)?;
    unique(jobs.iter().map(|j| j.id.clone()), "jobs", |id| format!("{id} is the id of two jobs: rename one"))?;
    Ok(Instance { name, nodes, links, sites, jobs })
}

fn link(f: &Fields, nodes: u32) -> Result<Link, Wrong> {
    let (from, to) = (f.node("from", nodes)?, f.node("to", nodes)?);
    if from == to {
        return Err(f.wrong("to", format!("{to} is where the link begins: leave it out")));
    }
    Ok(Link {
        from,
        to,
        delay: f.number("delay_ms", Rounding::Up)?,
        capacity: f.number("capacity_mbps", Rounding::Down)?,
        price: f.number("usd_per_gbit_h", Rounding::Down)?,
    })
}

fn site(f: &Fields, nodes: u32) -> Result<Site, Wrong> {
    let pool = |f: &Fields| {
        let count = f.whole("count", u64::from(u32::MAX))? as u32;
        Ok(Pool { gpu: f.text("gpu")?, count, price: f.number("usd_per_gpu_h", Rounding::Down)? })
    };
    let pools = f.list("pools", pool, &["gpu", "count", "usd_per_gpu_h"])?;
    unique(pools.iter().map(|p| p.gpu.clone()), &f.at("pools"), |gpu| format!("two pools of {gpu}: add them up"))?;
    Ok(Site { id: f.id("id")?, node: f.node("node", nodes)?, pools })
}

fn job(f: &Fields, nodes: u32) -> Result<Job, Wrong> {
    let Value::Array(types) = f.get("gpu_types")? else {
        return Err(f.wrong("gpu_types", "write an array of types".to_owned()));
    };
    let gpu = |v: &Value| {
        v.as_str()
            .map(str::to_owned)
            .ok_or_else(|| f.wrong("gpu_types", format!("{} is no text: name types", short(v))))
    };
    let gpus = f.whole("gpus", u64::from(u32::MAX))? as u32;
    if gpus == 0 {
        return Err(f.wrong("gpus", "0 asks for nothing: write 1 or more, or leave the job out".to_owned()));
    }
    let max_delay = match f.get("max_delay_ms")? {
        Value::Null => None,
        _ => Some(f.number("max_delay_ms", Rounding::Down)?),
    };
    Ok(Job {
        id: f.id("id")?,
        source: f.node("source", nodes)?,
        gpus,
        gpu_types: types.iter().map(gpu).collect::<Result<_, _>>()?,
        rate: f.number("mbps", Rounding::Up)?,
        max_delay,
        hours: f.number("hours", Rounding::Down)?,
        reject: f.number("reject_usd", Rounding::Down)?,
    })
}

fn unique<K: Ord + Clone>(
    keys: impl Iterator<Item = K>,
    field: &str,
    reason: impl Fn(K) -> String,
) -> Result<(), Wrong> {
    let mut seen = BTreeSet::new();
    for key in keys {
        if !seen.insert(key.clone()) {
            return Err((field.to_owned(), reason(key)));
        }
    }
    Ok(())
}

/// An object and where it stands, as `jobs[3]`.
struct Fields<'v> {
    map: &'v Map<String, Value>,
    path: String,
}

impl<'v> Fields<'v> {
    /// A key that is not known may say anything, unless it looks like a known one written wrongly.
    fn new(value: &'v Value, path: &str, known: &[&str]) -> Result<Self, Wrong> {
        let here = if path.is_empty() { "the instance" } else { path };
        let map = value
            .as_object()
            .ok_or_else(|| (here.to_owned(), format!("{} is no object: write {{...}}", short(value))))?;
        let fields = Self { map, path: path.to_owned() };
        let missing = |k: &&&str| !map.contains_key(**k);
        if let Some(key) = known.iter().find(missing) {
            let near = map.keys().find(|k| !known.contains(&k.as_str()) && alike(k, key));
            let found = near.map_or_else(String::new, |k| format!("; {k:?} is not known"));
            return Err(fields.wrong(key, format!("missing: write it{found}")));
        }
        Ok(fields)
    }

    fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn wrong(&self, key: &str, reason: String) -> Wrong {
        (self.at(key), reason)
    }

    fn get(&self, key: &str) -> Result<&'v Value, Wrong> {
        self.map.get(key).ok_or_else(|| self.wrong(key, "missing: write it".to_owned()))
    }

    fn text(&self, key: &str) -> Result<String, Wrong> {
        let value = self.get(key)?;
        let text = value.as_str().filter(|t| !t.is_empty());
        text.map(str::to_owned).ok_or_else(|| self.wrong(key, format!("{} is no text: write a name", short(value))))
    }

    fn id(&self, key: &str) -> Result<Id, Wrong> {
        match self.get(key)? {
            Value::String(text) if !text.is_empty() => Ok(Id::Text(text.clone())),
            value => value
                .as_i64()
                .map(Id::Number)
                .ok_or_else(|| self.wrong(key, format!("{} is no id: write a whole number or a text", short(value)))),
        }
    }

    fn whole(&self, key: &str, most: u64) -> Result<u64, Wrong> {
        let value = self.get(key)?;
        let fits = value.as_u64().filter(|n| *n <= most);
        fits.ok_or_else(|| self.wrong(key, format!("{} is not a whole number from 0 to {most}", short(value))))
    }

    fn node(&self, key: &str, nodes: u32) -> Result<u32, Wrong> {
        let value = self.get(key)?;
        let known = value.as_u64().filter(|n| *n < u64::from(nodes)).map(|n| n as u32);
        known.ok_or_else(|| {
            let range = nodes.checked_sub(1).map_or("there are none".to_owned(), |last| format!("use 0 to {last}"));
            self.wrong(key, format!("{} is an unknown node: {range}", short(value)))
        })
    }

    fn number(&self, key: &str, rounding: Rounding) -> Result<Nano, Wrong> {
        let value = self.get(key)?;
        let text = match value {
            // the shortest text that reads back as the same number: what the writer of the file wrote
            Value::Number(n) => n.as_i64().map(|i| i.to_string()).or_else(|| n.as_f64().map(|x| x.to_string())),
            _ => None,
        };
        let number = text.ok_or_else(|| {
            self.wrong(key, format!("{} is not a number: write a decimal number of 0 or more", short(value)))
        })?;
        let read = Nano::parse(&number, rounding).filter(|n| *n <= MOST);
        match read {
            Some(n) if n.is_negative() => Err(self.wrong(key, format!("{number} is negative: write 0 or more"))),
            Some(n) => Ok(n),
            None => Err(self.wrong(key, format!("{number} is out of range: write at most {MOST}"))),
        }
    }

    fn list<T>(&self, key: &str, read: impl Fn(&Fields) -> Result<T, Wrong>, known: &[&str]) -> Result<Vec<T>, Wrong> {
        let value = self.get(key)?;
        let Value::Array(list) = value else {
            return Err(self.wrong(key, format!("{} is no array: write [...]", short(value))));
        };
        let one = |(i, v)| Fields::new(v, &format!("{}[{i}]", self.at(key)), known).and_then(|f| read(&f));
        list.iter().enumerate().map(one).collect()
    }
}

fn alike(found: &str, known: &str) -> bool {
    let bare = |s: &str| s.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let (found, known) = (bare(found), bare(known));
    !found.is_empty() && (known.contains(&found) || found.contains(&known) || found.get(..3) == known.get(..3))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "one object",
    }
}

fn short(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => kind(value).to_owned(),
        other => other.to_string().chars().take(40).collect(),
    }
}

/// `NaN` and `Infinity` outside of texts as texts.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let (mut inside, mut escaped) = (false, false);
    while let Some(c) = rest.chars().next() {
        if !inside && let Some(word) = ["NaN", "-Infinity", "Infinity"].iter().find(|w| rest.starts_with(**w)) {
            out.extend(["\"", word, "\""]);
            rest = &rest[word.len()..];
            continue;
        }
        inside ^= c == '"' && !escaped;
        escaped = inside && c == '\\' && !escaped;
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}
