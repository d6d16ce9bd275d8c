//! A mutex for each name, without an engine: waiting tasks lock it in order of arrival.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Name;

/// One first-come-first-served mutex for each name. An entry exists only while a task holds it or waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyedMutex(Arc<Mutex<HashMap<Name, Entry>>>);

#[derive(Debug)]
struct Entry {
    gate: Arc<Semaphore>,
    present: usize,
}

/// Holds the mutex of one name; the next task locks it when this is dropped.
#[derive(Debug)]
pub(crate) struct KeyedMutexGuard {
    _permit: OwnedSemaphorePermit,
    _registration: Registration,
}

/// Counts one task that holds the mutex of a name or waits for it.
#[derive(Debug)]
struct Registration {
    mutex: KeyedMutex,
    name: Name,
}

impl KeyedMutex {
    /// Locks the mutex of a name. Dropping the future leaves the queue.
    pub(crate) async fn lock(&self, name: &Name) -> KeyedMutexGuard {
        let gate = {
            let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = entries
                .entry(name.clone())
                .or_insert_with(|| Entry { gate: Arc::new(Semaphore::new(1)), present: 0 });
            entry.present += 1;
            entry.gate.clone()
        };
        let registration = Registration { mutex: self.clone(), name: name.clone() };
        match gate.acquire_owned().await {
            Ok(permit) => KeyedMutexGuard { _permit: permit, _registration: registration },
            Err(_closed) => std::future::pending().await, // The gate is never closed.
        }
    }

    /// Returns how many entries exist.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut entries = self.mutex.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(&self.name) {
            entry.present -= 1;
            if entry.present == 0 {
                entries.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_come_in_order_and_nothing_is_left_behind() {
        let mutex = KeyedMutex::default();
        let name = Name::new("n").unwrap();
        let first = mutex.lock(&name).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for i in 0..10 {
            let (mutex, name, order) = (mutex.clone(), name.clone(), order.clone());
            tasks.push(tokio::spawn(async move {
                let _guard = mutex.lock(&name).await;
                order.lock().unwrap().push(i);
            }));
            tokio::task::yield_now().await;
        }
        tasks.remove(3).abort();
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
        assert_eq!(mutex.len(), 0);
    }
}
