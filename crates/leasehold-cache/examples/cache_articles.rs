//! What well-known articles say about caches, bitmaps and filters: the blocks of docs/articles.md.
//!
//! `cargo run -p leasehold-cache --features filters --example cache_articles` sorts five numbers and asks
//! a Bloom filter. With the URL of a Redis server behind `--`, it writes to a cache too.

use leasehold_cache::{BoxError, Cache};
use leasehold_filters::bitmap::Dense;
use leasehold_filters::bloom::{Answer, Local};

/// Sorts 4, 7, 2, 5, 3 in one byte.
pub(crate) fn bitmap() -> Result<(), BoxError> {
    let bits = Dense::new(8)?; // 8 bits; 2^32 numbers would take 512 MB
    for number in [4, 7, 2, 5, 3] {
        bits.insert(number)?; // sets bit n % 64 of word n / 64
    }
    assert_eq!(bits.iter().collect::<Vec<_>>(), [2, 3, 4, 5, 7]);
    Ok(())
}

/// Asks whether W was added, beside x, y and z.
pub(crate) fn bloom() -> Result<(), BoxError> {
    let filter = Local::new(1_000_000, 0.01)?; // 9.6 bits for each item
    for item in ["x", "y", "z"] {
        filter.add(item);
    }
    assert_eq!(filter.check("x"), Answer::Maybe); // it may be an error, in one of a hundred cases
    assert_eq!(filter.check("W"), Answer::Absent); // never an error
    Ok(())
}

/// Updates the cache, or invalidates it.
pub(crate) async fn balances(url: &str) -> Result<(), BoxError> {
    let balances: Cache<u64, i64> = Cache::builder("balances").open(url)?;

    let write = balances.begin_write(&[&42]).await?; // no reader puts an old value back
    save_balance(42, 900).await?;
    write.committed_with(&[Some(900)]).await?; // the new value is cheap: readers find it

    let write = balances.begin_write(&[&43]).await?;
    save_balance(43, 100).await?;
    write.committed().await?; // it is dear to compute: the next reader loads it
    Ok(())
}

async fn save_balance(user: u64, balance: i64) -> Result<(), BoxError> {
    println!("UPDATE users SET balance = {balance} WHERE id = {user}; COMMIT");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    bitmap()?;
    bloom()?;
    println!("sorted: 2, 3, 4, 5, 7; x may be there, W is not");
    match std::env::args().nth(1) {
        Some(url) => balances(&url).await,
        None => Ok(()),
    }
}
