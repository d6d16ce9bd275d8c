//! The benchmarks of Leasehold: `cargo xtask bench NAME` builds and runs one on stores of its own,
//! `leasehold bench NAME` runs one on a store of the user's.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

#[cfg(feature = "servers")]
mod against;
#[cfg(feature = "servers")]
mod args;
#[cfg(feature = "servers")]
mod bloom;
#[cfg(feature = "servers")]
mod cache;
mod chart;
mod common;
mod contention;
#[cfg(feature = "servers")]
mod delay;
#[cfg(feature = "servers")]
mod engines;
#[cfg(feature = "servers")]
mod faults;
#[cfg(feature = "servers")]
mod growth;
mod hold;
mod in_turn;
mod json;
mod many_locks;
mod measure;
mod metric;
#[cfg(feature = "servers")]
mod once;
mod output;
mod pairs;
#[cfg(feature = "servers")]
mod peers;
mod processes;
mod progress;
#[cfg(feature = "servers")]
mod readers;
mod rounds;
mod row;
mod runtime;
mod scale;
#[cfg(feature = "servers")]
mod serve;
#[cfg(test)]
#[cfg(feature = "servers")]
mod smoke_tests;
#[cfg(feature = "servers")]
mod stock;
mod store;
#[cfg(feature = "servers")]
mod stories;
mod svg;
mod system;
mod table;
mod talk;
mod users;

#[cfg(feature = "servers")]
pub use args::main;
pub use users::Bench;

/// What goes wrong here is only ever shown.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A connection of the library's own, which waits as long for an answer as Leasehold does: its usual half
/// a second would end a measurement on a machine that has much to do.
#[cfg(feature = "servers")]
pub(crate) async fn multiplexed(url: &str) -> Result<redis::aio::MultiplexedConnection> {
    let limit = Some(std::time::Duration::from_secs(10));
    let config = redis::AsyncConnectionConfig::new();
    let config = config.set_connection_timeout(limit).set_response_timeout(limit);
    let client = redis::Client::open(url)?;
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

/// An error with what caused it.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let because = error.to_string();
        if !told.contains(&because) {
            told = format!("{told}: {because}");
        }
        cause = error.source();
    }
    told
}
