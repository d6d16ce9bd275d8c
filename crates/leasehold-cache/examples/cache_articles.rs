//! What well-known articles say about caches, bitmaps and filters: the blocks of docs/articles.md.
//!
//! `cargo run -p leasehold-cache --features filters --example cache_articles`. It starts a Redis server of its own,
//! unless an argument names one (`-- redis://host:6379`).

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use leasehold_cache::{BoxError, Cache};
use leasehold_filters::bitmap::Dense;
use leasehold_filters::bloom::{Answer, Local};
use leasehold_test_servers::{RedisServer, RedisSettings};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut own = None;
    let redis = match std::env::args().nth(1) {
        Some(url) => url,
        None => own.insert(RedisServer::start(RedisSettings::new())?).url(),
    };
    play(&redis, &mut std::io::stdout()).await
}

pub(crate) async fn play(redis: &str, out: &mut impl Write) -> Result<(), BoxError> {
    bitmap()?;
    writeln!(out, "bitmap of 8 bits: 4, 7, 2, 5, 3 in order are 2, 3, 4, 5, 7")?;
    bloom()?;
    writeln!(out, "Bloom filter of x, y, z: x is Maybe, W is Absent")?;
    balances(redis, out).await
}

/// Sorts 4, 7, 2, 5, 3 in one byte.
fn bitmap() -> Result<(), BoxError> {
    let bits = Dense::new(8)?; // 8 bits; 2^32 numbers would take 512 MB
    for number in [4, 7, 2, 5, 3] {
        bits.insert(number)?; // sets bit n % 64 of word n / 64
    }
    assert_eq!(bits.iter().collect::<Vec<_>>(), [2, 3, 4, 5, 7]);
    Ok(())
}

/// Asks whether W was added, beside x, y and z.
fn bloom() -> Result<(), BoxError> {
    let filter = Local::new(1_000_000, 0.01)?; // 9.6 bits for each item
    for item in ["x", "y", "z"] {
        filter.add(item);
    }
    assert_eq!(filter.check("x"), Answer::Maybe); // it may be an error, in one of a hundred cases
    assert_eq!(filter.check("W"), Answer::Absent); // never an error
    Ok(())
}

/// Updates the cache, or invalidates it.
async fn balances(url: &str, out: &mut impl Write) -> Result<(), BoxError> {
    let balances: Cache<u64, i64> = Cache::builder("balances").open(url)?;

    let write = balances.begin_write(&[&42]).await?; // no reader puts an old value back
    save_balance(42, 900).await?;
    write.committed_with(&[Some(900)]).await?; // the new value is cheap: readers find it

    let write = balances.begin_write(&[&43]).await?;
    save_balance(43, 100).await?;
    write.committed().await?; // it is costly to compute: the next reader loads it

    for (way, user) in [("updated", 42), ("invalidated", 43)] {
        let balance = balances.get(&user, move |_| read_balance(user)).await?.unwrap_or_default();
        let queries = QUERIES.swap(0, Ordering::Relaxed);
        writeln!(out, "{way}: the next reader gets {balance}, queries: {queries}")?;
    }
    Ok(())
}

/// Stands for a table of the database.
static TABLE: Mutex<BTreeMap<u64, i64>> = Mutex::new(BTreeMap::new());
static QUERIES: AtomicUsize = AtomicUsize::new(0);

async fn save_balance(user: u64, balance: i64) -> Result<(), BoxError> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner).insert(user, balance);
    Ok(())
}

async fn read_balance(user: u64) -> Result<Option<i64>, BoxError> {
    QUERIES.fetch_add(1, Ordering::Relaxed);
    Ok(TABLE.lock().unwrap_or_else(PoisonError::into_inner).get(&user).copied())
}
