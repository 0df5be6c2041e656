//! What the benchmarks share.
//!
//! Machines are shared and drift. What is compared takes turns within each round, so that a disturbance meets all alike;
//! printed are medians over the rounds, and a ratio is the median of the ratios within a round.

mod data;
mod layer;
mod sets;
mod table;
mod turns;

pub use data::{Random, weights};
pub use layer::{DIM, HEADS, HIDDEN, KV_HEADS, one_layer};
pub use sets::{instruction_set, instruction_sets};
pub use table::Table;
pub use turns::{Turns, calls, seconds_each, timed};
