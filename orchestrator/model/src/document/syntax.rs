//! Text to plain value, strictly.

use super::{DocumentError, Form, MAX_DEPTH, Problem, escape};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::{cell::RefCell, fmt};

pub(super) fn parse(text: &str, form: Form) -> Result<Value, DocumentError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let json = matches!(text.trim_start().as_bytes().first(), Some(b'{' | b'['));
    match form {
        Form::Json => from_json(text),
        // what opens with a bracket is JSON as a rule; a YAML flow map opens so too
        Form::Yaml if json => match from_json(text) {
            Err(error) if error.problems.iter().any(|p| p.reason.starts_with(NOT_JSON)) => from_yaml(text),
            other => other,
        },
        Form::Yaml => from_yaml(text),
    }
}

const NOT_JSON: &str = "not valid JSON";

fn from_json(text: &str) -> Result<Value, DocumentError> {
    let state = State::new(text);
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = state.seed().deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|e| state.error(NOT_JSON, &e.to_string()))
}

fn from_yaml(text: &str) -> Result<Value, DocumentError> {
    if brackets_too_deep(text) {
        return Err(DocumentError::one("", too_deep()));
    }
    let state = State::new(text);
    let read = state.seed().deserialize(serde_yaml_ng::Deserializer::from_str(text));
    match read {
        Ok(Value::Null) => Err(DocumentError::one("", "the document is empty: write one")),
        Ok(value) => Ok(value),
        Err(e) => Err(state.error("not valid YAML", &e.to_string())),
    }
}

/// The YAML scanner's work grows with the square of the depth of open brackets, before any value is seen. Brackets within
/// texts count too, so the bound is far above the one on nesting.
fn brackets_too_deep(text: &str) -> bool {
    let mut open = 0_i64;
    text.bytes().any(|c| {
        match c {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = (open - 1).max(0),
            _ => {}
        }
        open > 1_024
    })
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH}: flatten it")
}

/// Cuts and escapes hostile text so that it does no harm where it is shown.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_default).collect()
}

/// Where the reader stands and what it refused. The parsers' own errors know neither pointer nor remedy.
struct State {
    path: RefCell<Vec<String>>,
    problem: RefCell<Option<Problem>>,
    /// What may still be read: 1 for each value and each byte of text. Without aliases a document cannot use more than
    /// a few times its own length; with them it could ask for gigabytes.
    budget: RefCell<usize>,
}

impl State {
    fn new(text: &str) -> Self {
        Self {
            path: RefCell::default(),
            problem: RefCell::default(),
            budget: RefCell::new(text.len().saturating_mul(4) + 64),
        }
    }

    fn seed(&self) -> Seed<'_> {
        Seed { state: self, depth: 0 }
    }

    fn error(&self, what: &str, message: &str) -> DocumentError {
        if let Some(problem) = self.problem.take() {
            return DocumentError { problems: vec![problem] };
        }
        let message: String = message.chars().take(200).flat_map(char::escape_default).collect();
        let reason = match message.as_str() {
            m if m.contains("more than one document") => "a second document follows: send one at a time".to_owned(),
            m if m.contains("repetition limit") => "aliases repeat too much: write the values out".to_owned(),
            m if m.contains("number out of range") => format!("a number is out of range: use a smaller one ({m})"),
            m => format!("{what}: {m}"),
        };
        DocumentError::one(self.pointer(), reason)
    }

    fn pointer(&self) -> String {
        self.path.borrow().iter().flat_map(|key| ["/".to_owned(), escape(key)]).collect()
    }

    fn refuse<E: de::Error>(&self, reason: impl Into<String>) -> E {
        let reason = reason.into();
        let error = E::custom(&reason);
        // the innermost refusal is the cause
        self.problem.borrow_mut().get_or_insert_with(|| Problem::new(self.pointer(), reason));
        error
    }

    fn spend<E: de::Error>(&self, cost: usize) -> Result<(), E> {
        let left = self.budget.borrow().checked_sub(cost);
        *self.budget.borrow_mut() = left.ok_or_else(|| self.refuse("aliases repeat too much: write the values out"))?;
        Ok(())
    }

    fn text<E: de::Error>(&self, text: &str) -> Result<String, E> {
        self.spend(text.len())?;
        match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            None => Ok(text.to_owned()),
            Some(c) => {
                let reason =
                    format!("\"{}\" holds the control character {}: remove it", shown(text), c.escape_unicode());
                Err(self.refuse(reason))
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    state: &'a State,
    depth: usize,
}

impl Seed<'_> {
    fn inner<E: de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(self.state.refuse(too_deep()));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        self.state.spend(1)?;
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain value")
    }

    fn visit_bool<E: de::Error>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E: de::Error>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_i128<E: de::Error>(self, v: i128) -> Result<Value, E> {
        Err(self.state.refuse(format!("{v} is out of range: use a smaller number")))
    }

    fn visit_u128<E: de::Error>(self, v: u128) -> Result<Value, E> {
        Err(self.state.refuse(format!("{v} is out of range: use a smaller number")))
    }

    fn visit_f64<E: de::Error>(self, v: f64) -> Result<Value, E> {
        match Number::from_f64(v) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(self.state.refuse(format!("{v} is not a finite number: use a plain decimal"))),
        }
    }

    fn visit_str<E: de::Error>(self, v: &str) -> Result<Value, E> {
        self.state.text(v).map(Value::String)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut items = Vec::new();
        loop {
            self.state.path.borrow_mut().push(items.len().to_string());
            let item = seq.next_element_seed(inner)?;
            self.state.path.borrow_mut().pop();
            let Some(item) = item else { return Ok(Value::Array(items)) };
            items.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut entries = Map::new();
        while let Some(key) = map.next_key_seed(Key(self.state))? {
            self.state.path.borrow_mut().push(key.clone());
            if entries.contains_key(&key) {
                return Err(self.state.refuse(format!("the key \"{}\" stands here twice: keep one", shown(&key))));
            }
            let value = map.next_value_seed(inner)?;
            entries.insert(key, value);
            self.state.path.borrow_mut().pop();
        }
        Ok(Value::Object(entries))
    }

    // Local tags (`!x`) come as enums; the library drops tags of YAML's own schema (`!!x`), which then mean nothing.
    fn visit_enum<A: de::EnumAccess<'de>>(self, _: A) -> Result<Value, A::Error> {
        Err(self.state.refuse("a YAML tag is not allowed: remove it"))
    }
}

/// A key: text without any control character.
struct Key<'a>(&'a State);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<String, D::Error> {
        d.deserialize_any(self)
    }
}

impl Key<'_> {
    fn no_text<T, E: de::Error>(&self, found: impl fmt::Display) -> Result<T, E> {
        Err(self.0.refuse(format!("the key {found} is not text: put it in quotes")))
    }
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key of text")
    }

    fn visit_str<E: de::Error>(self, v: &str) -> Result<String, E> {
        self.0.spend(v.len())?;
        match v.chars().find(|c| c.is_control()) {
            None => Ok(v.to_owned()),
            Some(c) => {
                let what = c.escape_unicode();
                Err(self.0.refuse(format!("the key \"{}\" holds the control character {what}: remove it", shown(v))))
            }
        }
    }

    fn visit_bool<E: de::Error>(self, v: bool) -> Result<String, E> {
        self.no_text(v)
    }

    fn visit_i64<E: de::Error>(self, v: i64) -> Result<String, E> {
        self.no_text(v)
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<String, E> {
        self.no_text(v)
    }

    fn visit_f64<E: de::Error>(self, v: f64) -> Result<String, E> {
        self.no_text(v)
    }

    fn visit_unit<E: de::Error>(self) -> Result<String, E> {
        self.no_text("null")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<String, A::Error> {
        self.no_text("[...]")
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<String, A::Error> {
        self.no_text("{...}")
    }

    fn visit_enum<A: de::EnumAccess<'de>>(self, _: A) -> Result<String, A::Error> {
        Err(self.0.refuse("a YAML tag is not allowed: remove it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Problem {
        parse(text, Form::Yaml).unwrap_err().problems.remove(0)
    }

    #[test]
    fn plain_documents_read_alike_in_both_forms() {
        let yaml = parse("a: [1, -2, 0.5, x, null, true]\nb: {c: \"d\\te\"}\nf: |\n  g\n  h\n", Form::Yaml).unwrap();
        let json = r#"{"a": [1, -2, 0.5, "x", null, true], "b": {"c": "d\te"}, "f": "g\nh\n"}"#;
        assert_eq!(yaml, parse(json, Form::Yaml).unwrap());
        assert_eq!(yaml, parse(&format!("\u{feff}{json}"), Form::Json).unwrap());
        assert_eq!(parse("{a: 1}", Form::Yaml).unwrap(), parse(r#"{"a": 1}"#, Form::Json).unwrap());
    }

    #[test]
    fn what_is_not_plain_is_refused_where_it_stands() {
        let table = [
            ("a: 1\nb: {c: 2, c: 3}", "/b/c", "twice"),
            (r#"{"a": {"x/y": 1, "x/y": 2}}"#, "/a/x~1y", "twice"),
            ("a: .nan", "/a", "finite"),
            ("a: [1, -.inf]", "/a/1", "finite"),
            (r#"{"a": 1e309}"#, "/a", "range"),
            ("a: 99999999999999999999999999", "/a", "range"),
            ("1: x", "", "quotes"),
            ("a: {null: x}", "/a", "quotes"),
            ("? [a]\n: b", "", "quotes"),
            (r#"{"a": "b\u0000c"}"#, "/a", "control"),
            ("a: \"b\\0c\"", "/a", "control"),
            ("\"a\\x07\": 1", "", "control"),
            (r#"{"a\nb": 1}"#, "", "control"),
            ("a: !secret b", "/a", "tag"),
            ("a: !python/object:os.system {}", "/a", "tag"),
            ("a: 1\n---\nb: 2", "", "second document"),
            (r#"{"a": 1} {"b": 2}"#, "", ""),
            ("", "", "empty"),
            ("a: [1, 2", "", "YAML"),
            ("a: b: c", "", "YAML"),
            ("a: *b", "/a", "YAML"),
        ];
        for (text, pointer, word) in table {
            let problem = refused(text);
            assert!(problem.reason.contains(word), "{text:?}: {problem}");
            if !word.is_empty() && word != "YAML" {
                assert_eq!(problem.pointer, pointer, "{text:?}: {problem}");
            }
        }
        assert!(parse("a: 1", Form::Json).unwrap_err().to_string().contains("not valid JSON"));
    }

    #[test]
    fn nesting_stops_at_64() {
        let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(&deep(MAX_DEPTH), Form::Yaml).is_ok());
        assert!(refused(&deep(MAX_DEPTH + 1)).reason.contains("deeper than 64"));
        assert!(refused(&deep(500_000)).reason.contains("deeper than 64"));
        assert!(refused(&"[".repeat(1 << 20)).reason.contains("deeper"));
        assert!(refused(&"{a: ".repeat(1 << 18)).reason.contains("deeper"));
        assert!(refused(&"- ".repeat(1 << 19)).reason.contains("deeper"));
        assert!(refused(&"? ".repeat(1 << 19)).reason.contains(": "));
    }

    #[test]
    fn bombs_of_aliases_cost_no_more_than_their_length() {
        let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for i in 1..12 {
            let list = vec![format!("*a{}", i - 1); 9].join(", ");
            laughs.extend([format!("a{i}: &a{i} [{list}]\n")]);
        }
        assert!(refused(&laughs).reason.contains("aliases"), "{}", refused(&laughs));
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(400_000), vec!["*a"; 100_000].join(", "));
        assert!(refused(&long).reason.contains("aliases"));
        let fair = parse("a: &a {x: 1}\nb: [*a, *a]", Form::Yaml).unwrap();
        assert_eq!(fair["b"][1]["x"], 1);
        assert!(refused("a: &a [*a]").reason.contains(": "));
    }
}
