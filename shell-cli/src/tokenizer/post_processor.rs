//! Post-processors: the ids put around a text.

use super::{malformed, refuse};
use crate::failure::Failure;
use serde_json::Value;

/// Ids before and after the text.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Affixes {
    /// Before.
    pub before: Vec<u32>,
    /// After.
    pub after: Vec<u32>,
}

/// Compiles a post-processor. `id_count`: ids must be below.
pub fn compile(value: &Value, id_count: u32) -> Result<Affixes, Failure> {
    let mut affixes = None;
    processor(value, "post_processor", &mut affixes)?;
    let affixes = affixes.unwrap_or_default();
    match affixes.before.iter().chain(&affixes.after).find(|id| **id >= id_count) {
        Some(id) => Err(malformed("post_processor", format!("id {id} of {id_count} tokens"))),
        None => Ok(affixes),
    }
}

fn processor(value: &Value, at: &str, found: &mut Option<Affixes>) -> Result<(), Failure> {
    if value.is_null() {
        return Ok(());
    }
    let affixes = match value["type"].as_str().unwrap_or("") {
        "Sequence" => {
            let list = value["processors"].as_array().ok_or_else(|| malformed(at, "no processors"))?;
            for (i, one) in list.iter().enumerate() {
                processor(one, &format!("{at}.processors[{i}]"), found)?;
            }
            return Ok(());
        }
        // It moves offsets, which do not exist here.
        "ByteLevel" => return Ok(()),
        "BertProcessing" | "RobertaProcessing" => {
            let id = |name: &str| id_of(&value[name][1]).ok_or_else(|| malformed(at, format!("{name} has no id")));
            Affixes { before: vec![id("cls")?], after: vec![id("sep")?] }
        }
        "TemplateProcessing" => template(value, at)?,
        other => return Err(refuse(at, format!("post-processor {other:?}"))),
    };
    if found.is_some() {
        return Err(refuse(at, "a second post-processor that adds tokens"));
    }
    *found = Some(affixes);
    Ok(())
}

fn id_of(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

fn template(value: &Value, at: &str) -> Result<Affixes, Failure> {
    let pieces = value["single"].as_array().ok_or_else(|| malformed(at, "single is missing"))?;
    let mut affixes = Affixes::default();
    let mut sequences = 0;
    for (i, piece) in pieces.iter().enumerate() {
        let at = format!("{at}.single[{i}]");
        if let Some(name) = piece["SpecialToken"]["id"].as_str() {
            let ids = value["special_tokens"][name]["ids"].as_array();
            let ids = ids.ok_or_else(|| malformed(&at, format!("{name:?} is not among the special tokens")))?;
            for id in ids {
                let id = id_of(id).ok_or_else(|| malformed(&at, "an id that is none"))?;
                if sequences == 0 { affixes.before.push(id) } else { affixes.after.push(id) }
            }
        } else if piece["Sequence"]["id"].as_str() == Some("A") {
            sequences += 1;
        } else {
            return Err(refuse(&at, "anything but special tokens and the sequence A"));
        }
    }
    if sequences == 1 { Ok(affixes) } else { Err(refuse(at, format!("the text {sequences} times"))) }
}
