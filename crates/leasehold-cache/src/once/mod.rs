//! Side effects that happen once for each request id, and rows that are saved once for each key.

mod marks;
mod run;
mod run_settings;
mod save;
mod save_settings;
mod save_stats;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod table;
mod worker;

pub use run::{Begun, Run, RunOnce};
pub use run_settings::RunOnceBuilder;
pub use save::{SaveOnce, Store, StoreError};
pub use save_settings::SaveOnceBuilder;
pub use save_stats::SaveStats;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use table::Table;
