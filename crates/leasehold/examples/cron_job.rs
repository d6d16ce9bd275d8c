//! A cron job that must run once, on whichever machine comes first.
//!
//! `cargo run -p leasehold --example cron_job`. Start it in a second shell within ten seconds: that
//! one finds that the job has been done. From a crontab the command does the same:
//! `leasehold run nightly-report -n --min-hold 10s -- ./report.sh`.

use std::time::Duration;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let directory = std::env::temp_dir().join("leasehold-example");
    let client = leasehold::connect(&format!("file:{}", directory.display())).await?;
    let lock = client
        .lock("nightly-report")
        // Clocks differ by seconds: a job that is done in one must not start again in the next.
        .min_hold(Duration::from_secs(10))
        // And one that hangs must not keep tomorrow's from starting.
        .max_hold(Duration::from_secs(3600));

    let Some(guard) = lock.try_acquire().await? else {
        println!("another instance has done it or is doing it");
        return Ok(());
    };
    println!("reporting, token {}", guard.token());
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("done; staying for the rest of the ten seconds, since this store cannot keep a lock");
    guard.release().await?;
    client.close().await;
    Ok(())
}
