//! Local queues without an engine: of the tasks that wait for one lock, the first one goes on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Name;

/// First-come-first-served queues, one for each name. A queue exists only while a task is in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Mutex<HashMap<Name, Line>>>);

#[derive(Debug)]
struct Line {
    gate: Arc<Semaphore>,
    present: usize,
}

/// The right to go on; the next task gets it when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: OwnedSemaphorePermit,
    _place: Place,
}

/// The place of a task in a queue, waiting or at the front.
#[derive(Debug)]
struct Place {
    turns: Turns,
    name: Name,
}

impl Turns {
    /// Waits for the turn. Dropping the future leaves the queue.
    pub(crate) async fn enter(&self, name: &Name) -> Turn {
        let gate = {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let line = lines
                .entry(name.clone())
                .or_insert_with(|| Line { gate: Arc::new(Semaphore::new(1)), present: 0 });
            line.present += 1;
            line.gate.clone()
        };
        let place = Place { turns: self.clone(), name: name.clone() };
        match gate.acquire_owned().await {
            Ok(permit) => Turn { _permit: permit, _place: place },
            Err(_closed) => std::future::pending().await, // The gate is never closed.
        }
    }

    /// Returns how many queues exist.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get_mut(&self.name) {
            line.present -= 1;
            if line.present == 0 {
                lines.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_come_in_order_and_nothing_is_left_behind() {
        let turns = Turns::default();
        let name = Name::new("n").unwrap();
        let first = turns.enter(&name).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for i in 0..10 {
            let (turns, name, order) = (turns.clone(), name.clone(), order.clone());
            tasks.push(tokio::spawn(async move {
                let _turn = turns.enter(&name).await;
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
        assert_eq!(turns.len(), 0);
    }
}
