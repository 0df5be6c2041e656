//! Which template a Hugging Face folder means, and what its variables are.

use crate::failure::{Failure, Kind};
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

/// The template of a folder.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The text as published.
    pub source: String,
    /// Its name among several; empty for the only one.
    pub name: String,
    /// The file or key it came from.
    pub origin: String,
    /// Names of the others that were not taken.
    pub others: Vec<String>,
    /// Special tokens, as the reference gives them to every rendering.
    pub variables: Map<String, Value>,
}

fn read_json(path: &Path) -> Result<Option<Value>, Failure> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| Failure::new(Kind::Malformed, format!("{}: {error}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::new(Kind::Io, format!("{}: {error}", path.display()))),
    }
}

fn read_text(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                Err(Failure::new(Kind::Malformed, format!("{}: not UTF-8 at byte {at}", path.display())))
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::new(Kind::Io, format!("{}: {error}", path.display()))),
    }
}

/// Text of a special token: a string, or an object with `content`.
fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// The special tokens as variables: every key of the configuration that ends in `_token` and holds a text.
/// `special_tokens_map.json` fills what the configuration leaves out.
pub(super) fn variables(dir: &Path) -> Result<Map<String, Value>, Failure> {
    let mut variables = Map::new();
    for file in ["tokenizer_config.json", "special_tokens_map.json"] {
        let Some(Value::Object(members)) = read_json(&dir.join(file))? else { continue };
        for (name, value) in members.iter().filter(|(name, _)| name.ends_with("_token")) {
            if let (false, Some(text)) = (variables.contains_key(name), token_text(value)) {
                variables.insert(name.clone(), Value::from(text));
            }
        }
    }
    Ok(variables)
}

/// Finds the template of a folder: `chat_template.jinja` (with those of `additional_chat_templates`) wins over the key
/// `chat_template` of `tokenizer_config.json`, which wins over `chat_template.json`. `wanted` picks one of several by its
/// name; without it the one called `default` is taken. `None` when the folder has no template.
///
/// # Errors
/// Several templates without a default, a name that is not there, files that cannot be read.
pub fn from_folder(dir: &Path, wanted: Option<&str>) -> Result<Option<Choice>, Failure> {
    let config = read_json(&dir.join("tokenizer_config.json"))?.unwrap_or(Value::Null);
    let mut found: Vec<(String, String)> = Vec::new();
    let mut origin = "chat_template.jinja";
    let mut only = false;
    if let Some(source) = read_text(&dir.join(origin))? {
        found.push(("default".to_owned(), source));
        only = true;
    }
    if let Ok(entries) = fs::read_dir(dir.join("additional_chat_templates")) {
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.iter().filter(|path| path.extension().is_some_and(|ext| ext == "jinja")) {
            if let (Some(name), Some(source)) = (path.file_stem().and_then(|s| s.to_str()), read_text(path)?) {
                found.push((name.to_owned(), source));
                only = false;
            }
        }
    }
    if found.is_empty() {
        let json = read_json(&dir.join("chat_template.json"))?.unwrap_or(Value::Null);
        for (file, holder) in [("tokenizer_config.json", &config), ("chat_template.json", &json)] {
            origin = file;
            match holder.get("chat_template") {
                Some(Value::String(source)) => {
                    found.push(("default".to_owned(), source.clone()));
                    only = true;
                }
                Some(Value::Array(list)) => {
                    for entry in list {
                        let (name, source) = (entry.get("name"), entry.get("template"));
                        match (name.and_then(Value::as_str), source.and_then(Value::as_str)) {
                            (Some(name), Some(source)) => found.push((name.to_owned(), source.to_owned())),
                            _ => {
                                let message = format!("{file}: an entry of chat_template lacks `name` or `template`");
                                return Err(Failure::new(Kind::Malformed, message));
                            }
                        }
                    }
                }
                None | Some(Value::Null) => {}
                Some(_) => {
                    let message = format!("{file}: chat_template is neither a text nor a list");
                    return Err(Failure::new(Kind::Malformed, message));
                }
            }
            if !found.is_empty() {
                break;
            }
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let names: Vec<String> = found.iter().map(|(name, _)| name.clone()).collect();
    let name = wanted.unwrap_or("default");
    let Some(index) = names.iter().position(|known| known == name) else {
        let message = format!(
            "{origin}: the templates are named {}, and none is `{name}`; pick one by its name",
            names.join(", ")
        );
        return Err(Failure::new(Kind::Conflict, message));
    };
    let (name, source) = found.swap_remove(index);
    Ok(Some(Choice {
        source,
        name: if only { String::new() } else { name.clone() },
        origin: origin.to_owned(),
        others: names.into_iter().filter(|other| *other != name).collect(),
        variables: variables(dir)?,
    }))
}
