//! What a client of the API asks for: a lock alone or with readers, slots of a semaphore, or to lead.

use std::time::Duration;

use leasehold::{Client, Error, ErrorKind};

use crate::keeper::Held;
use crate::params::Params;
use crate::problem::Problem;
use crate::silence;

/// What an acquire asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The lock.
    Alone,
    /// The lock, with other readers.
    Shared,
    /// This many slots of a semaphore with this limit.
    Slots { limit: u32, weight: u32 },
    /// To lead, with the value that observers see.
    Lead,
}

impl Asked {
    /// Reads the parameters `mode`, `limit`, `weight` and `candidate`. No parameter but `metadata` may
    /// be empty: without its value, the request would ask for something else.
    pub(crate) fn new(params: &Params) -> Result<Self, Problem> {
        let mut pairs = params.pairs();
        if let Some((name, _)) = pairs.find(|(name, value)| value.is_empty() && *name != "metadata")
        {
            return Err(Problem::invalid(format!(
                "{name}: the value is empty; write one, or leave the parameter out"
            )));
        }
        let mode = params.word("mode", &["exclusive", "shared"])?;
        let (limit, weight) = (params.number("limit")?, params.number("weight")?);
        let given = |name| params.get(name).is_some();
        let excluded: &[&str] = match (limit, given("candidate")) {
            (Some(_), _) => &["mode", "candidate"],
            (None, true) => &["mode", "weight", "metadata"],
            (None, false) => &["weight"],
        };
        if let Some(other) = excluded.iter().find(|name| given(name)) {
            return Err(Problem::invalid(match limit {
                Some(_) => format!("{other}: a permit of a semaphore has none; leave it out"),
                None if *other == "weight" => {
                    "weight: it needs limit, the limit of the semaphore".to_owned()
                }
                None => format!("{other}: a candidate has none; leave it out"),
            }));
        }
        Ok(match limit {
            Some(limit) => Self::Slots { limit, weight: weight.unwrap_or(1) },
            None if given("candidate") => Self::Lead,
            None if mode == "shared" => Self::Shared,
            None => Self::Alone,
        })
    }

    /// Returns true if the requests of this server have one place in the queue of the store.
    pub(crate) fn shares_a_place(&self) -> bool {
        !matches!(self, Self::Slots { .. })
    }

    /// Acquires it. `metadata` is what others see about the holder. The error of a wait that has timed
    /// out is [`Timeout`](ErrorKind::Timeout) only if the lock is taken, as far as the store says.
    pub(crate) async fn acquire(
        self,
        client: &Client,
        name: &str,
        (ttl, wait): (Duration, Duration),
        metadata: String,
    ) -> Result<Held, Error> {
        match self.ask(client, name, (ttl, wait), metadata).await {
            Err(error) if error.kind() == ErrorKind::Timeout && !wait.is_zero() => {
                Err(silence::explain(client, name, error).await)
            }
            asked => asked,
        }
    }

    async fn ask(
        self,
        client: &Client,
        name: &str,
        (ttl, wait): (Duration, Duration),
        metadata: String,
    ) -> Result<Held, Error> {
        Ok(match self {
            Self::Alone => {
                let lock = client.lock(name).ttl(ttl).metadata(metadata);
                Held::Alone(lock.acquire_within(wait).await?)
            }
            Self::Shared => {
                let lock = client.rw_lock(name).ttl(ttl).metadata(metadata);
                Held::Shared(lock.read_within(wait).await?)
            }
            Self::Slots { limit, weight } => {
                let semaphore = client.semaphore(name, limit).ttl(ttl).metadata(metadata);
                Held::Permit(semaphore.acquire_many_within(weight, wait).await?)
            }
            // The lock of an election: no term is handed on in this process.
            Self::Lead => {
                let lock = client.election(name).ttl(ttl).candidate(metadata).lock()?;
                Held::Alone(lock.acquire_within(wait).await?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &[(&str, &str)]) -> Result<Asked, Problem> {
        let pair = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Asked::new(&Params::new(query.iter().map(pair).collect())?)
    }

    #[test]
    fn each_kind_has_its_parameters_and_refuses_those_of_the_others() {
        assert_eq!(asked(&[]).unwrap(), Asked::Alone);
        assert_eq!(asked(&[("metadata", "")]).unwrap(), Asked::Alone);
        assert_eq!(asked(&[("mode", "shared")]).unwrap(), Asked::Shared);
        assert_eq!(asked(&[("limit", "4")]).unwrap(), Asked::Slots { limit: 4, weight: 1 });
        let many = asked(&[("limit", "4"), ("weight", "2"), ("metadata", "x")]).unwrap();
        assert_eq!(many, Asked::Slots { limit: 4, weight: 2 });
        assert_eq!(asked(&[("candidate", "a:1")]).unwrap(), Asked::Lead);
        for (wrong, named) in [
            (&[("weight", "2")][..], "weight"),
            (&[("limit", "4"), ("mode", "shared")], "mode"),
            (&[("limit", "4"), ("candidate", "a")], "candidate"),
            (&[("candidate", "a"), ("mode", "exclusive")], "mode"),
            (&[("candidate", "a"), ("metadata", "b")], "metadata"),
            (&[("candidate", "")], "candidate: the value is empty"),
            (&[("limit", "")], "limit: the value is empty"),
            (&[("ttl", "")], "ttl: the value is empty"),
            (&[("limit", "four")], "limit"),
            (&[("limit", "-1")], "limit"),
            (&[("limit", "4"), ("weight", "99999999999")], "weight"),
        ] {
            let problem = asked(wrong).unwrap_err();
            assert!(problem.detail().starts_with(named), "{wrong:?}: {}", problem.detail());
            assert_eq!(problem.status(), 400);
        }
    }
}
