//! Once: side effects that happen once for each request id, rows that are saved once for each key.

mod marks;
mod run;
mod save;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod table;
mod worker;

pub use run::{Begun, Run, RunOnce, RunOnceBuilder};
pub use save::{SaveOnce, SaveOnceBuilder, SaveStats, Store, StoreError};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use table::Table;
