//! The budgets of a site and its links, kept in a file: a restart refills nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rhumb_probe_session::{BandwidthBudget, USUAL_SHARE_PPM, USUAL_SPAN_US};
use serde::{Deserialize, Serialize};

use crate::ProbeError;

/// Budgets by link and of the site, each a share of its capacity.
#[derive(Debug)]
pub struct BandwidthLedger {
    path: PathBuf,
    kept: Kept,
}

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    site: Option<BandwidthBudget>,
    links: BTreeMap<String, BandwidthBudget>,
}

impl BandwidthLedger {
    /// Reads what was kept; nothing was, where there is no file. One that cannot be read is an error: to begin anew would
    /// refill every budget.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, ProbeError> {
        let path = path.into();
        let failed = |source| ProbeError::Ledger { path: path.clone(), source };
        let kept = match fs::read(&path) {
            Ok(octets) => serde_json::from_slice(&octets).map_err(|error| failed(error.into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(failed(error)),
        };
        Ok(Self { path, kept })
    }

    /// What may be sent over a link of that capacity now, the site's budget being a share of all its links' capacities.
    pub fn left_bytes(&self, link: &str, link_kbps: u64, site_kbps: u64, now_us: u64) -> u64 {
        let (site, link) = self.budgets(link, link_kbps, site_kbps, now_us);
        site.left_bytes(now_us).min(link.left_bytes(now_us))
    }

    /// Takes octets off both budgets and writes that down before they are sent; `false`, and nothing is taken, where one of
    /// the two has not enough.
    pub fn spend(
        &mut self,
        link: &str,
        link_kbps: u64,
        site_kbps: u64,
        bytes: u64,
        now_us: u64,
    ) -> Result<bool, ProbeError> {
        let (mut site, mut own) = self.budgets(link, link_kbps, site_kbps, now_us);
        if !site.spend(bytes, now_us) || !own.spend(bytes, now_us) {
            return Ok(false);
        }
        let mut kept = self.kept.clone();
        kept.site = Some(site);
        kept.links.insert(link.to_owned(), own);
        self.keep(kept)?;
        Ok(true)
    }

    /// Gives back what a run took and did not send.
    pub fn refund(&mut self, link: &str, bytes: u64) -> Result<(), ProbeError> {
        let mut kept = self.kept.clone();
        if let Some(site) = &mut kept.site {
            site.refund(bytes);
        }
        if let Some(own) = kept.links.get_mut(link) {
            own.refund(bytes);
        }
        self.keep(kept)
    }

    fn budgets(&self, link: &str, link_kbps: u64, site_kbps: u64, now_us: u64) -> (BandwidthBudget, BandwidthBudget) {
        let under = |kept: Option<&BandwidthBudget>, kbps: u64| match kept {
            Some(budget) => budget.under(kbps, USUAL_SHARE_PPM, USUAL_SPAN_US),
            None => BandwidthBudget::new(kbps, USUAL_SHARE_PPM, USUAL_SPAN_US, now_us),
        };
        (under(self.kept.site.as_ref(), site_kbps), under(self.kept.links.get(link), link_kbps))
    }

    /// Whole or not at all: a new file takes the old one's name.
    fn keep(&mut self, kept: Kept) -> Result<(), ProbeError> {
        let failed = |source| ProbeError::Ledger { path: self.path.clone(), source };
        let written =
            serde_json::to_vec(&kept).map_err(io::Error::from).and_then(|octets| replace(&self.path, &octets));
        written.map_err(failed)?;
        self.kept = kept;
        Ok(())
    }
}

fn replace(path: &Path, octets: &[u8]) -> io::Result<()> {
    let new = path.with_added_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(octets)?;
    file.sync_all()?;
    fs::rename(&new, path)
}
