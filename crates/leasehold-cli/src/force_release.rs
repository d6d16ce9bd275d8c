//! `leasehold force-release`: ends the lease of a holder that cannot end it itself.

use leasehold::{Forced, State, Status, Token};
use serde_json::json;

use crate::cli::{ForceReleaseArgs, Globals};
use crate::config::Config;
use crate::failure::{Failure, code};
use crate::lang::{Lang, lang, text};
use crate::output::{self, Voice};
use crate::sanitize;
use crate::show;
use crate::store::Store;

/// The result.
enum Outcome {
    /// The store has answered.
    Answer(Forced),
    /// The token is current, and the store cannot end the lease.
    Cannot(Box<Status>),
}

/// Ends the lease of the token; returns 1 if that lease had ended by itself.
pub(crate) async fn force_release(
    args: &ForceReleaseArgs,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    let outcome = try_it(args, globals).await;
    if args.json {
        let object = object(args, &outcome);
        output::answer(format_args!("{}\n", sanitize::json(&object)))?;
    }
    let name = &args.name;
    let (text, code) = match outcome? {
        Outcome::Answer(Forced::Ended) => {
            let ended =
                text!("the lease with token {} has ended", "令牌 {} 的租约已结束", args.token);
            (ended, 0)
        }
        Outcome::Answer(Forced::Other(current)) => {
            let text = match lang() {
                Lang::English => other(args.token, current),
                Lang::Chinese => other_in_chinese(args.token, current),
            };
            (text, code::CONFLICT)
        }
        Outcome::Answer(Forced::Several) => {
            let text = text!(
                "several permits have token {}, and nothing was changed",
                "有多个许可的令牌是 {}，没有任何改动",
                args.token
            );
            (text, code::CONFLICT)
        }
        Outcome::Answer(_) => (text!("no client holds it", "没有客户端持有它"), code::CONFLICT),
        Outcome::Cannot(status) => return Err(cannot(name, &status)),
    };
    if !args.json {
        voice.note(&text!("{}: {}", "{}：{}", name, text));
    }
    Ok(code)
}

async fn try_it(args: &ForceReleaseArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let token = Token::new(args.token).ok_or_else(|| {
        Failure::own(format!("--token {}: a token is 1 to {}", args.token, Token::MAX))
    })?;
    let config = Config::load(globals.config.as_deref())?;
    let store = Store::connect(globals, &config).await?;
    let outcome = match store.force_release(&args.name, token).await? {
        Some(forced) => Outcome::Answer(forced),
        // It may have ended by itself, and then nothing is left to do.
        None => {
            let status = store.status(&args.name).await?;
            match status.token {
                _ if status.state == State::Free => Outcome::Answer(Forced::NotHeld),
                Some(current) if current != token => Outcome::Answer(Forced::Other(current)),
                _ => Outcome::Cannot(Box::new(status)),
            }
        }
    };
    store.close().await;
    Ok(outcome)
}

fn other(token: u64, current: Token) -> String {
    let what = if token < current.get() { "has ended" } else { "was not granted yet" };
    format!("token {token} {what}; the current token is {current}, and nothing was changed")
}

fn other_in_chinese(token: u64, current: Token) -> String {
    let what = if token < current.get() { "已经结束" } else { "还没有授予过" };
    format!("令牌 {token} {what}；当前令牌是 {current}，没有任何改动")
}

fn cannot(name: &str, status: &Status) -> Failure {
    let failure = Failure::own(format!(
        "{name}: this store cannot end a lease by force; it is held while its process lives"
    ));
    match &status.holder {
        Some(_) if status.readers.len() > 1 => failure.next(format!(
            "end the processes of all readers instead; to show them: leasehold status {name}"
        )),
        Some(holder) => {
            failure.next(format!("end the process instead: kill {} on {}", holder.pid, holder.host))
        }
        None => failure.next(format!("show the holder: leasehold status {name}")),
    }
}

/// Returns one object for any result.
fn object(args: &ForceReleaseArgs, outcome: &Result<Outcome, Failure>) -> serde_json::Value {
    let (result, current, holder, message) = match outcome {
        Ok(Outcome::Answer(Forced::Ended)) => ("ended", None, None, None),
        Ok(Outcome::Answer(Forced::Other(current))) => {
            ("other", Some(current.get()), None, Some(other(args.token, *current)))
        }
        Ok(Outcome::Answer(Forced::Several)) => ("several", None, None, None),
        Ok(Outcome::Answer(_)) => ("not-held", None, None, None),
        Ok(Outcome::Cannot(status)) => {
            let current = status.token.map(|token| token.get());
            let holder = status.holder.as_ref().map(show::holder);
            ("unsupported", current, holder, Some(cannot(&args.name, status).message))
        }
        Err(failure) => ("error", None, None, Some(failure.message.clone())),
    };
    json!({
        "name": args.name,
        "token": args.token,
        "result": result,
        "current_token": current,
        "holder": holder,
        "message": message,
    })
}
