//! Selectors in queries: `a`, `!a`, `a=b`, `a==b`, `a!=b`, with commas between.

use serde_json::Value;

#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    labels: Vec<Term>,
    fields: Vec<Term>,
}

#[derive(Debug, Clone)]
enum Term {
    Is(String, String),
    IsNot(String, String),
    Exists(String),
    Absent(String),
}

fn terms(text: &str) -> Vec<Term> {
    let term = |part: &str| {
        if let Some((name, value)) = part.split_once("!=") {
            return Term::IsNot(name.into(), value.into());
        }
        if let Some((name, value)) = part.split_once('=') {
            return Term::Is(name.into(), value.trim_start_matches('=').into());
        }
        match part.strip_prefix('!') {
            Some(name) => Term::Absent(name.into()),
            None => Term::Exists(part.into()),
        }
    };
    text.split(',').filter(|part| !part.is_empty()).map(term).collect()
}

impl Selector {
    pub(crate) fn new(labels: &str, fields: &str) -> Self {
        Self { labels: terms(labels), fields: terms(fields) }
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let label = |name: &str| object["metadata"]["labels"][name].as_str().map(str::to_owned);
        // a field that is not there is empty
        let field = |name: &str| {
            let value = name.split('.').fold(object, |value, part| &value[part]);
            Some(value.as_str().unwrap_or_default().to_owned())
        };
        self.labels.iter().all(|term| holds(term, label)) && self.fields.iter().all(|term| holds(term, field))
    }
}

fn holds(term: &Term, value: impl Fn(&str) -> Option<String>) -> bool {
    match term {
        Term::Is(name, wanted) => value(name).as_ref() == Some(wanted),
        Term::IsNot(name, wanted) => value(name).as_ref() != Some(wanted),
        Term::Exists(name) => value(name).is_some(),
        Term::Absent(name) => value(name).is_none(),
    }
}
