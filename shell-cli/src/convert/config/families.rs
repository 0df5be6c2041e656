//! `config.json` of the ten families, both dialects, to the effective configuration.

use super::fields::Fields;
use super::ignored::{DOCUMENTARY, family_leftovers, neutral_fields};
use super::layers::{smollm3_rotated, windows};
use super::rope::{Context, Rope, Table};
use super::{Activation, Architecture, Family, QkNorm, biases, norms};
use crate::convert::overrides::{Conflicts, Overrides};
use crate::convert::refusal::{Refusal, refuse};
use crate::failure::Failure;
use serde_json::{Map, Value, json};

struct Defaults {
    kv_heads: Option<u32>,
    head_dim: Option<u32>,
    epsilon: f64,
    context: u32,
    tied: bool,
    theta: f64,
    window: Option<u32>,
}

/// What the pinned reference takes where a key is absent.
fn defaults(family: Family) -> Defaults {
    let base = Defaults {
        kv_heads: None,
        head_dim: None,
        epsilon: 1e-6,
        context: 2048,
        tied: false,
        theta: 1e4,
        window: None,
    };
    match family {
        Family::Llama | Family::Granite => base,
        Family::Mistral => Defaults { kv_heads: Some(8), context: 131_072, window: Some(4096), ..base },
        Family::Qwen2 => Defaults { kv_heads: Some(32), context: 32_768, window: Some(4096), ..base },
        Family::Qwen3 => {
            Defaults { kv_heads: Some(32), head_dim: Some(128), context: 32_768, window: Some(4096), ..base }
        }
        Family::Gemma2 => {
            Defaults { kv_heads: Some(4), head_dim: Some(256), context: 8192, tied: true, window: Some(4096), ..base }
        }
        Family::Gemma3 => Defaults {
            kv_heads: Some(4),
            head_dim: Some(256),
            context: 131_072,
            tied: true,
            theta: 1e6,
            window: Some(4096),
            ..base
        },
        Family::Phi3 => Defaults { epsilon: 1e-5, context: 4096, ..base },
        Family::SmolLm3 => Defaults { kv_heads: Some(4), context: 32_768, tied: true, theta: 2e6, ..base },
        Family::Olmo2 => Defaults { epsilon: 1e-5, ..base },
    }
}

/// Reads a `config.json`. Contradictions inside it go to `conflicts`; what cannot be run exactly is refused by name.
pub fn read(
    config: &Map<String, Value>,
    overrides: &Overrides,
    conflicts: &mut Conflicts,
) -> Result<Architecture, Failure> {
    let family = family(config, overrides, conflicts)?;
    let patched = patch(config, overrides)?;
    let fields = Fields::new("config.json", &patched);
    fields.value("architectures");
    fields.value("model_type");
    if fields.value("quantization_config").is_some() {
        return Err(refuse(
            Refusal::PreQuantised,
            "config.json: quantization_config: the checkpoint is already quantised; convert the original weights, or a GGUF file",
        ));
    }
    let defaults = defaults(family);
    let hidden_size = fields.size("hidden_size")?;
    let layer_count = fields.size("num_hidden_layers")?;
    let head_count = fields.size("num_attention_heads")?;
    let kv_head_count = match fields.u32("num_key_value_heads")? {
        Some(count) => count,
        None if fields.is_present("num_key_value_heads") => head_count,
        None => defaults.kv_heads.unwrap_or(head_count),
    };
    let head_dim = match fields.u32("head_dim")? {
        Some(dim) => dim,
        None => defaults.head_dim.unwrap_or(hidden_size / head_count),
    };
    let source_context = fields.u32("max_position_embeddings")?.unwrap_or(defaults.context);
    let activation = activation(&fields, family)?;
    let (qk_norm, norm_bits) = norm_layout(family);
    let windows = windows(&fields, family, layer_count, defaults.window)?;
    let mut ignored = Vec::new();
    let mut notes = Vec::new();
    let rope = rope(&fields, family, &defaults, source_context, overrides, conflicts, &mut ignored, &mut notes)?;
    let (rope_tables, rope_of_layer, theta, limit) = tables(&fields, family, rope, head_dim, &windows)?;
    let scalar = |key: &str, default: f64| -> Result<f32, Failure> { Ok(fields.f64(key)?.unwrap_or(default) as f32) };
    let softcap = |key: &str, default: Option<f64>| -> Result<f32, Failure> {
        let value = match fields.f64(key)? {
            None if fields.is_present(key) => None,
            None => default,
            given => given,
        };
        Ok(value.unwrap_or(0.0) as f32)
    };
    let gemma = matches!(family, Family::Gemma2 | Family::Gemma3);
    let granite = family == Family::Granite;
    let attention_scale = match family {
        Family::Gemma2 | Family::Gemma3 => fields.f64("query_pre_attn_scalar")?.unwrap_or(256.0).powf(-0.5) as f32,
        Family::Granite => scalar("attention_multiplier", 1.0)?,
        _ => f64::from(head_dim).powf(-0.5) as f32,
    };
    let mut architecture = Architecture {
        family,
        vocab_size: fields.size("vocab_size")?,
        hidden_size,
        layer_count,
        head_count,
        kv_head_count,
        head_dim,
        ffn_size: fields.size("intermediate_size")?,
        source_context,
        max_context: limit.map_or(source_context, |limit| limit.min(source_context)),
        rope_theta: theta as f32,
        rms_norm_epsilon: scalar("rms_norm_eps", defaults.epsilon)?,
        tied: fields.bool("tie_word_embeddings")?.unwrap_or(defaults.tied),
        activation,
        qk_norm,
        norms: norm_bits,
        biases: bias_bits(&fields, family)?,
        embedding_scale: match family {
            _ if gemma => f64::from(hidden_size).sqrt() as f32,
            _ if granite => scalar("embedding_multiplier", 1.0)?,
            _ => 1.0,
        },
        attention_scale,
        residual_scale: if granite { scalar("residual_multiplier", 1.0)? } else { 1.0 },
        attention_softcap: if family == Family::Gemma2 { softcap("attn_logit_softcapping", Some(50.0))? } else { 0.0 },
        logit_softcap: match family {
            Family::Gemma2 => softcap("final_logit_softcapping", Some(30.0))?,
            Family::Gemma3 => softcap("final_logit_softcapping", None)?,
            _ => 0.0,
        },
        logit_divisor: if granite { scalar("logits_scaling", 1.0)? } else { 1.0 },
        window: windows,
        rope_tables,
        rope_of_layer,
        ignored: Vec::new(),
        notes,
    };
    if architecture.max_context < source_context {
        architecture.notes.push(format!(
            "context limited to {} of {source_context} positions: beyond, the reference changes its rotary frequencies",
            architecture.max_context
        ));
    }
    family_leftovers(&fields, family, &mut ignored);
    for (key, neutral, why) in neutral_fields() {
        if patched.contains_key(key) && !fields.was_used(key) && overrides.get(key) != Some("ignore") {
            fields.only(key, &neutral, why)?;
            ignored.push((key.to_owned(), format!("has its neutral value: {why}")));
        }
    }
    ignored.extend(fields.finish(DOCUMENTARY, overrides)?);
    architecture.ignored = ignored;
    check_dimensions(&architecture)?;
    Ok(architecture)
}

/// Replaces fields of the configuration by what the user says. Token ids have overrides of their own.
fn patch(config: &Map<String, Value>, overrides: &Overrides) -> Result<Map<String, Value>, Failure> {
    let mut patched = config.clone();
    for (key, value) in &mut patched {
        if key.ends_with("_token_id") || matches!(key.as_str(), "architectures" | "model_type") {
            continue;
        }
        match overrides.get(key) {
            None | Some("ignore") => {}
            Some(text) => {
                *value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
            }
        }
    }
    Ok(patched)
}

fn family(config: &Map<String, Value>, overrides: &Overrides, conflicts: &mut Conflicts) -> Result<Family, Failure> {
    let architecture = match config.get("architectures").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.as_str(),
        Some([]) | None => None,
        Some(_) => return Err(refuse(Refusal::UnsupportedFamily, "config.json: architectures names several classes")),
    };
    let model_type = config.get("model_type").and_then(Value::as_str);
    let of_type = |name: &str| Family::ALL.into_iter().find(|family| family.model_type() == name);
    if let Some(chosen) = overrides.get("model_type") {
        return of_type(chosen).ok_or_else(|| {
            refuse(Refusal::UnsupportedFamily, format!("--override model_type={chosen}: no such family"))
        });
    }
    if let Some(class) = architecture {
        let by_class = Family::ALL.into_iter().find(|family| family.architecture() == class);
        return match (by_class, model_type) {
            (Some(family), Some(kind)) if family.model_type() != kind => {
                let mut settle = vec![family.model_type().to_owned()];
                settle.extend(of_type(kind).map(|family| family.model_type().to_owned()));
                conflicts.add(
                    "model_type",
                    &[("config.json architectures", json!(class)), ("config.json model_type", json!(kind))],
                    "the class and the type belong to different families",
                    "the reference chooses the class by model_type",
                    &settle,
                );
                Ok(family)
            }
            (Some(family), _) => Ok(family),
            (None, _) => Err(refuse(Refusal::UnsupportedFamily, unsupported_class(class, config))),
        };
    }
    match model_type {
        Some(kind) => match of_type(kind) {
            Some(family) => {
                conflicts.add(
                    "model_type",
                    &[("config.json model_type", json!(kind)), ("config.json architectures", Value::Null)],
                    "no architecture is declared, so the head is unknown",
                    "the reference loads the class the caller names",
                    &[kind.to_owned()],
                );
                Ok(family)
            }
            None => Err(refuse(Refusal::UnsupportedFamily, unsupported_class(kind, config))),
        },
        None => Err(refuse(
            Refusal::UnsupportedFamily,
            "config.json names neither architectures nor model_type: the family is unknown",
        )),
    }
}

/// Why a class is not run, as precisely as its name and fields tell.
fn unsupported_class(class: &str, config: &Map<String, Value>) -> String {
    let lower = class.to_lowercase();
    let experts =
        ["num_experts", "num_local_experts", "n_routed_experts"].iter().find(|key| config.contains_key(**key));
    let why = if lower.contains("forsequenceclassification") || lower.contains("fortokenclassification") {
        "a classifier head is no language model head".to_owned()
    } else if lower.contains("moe") || lower.contains("mixtral") || experts.is_some() {
        "mixtures of experts are not run".to_owned()
    } else if ["mamba", "jamba", "rwkv", "bamba", "zamba"].iter().any(|name| lower.contains(name)) {
        "state-space and recurrent layers are not run".to_owned()
    } else if ["gpt2", "opt", "gptneo", "gpt_neo", "gptbigcode"].iter().any(|name| lower.starts_with(name)) {
        "learned positions are not run".to_owned()
    } else if lower.contains("conditionalgeneration") {
        "only decoders of text are run".to_owned()
    } else {
        let known: Vec<&str> = Family::ALL.into_iter().map(Family::architecture).collect();
        format!("the families that are run are {}", known.join(", "))
    };
    format!("config.json: {class} is not supported: {why}")
}

fn activation(fields: &Fields, family: Family) -> Result<Activation, Failure> {
    let (key, default) = match family {
        Family::Gemma2 | Family::Gemma3 => ("hidden_activation", "gelu_pytorch_tanh"),
        _ => ("hidden_act", "silu"),
    };
    match fields.str(key)?.unwrap_or(default) {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu_pytorch_tanh" | "gelu_new" => Ok(Activation::GeluTanh),
        other => Err(refuse(
            Refusal::UnsupportedValue,
            format!("config.json: {key} is {other:?}; silu and gelu_pytorch_tanh are run"),
        )),
    }
}

fn norm_layout(family: Family) -> (QkNorm, u32) {
    use norms::{AFTER_ATTENTION, AFTER_FFN, BEFORE_ATTENTION, BEFORE_FFN};
    let before = BEFORE_ATTENTION | BEFORE_FFN;
    let after = AFTER_ATTENTION | AFTER_FFN;
    match family {
        Family::Qwen3 => (QkNorm::PerHead, before),
        Family::Gemma2 => (QkNorm::None, before | after),
        Family::Gemma3 => (QkNorm::PerHead, before | after),
        Family::Olmo2 => (QkNorm::Projection, after),
        _ => (QkNorm::None, before),
    }
}

fn bias_bits(fields: &Fields, family: Family) -> Result<u32, Failure> {
    use biases::{W1, W2, W3, WK, WO, WQ, WV};
    let mut bits = 0;
    match family {
        Family::Qwen2 => bits |= WQ | WK | WV,
        Family::Mistral | Family::Phi3 => {}
        _ => {
            if fields.bool("attention_bias")?.unwrap_or(false) {
                bits |= WQ | WK | WV | WO;
            }
        }
    }
    if matches!(family, Family::Llama | Family::SmolLm3 | Family::Granite) && fields.bool("mlp_bias")?.unwrap_or(false)
    {
        bits |= W1 | W2 | W3;
    }
    Ok(bits)
}

/// The tables the configuration asks for: one, or for gemma3 the global and the local one.
#[allow(clippy::too_many_arguments)]
fn rope(
    fields: &Fields,
    family: Family,
    defaults: &Defaults,
    max_position: u32,
    overrides: &Overrides,
    conflicts: &mut Conflicts,
    ignored: &mut Vec<(String, String)>,
    notes: &mut Vec<String>,
) -> Result<Vec<Rope>, Failure> {
    let phi3 = family == Family::Phi3;
    let outer_original = fields.u32("original_max_position_embeddings")?.or(phi3.then_some(4096));
    let context = Context { max_position, outer_original, phi3 };
    let outer_theta = fields.f64("rope_theta")?;
    let (scaling, parameters) = (fields.object("rope_scaling")?, fields.object("rope_parameters")?);
    if family == Family::Gemma3 {
        let local_theta = fields.f64("rope_local_base_freq")?.unwrap_or(1e4);
        let theta = outer_theta.unwrap_or(defaults.theta);
        let mut read = |dictionary: Option<Fields>, theta: f64| -> Result<Rope, Failure> {
            let Some(dictionary) = dictionary else { return Ok(Rope::plain(theta)) };
            let (rope, more) = Rope::read(&dictionary, theta, None, context, overrides)?;
            ignored.extend(more);
            Ok(rope)
        };
        let (global, local) = match (parameters, scaling) {
            (Some(both), None) => {
                let pair = (both.object("full_attention")?, both.object("sliding_attention")?);
                both.finish(&[], overrides)?;
                pair
            }
            (None, global) => (global, None),
            (Some(_), Some(_)) => {
                return Err(refuse(Refusal::UnsupportedValue, "config.json has both rope_parameters and rope_scaling"));
            }
        };
        return Ok(vec![read(global, theta)?, read(local, local_theta)?]);
    }
    let partial = if phi3 { fields.f64("partial_rotary_factor")? } else { None };
    let theta = outer_theta.unwrap_or(defaults.theta);
    if let (Some(old), Some(new)) = (&scaling, &parameters)
        && !old.same_as(new)
    {
        conflicts.add(
            "rope_parameters",
            &[("config.json rope_scaling", old.to_value()), ("config.json rope_parameters", new.to_value())],
            "two dialects describe different rotations",
            "the reference takes rope_scaling",
            &[old.to_value().to_string()],
        );
    }
    let Some(dictionary) = scaling.or(parameters) else {
        return Ok(vec![Rope { partial: partial.unwrap_or(1.0), ..Rope::plain(theta) }]);
    };
    if let (Some(outer), Some(inner)) = (outer_theta, dictionary.f64("rope_theta")?)
        && outer != inner
    {
        notes.push(format!("rope_theta {inner} of {} is used, not {outer} beside it", dictionary.place));
    }
    let (rope, more) = Rope::read(&dictionary, theta, partial, context, overrides)?;
    ignored.extend(more);
    if rope.partial != 1.0 && !phi3 {
        return Err(refuse(
            Refusal::UnsupportedRope,
            format!("{}: partial_rotary_factor {} is run for phi3 only", dictionary.place, rope.partial),
        ));
    }
    Ok(vec![rope])
}

type Tables = (Vec<Table>, Vec<u8>, f64, Option<u32>);

fn tables(
    fields: &Fields,
    family: Family,
    ropes: Vec<Rope>,
    head_dim: u32,
    windows: &[u32],
) -> Result<Tables, Failure> {
    let tables = ropes.iter().map(|rope| rope.table(head_dim)).collect::<Result<Vec<_>, _>>()?;
    let of_layer = match family {
        Family::Gemma3 => windows.iter().map(|window| u8::from(*window != 0)).collect(),
        Family::SmolLm3 => {
            let rotated = smollm3_rotated(fields, windows.len() as u32)?;
            rotated.into_iter().map(|rotated| if rotated { 0 } else { 255 }).collect()
        }
        _ => vec![0; windows.len()],
    };
    let limit = ropes.iter().filter_map(|rope| rope.limit).min();
    Ok((tables, of_layer, ropes[0].theta, limit))
}

/// Sizes that must fit each other, before any weight is looked at.
fn check_dimensions(a: &Architecture) -> Result<(), Failure> {
    let bad = |what: String| Err(refuse(Refusal::BadDimensions, format!("config.json: {what}")));
    if a.kv_head_count == 0 || !a.head_count.is_multiple_of(a.kv_head_count) {
        return bad(format!(
            "num_attention_heads {} is no multiple of num_key_value_heads {}",
            a.head_count, a.kv_head_count
        ));
    }
    if a.head_dim == 0 || !a.head_dim.is_multiple_of(2) {
        return bad(format!("head_dim {} is not even", a.head_dim));
    }
    if matches!(a.family, Family::Llama | Family::Gemma2 | Family::Gemma3)
        && !a.hidden_size.is_multiple_of(a.head_count)
    {
        return bad(format!("hidden_size {} is no multiple of num_attention_heads {}", a.hidden_size, a.head_count));
    }
    if a.layer_count > 1024 {
        return bad(format!("{} layers are more than 1024", a.layer_count));
    }
    let sizes = [
        u64::from(a.hidden_size),
        u64::from(a.ffn_size),
        u64::from(a.vocab_size),
        u64::from(a.head_count) * u64::from(a.head_dim),
    ];
    if sizes.iter().any(|size| *size > 1 << 24) {
        return bad(format!("a size is beyond 2^24: {sizes:?}"));
    }
    if a.max_context == 0 {
        return bad("max_position_embeddings is 0".into());
    }
    let positive =
        [("rms_norm_eps", a.rms_norm_epsilon), ("logits_scaling", a.logit_divisor), ("rope_theta", a.rope_theta)];
    for (name, value) in positive {
        if !(value > 0.0 && value.is_finite()) {
            return bad(format!("{name} is {value}, which is not positive"));
        }
    }
    if a.attention_softcap < 0.0 || a.logit_softcap < 0.0 || !a.attention_scale.is_finite() {
        return bad("a soft cap is negative, or the attention scale is not finite".into());
    }
    Ok(())
}
