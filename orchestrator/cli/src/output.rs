//! What is printed, and how: tables for people, JSON and YAML for programs.

use crate::exit::CliError;
use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Yaml,
}

/// Where a command's result goes.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    asked: Option<Format>,
    colour: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Good,
    Warn,
    Bad,
    Dim,
    Bold,
}

impl Output {
    pub fn new(asked: Option<Format>) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        Self { asked, colour: !plain && io::stdout().is_terminal() }
    }

    #[cfg(test)]
    pub fn plain(asked: Format) -> Self {
        Self { asked: Some(asked), colour: false }
    }

    pub fn format(&self) -> Format {
        self.asked.unwrap_or(Format::Table)
    }

    /// For commands whose result programs read unless a person looks: JSON where nothing was asked and nobody looks.
    pub fn or_json_for_programs(mut self) -> Self {
        if self.asked.is_none() && !io::stdout().is_terminal() {
            self.asked = Some(Format::Json);
        }
        self
    }

    /// The value itself for programs, `table` for people.
    pub fn show<T: Serialize>(&self, value: &T, table: impl FnOnce(&Self) -> String) -> Result<(), CliError> {
        let text = match self.format() {
            Format::Table => table(self),
            Format::Json => json(value)?,
            Format::Yaml => yaml(value)?,
        };
        write(&text);
        Ok(())
    }

    /// One of a series: a line of JSON, a YAML document, or a line for people.
    pub fn item<T: Serialize>(&self, value: &T, line: impl FnOnce(&Self) -> String) -> Result<(), CliError> {
        match self.format() {
            Format::Table => write(&line(self)),
            Format::Json => write(&serde_json::to_string(value).map_err(anyhow::Error::from)?),
            Format::Yaml => write(&format!("---\n{}", yaml(value)?)),
        }
        Ok(())
    }

    pub fn paint(&self, paint: Paint, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Good => "32",
            Paint::Warn => "33",
            Paint::Bad => "31",
            Paint::Dim => "2",
            Paint::Bold => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

pub fn json<T: Serialize>(value: &T) -> Result<String, CliError> {
    Ok(serde_json::to_string_pretty(value).map_err(anyhow::Error::from)?)
}

pub fn yaml<T: Serialize>(value: &T) -> Result<String, CliError> {
    Ok(serde_yaml_ng::to_string(value).map_err(anyhow::Error::from)?)
}

/// Rows under a header; a column whose header ends in `>` stands to the right.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|h| h.trim_end_matches('>')));
    for row in rows {
        table.add_row(row);
    }
    let last = header.len().saturating_sub(1);
    for (index, name) in header.iter().enumerate() {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((0, if index == last { 0 } else { 2 }));
            if name.ends_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Writes to standard output with an end of line; a reader that has gone away is not an error.
pub fn write(text: &str) {
    let mut out = io::stdout().lock();
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let written = write!(out, "{text}{end}").and_then(|()| out.flush());
    if written.is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
        std::process::exit(0);
    }
}

/// Writes a line to standard error.
pub fn say(text: &str) {
    // nowhere is left to say that it could not be said
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub fn complain(error: &CliError) {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let word = if !plain && io::stderr().is_terminal() { "\u{1b}[31merror\u{1b}[0m" } else { "error" };
    say(&format!("{word}: {error}"));
}

/// A spinner on standard error where that is a terminal, nothing elsewhere.
pub fn progress(message: impl Into<String>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(message.into());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_nothing_trails() {
        let shown = table(&["NAME", "N>"], [vec!["a".into(), "1".into()], vec!["long".into(), "100".into()]]);
        assert_eq!(shown, "NAME    N\na       1\nlong  100");
    }

    #[test]
    fn colour_is_for_terminals_only() {
        assert_eq!(Output::plain(Format::Table).paint(Paint::Bad, "failed"), "failed");
    }

    #[test]
    fn yaml_and_json_say_the_same() {
        let value = serde_json::json!({"a": [1, "22:00", null]});
        let back: serde_json::Value = serde_yaml_ng::from_str(&yaml(&value).unwrap()).unwrap();
        assert_eq!(back, value);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json(&value).unwrap()).unwrap(), value);
    }
}
