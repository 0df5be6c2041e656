//! Whether a model is mapped or copied into huge pages.

use crate::failure::{Failure, Kind};
use std::path::Path;
use tinyrustlm::{Backing, ModelFile};

/// The option of every command that computes.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct PagesArgs {
    /// Copy the model into huge pages, which are faster to read, instead of mapping it. Changes no bit.
    #[arg(long, value_enum, default_value_t = HugePages::Auto, num_args = 0..=1, default_missing_value = "on")]
    huge_pages: HugePages,
}

/// When to copy.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, Debug)]
enum HugePages {
    /// Where the work is long enough to pay for the copy, and memory is free.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl PagesArgs {
    /// Opens a model whose weights will be read about `passes` times.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(self, path: &Path, passes: usize) -> Result<ModelFile, Failure> {
        let named = |error: std::io::Error| Failure::new(Kind::Io, format!("{}: {error}", path.display()));
        let backing = match self.huge_pages {
            HugePages::On => Backing::HugePages,
            HugePages::Off => Backing::Mapped,
            HugePages::Auto => Backing::fastest(std::fs::metadata(path).map_err(named)?.len(), passes),
        };
        ModelFile::open_as(path, backing).map_err(named)
    }
}
