//! What differs from layer to layer: windows of attention and rotation.

use super::Family;
use super::fields::Fields;
use crate::convert::refusal::{Refusal, refuse};
use crate::failure::Failure;
use serde_json::Value;

/// Keys a query sees, per layer; 0 for all.
pub(super) fn windows(fields: &Fields, family: Family, layers: u32, default: Option<u32>) -> Result<Vec<u32>, Failure> {
    if matches!(family, Family::Llama | Family::Olmo2 | Family::Granite) {
        return Ok(vec![0; layers as usize]);
    }
    let window = match fields.u32("sliding_window")? {
        None if fields.is_present("sliding_window") => None,
        None => default,
        Some(0) => return Err(refuse(Refusal::BadDimensions, "config.json: sliding_window is 0")),
        given => given,
    };
    let all = |sliding: &dyn Fn(u32) -> bool| -> Result<Vec<u32>, Failure> {
        let one = |layer| match (sliding(layer), window) {
            (false, _) => Ok(0),
            (true, Some(window)) => Ok(window),
            (true, None) => Err(refuse(
                Refusal::UnsupportedValue,
                format!("config.json: layer {layer} is said to have a sliding window, but sliding_window is not set"),
            )),
        };
        (0..layers).map(one).collect()
    };
    if matches!(family, Family::Mistral | Family::Phi3) {
        return Ok(vec![window.unwrap_or(0); layers as usize]);
    }
    let types = layer_types(fields, layers)?;
    match family {
        Family::Qwen2 | Family::Qwen3 => {
            let enabled = fields.bool("use_sliding_window")?.unwrap_or(false);
            let from = fields.u32("max_window_layers")?.unwrap_or(28);
            if !enabled {
                if let Some(layer) = types.as_ref().and_then(|types| types.iter().position(|sliding| *sliding)) {
                    return Err(refuse(
                        Refusal::UnsupportedValue,
                        format!("config.json: layer_types gives layer {layer} a window, use_sliding_window is false"),
                    ));
                }
                return Ok(vec![0; layers as usize]);
            }
            match types {
                Some(types) => all(&|layer| types[layer as usize]),
                None => all(&|layer| window.is_some() && layer >= from),
            }
        }
        Family::Gemma2 => match types {
            Some(types) => all(&|layer| types[layer as usize]),
            None => all(&|layer| layer % 2 == 0),
        },
        Family::Gemma3 => {
            let pattern = fields.u32("sliding_window_pattern")?.unwrap_or(6);
            if pattern == 0 {
                return Err(refuse(Refusal::BadDimensions, "config.json: sliding_window_pattern is 0"));
            }
            match types {
                Some(types) => all(&|layer| types[layer as usize]),
                None => all(&|layer| !(layer + 1).is_multiple_of(pattern)),
            }
        }
        _ => {
            let enabled = fields.bool("use_sliding_window")?.unwrap_or(false);
            let rotated = smollm3_rotated(fields, layers)?;
            match types {
                Some(types) => all(&|layer| types[layer as usize]),
                None => all(&|layer| enabled && window.is_some() && !rotated[layer as usize]),
            }
        }
    }
}

/// `layer_types`: true where the layer has a window.
fn layer_types(fields: &Fields, layers: u32) -> Result<Option<Vec<bool>>, Failure> {
    let Some(list) = fields.list("layer_types")? else { return Ok(None) };
    if list.len() != layers as usize {
        return Err(refuse(
            Refusal::BadDimensions,
            format!("config.json: layer_types has {} entries for {layers} layers", list.len()),
        ));
    }
    let one = |value: &Value| match value.as_str() {
        Some("full_attention") => Ok(false),
        Some("sliding_attention") => Ok(true),
        _ => Err(refuse(
            Refusal::UnsupportedValue,
            format!("config.json: layer_types contains {value}; full_attention and sliding_attention are run"),
        )),
    };
    list.iter().map(one).collect::<Result<Vec<_>, _>>().map(Some)
}

/// Despite its name, `no_rope_layers` has a 1 where the layer is rotated.
pub(super) fn smollm3_rotated(fields: &Fields, layers: u32) -> Result<Vec<bool>, Failure> {
    let interval = fields.u32("no_rope_layer_interval")?.unwrap_or(4);
    if let Some(list) = fields.list("no_rope_layers")? {
        let read: Option<Vec<bool>> = list.iter().map(|v| v.as_u64().filter(|n| *n < 2).map(|n| n == 1)).collect();
        return match read {
            Some(read) if read.len() >= layers as usize => Ok(read[..layers as usize].to_vec()),
            _ => {
                Err(refuse(Refusal::BadDimensions, "config.json: no_rope_layers is no list of 0 and 1 for every layer"))
            }
        };
    }
    if interval == 0 {
        return Err(refuse(Refusal::BadDimensions, "config.json: no_rope_layer_interval is 0"));
    }
    Ok((0..layers).map(|layer| !(layer + 1).is_multiple_of(interval)).collect())
}
