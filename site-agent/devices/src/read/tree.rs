//! Keys with values and keys below them: what `nvidia-smi -q` and its XML have in common.

/// Deepest nesting that is followed.
const DEPTH: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Branch {
    /// Small letters, digits and `_`.
    pub(super) key: String,
    pub(super) value: String,
    pub(super) below: Vec<Branch>,
}

/// `GPU Current Temp` and `gpu_current_temp` are one key.
fn key(raw: &str) -> String {
    let mut key = String::new();
    for c in raw.trim().chars() {
        if c.is_ascii_alphanumeric() {
            key.push(c.to_ascii_lowercase());
        } else if !key.is_empty() && !key.ends_with('_') {
            key.push('_');
        }
    }
    key.trim_end_matches('_').to_owned()
}

impl Branch {
    /// The first branch at a path such as `pci/bus_id`.
    pub(super) fn branch(&self, path: &str) -> Option<&Self> {
        path.split('/').try_fold(self, |at, step| at.below.iter().find(|b| b.key == step))
    }

    /// The value at the first of these paths that is there.
    pub(super) fn value(&self, paths: &[&str]) -> &str {
        paths.iter().find_map(|path| self.branch(path)).map_or("", |b| b.value.as_str())
    }

    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Self> {
        self.below.iter().filter(move |b| b.key == key)
    }

    pub(super) fn of_xml(node: roxmltree::Node<'_, '_>) -> Self {
        Self::element(node, 0)
    }

    fn element(node: roxmltree::Node<'_, '_>, depth: usize) -> Self {
        let below = node.children().filter(|n| n.is_element() && depth < DEPTH);
        Self {
            key: key(node.tag_name().name()),
            value: node.text().unwrap_or_default().trim().to_owned(),
            below: below.map(|n| Self::element(n, depth + 1)).collect(),
        }
    }

    /// Lines below one another by indentation; `key : value` or a key alone.
    pub(super) fn of_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut stack: Vec<(usize, Self)> = vec![(0, Self::default())];
        for line in lines.filter(|l| !l.trim().is_empty()) {
            let indent = line.len() - line.trim_start().len() + 1;
            while stack.len() > 1 && (stack.len() > DEPTH || stack.last().is_some_and(|(at, _)| *at >= indent)) {
                close(&mut stack);
            }
            let (name, value) = line.split_once(" :").or_else(|| line.split_once("\t:")).unwrap_or((line, ""));
            stack.push((indent, Self { key: key(name), value: value.trim().to_owned(), below: Vec::new() }));
        }
        while stack.len() > 1 {
            close(&mut stack);
        }
        stack.pop().map(|(_, root)| root).unwrap_or_default()
    }
}

fn close(stack: &mut Vec<(usize, Branch)>) {
    if let Some((_, done)) = stack.pop()
        && let Some((_, parent)) = stack.last_mut()
    {
        parent.below.push(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_makes_branches() {
        let text = "A : 1\nB\n    C c : x : y\n    D\n        E : 2\nF : 3";
        let root = Branch::of_lines(text.lines());
        assert_eq!(root.value(&["a"]), "1");
        assert_eq!(root.value(&["b/c_c"]), "x : y");
        assert_eq!(root.value(&["no", "b/d/e"]), "2");
        assert_eq!(root.value(&["f"]), "3");
    }
}
