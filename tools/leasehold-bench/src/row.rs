//! One measured figure, and the setup that it was measured in.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::metric::Metric;
use crate::runtime::Flavour;

/// What was measured, on what.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Setup {
    pub(crate) bench: &'static str,
    /// `leasehold`, a peer's package name, or `raw` for the limit.
    pub(crate) subject: &'static str,
    pub(crate) backend: String,
    pub(crate) runtime: Flavour,
    pub(crate) processes: usize,
    pub(crate) tasks: usize,
    /// Further keys, such as `hold_ms` or `locks`; they stand at the end of a line of JSON.
    #[serde(skip)]
    pub(crate) extra: BTreeMap<&'static str, Value>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) setup: Setup,
    pub(crate) metric: Metric,
    pub(crate) value: f64,
}

impl Setup {
    /// Leasehold, in one process with one task, without further keys.
    pub(crate) fn new(bench: &'static str, backend: &str, runtime: Flavour) -> Self {
        Self {
            bench,
            subject: "leasehold",
            backend: backend.to_owned(),
            runtime,
            processes: 1,
            tasks: 1,
            extra: BTreeMap::new(),
        }
    }

    /// With a further key.
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.extra.insert(key, value.into());
        self
    }

    /// A figure of this setup.
    pub(crate) fn row(&self, metric: Metric, value: f64) -> Row {
        Row { setup: self.clone(), metric, value }
    }
}
