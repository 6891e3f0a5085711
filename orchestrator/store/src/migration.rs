//! Forward-only migrations, part of the program.

use crate::error::{StoreError, sql_error};
use sqlx::migrate::{MigrateError, Migrator};

pub static SQLITE: Migrator = sqlx::migrate!("../../migrations/sqlite");
pub static POSTGRES: Migrator = sqlx::migrate!("../../migrations/postgres");

/// A schema that this program does not know was made by a newer one: it is left alone.
pub fn error(migrator: &Migrator, error: MigrateError) -> StoreError {
    const OPERATION: &str = "migrating the schema";
    match error {
        MigrateError::VersionMissing(found) => {
            let known = migrator.iter().map(|m| m.version).max().unwrap_or(0);
            StoreError::Newer { found, known }
        }
        MigrateError::Execute(error) => sql_error(OPERATION, error),
        error => StoreError::Database { operation: OPERATION, source: Box::new(error) },
    }
}
