//! The stories of the well-known articles on locks, played in the simulator with their own numbers; of caches,
//! read-write locks and semaphores; and the table of what every set-up does under every kind of trouble.

mod base;
mod cache;
mod matrix;
mod page;
mod picture;
mod practice;
mod primitives;
mod signs;
mod stories;
mod tale;
mod text;
mod walk;
mod words;

pub use cache::{CacheStory, CacheTale, cache_stories, draw_cache};
pub use matrix::{Cell, legend, markdown, matrix, picture as matrix_picture, table};
pub use page::tables;
pub use picture::draw;
pub use practice::Practice;
pub use primitives::{
    Hold, PrimitiveStory, PrimitiveTale, Want, draw_primitive, primitive_stories,
};
pub use stories::{Story, stories};
pub use tale::{Tale, stamp};
pub use text::{Language, Text};
pub use walk::{Step, walk, walked};
pub use words::about;
