//! One leader among the instances of a program.
//!
//! `cargo run -p leasehold --example election`. Start it in a second shell: that instance prints the
//! leader, and leads when the first one has resigned or is killed.

use std::time::Duration;

use leasehold::{Leader, Leadership};

#[tokio::main]
async fn main() -> leasehold::Result<()> {
    let directory = std::env::temp_dir().join("leasehold-example");
    let client = leasehold::connect(&format!("file:{}", directory.display())).await?;
    let candidate = format!("instance {}", std::process::id());
    let election = client.election("scheduler").candidate(candidate);

    let mut leaders = election.observe().await?;
    tokio::spawn(async move {
        while let Some(leader) = leaders.next().await {
            match leader {
                Some(Leader { candidate, .. }) => println!("leader: {candidate}"),
                None => println!("no leader"),
            }
        }
    });

    // After a loss it campaigns again, and calls `schedule` again.
    let jobs = election.run(schedule).await?;

    println!("resigned after {jobs} jobs");
    client.close().await;
    Ok(())
}

/// The work of the leader.
async fn schedule(leadership: Leadership) -> u32 {
    let mut jobs = 0;
    while jobs < 3 && leadership.is_leader() {
        jobs += 1;
        println!("job {jobs}, token {}", leadership.token());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    jobs
}
