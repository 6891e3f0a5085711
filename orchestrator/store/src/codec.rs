//! Between typed values and columns: times as microseconds, documents as JSON text, names checked when read back.

use crate::{error::Fault, session::Row};
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Display, str::FromStr};

/// For a column that holds up to 2^63 - 1.
pub fn int(what: &'static str, value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| Fault::Range { what, value: value.to_string() })
}

/// For a bound to compare with: what is above every column's value stays above it.
pub fn bound(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub fn json<T: Serialize>(what: &'static str, value: &T) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|e| Fault::Range { what, value: e.to_string() })
}

pub fn json_or_null<T: Serialize>(what: &'static str, value: Option<&T>) -> Result<Option<String>, Fault> {
    value.map(|v| json(what, v)).transpose()
}

/// Typed access to the columns of one table's row.
#[derive(Debug)]
pub struct Reader<'r> {
    table: &'static str,
    row: &'r Row,
}

impl<'r> Reader<'r> {
    pub const fn new(table: &'static str, row: &'r Row) -> Self {
        Self { table, row }
    }

    pub fn corrupt(&self, column: &str, why: impl Display) -> Fault {
        Fault::Corrupt { table: self.table, detail: format!("{column}: {why}") }
    }

    pub fn int(&self, column: &'static str) -> Result<i64, Fault> {
        Ok(self.row.get(column)?)
    }

    pub fn count<T: TryFrom<i64>>(&self, column: &'static str) -> Result<T, Fault> {
        let value = self.int(column)?;
        T::try_from(value).map_err(|_| self.corrupt(column, format_args!("{value} is out of range")))
    }

    pub fn flag(&self, column: &'static str) -> Result<bool, Fault> {
        Ok(self.row.get(column)?)
    }

    pub fn text(&self, column: &'static str) -> Result<String, Fault> {
        Ok(self.row.get(column)?)
    }

    pub fn text_or_null(&self, column: &'static str) -> Result<Option<String>, Fault> {
        Ok(self.row.get(column)?)
    }

    pub fn uuid(&self, column: &'static str) -> Result<uuid::Uuid, Fault> {
        Ok(self.row.get(column)?)
    }

    pub fn uuid_or_null(&self, column: &'static str) -> Result<Option<uuid::Uuid>, Fault> {
        Ok(self.row.get(column)?)
    }

    pub fn sha256(&self, column: &'static str) -> Result<[u8; 32], Fault> {
        let bytes: Vec<u8> = self.row.get(column)?;
        bytes.try_into().map_err(|b: Vec<u8>| self.corrupt(column, format_args!("{} bytes, not 32", b.len())))
    }

    /// A name or a word.
    pub fn parsed<T: FromStr<Err: Display>>(&self, column: &'static str) -> Result<T, Fault> {
        self.text(column)?.parse().map_err(|e| self.corrupt(column, e))
    }

    pub fn parsed_or_null<T: FromStr<Err: Display>>(&self, column: &'static str) -> Result<Option<T>, Fault> {
        self.text_or_null(column)?.map(|t| t.parse().map_err(|e| self.corrupt(column, e))).transpose()
    }

    pub fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, Fault> {
        serde_json::from_str(&self.text(column)?).map_err(|e| self.corrupt(column, e))
    }

    pub fn json_or_null<T: DeserializeOwned>(&self, column: &'static str) -> Result<Option<T>, Fault> {
        let text = self.text_or_null(column)?;
        text.map(|t| serde_json::from_str(&t).map_err(|e| self.corrupt(column, e))).transpose()
    }

    pub fn time(&self, column: &'static str) -> Result<Timestamp, Fault> {
        Timestamp::from_microsecond(self.int(column)?).map_err(|e| self.corrupt(column, e))
    }

    pub fn time_or_null(&self, column: &'static str) -> Result<Option<Timestamp>, Fault> {
        let micros: Option<i64> = self.row.get(column)?;
        micros.map(|us| Timestamp::from_microsecond(us).map_err(|e| self.corrupt(column, e))).transpose()
    }
}
