//! What a command ends with: exit codes, and the errors behind them.

use serde::Deserialize;
use std::{fmt, process::ExitCode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    /// What was asked for failed, or was refused.
    Failed = 1,
    Usage = 2,
    /// The server, or the running demo, does not answer.
    Unreachable = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error("{0}")]
    Usage(String),
    #[error("cannot reach {what}: {reason}")]
    Unreachable { what: String, reason: String },
    #[error("{0}")]
    Problem(Box<Problem>),
    #[error("{0}")]
    Failed(String),
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

impl CliError {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Unreachable { .. } => Exit::Unreachable,
            Self::Problem(_) | Self::Failed(_) | Self::Other(_) => Exit::Failed,
        }
    }
}

/// Problem details (RFC 9457) as the server writes them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Problem {
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub status: u16,
    #[serde(default)]
    pub detail: String,
    #[serde(default)]
    pub errors: Vec<FieldProblem>,
    #[serde(default)]
    pub refusals: Vec<serde_json::Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FieldProblem {
    pub pointer: String,
    pub reason: String,
}

impl Problem {
    /// For an answer that is no problem document, such as a proxy's.
    pub fn bare(status: u16, body: &str) -> Self {
        let shown: String = body.chars().take(200).flat_map(char::escape_default).collect();
        Self {
            title: format!("the server answered {status}"),
            status,
            detail: if shown.is_empty() { "without a body".into() } else { shown },
            errors: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// Of a document read here, in the form that the server gives.
    pub fn document(name: &str, error: &rhumb_model::DocumentError) -> Self {
        let errors = error.problems.iter();
        Self {
            title: "the document is not valid".into(),
            status: 0,
            detail: name.to_owned(),
            errors: errors.map(|p| FieldProblem { pointer: p.pointer.clone(), reason: p.reason.clone() }).collect(),
            refusals: Vec::new(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.title, self.detail)?;
        for error in &self.errors {
            let pointer = if error.pointer.is_empty() { "(document)" } else { &error.pointer };
            write!(f, "\n  {pointer}: {}", error.reason)?;
        }
        for refusal in &self.refusals {
            write!(f, "\n  {}", crate::show::reason(refusal))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_the_exit_code_that_scripts_rely_on() {
        let problem = Problem::bare(422, "");
        let cases = [
            (CliError::Usage(String::new()), 2),
            (CliError::Unreachable { what: String::new(), reason: String::new() }, 3),
            (CliError::Problem(Box::new(problem)), 1),
            (CliError::Failed(String::new()), 1),
            (CliError::Other(anyhow::anyhow!("x")), 1),
        ];
        for (error, code) in cases {
            assert_eq!(error.exit() as u8, code, "{error:?}");
        }
        assert_eq!(Exit::Done as u8, 0);
    }

    #[test]
    fn a_problem_names_every_field_on_its_own_line() {
        let body = r#"{"type":"https://x","title":"The document is not valid","status":422,"detail":"/class: no",
            "errors":[{"pointer":"/class","reason":"no"},{"pointer":"","reason":"empty"}]}"#;
        let problem: Problem = serde_json::from_str(body).unwrap();
        let shown = problem.to_string();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines, ["The document is not valid: /class: no", "  /class: no", "  (document): empty"]);
    }

    #[test]
    fn a_foreign_answer_is_shown_escaped() {
        assert!(!Problem::bare(502, "\u{1b}[2J<html>").to_string().contains('\u{1b}'));
    }
}
