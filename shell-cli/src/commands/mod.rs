//! One file per subcommand.

pub mod detokenize;
pub mod lines;
pub mod logits;
pub mod render;
pub mod size;
pub mod tokenize;
