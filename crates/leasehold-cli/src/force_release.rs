//! `leasehold force-release`: ends the lease of a holder that cannot end it itself.

use leasehold::{AttemptId, Forced, Holder, State, Status, Token};
use serde_json::json;

use crate::cli::{ForceReleaseArgs, Globals};
use crate::config::Config;
use crate::failure::{Failure, code};
use crate::lang::{Lang, lang, text};
use crate::output::{self, Voice};
use crate::sanitize;
use crate::show;
use crate::store::Store;

/// What to end.
#[derive(Clone, Copy)]
enum Which {
    /// The lease with this token.
    Token(Token),
    /// One reader, one permit or the holder.
    Attempt(AttemptId),
}

/// The result.
enum Outcome {
    /// The store has answered.
    Answer(Forced),
    /// The name is that of a semaphore, and no permit has the token.
    OtherPermits,
    /// A client of another library holds it, and the store cannot end that.
    Foreign,
    /// It holds, and the store cannot end it.
    Cannot(Box<Status>),
}

/// Ends the lease; returns 1 if it had ended by itself.
pub(crate) async fn force_release(
    args: &ForceReleaseArgs,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    let outcome = match Which::of(args) {
        Ok(which) => try_it(args, which, globals).await,
        Err(failure) => Err(failure),
    };
    if args.json {
        let object = object(args, &outcome);
        output::answer(format_args!("{}\n", sanitize::json(&object)))?;
    }
    let name = &args.name;
    let (text, code) = match outcome? {
        Outcome::Answer(Forced::Ended) => {
            let ended = match Which::of(args)? {
                Which::Token(token) => {
                    text!("the lease with token {} has ended", "令牌 {} 的租约已结束", token)
                }
                Which::Attempt(attempt) => {
                    text!("the lease of owner {} has ended", "尝试 {} 的租约已结束", attempt)
                }
            };
            (ended, 0)
        }
        Outcome::Answer(Forced::Other(current)) => {
            let token = args.token.unwrap_or_default();
            let text = match lang() {
                Lang::English => other(token, current),
                Lang::Chinese => other_in_chinese(token, current),
            };
            (text, code::CONFLICT)
        }
        Outcome::Answer(Forced::Several) => {
            let text = text!(
                "several permits have token {}, and nothing was changed; name one with --attempt",
                "有多个许可的令牌是 {}，没有任何改动；请用 --attempt 指定一个",
                args.token.unwrap_or_default()
            );
            (text, code::CONFLICT)
        }
        Outcome::Answer(_) if args.attempt.is_some() => {
            (text!("this owner does not hold it", "这个尝试没有持有它"), code::CONFLICT)
        }
        Outcome::Answer(_) => (text!("no client holds it", "没有客户端持有它"), code::CONFLICT),
        Outcome::OtherPermits => {
            let token = args.token.unwrap_or_default();
            let text = match lang() {
                Lang::English => other_permits(token),
                Lang::Chinese => format!(
                    "没有令牌是 {token} 的许可，没有任何改动；`leasehold status` 会列出许可"
                ),
            };
            (text, code::CONFLICT)
        }
        Outcome::Foreign => {
            let text = text!(
                "its holder is no client of Leasehold, and this store cannot end it by force; end its program, or the lock with \
                 the tools of its library",
                "持有者不是 Leasehold 的客户端，这个存储不能强制结束它；请结束它的程序，或用那个库的工具结束这把锁"
            );
            (text, code::CONFLICT)
        }
        Outcome::Cannot(status) => return Err(cannot(name, args.attempt, &status)),
    };
    if !args.json {
        voice.note(&text!("{}: {}", "{}：{}", name, text));
    }
    Ok(code)
}

impl Which {
    /// Returns what the command line names; exactly one is given.
    fn of(args: &ForceReleaseArgs) -> Result<Self, Failure> {
        match (args.attempt, args.token.and_then(Token::new)) {
            (Some(attempt), _) => Ok(Self::Attempt(attempt)),
            (None, Some(token)) => Ok(Self::Token(token)),
            (None, None) => Err(Failure::own(format!("--token: a token is 1 to {}", Token::MAX))),
        }
    }
}

async fn try_it(
    args: &ForceReleaseArgs,
    which: Which,
    globals: &Globals,
) -> Result<Outcome, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let store = Store::connect(globals, &config).await?;
    let forced = match which {
        Which::Token(token) => store.force_release(&args.name, token).await,
        Which::Attempt(attempt) => store.force_release_attempt(&args.name, attempt).await,
    };
    let outcome = match forced {
        // Some stores refuse the name of a latch, others find no holder.
        Err(failure) if failure.code != code::OWN => return Err(failure),
        Err(failure) => match store.status(&args.name).await {
            Ok(status) if status.state == State::Latch => return Err(is_a_latch(&status)),
            _ => return Err(failure),
        },
        Ok(Some(Forced::NotHeld)) => match store.status(&args.name).await {
            Ok(status) if status.state == State::Latch => return Err(is_a_latch(&status)),
            Ok(status) if status.state == State::Held && status.holder.is_none() => {
                Outcome::Foreign
            }
            Ok(status) if status.state == State::Permits && args.attempt.is_none() => {
                Outcome::OtherPermits
            }
            _ => Outcome::Answer(Forced::NotHeld),
        },
        Ok(Some(forced)) => Outcome::Answer(forced),
        // It may have ended by itself, and then nothing is left to do.
        Ok(None) => {
            let status = store.status(&args.name).await?;
            match (which, status.token) {
                _ if status.state == State::Latch => return Err(is_a_latch(&status)),
                _ if status.state == State::Free => Outcome::Answer(Forced::NotHeld),
                (Which::Attempt(attempt), _) if holder_of(&status, attempt).is_none() => {
                    Outcome::Answer(Forced::NotHeld)
                }
                (Which::Token(token), Some(current)) if current != token => {
                    Outcome::Answer(Forced::Other(current))
                }
                _ => Outcome::Cannot(Box::new(status)),
            }
        }
    };
    store.close().await;
    Ok(outcome)
}

/// Returns the holder that has this attempt, if it is shown.
fn holder_of(status: &Status, attempt: AttemptId) -> Option<&Holder> {
    let permits = status.permits.iter().flat_map(|permits| &permits.holders);
    let all = status.holder.iter().chain(&status.readers);
    all.chain(permits.map(|permit| &permit.holder)).find(|holder| holder.attempt == attempt)
}

fn other(token: u64, current: Token) -> String {
    let what = if token < current.get() { "has ended" } else { "was not granted yet" };
    format!("token {token} {what}; the current token is {current}, and nothing was changed")
}

fn other_in_chinese(token: u64, current: Token) -> String {
    let what = if token < current.get() { "已经结束" } else { "还没有授予过" };
    format!("令牌 {token} {what}；当前令牌是 {current}，没有任何改动")
}

fn is_a_latch(status: &Status) -> Failure {
    let name = &status.name;
    match (&status.latch, &status.note) {
        // A newer version wrote it.
        (None, Some(note)) => Failure::own(format!("{name}: {note}")),
        _ => Failure::own(format!("{name}: the name belongs to a latch, which no client holds"))
            .next("to begin its next generation: leasehold latch --reset"),
    }
}

fn other_permits(token: u64) -> String {
    format!(
        "no permit has token {token}, and nothing was changed; `leasehold status` shows the permits"
    )
}

fn cannot(name: &str, attempt: Option<AttemptId>, status: &Status) -> Failure {
    let failure = Failure::own(format!(
        "{name}: this store cannot end a lease by force; it is held while its process lives"
    ));
    let named = attempt.and_then(|attempt| holder_of(status, attempt));
    match named.or(status.holder.as_ref()) {
        Some(_) if named.is_none() && status.readers.len() > 1 => failure.next(format!(
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
            let token = args.token.unwrap_or_default();
            ("other", Some(current.get()), None, Some(other(token, *current)))
        }
        Ok(Outcome::Answer(Forced::Several)) => ("several", None, None, None),
        Ok(Outcome::OtherPermits) => {
            ("other", None, None, Some(other_permits(args.token.unwrap_or_default())))
        }
        Ok(Outcome::Answer(_)) => ("not-held", None, None, None),
        Ok(Outcome::Foreign) => ("foreign", None, None, None),
        Ok(Outcome::Cannot(status)) => {
            let current = status.token.map(|token| token.get());
            let named = args.attempt.and_then(|attempt| holder_of(status, attempt));
            let holder = named.or(status.holder.as_ref()).map(show::holder);
            let why = cannot(&args.name, args.attempt, status).message;
            ("unsupported", current, holder, Some(why))
        }
        Err(failure) => ("error", None, None, Some(failure.message.clone())),
    };
    json!({
        "name": args.name,
        "token": args.token,
        "attempt": args.attempt.map(|attempt| attempt.to_string()),
        "result": result,
        "current_token": current,
        "holder": holder,
        "message": message,
    })
}
