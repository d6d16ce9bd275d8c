//! Answers for keys that cannot have a value, before Redis and the loader are asked.

use std::fmt;
use std::sync::Arc;

use crate::bloom::{self, Answer};
use crate::stats::Counters;

/// What knows of keys that they have no value.
///
/// A key must be added to it before its row is committed: what is [`Answer::Absent`] is not looked
/// for anywhere. [`Answer::Unavailable`] changes nothing.
#[derive(Clone)]
pub struct Filter(Kind);

#[derive(Clone)]
enum Kind {
    Local(Arc<bloom::Local>),
    Redis(bloom::Redis),
    By(Arc<dyn Fn(&str) -> Answer + Send + Sync>),
}

impl Filter {
    /// One of the program's own: it is asked for the text of the key.
    pub fn by(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        Self(Kind::By(Arc::new(answer)))
    }
}

impl From<Arc<bloom::Local>> for Filter {
    fn from(filter: Arc<bloom::Local>) -> Self {
        Self(Kind::Local(filter))
    }
}

impl From<bloom::Redis> for Filter {
    fn from(filter: bloom::Redis) -> Self {
        Self(Kind::Redis(filter))
    }
}

/// Whether the key of this text can have a value by its form.
type Form = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Who stands before the cache.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    pub(crate) form: Option<Form>,
    pub(crate) filter: Option<Filter>,
}

impl Gate {
    /// Whether the key can have a value by its form.
    pub(crate) fn has_form(&self, key: &str, counters: &Counters) -> bool {
        let has = self.form.as_ref().is_none_or(|form| form(key));
        if !has {
            counters.malformed.add();
        }
        has
    }

    /// Which of the keys the filter says have no value.
    pub(crate) async fn absent(&self, keys: &[&str], counters: &Counters) -> Vec<bool> {
        let answers = match &self.filter {
            None => return vec![false; keys.len()],
            Some(Filter(Kind::Local(filter))) => keys.iter().map(|key| filter.check(key)).collect(),
            Some(Filter(Kind::Redis(filter))) => filter.check_many(keys).await,
            Some(Filter(Kind::By(answer))) => keys.iter().map(|key| answer(key)).collect(),
        };
        let absent = answers.into_iter().map(|answer| {
            match answer {
                Answer::Absent => counters.filtered.add(),
                Answer::Unavailable => counters.filter_unavailable.add(),
                Answer::Maybe => {}
            }
            answer == Answer::Absent
        });
        absent.collect()
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Local(filter) => filter.fmt(f),
            Kind::Redis(filter) => filter.fmt(f),
            Kind::By(_) => f.write_str("By"),
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = self.form.is_some();
        f.debug_struct("Gate").field("form", &form).field("filter", &self.filter).finish()
    }
}
