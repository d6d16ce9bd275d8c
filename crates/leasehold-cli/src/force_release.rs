//! `leasehold force-release`: ending the lease of a holder that cannot end it itself.

use leasehold::Token;
use leasehold::backend::{Forced, Holder, State};
use serde_json::json;

use crate::cli::{ForceReleaseArgs, Globals};
use crate::config::Config;
use crate::failure::{Failure, code};
use crate::say::{self, Voice};
use crate::show;
use crate::store::Store;

/// Ends the lease that the token names; 1 when that lease had ended by itself.
pub(crate) async fn force_release(
    args: &ForceReleaseArgs,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    let token = Token::new(args.token).ok_or_else(|| {
        Failure::own(format!("--token {}: a token is 1 to {}", args.token, Token::MAX))
    })?;
    let config = Config::load(globals.config.as_deref())?;
    let store = Store::connect(globals.store.as_deref(), &config).await?;
    let Some(forced) = store.force_release(&args.name, token).await? else {
        let status = store.status(&args.name).await?;
        let holder = status.holder.filter(|_| status.state != State::Free);
        return Err(unsupported(&args.name, holder.as_ref()));
    };
    let (word, text, code) = match forced {
        Forced::Ended => ("ended", format!("the lease with token {token} has ended"), 0),
        Forced::NotHeld => ("not-held", "nobody holds it".to_owned(), code::CONFLICT),
        Forced::Other(other) => (
            "other",
            format!("it is held with token {other} by now; nothing was changed"),
            code::CONFLICT,
        ),
    };
    if args.json {
        let current = if let Forced::Other(other) = forced { Some(other.get()) } else { None };
        let object = json!({
            "name": args.name, "token": token.get(), "result": word, "current_token": current,
        });
        say::answer(format_args!("{object}\n"))?;
    } else {
        voice.note(&format!("{}: {text}", args.name));
    }
    store.close().await;
    Ok(code)
}

fn unsupported(name: &str, holder: Option<&Holder>) -> Failure {
    let failure = Failure::own(format!(
        "{name}: this store cannot take a lock away; it is held for as long as its process lives"
    ));
    match holder {
        Some(holder) => failure.next(format!(
            "end the process instead: kill {} on {}",
            holder.pid,
            show::who(holder).split('/').next().unwrap_or_default()
        )),
        None => failure.next("nobody holds it now".to_owned()),
    }
}
