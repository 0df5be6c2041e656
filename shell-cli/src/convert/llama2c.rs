//! llama2.c checkpoints: `model.bin` (versions 0 and 1, f32) with `tokenizer.bin` beside it.

use super::config::{Activation, Architecture, Family, QkNorm, norms, rope};
use super::gguf::{Gguf, Value};
use super::input::Input;
use super::mapping::Naming;
use super::refusal::{Refusal, refuse};
use super::source::{Source, SourceDtype, SourceFile, SourceTensor, read_optional};
use super::special::Special;
use super::{gguf_tokenizer, text};
use crate::failure::Failure;
use serde_json::Map;
use std::path::Path;

/// First word of version 1 and later.
const MAGIC: u32 = 0x616b_3432;
/// Longest tokenizer that is read, in bytes.
const MAX_TOKENIZER: u64 = 1 << 26;

#[derive(Debug)]
struct Header {
    version: u32,
    dim: u64,
    ffn: u64,
    layers: u64,
    heads: u64,
    kv_heads: u64,
    vocab: u64,
    context: u64,
    shared: bool,
    start: u64,
}

fn bad(what: impl std::fmt::Display) -> Failure {
    refuse(Refusal::BadLlama2c, what)
}

/// Opens a checkpoint.
pub fn open(path: &Path) -> Result<Input, Failure> {
    let file = SourceFile::open(path)?;
    let header = header(&file)?;
    let mut source = Source { files: vec![file], ..Source::default() };
    let explained = tensors(&mut source, &header)?;
    let (dim, head_dim) = (header.dim as u32, (header.dim / header.heads) as u32);
    let layers = header.layers as usize;
    let architecture = Architecture {
        family: Family::Llama,
        vocab_size: header.vocab as u32,
        hidden_size: dim,
        layer_count: header.layers as u32,
        head_count: header.heads as u32,
        kv_head_count: header.kv_heads as u32,
        head_dim,
        ffn_size: header.ffn as u32,
        source_context: header.context as u32,
        max_context: header.context as u32,
        rope_theta: 10000.0,
        rms_norm_epsilon: 1e-5,
        tied: header.shared,
        activation: Activation::Silu,
        qk_norm: QkNorm::None,
        norms: norms::BEFORE_ATTENTION | norms::BEFORE_FFN,
        biases: 0,
        embedding_scale: 1.0,
        attention_scale: f64::from(head_dim).powf(-0.5) as f32,
        residual_scale: 1.0,
        attention_softcap: 0.0,
        logit_softcap: 0.0,
        logit_divisor: 1.0,
        window: vec![0; layers],
        rope_tables: vec![rope::Rope::plain(10000.0).table(head_dim)?],
        rope_of_layer: vec![0; layers],
        ignored: Vec::new(),
        notes: vec!["theta 10000 and epsilon 1e-5 are those of llama2.c; its files do not state them".into()],
    };
    let beside = path.with_file_name("tokenizer.bin");
    let bytes = read_optional(beside, MAX_TOKENIZER)?
        .ok_or_else(|| refuse(Refusal::MissingFile, format!("{}: tokenizer.bin is not beside it", path.display())))?;
    let json = serde_json::to_vec(&tokenizer(&bytes, header.vocab)?).unwrap_or_default();
    let tokenizer = text::compile_tokenizer(&json)?;
    let special = Special { stop_ids: vec![2], special_count: 3, ..Special::default() };
    Ok(Input {
        kind: "llama2c",
        source,
        naming: Naming::Container,
        pairs: true,
        architecture,
        special,
        tokenizer,
        template: text::Template::default(),
        kept: vec![("tokenizer.bin".into(), bytes), ("tokenizer.json".into(), json)],
        licence: None,
        explained,
    })
}

fn header(file: &SourceFile) -> Result<Header, Failure> {
    let mut bytes = [0; 256];
    let have = file.len().min(256) as usize;
    file.read_at(0, &mut bytes[..have])?;
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let versioned = have == 256 && word(0) == MAGIC;
    let (version, first, start) = if versioned { (word(4), 8, 256) } else { (0, 0, 28) };
    match version {
        0 | 1 if file.len() > start => {}
        2 => {
            return Err(refuse(
                Refusal::PreQuantised,
                format!("{}: version 2 is quantised in groups of its own; convert the f32 checkpoint", file.name),
            ));
        }
        0 | 1 => return Err(bad(format!("{}: {} bytes are no checkpoint", file.name, file.len()))),
        other => return Err(bad(format!("{}: offset 4: version {other}", file.name))),
    }
    let numbers: Vec<i64> = (0..7).map(|i| i64::from(word(first + 4 * i) as i32)).collect();
    let shared = if versioned { bytes[36] == 1 } else { numbers[5] > 0 };
    if versioned && bytes[36] > 1 {
        return Err(bad(format!("{}: offset 36: shared is {}", file.name, bytes[36])));
    }
    let names = ["dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"];
    for (at, (name, number)) in names.iter().zip(&numbers).enumerate() {
        let number = if at == 5 && !versioned { number.abs() } else { *number };
        if !(1..=1 << 24).contains(&number) {
            return Err(bad(format!("{}: offset {}: {name} is {number}", file.name, first + 4 * at)));
        }
    }
    let n = |at: usize| numbers[at].unsigned_abs();
    let header = Header {
        version,
        dim: n(0),
        ffn: n(1),
        layers: n(2),
        heads: n(3),
        kv_heads: n(4),
        vocab: n(5),
        context: n(6),
        shared,
        start,
    };
    let fits = header.dim.is_multiple_of(header.heads)
        && header.heads.is_multiple_of(header.kv_heads)
        && (header.dim / header.heads).is_multiple_of(2)
        && header.layers <= 1024;
    if fits { Ok(header) } else { Err(bad(format!("{}: its sizes do not fit each other: {header:?}", file.name))) }
}

/// Lays the tensors out in the order of the file. Each kind stands for all layers in one run.
fn tensors(source: &mut Source, h: &Header) -> Result<Vec<(String, &'static str)>, Failure> {
    let kv = h.dim / h.heads * h.kv_heads;
    let table = h.context * (h.dim / h.heads / 2);
    // Name in the container or of a layer's part, rows, columns (0: vector), one per layer.
    let embedding = ("tok_embeddings.weight", h.vocab, h.dim, false);
    let head = ("output.weight", h.vocab, h.dim, false);
    let norm = ("norm.weight", h.dim, 0, false);
    let attention = [
        ("wq.weight", h.dim, h.dim, true),
        ("wk.weight", kv, h.dim, true),
        ("wv.weight", kv, h.dim, true),
        ("wo.weight", h.dim, h.dim, true),
    ];
    let (attn_norm, ffn_norm) = (("attn_norm.weight", h.dim, 0, true), ("ffn_norm.weight", h.dim, 0, true));
    let ffn = [("w1.weight", h.ffn, h.dim, true), ("w2.weight", h.dim, h.ffn, true), ("w3.weight", h.ffn, h.dim, true)];
    let mut order = Vec::new();
    let mut explained = Vec::new();
    if h.version == 0 {
        order.extend([embedding, attn_norm]);
        order.extend(attention);
        order.push(ffn_norm);
        order.extend(ffn);
        order.extend([norm, ("freq_cis_real", table, 0, false), ("freq_cis_imag", table, 0, false)]);
        for name in ["freq_cis_real", "freq_cis_imag"] {
            explained.push((name.to_owned(), "old table; the frequencies are computed from the configuration"));
        }
    } else {
        order.extend([attn_norm, ffn_norm, norm, embedding]);
        order.extend(attention);
        order.extend(ffn);
    }
    if !h.shared {
        order.push(head);
    }
    let mut at = h.start;
    for (name, rows, cols, per_layer) in order {
        let shape = if cols == 0 { vec![rows] } else { vec![rows, cols] };
        let bytes =
            rows.checked_mul(cols.max(1)).and_then(|n| n.checked_mul(4)).ok_or_else(|| bad("a size overflows"))?;
        for layer in 0..if per_layer { h.layers } else { 1 } {
            let name = if per_layer { format!("layers.{layer}.{name}") } else { name.to_owned() };
            let tensor = SourceTensor {
                name: name.clone(),
                dtype: SourceDtype::F32,
                shape: shape.clone(),
                file: 0,
                offset: at,
                bytes,
            };
            at = at.checked_add(bytes).ok_or_else(|| bad("a size overflows"))?;
            source.tensors.insert(name, tensor);
        }
    }
    let len = source.files[0].len();
    if at == len { Ok(explained) } else { Err(bad(format!("the header describes {at} bytes, the file has {len}"))) }
}

/// `tokenizer.bin` as a `tokenizer.json`: per token a score, a length and the bytes, blanks written out.
fn tokenizer(bytes: &[u8], vocab: u64) -> Result<Map<String, serde_json::Value>, Failure> {
    let mut at = 4;
    let mut take = |len: usize| -> Result<&[u8], Failure> {
        let part = bytes.get(at..).and_then(|rest| rest.get(..len));
        let part = part.ok_or_else(|| bad(format!("tokenizer.bin: offset {at}: the file ends early")))?;
        at += len;
        Ok(part)
    };
    let (mut tokens, mut scores, mut types) = (Vec::new(), Vec::new(), Vec::new());
    for id in 0..vocab {
        let word = |b: &[u8]| [b[0], b[1], b[2], b[3]];
        scores.push(Value::Float(f64::from(f32::from_le_bytes(word(take(4)?)))));
        let len = u32::from_le_bytes(word(take(4)?)) as usize;
        let text =
            std::str::from_utf8(take(len)?).map_err(|_| bad(format!("tokenizer.bin: token {id} is not UTF-8")))?;
        // The special tokens are written with line breaks around them.
        let text = if id < 3 { text.trim().to_owned() } else { text.replace(' ', "\u{2581}") };
        types.push(Value::Signed(match id {
            0 => 2,
            1 | 2 => 3,
            _ if text.len() == 6 && text.starts_with("<0x") && text.ends_with('>') => 6,
            _ => 1,
        }));
        tokens.push(Value::Text(text));
    }
    if at != bytes.len() {
        return Err(bad(format!("tokenizer.bin: {} bytes after the last of {vocab} tokens", bytes.len() - at)));
    }
    let metadata = [
        ("model", Value::Text("llama".into())),
        ("tokens", Value::List(tokens)),
        ("scores", Value::List(scores)),
        ("token_type", Value::List(types)),
        ("bos_token_id", Value::Unsigned(1)),
        ("eos_token_id", Value::Unsigned(2)),
    ];
    let metadata = metadata.into_iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)).collect();
    gguf_tokenizer::tokenizer_json(&Gguf { metadata, source: Source::default() })
}
