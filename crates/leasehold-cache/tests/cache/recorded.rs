//! What the crate `metrics` is given.

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};

/// Does this in a thread of its own, and says what was recorded there by the end: `name{label="value"}` with
/// its value. There is one look, since a look at a gauge sets it to nought.
pub(super) async fn recorded<T: Send + 'static>(
    work: impl AsyncFnOnce() -> T + Send + 'static,
) -> (BTreeMap<String, f64>, T) {
    let done = tokio::task::spawn_blocking(|| {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let work = runtime.block_on(work());
            let values = snapshotter.snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
                let labels = key.key().labels();
                let labels: Vec<String> =
                    labels.map(|label| format!("{}=\"{}\"", label.key(), label.value())).collect();
                let value = match value {
                    DebugValue::Counter(count) => count as f64,
                    DebugValue::Gauge(value) => value.into_inner(),
                    DebugValue::Histogram(_) => panic!("{key:?}"),
                };
                (format!("{}{{{}}}", key.key().name(), labels.join(",")), value)
            });
            (values.collect(), work)
        })
    });
    done.await.unwrap()
}
