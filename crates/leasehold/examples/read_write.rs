//! Reports read together, and an import writes alone.
//!
//! `cargo run -p leasehold --example read_write`. Start it in a second shell at the same time: the reports of both
//! read together, and each import is alone.

use std::time::Duration;

use leasehold::{Result, RwLock};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::temp_dir().join("leasehold-example");
    let client = leasehold::connect(&format!("file:{}", directory.display())).await?;
    let sales = client.rw_lock("sales");

    let mut tasks = JoinSet::new();
    for number in 1..=3 {
        tasks.spawn(report(sales.clone(), number));
    }
    tasks.spawn(import(sales));
    while let Some(done) = tasks.join_next().await {
        done.expect("no task panics")?;
    }

    println!("done");
    client.close().await;
    Ok(())
}

async fn report(sales: RwLock, number: u32) -> Result<()> {
    let read = sales.read().await?;
    println!("report {number} reads, token {}", read.token());
    tokio::time::sleep(Duration::from_millis(200)).await;
    read.release().await
}

async fn import(sales: RwLock) -> Result<()> {
    let write = sales.write().await?;
    println!("the import writes, token {}", write.token());
    tokio::time::sleep(Duration::from_millis(200)).await;
    println!("the import has written");
    // Reports may read again while it checks what it has written, and no other import writes in between.
    let read = write.downgrade().await?;
    println!("the import reads, token {}", read.token());
    read.release().await
}
