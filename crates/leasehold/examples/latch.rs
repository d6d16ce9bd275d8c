//! A report waits until all imports are done, and the next day's imports begin anew.
//!
//! `cargo run -p leasehold --example latch`. With the URL of a store that all processes reach, instead of
//! `memory:`, the imports and the report may be processes on several machines.

use std::time::Duration;

use leasehold::{Latch, Result};

const IMPORTS: [&str; 3] = ["customers", "orders", "payments"];

#[tokio::main]
async fn main() -> Result<()> {
    let client = leasehold::connect("memory:").await?;
    let imported = client.latch("imported", IMPORTS.len() as u32);

    let report = tokio::spawn(report(imported.clone()));
    for (at, import) in IMPORTS.into_iter().enumerate() {
        tokio::spawn(run_import(imported.clone(), import, at as u64 + 1));
    }
    report.await.expect("the report does not panic")?;

    let generation = imported.reset().await?;
    println!("generation {generation} begins, {} are missing", imported.state().await?.missing);
    client.close().await;
    Ok(())
}

/// Counts itself down when its work is done. If the process crashes in between and starts again, it counts once.
async fn run_import(imported: Latch, name: &str, number: u64) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(20 * number)).await;
    let missing = imported.count_down(name).await?;
    println!("imported {name}, {missing} are missing");
    Ok(())
}

async fn report(imported: Latch) -> Result<()> {
    let generation = imported.wait().await?;
    println!("report on generation {generation}");
    Ok(())
}
