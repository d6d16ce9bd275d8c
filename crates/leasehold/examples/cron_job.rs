//! A cron job that must run once, on whichever machine comes first.
//!
//! `cargo run -p leasehold --example cron_job [SECONDS]`. Start it in a second shell within ten seconds, or
//! those that an argument names: that one finds that the job has been done. From a crontab the command does the same:
//! `leasehold run nightly-report -n --min-hold 10s -- ./report.sh`.

use std::time::Duration;

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let hold = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(10);
    let directory = std::env::temp_dir().join("leasehold-example");
    let client = leasehold::connect(&format!("file:{}", directory.display())).await?;
    let lock = client
        .lock("nightly-report")
        // Clocks differ by seconds: a job that is done in one must not start again in the next.
        .min_hold(Duration::from_secs(hold))
        // And one that hangs must not keep tomorrow's from starting.
        .max_hold(Duration::from_secs(3600));

    let Some(guard) = lock.try_acquire().await? else {
        println!("another instance has done it or is doing it");
        return Ok(());
    };
    println!("reporting, token {}", guard.token());
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("done; staying until {hold} s are over, since this store cannot keep a lock");
    guard.release().await?;
    client.close().await;
    Ok(())
}
