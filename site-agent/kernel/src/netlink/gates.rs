//! Gates in nftables, through the `nft` program: its library has no other stable way in that can be used freely. One call
//! is one transaction.

use crate::{
    KernelError,
    gate::{chain, of_chain},
    object::{Gate, Object},
    owner::TABLE,
};
use serde_json::Value;
use std::{fmt::Write as _, io, process::Stdio};
use tokio::{io::AsyncWriteExt, process::Command};

/// Changes that are made together.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    script: String,
    last: String,
}

impl Gates {
    /// What there is: the table, and each link's chain by its digest.
    pub(crate) async fn read() -> Result<Vec<Object>, KernelError> {
        let what = "reading its table";
        let listed = match Command::new("nft").args(["-j", "list", "map", "inet", TABLE, "legs"]).output().await {
            Ok(listed) => listed,
            // nobody can have made a gate
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(KernelError::NoNft { what, source }),
        };
        if !listed.status.success() {
            let said = String::from_utf8_lossy(&listed.stderr).trim().to_owned();
            let absent = said.contains("No such file or directory");
            return if absent { Ok(Vec::new()) } else { Err(KernelError::Nft { what, said }) };
        }
        let listed: Value = serde_json::from_slice(&listed.stdout)
            .map_err(|error| KernelError::Nft { what, said: error.to_string() })?;
        let mut found = vec![Object::Gates];
        let elements =
            listed["nftables"].as_array().into_iter().flatten().filter_map(|part| part["map"]["elem"].as_array());
        for element in elements.flatten() {
            let (link, target) = (element[0].as_str(), element[1]["jump"]["target"].as_str());
            if let (Some(link), Some((_, digest))) = (link, target.and_then(of_chain)) {
                let (link, digest) = (link.to_owned(), digest.to_owned());
                found.push(Object::Gate(Gate { link, digest, statements: Vec::new() }));
            }
        }
        Ok(found)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.script.is_empty() && self.last.is_empty()
    }

    pub(crate) fn make_table(&mut self) {
        self.line(&format!("add table inet {TABLE}"));
        self.line(&format!("add map inet {TABLE} legs {{ type ifname : verdict; }}"));
        for (hook, directions) in [("forward", &["iifname", "oifname"][..]), ("input", &["iifname"])] {
            self.line(&format!(
                "add chain inet {TABLE} {hook} {{ type filter hook {hook} priority 0; policy accept; }}"
            ));
            // once each, however often this is done
            self.line(&format!("flush chain inet {TABLE} {hook}"));
            for direction in directions {
                self.line(&format!("add rule inet {TABLE} {hook} {direction} vmap @legs"));
            }
        }
    }

    pub(crate) fn remove_table(&mut self) {
        self.last = format!("delete table inet {TABLE}\n");
    }

    /// A new gate, in place of `from` where there is one.
    pub(crate) fn put(&mut self, from: Option<&Gate>, to: &Gate) {
        let name = chain(to);
        self.line(&format!("add chain inet {TABLE} {name}"));
        self.line(&format!("flush chain inet {TABLE} {name}"));
        for statement in &to.statements {
            self.line(&format!("add rule inet {TABLE} {name} {statement}"));
        }
        self.line(&format!("add rule inet {TABLE} {name} counter drop"));
        if let Some(from) = from {
            self.line(&format!("delete element inet {TABLE} legs {{ \"{}\" }}", from.link));
        }
        self.line(&format!("add element inet {TABLE} legs {{ \"{}\" : jump {name} }}", to.link));
        if let Some(from) = from {
            self.line(&format!("delete chain inet {TABLE} {}", chain(from)));
        }
    }

    pub(crate) fn remove(&mut self, gate: &Gate) {
        self.line(&format!("delete element inet {TABLE} legs {{ \"{}\" }}", gate.link));
        self.line(&format!("delete chain inet {TABLE} {}", chain(gate)));
    }

    /// Makes all changes, or none.
    pub(crate) async fn commit(self) -> Result<(), KernelError> {
        let what = "an allow-list";
        let failed = |source| KernelError::NoNft { what, source };
        let mut nft = Command::new("nft");
        nft.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = nft.spawn().map_err(failed)?;
        if let Some(mut input) = child.stdin.take() {
            // one that has ended already says why on its standard error
            let _ = input.write_all(self.script.as_bytes()).await;
            let _ = input.write_all(self.last.as_bytes()).await;
        }
        let ended = child.wait_with_output().await.map_err(failed)?;
        if ended.status.success() {
            return Ok(());
        }
        Err(KernelError::Nft { what, said: String::from_utf8_lossy(&ended.stderr).trim().to_owned() })
    }

    fn line(&mut self, line: &str) {
        // writing to a string cannot fail
        let _ = writeln!(self.script, "{line}");
    }
}
