//! Opens the template of a `.slm` file or of a Hugging Face folder.

use super::{compile, from_folder};
use crate::failure::{Failure, Kind};
use std::path::Path;
use tinyrustlm_core::container::Container;
use tinyrustlm_core::template::Template;

/// A template section in memory, and the file it may be a part of.
#[derive(Debug)]
pub struct Opened {
    section: Vec<u8>,
}

impl Opened {
    /// The checked template; empty where the model has none.
    pub fn template(&self) -> Result<Template<'_>, Failure> {
        Template::parse(&self.section).map_err(|error| {
            Failure::new(Kind::Malformed, format!("template section: {error} ({})", error.code().name()))
        })
    }
}

/// Compiles a Jinja file, with the variables of the folder `model` where there is one.
pub fn open_file(path: &Path, model: Option<&Path>) -> Result<Opened, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::new(Kind::Io, format!("{}: {error}", path.display())))?;
    let source = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(Kind::Malformed, format!("{}: not UTF-8 at byte {at}", path.display()))
    })?;
    let variables = match model {
        Some(dir) if dir.is_dir() => super::folder::variables(dir)?,
        _ => serde_json::Map::new(),
    };
    Ok(Opened { section: compile(&source, "", &variables)?.section })
}

/// Opens a model's template. Of a folder with several, `wanted` picks one.
pub fn open(path: &Path, wanted: Option<&str>) -> Result<Opened, Failure> {
    if path.is_dir() {
        let Some(choice) = from_folder(path, wanted)? else { return Ok(Opened { section: Vec::new() }) };
        return Ok(Opened { section: compile(&choice.source, &choice.name, &choice.variables)?.section });
    }
    let bytes = std::fs::read(path).map_err(|error| Failure::new(Kind::Io, format!("{}: {error}", path.display())))?;
    if !bytes.starts_with(b"SLM1") {
        let message = format!("{}: not a .slm file; give a folder, a .slm file or --template", path.display());
        return Err(Failure::new(Kind::Usage, message));
    }
    let container = Container::parse(&bytes).map_err(|error| {
        Failure::new(Kind::Malformed, format!("{}: {error} ({})", path.display(), error.code().name()))
    })?;
    let section = container.find("@template").map_or(Vec::new(), |index| container.payload(index).to_vec());
    Ok(Opened { section })
}
