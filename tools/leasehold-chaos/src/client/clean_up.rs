//! What an operator does about locks that are not used any more: removes their records. It also uses one of them
//! again, so that there is something to remove later.

use std::time::Duration;

use serde_json::{Value, json};

use super::TTL;
use crate::failure::FailureKind;
use crate::{Result, SECOND};

/// What the names of these locks start with.
const IDLE: &str = "idle-";
/// Servers with admission keep a record for a minute after the longest lease, by a clock that may be set back meanwhile.
pub(crate) const KEPT: u64 = 60 * SECOND + 7 * TTL.as_nanos() as u64;
/// The lock may be held by a command that was killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The arguments of a process that cleans up.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CleanUpArgs {
    /// The store
    url: String,
    /// The lock that is used again
    name: String,
}

/// The lock that a clean-up uses: those that have done so before are idle meanwhile.
pub(crate) fn name(number: u64) -> String {
    format!("{IDLE}{number}")
}

/// What a clean-up says that has done its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CleanedUp {
    /// How many records it has removed.
    pub(crate) removed: u64,
    pub(crate) name: String,
    /// The token with which it then had the lock.
    pub(crate) token: u64,
}

impl CleanedUp {
    /// Reads what it has written.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let object: Value = serde_json::from_str(text).ok()?;
        let number = |field: &str| object[field].as_u64();
        let (removed, token) = (number("removed")?, number("token")?);
        Some(Self { removed, name: object["name"].as_str()?.to_owned(), token })
    }
}

/// Removes the records, uses a lock, and says so; false while the store is not available.
pub(crate) fn clean_up(args: &CleanUpArgs) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(remove_and_use(args)) {
        Ok((removed, token)) => {
            println!("{}", json!({ "removed": removed, "name": args.name, "token": token }));
            Ok(true)
        }
        Err(error) => match FailureKind::of_attempt(error.kind()) {
            Some(_) => {
                eprintln!("{error}");
                Ok(false)
            }
            None => Err(error.into()),
        },
    }
}

async fn remove_and_use(args: &CleanUpArgs) -> leasehold::Result<(u64, u64)> {
    let removed = leasehold::forget(&args.url, IDLE).await?;
    let client = leasehold::connect(&args.url).await?;
    let guard = client.lock(&args.name).ttl(TTL).acquire_within(PATIENCE).await?;
    let token = guard.token().get();
    // What is not released ends by its ttl.
    guard.release().await.ok();
    client.close().await;
    Ok((removed, token))
}
