//! The `@` records and the list of tensors they call for (`SPEC.md` sections 2.2 and 3).

use super::{Fault, Header, Tensor, fault, u32_at};
use crate::convert::provenance;
use serde_json::{Value, json};

/// The records in their order.
pub const NAMES: [&str; 7] = ["@names", "@config", "@rope", "@template", "@stops", "@sampling", "@provenance"];

const FAMILIES: [&str; 11] =
    ["synthetic", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "smollm3", "olmo2", "granite"];

/// The decoded records.
#[derive(Clone, Debug)]
pub struct Records {
    /// `@config`, fields by the names of `SPEC.md`.
    pub config: Value,
    /// `@rope`.
    pub rope: Value,
    /// `@stops`.
    pub stops: Value,
    /// `@sampling`; null when empty.
    pub sampling: Value,
    /// `@provenance`.
    pub provenance: Value,
}

/// Gives each entry its name, checked against its hash.
pub fn name(tensors: &mut [Tensor], bytes: &[u8]) -> Result<(), Fault> {
    let base = tensors[0].byte_offset;
    let mut at = 0;
    for tensor in tensors.iter_mut() {
        let place = base + at as u64;
        let Some(len) = bytes.get(at..at + 2).map(|b| usize::from(b[0]) | usize::from(b[1]) << 8) else {
            return fault(place, "@names ends early");
        };
        let name = bytes.get(at + 2..at + 2 + len).and_then(|b| std::str::from_utf8(b).ok());
        let Some(name) = name.filter(|name| !name.is_empty() && name.len() <= 255) else {
            return fault(place, "@names holds no name here");
        };
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        if hash != tensor.name_hash {
            return fault(place, format!("the name {name:?} has not the hash of its entry"));
        }
        tensor.name = name.to_owned();
        at += 2 + len;
    }
    if at != bytes.len() {
        return fault(base + at as u64, "@names goes on after the last name");
    }
    for (tensor, want) in tensors.iter().zip(NAMES) {
        if tensor.name != want || tensor.dtype != "bytes" {
            return fault(base, format!("{:?} stands where {want} must stand", tensor.name));
        }
    }
    Ok(())
}

impl Records {
    /// Decodes the records; `payloads` in the order of the record names.
    pub fn parse(header: &Header, tensors: &[Tensor], payloads: &[Vec<u8>]) -> Result<Self, Fault> {
        let cut = |index: usize| Cursor { bytes: &payloads[index], at: 0, base: tensors[index].byte_offset };
        let provenance = match provenance::decode(&payloads[6]) {
            Ok(value) => value,
            Err(_) if payloads[6].is_empty() => Value::Null,
            Err(failure) => return fault(tensors[6].byte_offset, failure.message),
        };
        Ok(Self {
            config: config(cut(1), header)?,
            rope: rope(cut(2), header)?,
            stops: stops(cut(4), header)?,
            sampling: sampling(cut(5))?,
            provenance,
        })
    }

    /// The family's name.
    pub fn family(&self) -> &str {
        self.config["family"].as_str().unwrap_or("unknown")
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
}

impl Cursor<'_> {
    fn place(&self) -> u64 {
        self.base + self.at as u64
    }

    fn word(&mut self) -> Result<u32, Fault> {
        if self.at + 4 > self.bytes.len() {
            return fault(self.place(), "the record ends early");
        }
        self.at += 4;
        Ok(u32_at(self.bytes, self.at - 4))
    }

    fn float(&mut self) -> Result<f32, Fault> {
        let place = self.place();
        match f32::from_bits(self.word()?) {
            value if value.is_finite() => Ok(value),
            value => fault(place, format!("{value} is not finite")),
        }
    }

    fn double(&mut self) -> Result<f64, Fault> {
        let place = self.place();
        let (low, high) = (self.word()?, self.word()?);
        match f64::from_bits(u64::from(high) << 32 | u64::from(low)) {
            value if value.is_finite() => Ok(value),
            value => fault(place, format!("{value} is not finite")),
        }
    }

    fn end(&self) -> Result<(), Fault> {
        if self.at == self.bytes.len() { Ok(()) } else { fault(self.place(), "the record goes on after its end") }
    }
}

fn config(mut r: Cursor, header: &Header) -> Result<Value, Fault> {
    let place = r.place();
    let version = r.word()?;
    let (family, activation, qk_norm, norms, biases) = (r.word()?, r.word()?, r.word()?, r.word()?, r.word()?);
    let known =
        version == 1 && family <= 10 && (1..=2).contains(&activation) && qk_norm <= 2 && norms < 16 && biases < 128;
    if !known {
        return fault(place, "@config has an unknown version, family, activation, norm or bias");
    }
    let mut floats = [0.0; 6];
    for float in &mut floats {
        *float = r.float()?;
    }
    let [embedding_scale, attention_scale, residual_scale, attention_softcap, logit_softcap, logit_divisor] = floats;
    if attention_softcap < 0.0 || logit_softcap < 0.0 || logit_divisor <= 0.0 {
        return fault(place, "@config has a soft cap below 0 or a logit_divisor that is not positive");
    }
    let source_context = r.word()?;
    for _ in 0..3 {
        let place = r.place();
        if r.word()? != 0 {
            return fault(place, "@config: reserved bytes are not zero");
        }
    }
    let window = (0..header.layer_count).map(|_| r.word()).collect::<Result<Vec<_>, _>>()?;
    r.end()?;
    Ok(json!({
        "config_version": version,
        "family": FAMILIES[family as usize],
        "activation": if activation == 1 { "silu" } else { "gelu_tanh" },
        "qk_norm": qk_norm,
        "norms": norms,
        "biases": biases,
        "embedding_scale": embedding_scale,
        "attention_scale": attention_scale,
        "residual_scale": residual_scale,
        "attention_softcap": attention_softcap,
        "logit_softcap": logit_softcap,
        "logit_divisor": logit_divisor,
        "source_context": source_context,
        "window": window,
    }))
}

fn rope(mut r: Cursor, header: &Header) -> Result<Value, Fault> {
    let place = r.place();
    let count = r.word()?;
    if count > 4 {
        return fault(place, format!("@rope has {count} tables, more than 4"));
    }
    let mut tables = Vec::new();
    for _ in 0..count {
        let place = r.place();
        let rotary_dim = r.word()?;
        if rotary_dim < 2 || !rotary_dim.is_multiple_of(2) || rotary_dim > header.head_dim {
            return fault(place, format!("@rope: rotary_dim {rotary_dim} of head_dim {}", header.head_dim));
        }
        let attention_factor = r.float()?;
        let inv_freq = (0..rotary_dim / 2).map(|_| r.float()).collect::<Result<Vec<_>, _>>()?;
        tables.push(json!({ "rotary_dim": rotary_dim, "attention_factor": attention_factor, "inv_freq": inv_freq }));
    }
    let layers = r.bytes.get(r.at..).unwrap_or_default();
    if layers.len() != header.layer_count as usize {
        return fault(r.place(), format!("@rope has {} table indices for {} layers", layers.len(), header.layer_count));
    }
    if let Some(at) = layers.iter().position(|index| *index != 255 && u32::from(*index) >= count) {
        return fault(r.place() + at as u64, format!("@rope: layer {at} uses table {} of {count}", layers[at]));
    }
    Ok(json!({ "tables": tables, "layers": layers }))
}

fn stops(mut r: Cursor, header: &Header) -> Result<Value, Fault> {
    let count = r.word()?;
    let mut ids: Vec<u32> = Vec::new();
    for _ in 0..count {
        let place = r.place();
        let id = r.word()?;
        if id >= header.vocab_size || ids.last().is_some_and(|last| *last >= id) {
            return fault(place, format!("@stops: id {id} is out of order or outside of the vocabulary"));
        }
        ids.push(id);
    }
    let mut strings = Vec::new();
    for _ in 0..r.word()? {
        let place = r.place();
        let len = r.word()? as usize;
        let text = r.bytes.get(r.at..).and_then(|rest| rest.get(..len)).and_then(|b| std::str::from_utf8(b).ok());
        match text.filter(|_| (1..=256).contains(&len)) {
            Some(text) => strings.push(text.to_owned()),
            None => return fault(place, "@stops: no stop string of 1 to 256 bytes"),
        }
        r.at += len;
    }
    r.end()?;
    Ok(json!({ "ids": ids, "strings": strings }))
}

fn sampling(mut r: Cursor) -> Result<Value, Fault> {
    if r.bytes.is_empty() {
        return Ok(Value::Null);
    }
    let place = r.place();
    let (version, present, do_sample, top_k) = (r.word()?, r.word()?, r.word()?, r.word()?);
    if version != 1 || present >> 10 != 0 || do_sample > 1 {
        return fault(place, "@sampling has an unknown version or field");
    }
    let mut out = serde_json::Map::new();
    let mut put = |bit: u32, name: &str, value: Value| {
        if present >> bit & 1 == 1 {
            out.insert(name.into(), value);
        }
    };
    put(0, "do_sample", json!(do_sample == 1));
    put(1, "top_k", json!(top_k));
    let numbers =
        ["temperature", "top_p", "min_p", "typical_p", "repetition_penalty", "frequency_penalty", "presence_penalty"];
    for (bit, name) in (2..).zip(numbers) {
        put(bit, name, json!(r.double()?));
    }
    put(9, "max_new_tokens", json!(r.word()?));
    let place = r.place();
    if r.word()? != 0 {
        return fault(place, "@sampling: reserved bytes are not zero");
    }
    r.end()?;
    Ok(Value::Object(out))
}

/// The tensors of `SPEC.md` section 2.2, in order, with their shapes.
fn expected(header: &Header, config: &Value) -> Vec<(String, Vec<u32>)> {
    let bits = |key: &str| config[key].as_u64().unwrap_or(0);
    let (norms, biases, qk_norm) = (bits("norms"), bits("biases"), bits("qk_norm"));
    let (hidden, ffn, vocab) = (header.hidden_size, header.ffn_size, header.vocab_size);
    let (q, kv) = (header.head_count * header.head_dim, header.kv_head_count * header.head_dim);
    let (q_norm, k_norm) = if qk_norm == 2 { (q, kv) } else { (header.head_dim, header.head_dim) };
    let mut list = vec![("tok_embeddings.weight".to_owned(), vec![vocab, hidden])];
    // Present, name, shape; in the order of the directory.
    let (norm, bias) = (|bit: u32| norms >> bit & 1 != 0, |bit: u32| biases >> bit & 1 != 0);
    let layer = [
        (norm(0), "attn_norm.weight", vec![hidden]),
        (true, "wq.weight", vec![q, hidden]),
        (bias(0), "wq.bias", vec![q]),
        (true, "wk.weight", vec![kv, hidden]),
        (bias(1), "wk.bias", vec![kv]),
        (true, "wv.weight", vec![kv, hidden]),
        (bias(2), "wv.bias", vec![kv]),
        (qk_norm != 0, "q_norm.weight", vec![q_norm]),
        (qk_norm != 0, "k_norm.weight", vec![k_norm]),
        (true, "wo.weight", vec![hidden, q]),
        (bias(3), "wo.bias", vec![hidden]),
        (norm(2), "attn_post_norm.weight", vec![hidden]),
        (norm(1), "ffn_norm.weight", vec![hidden]),
        (true, "w1.weight", vec![ffn, hidden]),
        (bias(4), "w1.bias", vec![ffn]),
        (true, "w3.weight", vec![ffn, hidden]),
        (bias(5), "w3.bias", vec![ffn]),
        (true, "w2.weight", vec![hidden, ffn]),
        (bias(6), "w2.bias", vec![hidden]),
        (norm(3), "ffn_post_norm.weight", vec![hidden]),
    ];
    for n in 0..header.layer_count {
        let present = layer.iter().filter(|(present, ..)| *present);
        list.extend(present.map(|(_, name, shape)| (format!("layers.{n}.{name}"), shape.clone())));
    }
    list.push(("norm.weight".to_owned(), vec![hidden]));
    if header.flags & 1 == 0 {
        list.push(("output.weight".to_owned(), vec![vocab, hidden]));
    }
    list
}

/// Exactly the expected tensors stand in the file.
pub fn check_tensors(header: &Header, records: &Records, tensors: &[Tensor]) -> Result<(), Fault> {
    let list = expected(header, &records.config);
    let found = &tensors[NAMES.len()..];
    let place = |index: usize| header.tensor_directory_offset + 64 * (NAMES.len() + index) as u64;
    for (index, (name, shape)) in list.iter().enumerate() {
        match found.get(index) {
            None => return fault(place(index), format!("{name} is missing")),
            Some(tensor) if tensor.name != *name => {
                return fault(place(index), format!("{:?} stands where {name} must stand", tensor.name));
            }
            Some(tensor) if tensor.shape != *shape => {
                return fault(place(index) + 16, format!("{name} has shape {:?}, expected {shape:?}", tensor.shape));
            }
            Some(tensor) if tensor.dtype == "bytes" || (shape.len() == 1 && tensor.dtype != "f32") => {
                return fault(place(index) + 8, format!("{name} has dtype {}", tensor.dtype));
            }
            Some(_) => {}
        }
    }
    match found.get(list.len()) {
        Some(extra) => fault(place(list.len()), format!("{:?} has no place in this model", extra.name)),
        None => Ok(()),
    }
}
