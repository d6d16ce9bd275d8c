//! Releases a lease or an attempt, and may acquire with another attempt in the same step.

use leasehold_core::backend::{Answer, Ended, Mode, ReleaseRequest};
use leasehold_core::{AttemptId, Forced, Name, Result, Token};
use redis::Value;

use crate::backend::RedisBackend;
use crate::call_limit::LIMITS;
use crate::error::strange;
use crate::reply::{self, Reply};
use crate::request::{self, Operation, Request};
use crate::semaphore::end_of_none;
use crate::shared;

impl RedisBackend {
    /// Releases, and asks for the next attempt if the request names one.
    pub(crate) async fn end(&self, mut release: ReleaseRequest) -> Result<Ended> {
        if let Some(request) = &mut release.then {
            request.wait &= self.is_heard();
        }
        let then = release.then.as_deref();
        request::fits("keep", release.keep.unwrap_or_default())?;
        then.map_or(Ok(()), request::acquire_fits)?;
        let ended = release.attempt;
        // A granted lease is not in the queue, unless a request is still on its way.
        let queued = (release.base.is_none() || release.suspect).then_some(ended);
        // From now on it neither waits nor holds, even if no answer arrives.
        let member = queued.and_then(|attempt| self.waiters.end(attempt, self.clock.now()));
        if let Some(replicas) = &self.replicas {
            replicas.forget(ended);
        }
        let mut limit = LIMITS.1;
        let mut entered = None;
        if let Some(request) = then.filter(|request| request.wait) {
            limit = self.subscribed(limit).await?;
            entered = self.waiters.enter(request).then_some(request.attempt);
        }
        let secured = then.and_then(|request| self.to_secure(request));
        let then = then.map(|request| (request.attempt, request.wait, self.clock.now()));
        let (name, mode) = (release.name.clone(), release.mode);
        let request = Request { what: Operation::Release(release, member), limit };
        let reply = self.route.send(&self.keys, request).await.inspect_err(|error| {
            // It is certainly not queued, and no task will end it.
            if let Some(attempt) = entered.filter(|_| error.kind().is_certain()) {
                self.waiters.leave(attempt);
            }
        })?;
        if reply.more {
            self.clear_queue(name, mode);
        }
        if let Some(attempt) = queued {
            self.waiters.leave(attempt);
        }
        let verdict = reply.verdict;
        let Some(((attempt, wait, sent), answer)) = then.zip(reply.answer) else {
            return Ok(Ended::new(verdict, None));
        };
        let mut answer = self.note(attempt, wait, sent, answer);
        if let Some(lease) = secured {
            answer = match Box::pin(self.secure_answer(lease, attempt, answer)).await {
                // The caller makes another attempt, which gets the reason itself.
                Err(error) if error.kind().is_certain() => Answer::Ended,
                answer => answer?,
            };
        }
        Ok(Ended::new(verdict, Some(answer)))
    }

    /// Lets the server continue with a free lock whose queue has more dead waiters than one call
    /// removes. If this ends early, the timers of the waiters continue.
    pub(crate) fn clear_queue(&self, name: Name, mode: Mode) {
        let Some(client) = self.client.get() else { return };
        let (route, keys) = (self.route.clone(), self.keys.clone());
        // No attempt has this id, so the call ends nothing.
        let attempt = AttemptId::new(*client, 0, 0);
        let release = end_of_none(ReleaseRequest::new(name, attempt), mode);
        tokio::spawn(async move {
            loop {
                let request =
                    Request { what: Operation::Release(release.clone(), None), limit: LIMITS.1 };
                match route.send(&keys, request).await {
                    Ok(Reply { more: true, .. }) => {}
                    Ok(_) => return,
                    Err(error) => {
                        tracing::debug!(name = %release.name, %error, "cannot remove all dead \
                                                                       waiters of the queue");
                        return;
                    }
                }
            }
        });
    }

    /// Ends a lease by force if its token is `token`.
    pub(crate) async fn end_lease(&self, name: &Name, token: Token) -> Result<Forced> {
        let key = self.keys.of(name);
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.route.scripts().force_release.hash()).arg(1).arg(&key);
        command.arg(format!("{:016}", token.get()));
        let mut answer = self.route.run(&key, &command, LIMITS.1).await?;
        if matches!(&answer, Value::BulkString(text) if text == b"XK") {
            return self.end_permit(name, token).await;
        }
        if matches!(&answer, Value::BulkString(text) if text == b"XS") {
            let scripts = self.route.scripts();
            let command = shared::force_release(scripts, &self.keys, name, token);
            answer = self.route.run(&key, &command, LIMITS.1).await?;
        }
        self.forced(name, answer)
    }

    /// Ends the lease of one reader by force.
    pub(crate) async fn end_reader(&self, name: &Name, attempt: AttemptId) -> Result<Forced> {
        let (key, scripts) = (self.keys.of(name), self.route.scripts());
        let command = shared::force_release_attempt(scripts, &self.keys, name, attempt);
        let answer = self.route.run(&key, &command, LIMITS.1).await?;
        self.forced(name, answer)
    }

    /// Reads the answer to a forced release.
    fn forced(&self, name: &Name, answer: Value) -> Result<Forced> {
        let key = self.keys.of(name);
        match answer {
            Value::BulkString(answer) => match answer.as_slice() {
                [answer @ (b'e' | b'n')] => {
                    self.clear_queue(name.clone(), Mode::Exclusive);
                    Ok(if *answer == b'e' { Forced::Ended } else { Forced::NotHeld })
                }
                b"E" => Ok(Forced::Ended),
                b"N" => Ok(Forced::NotHeld),
                [b'O', base @ ..] => {
                    Ok(Forced::Other(reply::token(&String::from_utf8_lossy(base))?))
                }
                [b'X', why, ..] => Err(crate::error::foreign(*why, &key)),
                other => Err(strange(other)),
            },
            other => Err(strange(other)),
        }
    }
}
