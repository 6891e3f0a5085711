//! A store on a database of its own.

use crate::fixture::at;
use rhumb_store::{AnyStore, Intent, PostgresLimits, Store as _, testing::PostgresServer};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use tempfile::TempDir;

pub struct Bench {
    pub store: AnyStore,
    pub url: String,
    _folder: Option<TempDir>,
}

impl Bench {
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("rhumb.db").display());
        Self { store: open(&url).await, url, _folder: Some(folder) }
    }

    pub async fn postgres(server: &PostgresServer) -> Self {
        let url = server.database().await.unwrap();
        Self { store: open(&url).await, url, _folder: None }
    }

    /// A database of the same kind with nothing in it; where there is one server, in the place of the other's.
    pub async fn empty(like: &Self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = if like.is_postgres() {
            like.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await.unwrap();
            like.url.clone()
        } else {
            let file = folder.path().join("empty.db");
            std::fs::File::create(&file).unwrap();
            format!("sqlite:{}", file.display())
        };
        Self { store: like.store.clone(), url, _folder: Some(folder) }
    }

    pub fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres:")
    }

    /// Another program on the same database.
    pub async fn again(&self) -> AnyStore {
        open(&self.url).await
    }

    /// Past the store, straight at the database: its error, if it refuses.
    pub async fn sql(&self, text: &str) -> Result<u64, String> {
        let sql = AssertSqlSafe(text.to_owned());
        let done = if self.is_postgres() {
            let mut c = PgConnection::connect(&self.url).await.unwrap();
            sqlx::raw_sql(sql).execute(&mut c).await.map(|d| d.rows_affected())
        } else {
            let mut c = SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::raw_sql(sql).execute(&mut c).await.map(|d| d.rows_affected())
        };
        done.map_err(|e| e.to_string())
    }
}

pub async fn open(url: &str) -> AnyStore {
    let store = AnyStore::open(url, PostgresLimits::default()).await.unwrap();
    know(&store).await;
    store
}

/// The tenants that the cases are about.
pub async fn know(store: &AnyStore) {
    let known = ["acme", "other"].map(|name| Intent::KnowTenant { name: name.parse().unwrap(), at: at(0) });
    store.commit(known.into()).await.unwrap();
}
