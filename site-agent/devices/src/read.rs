//! Output of the makers' tools, told apart by what stands in it.

mod ascend;
mod frame;
mod lists;
mod matrix;
mod nccl;
mod nvidia;
mod rocm;
mod table;
mod tree;

use crate::{snapshot::Snapshot, value::short};
use serde::Serialize;

/// What one file or command put out: one section for each command in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capture {
    pub sections: Vec<Section>,
}

/// The output of one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Section {
    /// The command, where the capture names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The capture's own title of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub formats: Vec<Format>,
    #[serde(flatten)]
    pub shown: Snapshot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `nvidia-smi -q -x`
    NvidiaXml,
    /// `nvidia-smi -q`
    NvidiaQuery,
    /// `nvidia-smi`
    NvidiaTable,
    /// `nvidia-smi -L`, `nvlink -s`, `--version`
    NvidiaList,
    /// `nvidia-smi --query-gpu=... --format=csv` and `--query-compute-apps`
    NvidiaCsv,
    /// `nvidia-smi dmon`, `pmon`
    NvidiaMonitor,
    /// `topo -m` of several makers, `rocm-smi --showtopo`
    Matrix,
    /// `rocm-smi --json`
    RocmJson,
    /// `rocm-smi`, `--showhw`
    RocmTable,
    /// `rocm-smi` with options: `GPU[0] : key: value`
    RocmValues,
    /// `npu-smi info`
    AscendTable,
    /// `npu-smi info -t common`, `usages`
    AscendValues,
    /// `mx-smi`
    MetaxTable,
    /// The topology file that NCCL reads and dumps.
    NcclXml,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("the output has {0} bytes; at most {MOST} are read")]
    TooLarge(usize),
    #[error("the XML does not parse: {0}")]
    Xml(String),
    #[error("the JSON does not parse: {0}")]
    Json(String),
    #[error("the XML has the root element {0}; nvidia_smi_log and system are known")]
    Root(String),
    #[error("nothing in the output is of a known tool; it begins {0:?}")]
    Unrecognised(String),
}

/// Most bytes of one capture.
pub const MOST: usize = 16 << 20;

/// Reads the output of any known tool. What is not understood becomes a note.
pub fn read(bytes: &[u8]) -> Result<Capture, ReadError> {
    if bytes.len() > MOST {
        return Err(ReadError::TooLarge(bytes.len()));
    }
    let text = plain(&String::from_utf8_lossy(bytes));
    let whole = |format, mut shown: Snapshot| {
        shown.settle();
        Capture { sections: vec![Section { command: None, title: None, formats: vec![format], shown }] }
    };
    let start = text.trim_start();
    if let Some((root, around)) = root_in(&text) {
        let (format, mut shown) = xml(root)?;
        for line in around {
            shown.note(line);
        }
        return Ok(whole(format, shown));
    }
    if start.starts_with('<') {
        let (format, shown) = xml(start)?;
        return Ok(whole(format, shown));
    }
    if let Some((before, json)) = json_in(&text) {
        let mut shown = rocm::json(json)?;
        before.lines().filter(|l| !l.trim().is_empty()).for_each(|l| shown.note(l));
        return Ok(whole(Format::RocmJson, shown));
    }
    let sections: Vec<Section> = parts(&text).iter().filter_map(section).collect();
    if sections.iter().all(|s| s.formats.is_empty()) {
        return Err(ReadError::Unrecognised(short(start.lines().next().unwrap_or_default())));
    }
    Ok(Capture { sections })
}

impl Capture {
    /// All sections as one: what the first ones know, filled from those after them.
    pub fn together(self) -> Snapshot {
        self.sections.into_iter().map(|s| s.shown).reduce(Snapshot::or).unwrap_or_default()
    }
}

fn xml(text: &str) -> Result<(Format, Snapshot), ReadError> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, nodes_limit: 1_000_000, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(text, options).map_err(|e| ReadError::Xml(e.to_string()))?;
    match document.root_element().tag_name().name() {
        "nvidia_smi_log" => Ok((Format::NvidiaXml, nvidia::xml(&document))),
        "system" => Ok((Format::NcclXml, nccl::read(&document))),
        other => Err(ReadError::Root(short(other))),
    }
}

/// The element of a known root, and the lines around it, such as warnings, that are no XML.
fn root_in(text: &str) -> Option<(&str, Vec<&str>)> {
    let starts_line = |at: usize| {
        let before = text[..at].rsplit('\n').next().unwrap_or_default().trim();
        before.is_empty() || before.ends_with('>')
    };
    let (name, at) = ["nvidia_smi_log", "system"].into_iter().find_map(|name| {
        let tag = format!("<{name}");
        let found = text.match_indices(&tag).map(|(at, _)| at).find(|at| starts_line(*at));
        found.map(|at| (name, at))
    })?;
    let close = format!("</{name}>");
    let end = text.rfind(&close).map_or(text.len(), |end| end + close.len());
    let after = text.get(end..).unwrap_or_default();
    let before = if text[..at].contains('<') { "" } else { &text[..at] };
    let lines = before.lines().chain(after.lines()).map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('<'));
    Some((text.get(at..end)?, lines.collect()))
}

/// An object that begins a line, and what stands before it.
fn json_in(text: &str) -> Option<(&str, &str)> {
    let at = if text.starts_with('{') { 0 } else { text.find("\n{").map(|i| i + 1)? };
    // only warnings stand before an object, no tables
    let before = &text[..at];
    (before.lines().count() <= 20 && !before.contains('|')).then_some((before, &text[at..]))
}

/// Without colours, underlines and carriage returns.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.trim_start_matches('\u{feff}').chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.peek() == Some(&'[') => {
                chars.next();
                // an escape ends with its first letter; what was cut short ends with its line
                while let Some(&c) = chars.peek() {
                    if c == '\n' {
                        break;
                    }
                    chars.next();
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                }
            }
            '\r' | '\u{1b}' => {}
            c => out.push(c),
        }
    }
    out
}

struct Part<'a> {
    command: Option<&'a str>,
    title: Option<&'a str>,
    lines: Vec<&'a str>,
}

const TOOLS: [&str; 4] = ["nvidia-smi", "rocm-smi", "npu-smi", "mx-smi"];

/// Cuts a transcript at the lines that show a command.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = vec![Part { command: None, title: None, lines: Vec::new() }];
    let mut title = None;
    for line in text.lines() {
        if let Some(command) = command(line) {
            parts.push(Part { command: Some(command), title: title.take(), lines: Vec::new() });
        } else if let Some(heading) = line.strip_prefix("### ") {
            title = Some(heading.trim());
        } else if let Some(part) = parts.last_mut() {
            part.lines.push(line);
        }
    }
    parts
}

fn command(line: &str) -> Option<&str> {
    let at = TOOLS.iter().filter_map(|tool| line.find(tool)).min()?;
    let (before, command) = line.split_at(at);
    let before = before.trim_end();
    let prompt = before.ends_with(['$', '#', '>']) || (before.starts_with('#') && before.contains("output of"));
    let bare = before.is_empty() && command.split_whitespace().nth(1).is_none_or(|word| !word.ends_with(':'));
    (!before.contains('|') && (prompt || bare)).then_some(command.trim_end_matches(['\'', '`', '"']).trim())
}

type Reader = fn(&str, &mut Snapshot) -> bool;

/// Each looks for what it knows and leaves the rest alone.
const READERS: [(Format, Reader); 11] = [
    (Format::NvidiaQuery, nvidia::query),
    (Format::NvidiaTable, table::nvidia),
    (Format::AscendTable, table::ascend),
    (Format::MetaxTable, table::metax),
    (Format::NvidiaList, lists::list),
    (Format::NvidiaCsv, lists::csv),
    (Format::NvidiaMonitor, lists::monitor),
    (Format::RocmTable, rocm::table),
    (Format::RocmValues, rocm::values),
    (Format::AscendValues, ascend::values),
    (Format::Matrix, matrix::read),
];

fn section(part: &Part<'_>) -> Option<Section> {
    let text = part.lines.join("\n");
    if part.command.is_none() && text.trim().is_empty() {
        return None;
    }
    let mut shown = Snapshot::default();
    let mut formats = Vec::new();
    for (format, reader) in READERS {
        if reader(&text, &mut shown) {
            formats.push(format);
        }
    }
    if formats.is_empty() {
        text.lines().filter(|l| !l.trim().is_empty()).for_each(|l| shown.note(l.trim()));
    }
    for line in part.lines.iter().filter(|l| matches!(l.trim(), "..." | "…")) {
        shown.note(format!("rows are left out here: {:?}", line.trim()));
    }
    shown.settle();
    Some(Section { command: part.command.map(short), title: part.title.map(short), formats, shown })
}
