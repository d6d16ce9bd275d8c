//! The parameters of a request, of which unknown ones are refused.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use http::request::Parts;

use crate::duration;
use crate::problem::Problem;

/// The parameters of the query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(BTreeMap<String, String>);

impl Params {
    /// Takes pairs, each name at most once.
    pub(crate) fn new(pairs: Vec<(String, String)>) -> Result<Self, Problem> {
        let mut all = BTreeMap::new();
        for (name, value) in pairs {
            if all.insert(name.clone(), value).is_some() {
                return Err(Problem::invalid(format!("{name}: the parameter occurs twice")));
            }
        }
        Ok(Self(all))
    }

    /// Refuses parameters that are not in this list.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Problem> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Problem::invalid(format!(
                "{name:?}: the parameter is unknown; {}",
                match known {
                    [] => "this request takes none".to_owned(),
                    known => format!("use {}", known.join(", ")),
                }
            ))),
        }
    }

    /// Returns a parameter; `None` if it is absent or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns a duration of at least `least`.
    pub(crate) fn duration(
        &self,
        name: &str,
        default: Duration,
        least: Duration,
    ) -> Result<Duration, Problem> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => duration::parse(name, text, least).map_err(Problem::invalid),
        }
    }

    /// Returns a whole number; `None` if it is absent.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u32>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            Problem::invalid(format!("{name}: {text:?} is not a whole number in the allowed range"))
        })
    }

    /// Returns one of these words; the first one is the default.
    pub(crate) fn word<'a>(&self, name: &str, words: &[&'a str]) -> Result<&'a str, Problem> {
        let Some(text) = self.get(name) else { return Ok(words.first().copied().unwrap_or("")) };
        words.iter().copied().find(|word| *word == text).ok_or_else(|| {
            Problem::invalid(format!("{name}: {text:?} is unknown; use {}", words.join(" or ")))
        })
    }

    /// Returns all pairs, in the order of their names.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let pairs = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Query(pairs) = pairs.map_err(|error| {
            Problem::invalid(format!("the query cannot be read: {}", error.body_text()))
        })?;
        Self::new(pairs)
    }
}
