//! Usage: what was billed, summed.

use rhumb_control::Base;
use rhumb_store::UsageRecord;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema, Default)]
pub struct UsageTotals {
    pub accelerator_seconds: f64,
    pub cpu_seconds: f64,
    pub gb_moved: f64,
    pub mbps_hours: f64,
    pub cost_micros: i64,
}

impl UsageTotals {
    pub fn of(records: &[UsageRecord]) -> Self {
        let mut totals = Self::default();
        for r in records {
            let quantity = r.quantity_micro as f64 / 1e6;
            match r.kind.as_str() {
                "accelerator_seconds" => totals.accelerator_seconds += quantity,
                "cpu_seconds" => totals.cpu_seconds += quantity,
                "gb_moved" => totals.gb_moved += quantity,
                _ => totals.mbps_hours += quantity,
            }
            totals.cost_micros += r.cost_micros;
        }
        totals
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct UsageView {
    pub items: Vec<UsageItem>,
    pub total_micros: i64,
    pub currency: String,
}

/// Sum of one kind at one site or link.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageItem {
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    pub quantity: f64,
    pub cost_micros: i64,
}

impl UsageView {
    pub fn new(records: &[UsageRecord], base: &Base) -> Self {
        let mut sums: BTreeMap<(&str, &str), (i64, i64)> = BTreeMap::new();
        for r in records {
            let sum = sums.entry((&r.kind, &r.subject)).or_default();
            sum.0 += r.quantity_micro;
            sum.1 += r.cost_micros;
        }
        let item = |((kind, subject), (quantity, cost)): ((&str, &str), (i64, i64))| {
            let at_site = kind.ends_with("seconds");
            UsageItem {
                kind: kind.to_owned(),
                site: at_site.then(|| subject.to_owned()),
                link: (!at_site).then(|| subject.to_owned()),
                quantity: quantity as f64 / 1e6,
                cost_micros: cost,
            }
        };
        Self {
            items: sums.into_iter().map(item).collect(),
            total_micros: records.iter().map(|r| r.cost_micros).sum(),
            currency: base.currency().to_string(),
        }
    }
}
