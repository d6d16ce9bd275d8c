//! Values that have a number while they exist.

/// A table of values; the number of a removed value is used again.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds a value, and returns its number.
    pub(super) fn insert(&mut self, thing: T) -> usize {
        match self.free.pop() {
            Some(at) => {
                if let Some(place) = self.places.get_mut(at) {
                    *place = Some(thing);
                }
                at
            }
            None => {
                self.places.push(Some(thing));
                self.places.len() - 1
            }
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.places.get(at)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.places.get_mut(at)?.as_mut()
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<T> {
        let thing = self.places.get_mut(at)?.take()?;
        self.free.push(at);
        Some(thing)
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the numbers of all values.
    pub(super) fn numbers(&self) -> Vec<usize> {
        (0..self.places.len()).filter(|at| self.get(*at).is_some()).collect()
    }
}
