//! Jobs of several processes share two devices.
//!
//! `cargo run -p leasehold --example semaphore`. Start it in a second shell at the same time: all jobs
//! together never use more than two slots.

use std::time::Duration;

use leasehold::{Permit, Result};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<()> {
    let directory = std::env::temp_dir().join("leasehold-example");
    let client = leasehold::connect(&format!("file:{}", directory.display())).await?;
    let devices = client.semaphore("device", 2);

    let mut jobs = JoinSet::new();
    for number in 1..=4 {
        let devices = devices.clone();
        jobs.spawn(async move { devices.run(|permit| work(number, permit)).await });
    }
    while let Some(done) = jobs.join_next().await {
        if let Ok(done) = done {
            done?;
        }
    }

    println!("done, with at most {} at a time", devices.limit().await?.unwrap_or_default());
    client.close().await;
    Ok(())
}

/// Works with the device whose number is the slot.
async fn work(number: u32, permit: Permit) {
    println!("job {number} on device {}, token {}", permit.slot(), permit.token());
    tokio::time::sleep(Duration::from_millis(100)).await;
}
