//! Where a tokenizer comes from: a `.slm` file, a Hugging Face folder, or a `tokenizer.json`.

use super::{Compiled, compile};
use crate::failure::{Failure, Kind};
use std::path::Path;
use tinyrustlm_core::container::Container;
use tinyrustlm_core::tokenizer::Tokenizer;

/// A tokenizer section in memory.
#[derive(Debug)]
pub struct Opened {
    section: Vec<u8>,
    /// What the compiler noted, when the section was compiled here.
    pub receipt: Option<serde_json::Value>,
}

impl Opened {
    /// The checked tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer<'_>, Failure> {
        Tokenizer::parse(&self.section).map_err(|error| {
            Failure::new(Kind::Malformed, format!("tokenizer section: {error} ({})", error.code().name()))
        })
    }
}

/// Opens a model's tokenizer. Sources are compiled in memory, and the core's own tables are what runs.
pub fn open(path: &Path) -> Result<Opened, Failure> {
    let io = |error: std::io::Error, path: &Path| Failure::new(Kind::Io, format!("{}: {error}", path.display()));
    let file = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
    let bytes = std::fs::read(&file).map_err(|error| io(error, &file))?;
    if bytes.starts_with(b"SLM1") {
        let container = Container::parse(&bytes).map_err(|error| {
            Failure::new(Kind::Malformed, format!("{}: {error} ({})", file.display(), error.code().name()))
        })?;
        return Ok(Opened { section: container.tokenizer().to_vec(), receipt: None });
    }
    let Compiled { section, receipt, .. } = compile(&bytes)?;
    Ok(Opened { section, receipt: Some(receipt) })
}
