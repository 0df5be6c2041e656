//! Fields of `config.json` that change no logit, each with the reason.

use super::Family;
use super::fields::Fields;
use serde_json::{Value, json};

/// Fields that never change a logit of this runtime, with the reason.
pub(super) const DOCUMENTARY: &[(&str, &str)] = &[
    ("bos_token_id", "compared with the tokenizer's; no part of the forward pass"),
    ("eos_token_id", "compared with the generation config; goes to @stops"),
    ("pad_token_id", "compared with the tokenizer's; row is an ordinary row"),
    ("unk_token_id", "compared with the tokenizer's; no part of the forward pass"),
    ("transformers_version", "version of the publisher's tools"),
    ("torch_dtype", "weights are read in the dtype each tensor has"),
    ("dtype", "weights are read in the dtype each tensor has"),
    ("use_cache", "the cache does not change results"),
    ("cache_implementation", "the cache does not change results"),
    ("initializer_range", "training only"),
    ("attention_dropout", "training only"),
    ("attention_probs_dropout_prob", "training only"),
    ("hidden_dropout_prob", "training only"),
    ("hidden_dropout", "training only"),
    ("resid_pdrop", "training only"),
    ("embd_pdrop", "training only"),
    ("router_aux_loss_coef", "training only"),
    ("output_router_logits", "training only"),
    ("pretraining_tp", "not read by the reference"),
    ("is_llama_config", "not read by the reference"),
    ("auto_map", "code of the publisher is never run; the family's own class decides"),
    ("tokenizer_class", "tokenizer.json decides"),
    ("name_or_path", "name"),
    ("model_name", "name"),
    ("finetuning_task", "name"),
    ("task_specific_params", "not read by the reference"),
    ("transformers.js_config", "settings of another runtime"),
    ("unsloth_fixed", "mark of a tool"),
    ("unsloth_version", "mark of a tool"),
    ("return_dict", "form of the result only"),
    ("output_attentions", "form of the result only"),
    ("output_hidden_states", "form of the result only"),
    ("torchscript", "form of the result only"),
    ("use_bfloat16", "not read by the reference"),
    ("id2label", "classifier labels; the head is checked by its architecture"),
    ("label2id", "classifier labels; the head is checked by its architecture"),
    ("max_window_layers", "read only with use_sliding_window"),
    ("attn_implementation", "kernel choice of another runtime"),
];

/// Fields that are harmless at one value only.
pub(super) fn neutral_fields() -> [(&'static str, Vec<Value>, &'static str); 14] {
    let no = || vec![json!(false)];
    [
        ("rope_interleaved", no(), "pairs are halves of a head"),
        ("attention_bias", no(), "this family has no such bias"),
        ("mlp_bias", no(), "this family has no such bias"),
        ("is_encoder_decoder", no(), "only decoders are run"),
        ("is_decoder", vec![json!(false), json!(true)], "only decoders are run"),
        ("add_cross_attention", no(), "only decoders are run"),
        ("tie_encoder_decoder", no(), "only decoders are run"),
        ("use_bidirectional_attention", no(), "attention is causal"),
        ("use_sliding_window", no(), "this family reads no such flag"),
        ("partial_rotary_factor", vec![json!(1.0), json!(1)], "this family rotates whole heads"),
        ("qk_layernorm", no(), "this family has no such norm"),
        ("use_qk_norm", no(), "this family has no such norm"),
        ("num_experts", vec![json!(0), json!(1)], "mixtures of experts are not run"),
        ("num_local_experts", vec![json!(0), json!(1)], "mixtures of experts are not run"),
    ]
}

/// Fields of one family that its reference reads without effect, or not at all.
pub(super) fn family_leftovers(fields: &Fields, family: Family, ignored: &mut Vec<(String, String)>) {
    let mut skip = |key: &str, reason: &str| {
        if fields.is_present(key) && !fields.was_used(key) {
            fields.value(key);
            ignored.push((key.to_owned(), reason.to_owned()));
        }
    };
    match family {
        Family::Gemma2 | Family::Gemma3 => {
            skip("hidden_act", "the reference reads hidden_activation");
            if family == Family::Gemma3 {
                skip("attn_logit_softcapping", "read by the reference without effect");
            }
        }
        Family::Mistral | Family::Phi3 => skip("layer_types", "not read by the reference for this family"),
        _ => {}
    }
}
