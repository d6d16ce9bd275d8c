//! What is printed: a line a second, and a summary.

use std::time::Duration;

use serde_json::{Value, json};

use super::service::Service;

const SECOND: Duration = Duration::from_secs(1);

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the start, or of a second.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Counts { $($(#[$doc])* pub(crate) $name: u64,)* }

        impl Counts {
            fn since(self, before: Self) -> Self {
                Self { $($name: self.$name - before.$name,)* }
            }

            /// Each with its name.
            fn fields(self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counts! {
    /// Reads of the load.
    reads,
    /// Answers from a process.
    local,
    /// Answers from Redis.
    redis,
    /// Keys that can have no value, by their form or by the filter.
    turned_away,
    /// Queries that reached the database.
    loads,
    /// Loaded values that were not stored, since a write came in between.
    refused_fills,
    /// Entries past their end that were served while they were loaded anew.
    stood_in,
    /// Loads past the cache.
    bypasses,
    /// Calls of Redis that failed.
    redis_errors,
    /// Reads that gave a version older than one whose write was over before they began.
    stale,
    /// Reads and writes that failed.
    errors,
}

impl Counts {
    /// As JSON.
    pub(crate) fn json(self) -> Value {
        self.fields().into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect()
    }

    /// Under [`head`].
    fn row(self, first: impl std::fmt::Display) -> String {
        let cell = |(name, count): (&str, u64)| format!(" {count:>0$}", width(name));
        let cells: String = self.fields().into_iter().map(cell).collect();
        format!("{first:>4}{cells}")
    }
}

fn head() -> String {
    let cell = |(name, _): (&str, u64)| format!(" {name:>0$}", width(name));
    let cells: String = Counts::default().fields().into_iter().map(cell).collect();
    format!("   s{cells}")
}

fn width(name: &str) -> usize {
    name.len().max(7)
}

pub(crate) struct Report {
    json: bool,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints what each second has brought, for ever.
    pub(crate) async fn live(&self, service: &Service) {
        let mut before = service.counts();
        if !self.json {
            println!("{}", head());
        }
        for second in 1_u64.. {
            tokio::time::sleep(SECOND).await;
            let now = service.counts();
            let row = now.since(before);
            before = now;
            if self.json {
                println!("{}", json!({ "second": second, "counts": row.json() }));
            } else {
                println!("{}", row.row(second));
            }
        }
    }

    /// Prints all counts, and what is stale now that no client writes any more.
    pub(crate) fn summary(&self, counts: Counts, stale_at_rest: usize) {
        if self.json {
            println!("{}", json!({ "total": counts.json(), "stale_at_rest": stale_at_rest }));
            return;
        }
        println!("{}", counts.row("all"));
        let each = counts.reads as f64 / counts.loads.max(1) as f64;
        println!(
            "\nOne query for {each:.1} reads; {} stale reads, {stale_at_rest} stale values at rest.",
            counts.stale
        );
    }
}
