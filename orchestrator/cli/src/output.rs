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

    pub fn format(self) -> Format {
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
    pub fn show<T: Serialize>(self, value: &T, table: impl FnOnce(Self) -> String) -> Result<(), CliError> {
        match self.format() {
            Format::Table => self.tell(&table(self)),
            Format::Json => write(&json(value)?),
            Format::Yaml => write(&yaml(value)?),
        }
        Ok(())
    }

    /// One of a series: a line of JSON, a YAML document, or a line for people.
    pub fn item<T: Serialize>(self, value: &T, line: impl FnOnce(Self) -> String) -> Result<(), CliError> {
        match self.format() {
            Format::Table => self.tell(&line(self)),
            Format::Json => write(&serde_json::to_string(value).map_err(anyhow::Error::from)?),
            Format::Yaml => write(&format!("---\n{}", yaml(value)?)),
        }
        Ok(())
    }

    /// Writes a text for people, its marks turned into colours.
    pub fn tell(self, text: &str) {
        if self.colour { write(&coloured(text)) } else { write(text) }
    }

    pub fn paint(self, paint: Paint, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        format!("{}{text}{PLAIN}", paint.mark())
    }
}

/// Ends a colour. Colours are marked by invisible characters, which take no room in a table, until they are told.
const PLAIN: char = '\u{2060}';

impl Paint {
    const ALL: [Self; 5] = [Self::Good, Self::Warn, Self::Bad, Self::Dim, Self::Bold];

    fn mark(self) -> char {
        match self {
            Self::Good => '\u{2064}',
            Self::Warn => '\u{206a}',
            Self::Bad => '\u{2061}',
            Self::Dim => '\u{2062}',
            Self::Bold => '\u{2063}',
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Good => "\u{1b}[32m",
            Self::Warn => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
            Self::Dim => "\u{1b}[2m",
            Self::Bold => "\u{1b}[1m",
        }
    }
}

fn coloured(text: &str) -> String {
    let painted = Paint::ALL.iter().fold(text.to_owned(), |text, paint| text.replace(paint.mark(), paint.code()));
    painted.replace(PLAIN, "\u{1b}[0m")
}

pub fn json<T: Serialize>(value: &T) -> Result<String, CliError> {
    Ok(serde_json::to_string_pretty(value).map_err(anyhow::Error::from)?)
}

pub fn yaml<T: Serialize>(value: &T) -> Result<String, CliError> {
    // by way of JSON, whose variants are maps: tags are not taken where documents are read
    let value = serde_json::to_value(value).map_err(anyhow::Error::from)?;
    Ok(serde_yaml_ng::to_string(&value).map_err(anyhow::Error::from)?)
}

/// Rows under a header; a column whose header ends in `>` stands to the right.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
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
    fn colours_take_no_room_in_a_table() {
        let painter = Output { asked: None, colour: true };
        let rows = [vec![painter.paint(Paint::Bad, "no"), "x".into()], vec!["yes".into(), "y".into()]];
        let shown = coloured(&table(&["IS", "OF"], rows));
        assert_eq!(shown, "IS   OF\n\u{1b}[31mno\u{1b}[0m   x\nyes  y");
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
