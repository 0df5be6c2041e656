//! One file per subcommand.

pub mod bench;
pub mod chat;
pub mod convert;
pub mod detokenize;
pub mod inspect;
pub mod lines;
pub mod logits;
pub mod render;
pub mod run;
pub mod size;
pub mod tokenize;
