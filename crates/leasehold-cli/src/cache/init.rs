//! `leasehold cache init`: creates the outbox table, and the stream.

#[cfg(feature = "nats")]
use super::failed;
use super::{failed_at, open};
use crate::cli::CacheInitArgs;
use crate::failure::Failure;
use crate::output::{self, Voice};

/// Creates what was named, or prints how to create it.
pub(super) async fn init(args: &CacheInitArgs, voice: Voice) -> Result<u8, Failure> {
    if let Some(url) = &args.database {
        let (outbox, database) = open(url, &args.table)?;
        if args.print {
            let statements = database.statements(&outbox);
            let text: String = statements.iter().map(|one| format!("{one};\n")).collect();
            output::answer(text)?;
        } else {
            database.create(&outbox).await.map_err(failed_at(url))?;
            voice.note("the table exists");
        }
    }
    #[cfg(feature = "nats")]
    if let Some(url) = &args.to {
        let nats = leasehold_outbox::NatsTransport::open(url).map_err(failed)?;
        if args.print {
            output::answer(format!("{}\n", nats.stream()))?;
        } else {
            nats.create().await.map_err(failed)?;
            voice.note("the stream exists");
        }
    }
    Ok(0)
}
