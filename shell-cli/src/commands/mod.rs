//! One file per subcommand.

pub mod logits;
pub mod size;
