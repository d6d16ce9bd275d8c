//! The two runtimes that everything is measured on.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

use crate::Result;

/// A kind of tokio runtime.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Flavour {
    /// Two threads, on every machine, so that figures can be compared.
    Multi,
    /// The current thread alone.
    Current,
}

impl Flavour {
    /// As the JSON has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Multi => "multi",
            Self::Current => "current",
        }
    }

    fn build(self) -> Result<Runtime> {
        let mut builder = match self {
            Self::Multi => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(2);
                builder
            }
            Self::Current => Builder::new_current_thread(),
        };
        Ok(builder.enable_all().build()?)
    }

    /// Runs a future as a task of a new runtime of this kind.
    pub(crate) fn run<T: Send + 'static>(
        self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.build()?.block_on(async { tokio::spawn(future).await? })
    }
}
