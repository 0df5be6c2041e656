//! One file per subcommand.

pub mod size;
