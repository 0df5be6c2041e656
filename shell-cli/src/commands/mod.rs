//! One file per subcommand.

pub mod logits;
pub mod render;
pub mod size;
pub mod detokenize;
pub mod lines;
pub mod tokenize;
