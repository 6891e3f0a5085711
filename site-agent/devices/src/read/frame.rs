//! Tables in frames of `+`, `-`, `=` and `|`: a title, a heading above a double line, then rows between lines.

/// One table; cells are trimmed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// Lines above the heading.
    pub(super) titles: Vec<String>,
    /// As many lines as one record has.
    pub(super) heading: Vec<Vec<String>>,
    pub(super) groups: Vec<Vec<Vec<String>>>,
}

/// All tables of a text. A table without a heading gives its titles alone.
pub(super) fn tables(text: &str) -> Vec<Table> {
    let mut tables = Vec::new();
    let mut frame: Vec<Vec<Vec<String>>> = Vec::new();
    let mut doubled = Vec::new();
    let mut rows = Vec::new();
    for line in text.lines().chain([""]) {
        let line = line.trim();
        if is_border(line) {
            if !rows.is_empty() {
                frame.push(std::mem::take(&mut rows));
                doubled.push(line.contains('='));
            }
        } else if line.starts_with('|') {
            rows.push(line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect());
        } else if line.is_empty() {
            if !rows.is_empty() {
                frame.push(std::mem::take(&mut rows));
                doubled.push(false);
            }
            cut(std::mem::take(&mut frame), &std::mem::take(&mut doubled), &mut tables);
        } else if !rows.is_empty() {
            // rows that somebody left out divide as a line does
            frame.push(std::mem::take(&mut rows));
            doubled.push(false);
        }
    }
    tables
}

fn is_border(line: &str) -> bool {
    let drawn = |c| matches!(c, '+' | '-' | '=' | '|');
    line.len() >= 5 && line.chars().all(drawn) && line.contains(['-', '='])
}

fn cut(frame: Vec<Vec<Vec<String>>>, doubled: &[bool], tables: &mut Vec<Table>) {
    let mut table = Table::default();
    for (rows, doubled) in frame.into_iter().zip(doubled) {
        let first = rows.first().and_then(|r| r.first()).map_or("", String::as_str);
        let word = first.split_whitespace().next().unwrap_or_default();
        let is_heading =
            *doubled && word.chars().all(|c| c.is_ascii_alphabetic() || c == ':') && word != "No" && word != "no";
        // a title of processes stands in one box with its heading
        if is_heading {
            if !table.heading.is_empty() {
                tables.push(std::mem::take(&mut table));
            }
            let wide = rows.iter().map(Vec::len).max().unwrap_or(0);
            let (titles, heading): (Vec<_>, Vec<_>) =
                rows.into_iter().partition(|r| r.len() < wide || r.first().is_some_and(|c| c.starts_with("Process")));
            table.titles.extend(titles.into_iter().map(|r| r.join(" ")));
            table.heading = heading;
        } else if table.heading.is_empty() {
            table.titles.extend(rows.into_iter().map(|r| r.join(" ")));
        } else {
            table.groups.push(rows);
        }
    }
    if table != Table::default() {
        tables.push(table);
    }
}

/// Headings of more than one word.
const PHRASES: [&str; 12] = [
    "Volatile Uncorr. ECC",
    "Compute M.",
    "MIG M.",
    "Process name",
    "Process Name",
    "Process id in container",
    "Process id",
    "Process memory(MB)",
    "GPU Memory",
    "Shared Memory-Usage",
    "Shared BAR1-Usage",
    "GPU NUMA ID",
];

/// The words of a heading's cell; phrases are one word.
fn words(heading: &str) -> Vec<String> {
    let mut heading = heading.to_owned();
    for phrase in PHRASES {
        heading = heading.replace(phrase, &phrase.replace(' ', "\u{1}"));
    }
    heading.split_whitespace().map(|w| w.replace('\u{1}', " ").to_ascii_lowercase()).collect()
}

const UNITS: [&str; 3] = ["MiB", "MB", "GiB"];

/// The values of a row's cell; `a / b` and a number with its unit are one.
fn values(cell: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    let mut open = false;
    for token in cell.split_whitespace() {
        let joins = open || token == "/" || (token.starts_with('/') && token.len() > 1 && is_number(&token[1..]));
        open = token == "/" || (token.ends_with('/') && token.len() > 1);
        match values.last_mut() {
            Some(last) if joins || UNITS.contains(&token) => {
                last.push(' ');
                last.push_str(token);
            }
            _ => values.push(token.to_owned()),
        }
    }
    values
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// The headings of a cell with their values. A name may have several words; it takes what is too many.
pub(super) fn pairs(heading: &str, cell: &str) -> Option<Vec<(String, String)>> {
    let words = words(heading);
    let mut values = values(cell);
    if words.is_empty() || values.is_empty() {
        return Some(Vec::new());
    }
    // several words below one, such as `Not Supported`; several numbers belong below another line of the heading
    if let [word] = &words[..]
        && (values.len() == 1 || !is_number(&values[0]))
    {
        return Some(vec![(word.clone(), values.join(" "))]);
    }
    if values.len() > words.len() {
        let at = words.iter().position(|w| matches!(w.as_str(), "name" | "process name"))?;
        let surplus = values.len() - words.len();
        let name = values.splice(at..=at + surplus, []).collect::<Vec<_>>().join(" ");
        values.insert(at, name);
    }
    (values.len() == words.len()).then(|| words.into_iter().zip(values).collect())
}

/// `a / b` in two.
pub(super) fn halves(value: &str) -> (&str, &str) {
    // N/A has a stroke of its own
    let at = value.find(" / ").or_else(|| value.find("/ ")).or_else(|| value.find(" /"));
    let at = at.or_else(|| value.find('/').filter(|_| is_number(value)));
    let Some(at) = at else { return (value, "") };
    let (a, b) = value.split_at(at);
    (a.trim(), b.trim_start_matches([' ', '/']).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_takes_the_words_that_are_too_many() {
        let found = pairs("GPU  Name      Persistence-M", "0  NVIDIA H100 80GB HBM3   On").unwrap();
        assert_eq!(found[1], ("name".into(), "NVIDIA H100 80GB HBM3".into()));
        assert_eq!(found[2], ("persistence-m".into(), "On".into()));
    }

    #[test]
    fn two_sides_of_a_stroke_are_one_value() {
        let found = pairs("Fan Temp Perf Pwr:Usage/Cap", "N/A   42C    P0             98W /  700W").unwrap();
        assert_eq!(halves(&found[3].1), ("98W", "700W"));
        let found =
            pairs("AICore(%) Memory-Usage(MB) HBM-Usage(MB)", "0           0    / 0          26838/ 32768").unwrap();
        assert_eq!(halves(&found[2].1), ("26838", "32768"));
        assert_eq!(halves("N/A / N/A"), ("N/A", "N/A"));
        assert_eq!(halves("826/65536 MiB"), ("826", "65536 MiB"));
        assert_eq!(halves("N/A"), ("N/A", ""));
    }
}
