//! One connection of either database behind one set of calls, so that every statement is written once.
//!
//! Both read `$1` placeholders, `ON CONFLICT .. DO UPDATE`, `RETURNING` and `WITH v(..) AS (VALUES ..) UPDATE .. FROM v`;
//! what they do not share is in `Dialect`.

use sqlx::{
    AssertSqlSafe, Decode, PgConnection, Postgres, Row as _, Sqlite, SqliteConnection, Type,
    postgres::{PgArguments, PgRow},
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};
use std::fmt::Write as _;
use uuid::Uuid;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// Ends a SELECT whose rows stay locked until the transaction ends. SQLite has one writer: there it is nothing.
    pub const fn lock(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR NO KEY UPDATE",
        }
    }
}

/// Something to bind. Each kind knows its NULL, because PostgreSQL types it.
#[derive(Debug, Clone)]
pub enum Value {
    Int(Option<i64>),
    Bool(bool),
    Text(Option<String>),
    Uuid(Option<Uuid>),
    Bytes(Vec<u8>),
}

/// PostgreSQL's text holds no NUL; both databases are given the same.
fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

macro_rules! value_from {
    ($($type:ty, $v:ident => $value:expr;)+) => {
        $(impl From<$type> for Value {
            fn from($v: $type) -> Self {
                $value
            }
        })+
    };
}
value_from! {
    i64, v => Value::Int(Some(v));
    Option<i64>, v => Value::Int(v);
    u32, v => Value::Int(Some(i64::from(v)));
    u16, v => Value::Int(Some(i64::from(v)));
    bool, v => Value::Bool(v);
    String, v => Value::Text(Some(without_nul(v)));
    Option<String>, v => Value::Text(v.map(without_nul));
    &str, v => Value::Text(Some(without_nul(v.to_owned())));
    Uuid, v => Value::Uuid(Some(v));
    Option<Uuid>, v => Value::Uuid(v);
    &[u8], v => Value::Bytes(v.to_vec());
}

/// Arguments of a statement, in the order of their placeholders.
macro_rules! args {
    ($($value:expr),* $(,)?) => { vec![$($crate::session::Value::from($value)),*] };
}
pub(crate) use args;

/// `($1, $2), ($3, $4)` for two rows of two columns.
pub fn placeholders(rows: usize, columns: usize) -> String {
    let mut out = String::with_capacity(rows * columns * 5);
    for row in 0..rows {
        out.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..columns {
            let comma = if column == 0 { "" } else { ", " };
            write!(out, "{comma}${}", row * columns + column + 1).expect("a String takes all that is written");
        }
        out.push(')');
    }
    out
}

/// A row of either database.
#[derive(Debug)]
pub enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    pub fn get<T>(&self, column: &'static str) -> Result<T, sqlx::Error>
    where
        T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>,
    {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }
}

/// A connection, within a transaction or not.
#[derive(Debug)]
pub enum Session<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
}

type SqliteQuery<'q> = Query<'q, Sqlite, SqliteArguments>;
type PgQuery<'q> = Query<'q, Postgres, PgArguments>;

fn sqlite(mut query: SqliteQuery<'_>, args: Vec<Value>) -> SqliteQuery<'_> {
    for value in args {
        query = match value {
            Value::Int(v) => query.bind(v),
            Value::Bool(v) => query.bind(v),
            Value::Text(v) => query.bind(v),
            Value::Uuid(v) => query.bind(v),
            Value::Bytes(v) => query.bind(v),
        };
    }
    query
}

fn postgres(mut query: PgQuery<'_>, args: Vec<Value>) -> PgQuery<'_> {
    for value in args {
        query = match value {
            Value::Int(v) => query.bind(v),
            Value::Bool(v) => query.bind(v),
            Value::Text(v) => query.bind(v),
            Value::Uuid(v) => query.bind(v),
            Value::Bytes(v) => query.bind(v),
        };
    }
    query
}

impl Session<'_> {
    pub const fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// A statement without arguments that is not worth preparing.
    pub async fn plain(&mut self, sql: &'static str) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(c) => sqlx::raw_sql(sql).execute(&mut **c).await.map(|_| ()),
            Self::Postgres(c) => sqlx::raw_sql(sql).execute(&mut **c).await.map(|_| ()),
        }
    }

    /// Ends the transaction of who leads the epoch, or fails: check and COMMIT are one message.
    pub async fn commit_fenced(&mut self, epoch: i64) -> Result<(), sqlx::Error> {
        let sql = AssertSqlSafe(format!("SELECT lead_fence({epoch}); COMMIT"));
        match self {
            Self::Sqlite(c) => sqlx::raw_sql("COMMIT").execute(&mut **c).await.map(|_| ()),
            Self::Postgres(c) => sqlx::raw_sql(sql).execute(&mut **c).await.map(|_| ()),
        }
    }

    /// Rows affected.
    pub async fn run(&mut self, sql: &'static str, args: Vec<Value>) -> Result<u64, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(c) => sqlite(sqlx::query(sql), args).execute(&mut **c).await?.rows_affected(),
            Self::Postgres(c) => postgres(sqlx::query(sql), args).execute(&mut **c).await?.rows_affected(),
        })
    }

    pub async fn all(&mut self, sql: &'static str, args: Vec<Value>) -> Result<Vec<Row>, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(c) => rows(sqlite(sqlx::query(sql), args).fetch_all(&mut **c).await?, Row::Sqlite),
            Self::Postgres(c) => rows(postgres(sqlx::query(sql), args).fetch_all(&mut **c).await?, Row::Postgres),
        })
    }

    /// Runs the statement to its end, so that nothing of it is left open in SQLite; at most one row is expected.
    pub async fn first(&mut self, sql: &'static str, args: Vec<Value>) -> Result<Option<Row>, sqlx::Error> {
        Ok(self.all(sql, args).await?.into_iter().next())
    }

    /// As `all`, for a text that is put together from constants and placeholders only.
    pub async fn all_built(&mut self, sql: String, args: Vec<Value>) -> Result<Vec<Row>, sqlx::Error> {
        let sql = AssertSqlSafe(sql);
        Ok(match self {
            Self::Sqlite(c) => rows(sqlite(sqlx::query(sql), args).fetch_all(&mut **c).await?, Row::Sqlite),
            Self::Postgres(c) => rows(postgres(sqlx::query(sql), args).fetch_all(&mut **c).await?, Row::Postgres),
        })
    }

    /// Runs `{head} VALUES (..), (..) {tail}` over all rows, some hundreds at a time; rows affected. `head` may be a
    /// `WITH v(..) AS (` that `tail` closes.
    pub async fn run_many(
        &mut self,
        head: &'static str,
        columns: usize,
        rows: Vec<Vec<Value>>,
        tail: &'static str,
    ) -> Result<u64, sqlx::Error> {
        // both databases take 32,766 placeholders in one statement
        const ROWS: usize = 400;
        let mut affected = 0;
        let mut rows = rows.into_iter().peekable();
        while rows.peek().is_some() {
            let chunk: Vec<Vec<Value>> = rows.by_ref().take(ROWS).collect();
            let sql = AssertSqlSafe(format!("{head} VALUES {} {tail}", placeholders(chunk.len(), columns)));
            // few shapes recur often enough to keep them prepared
            let keep = chunk.len() <= 4;
            let args = chunk.into_iter().flatten().collect();
            affected += match self {
                Self::Sqlite(c) => {
                    sqlite(sqlx::query(sql).persistent(keep), args).execute(&mut **c).await?.rows_affected()
                }
                Self::Postgres(c) => {
                    postgres(sqlx::query(sql).persistent(keep), args).execute(&mut **c).await?.rows_affected()
                }
            };
        }
        Ok(affected)
    }
}

fn rows<R>(rows: Vec<R>, wrap: fn(R) -> Row) -> Vec<Row> {
    rows.into_iter().map(wrap).collect()
}
