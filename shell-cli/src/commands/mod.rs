//! One file per subcommand.

pub mod logits;
pub mod render;
pub mod size;
