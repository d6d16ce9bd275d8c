//! Renews permits, and reads and changes the limit of a semaphore.

use futures_util::future::join_all;
use leasehold_core::backend::{
    LimitChange, LimitChanged, Mode, Renewal, Renewed, StoredLimit, is_a_latch, is_a_lock,
};
use leasehold_core::proto::semaphore::Conflict;
use leasehold_core::{AttemptId, Forced, Name, Result, Token};
use redis::Value;

use crate::backend::RedisBackend;
use crate::batcher::text;
use crate::call_limit::{LIMITS, limit};
use crate::error::strange;
use crate::reply::permit::{is_record, limit_in, of_semaphore, stored_limit};
use crate::semaphore::{command, renewal};
use crate::{latch, reply, request};

/// The most renewals in one call.
const RENEWALS: usize = 256;

impl RedisBackend {
    /// Renews permits, those of one semaphore in calls of at most [`RENEWALS`].
    pub(crate) async fn renew_permits(&self, leases: &[&Renewal]) -> Vec<Result<Renewed>> {
        let mut by_name: Vec<usize> = (0..leases.len()).collect();
        by_name.sort_by_key(|&number| &leases[number].name);
        let groups = by_name.chunk_by(|&one, &next| leases[one].name == leases[next].name);
        let calls: Vec<&[usize]> = groups.flat_map(|group| group.chunks(RENEWALS)).collect();
        let renewing = calls.iter().map(|call| async move {
            let leases: Vec<&Renewal> = call.iter().map(|&number| leases[number]).collect();
            self.renew_together(&leases).await
        });
        let mut answers: Vec<Result<Renewed>> = Vec::new();
        answers.resize_with(leases.len(), || Err(strange("no answer to a renewal")));
        for (call, renewed) in calls.iter().zip(join_all(renewing).await) {
            match renewed {
                Ok(renewed) => call.iter().zip(renewed).for_each(|(&at, one)| answers[at] = one),
                Err(error) => call.iter().for_each(|&at| answers[at] = Err(error.clone())),
            }
        }
        answers
    }

    /// Renews permits of one semaphore.
    async fn renew_together(&self, leases: &[&Renewal]) -> Result<Vec<Result<Renewed>>> {
        let Some(first) = leases.first() else { return Ok(Vec::new()) };
        leases.iter().try_for_each(|lease| request::fits("ttl", lease.ttl))?;
        let shortest = leases.iter().map(|lease| lease.ttl).min().unwrap_or_default();
        let scripts = self.route.scripts();
        let command = renewal(scripts, &self.keys, &first.name, leases.iter().copied());
        let key = self.keys.of(&first.name);
        let answer = text(self.route.run(&key, &command, limit(shortest)).await?)?;
        if answer.len() != leases.len() {
            return Err(strange(answer));
        }
        let renewed = |letter| match letter {
            'R' => Ok(Renewed::Renewed),
            'L' => Ok(Renewed::Lost),
            other => Err(strange(other)),
        };
        Ok(answer.chars().map(renewed).collect())
    }

    /// Reads the limit of a semaphore.
    pub(crate) async fn stored_limit(&self, name: &Name) -> Result<Option<StoredLimit>> {
        let key = self.keys.of(name);
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.route.scripts().status.hash()).arg(1).arg(&key);
        let Value::Array(answers) = self.route.run(&key, &command, LIMITS.1).await? else {
            return Err(strange("status is not an array"));
        };
        match answers.first() {
            Some(Value::Nil) => Ok(None),
            Some(Value::BulkString(record)) => {
                let record = String::from_utf8_lossy(record);
                match record.as_bytes() {
                    _ if is_record(&record) => limit_in(&record).map(Some),
                    bytes if bytes.starts_with(latch::KIND) => Err(is_a_latch()),
                    [b'L', b'1' | b'2', ..] if record.len() >= reply::FIXED => Err(is_a_lock()),
                    [b'L' | b'S', b'3'..=b'9', ..] | [b'S', b'2', ..] => {
                        Err(of_semaphore(b'V', &key))
                    }
                    _ => Err(of_semaphore(b'F', &key)),
                }
            }
            other => Err(strange(other)),
        }
    }

    /// Changes the limit of a semaphore, and serves its queue.
    pub(crate) async fn change_limit(&self, change: LimitChange) -> Result<LimitChanged> {
        let LimitChange { name, version, limit, .. } = &change;
        let (key, word) = (self.keys.of(name), format!("{version:016}{:05}", limit.get()));
        let command =
            command(&self.route.scripts().semaphore_acquire, &self.keys, name, &["L", &word]);
        let answer = text(self.route.run_patiently(&key, &command, false, LIMITS.1).await?)?;
        let rest = answer.get(1..).unwrap_or_default();
        match answer.as_bytes() {
            [letter @ (b'S' | b's'), ..] => {
                if *letter == b's' {
                    self.clear_queue(name.clone(), Mode::Permit);
                }
                Ok(LimitChanged::Changed(reply::number(rest)?))
            }
            [b'C', ..] => {
                let (limit, version) = rest.split_at_checked(5).ok_or_else(|| strange(&answer))?;
                let version = reply::number(version)?;
                let limit = (version > 0).then(|| stored_limit(limit)).transpose()?;
                Ok(LimitChanged::Conflict(Conflict { limit, version }))
            }
            [b'X', why, ..] => Err(of_semaphore(*why, &key)),
            _ => Err(strange(answer)),
        }
    }

    /// Ends the permit with this token by force.
    pub(crate) async fn end_permit(&self, name: &Name, token: Token) -> Result<Forced> {
        self.force_permit(name, "F", &format!("{:016}-", token.get())).await
    }

    /// Ends the permit of one attempt by force.
    pub(crate) async fn end_permit_of(&self, name: &Name, attempt: AttemptId) -> Result<Forced> {
        self.force_permit(name, "O", &attempt.to_string()).await
    }

    async fn force_permit(&self, name: &Name, operation: &str, word: &str) -> Result<Forced> {
        let (key, words) = (self.keys.of(name), [operation, word]);
        let command = command(&self.route.scripts().semaphore, &self.keys, name, &words);
        let answer = text(self.route.run(&key, &command, LIMITS.1).await?)?;
        match answer.as_bytes() {
            b"e" => {
                self.clear_queue(name.clone(), Mode::Permit);
                Ok(Forced::Ended)
            }
            b"E" => Ok(Forced::Ended),
            b"N" => Ok(Forced::NotHeld),
            b"M" => Ok(Forced::Several),
            [b'X', why, ..] => Err(of_semaphore(*why, &key)),
            _ => Err(strange(answer)),
        }
    }
}
