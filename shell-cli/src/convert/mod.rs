//! From a published checkpoint to a container: what is accepted runs exactly, what cannot be run exactly is refused by
//! name, and where the publisher's files contradict each other the conversion stops and says so.

pub mod blocks;
mod config;
mod encode;
mod gguf;
mod gguf_model;
mod gguf_tokenizer;
mod grid;
mod input;
mod llama2c;
mod mapping;
mod output;
mod overrides;
mod progress;
pub(crate) mod provenance;
pub mod quantize;
mod records;
mod refusal;
mod safetensors;
mod self_check;
mod source;
mod special;
mod text;
mod write;

use crate::failure::{Failure, Kind};
use blocks::Dtype;
use encode::{Encoding, Method};
use input::{Head, Input};
use mapping::Destination;
use output::Output;
use overrides::{Conflicts, Overrides};
use progress::Progress;
use refusal::{Refusal, refuse};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which dtypes the tensors get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quant {
    /// The grid the weights lie on, or q8_0.
    Auto,
    /// One dtype for all matrices; embedding and head stay q8_0 under the 4-bit ones.
    All(Dtype),
}

/// What the user asks for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder or file.
    pub source: PathBuf,
    /// The file to write.
    pub output: PathBuf,
    /// Which dtypes the tensors get.
    pub quant: Quant,
    /// Lower `max_context` of the file.
    pub context: Option<u32>,
    /// `KEY=VALUE`.
    pub overrides: Vec<String>,
    /// Where the machine-readable receipt goes.
    pub receipt: Option<PathBuf>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The receipt: the provenance with the identity of the file.
    pub receipt: Value,
    /// Length of the file.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
}

/// Converts. A failure leaves no output file. `say` gets lines for a person, as things become known.
pub fn convert(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Summary, Failure> {
    let overrides = Overrides::parse(&options.overrides)?;
    let mut conflicts = Conflicts::default();
    let read = input::open(&options.source, &overrides, &mut conflicts);
    if let Some(receipt) = conflicts.receipt() {
        // A refusal met on the way weighs less than the contradictions already found.
        if read.as_ref().err().is_none_or(|failure| failure.kind != Kind::Io) {
            write_receipt(options, &receipt)?;
            eprintln!("{receipt}");
            return Err(conflicts.failure());
        }
    }
    let mut input = read?;
    overrides.check_all_used()?;
    limit_context(&mut input, options.context)?;
    let head = input::head(&input)?;
    let tied = matches!(head, Head::Tied | Head::TiedDuplicate);
    let list = mapping::destinations(&input.architecture, input.naming, tied, input.pairs);
    let unread = unread_tensors(&input, head);
    let accounted: Vec<String> = unread.iter().map(|(name, _)| name.clone()).collect();
    mapping::check(&input.source, &list, &accounted)?;
    describe(&input, head, say);

    let hashes = hash_source(&input)?;
    let tensors = choose(&input, list, options.quant)?;
    let parts = write::Parts {
        architecture: &input.architecture,
        tied,
        special_count: input.tokenizer.special_count,
        tokenizer: &input.tokenizer.section,
        template: &input.template.section,
        stops: records::stops(&input.special.stop_ids, &input.special.stop_strings),
        sampling: records::sampling(&input.special.sampling),
        tensors: &tensors,
    };
    let mut written = vec![[0; 32]; tensors.len()];
    let record = |written: &[write::Digest256]| {
        provenance_record(&input, options, &overrides, &tensors, written, &hashes, &unread, head)
    };
    let placeholder = provenance::encode(&record(&written))?;
    let map = write::map(&parts, placeholder.len())?;
    let mut output = Output::create(&options.output)?;
    {
        let progress = Progress::new("writing", map.file_len());
        written = write::write(&mut output, &parts, &map, &placeholder, &input.source, &progress)?;
    }
    check_unchanged(&input)?;
    let provenance = record(&written);
    write::replace_provenance(&mut output, &map, &provenance::encode(&provenance)?)?;
    let sha256 = write::seal(&mut output)?;
    self_check::check(&output)?;
    output.finish()?;
    let receipt = json!({
        "status": "converted",
        "bytes": map.file_len(),
        "sha256": sha256,
        "provenance": printable(provenance),
    });
    write_receipt(options, &receipt)?;
    Ok(Summary { receipt, bytes: map.file_len(), sha256 })
}

fn write_receipt(options: &Options, receipt: &Value) -> Result<(), Failure> {
    let Some(path) = &options.receipt else { return Ok(()) };
    std::fs::write(path, format!("{receipt:#}\n")).map_err(|e| source::io(path, &e))
}

/// The provenance without the kept files, for receipts.
fn printable(mut provenance: Value) -> Value {
    if let Some(map) = provenance.as_object_mut() {
        map.shift_remove("kept");
    }
    provenance
}

fn limit_context(input: &mut Input, wanted: Option<u32>) -> Result<(), Failure> {
    let Some(wanted) = wanted else { return Ok(()) };
    let most = input.architecture.max_context;
    if wanted == 0 || wanted > most {
        return Err(Failure::new(Kind::Usage, format!("--context {wanted}: the source allows 1 to {most}")));
    }
    input.architecture.max_context = wanted;
    Ok(())
}

/// Tensors that are rightly not read, each with the reason.
fn unread_tensors(input: &Input, head: Head) -> Vec<(String, &'static str)> {
    let mut list: Vec<(String, &'static str)> = input
        .source
        .tensors
        .keys()
        .filter(|name| safetensors::is_buffer(name))
        .map(|name| (name.clone(), "old buffer; the frequencies are computed from the configuration"))
        .collect();
    list.extend(input.explained.iter().cloned());
    if head == Head::TiedDuplicate {
        list.push((mapping::head_name(input.naming).to_owned(), "equal to the embedding, which is the head"));
    }
    list
}

/// Tells a person what was found.
fn describe(input: &Input, head: Head, say: &mut dyn FnMut(&str)) {
    let a = &input.architecture;
    say(&format!(
        "found     {} ({}), {} layers, hidden {}, {} heads of {} ({} kv), ffn {}, vocabulary {}, context {}",
        a.family.architecture(),
        input.kind,
        a.layer_count,
        a.hidden_size,
        a.head_count,
        a.head_dim,
        a.kv_head_count,
        a.ffn_size,
        a.vocab_size,
        a.max_context
    ));
    let mut dtypes = BTreeMap::<&str, usize>::new();
    for tensor in input.source.tensors.values() {
        *dtypes.entry(tensor.dtype.name()).or_default() += 1;
    }
    let dtypes: Vec<String> = dtypes.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let head_text = match head {
        Head::Tied | Head::TiedDuplicate => "head tied to the embedding",
        Head::Own => "own head",
        Head::OwnDespiteTie => {
            "own head (the configuration ties it, the file has a different one; the reference uses that)"
        }
    };
    say(&format!("weights   {} tensors ({}), {head_text}", input.source.tensors.len(), dtypes.join(", ")));
    let template = if input.template.section.is_empty() { "none" } else { "compiled" };
    say(&format!("tokenizer {}; chat template {template}", input.tokenizer.describe()));
    say(&format!("ends at   {:?} {:?}", input.special.stop_ids, input.special.stop_strings));
    say(&format!("licence   {}", input.licence.as_deref().unwrap_or("none stated in the source")));
    for note in a.notes.iter().chain(&input.special.notes) {
        say(&format!("note      {note}"));
    }
}

/// Reads every tensor once: SHA-256 of its bytes, and no value that is not finite.
fn hash_source(input: &Input) -> Result<BTreeMap<String, String>, Failure> {
    let total = input.source.tensors.values().map(|tensor| tensor.bytes).sum();
    let progress = Progress::new("checking", total);
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    let mut hashes = BTreeMap::new();
    for tensor in input.source.tensors.values() {
        let mut hash = Sha256::new();
        let step = (1u64 << 20).div_ceil(tensor.row_bytes().max(1)).max(1);
        for first in (0..tensor.rows()).step_by(step as usize) {
            input.source.read_rows(tensor, first, step.min(tensor.rows() - first), &mut bytes)?;
            hash.update(&bytes);
            values.clear();
            source::widen(tensor.dtype, &bytes, &mut values);
            if let Some(at) = values.iter().position(|v| !v.is_finite()) {
                let at = first * tensor.cols() + at as u64;
                return Err(refuse(
                    Refusal::NonFiniteWeight,
                    format!(
                        "tensor {:?}: element {at} is {}",
                        tensor.name,
                        values[(at - first * tensor.cols()) as usize]
                    ),
                ));
            }
            progress.add(bytes.len() as u64);
        }
        hashes.insert(tensor.name.clone(), provenance::hex(&hash.finalize()));
    }
    Ok(hashes)
}

/// Chooses dtype and method per tensor.
fn choose(input: &Input, list: Vec<Destination>, quant: Quant) -> Result<Vec<(Destination, Encoding)>, Failure> {
    let total = list.iter().map(|dest| dest.rows() * dest.cols()).sum();
    let progress = Progress::new("looking", total);
    let mut tensors = Vec::with_capacity(list.len());
    for dest in list {
        let own = encode::import_dtype(input.source.tensor(&dest.piece.source)?.dtype);
        let wanted = match quant {
            _ if !dest.is_matrix() => Some(Dtype::F32),
            Quant::Auto => own,
            Quant::All(Dtype::Q4_0 | Dtype::Q4_1) if dest.is_vocabulary() => Some(Dtype::Q8_0),
            Quant::All(dtype) => Some(dtype),
        };
        let encoding = match wanted {
            Some(Dtype::F32) => Encoding { dtype: Dtype::F32, method: Method::Keep },
            Some(dtype) if own == Some(dtype) => Encoding { dtype, method: Method::Import },
            Some(dtype) => Encoding { dtype, method: Method::Round },
            None => match encode::grid(&input.source, &dest)? {
                Some(dtype) => Encoding { dtype, method: Method::Grid },
                None => Encoding { dtype: Dtype::Q8_0, method: Method::Round },
            },
        };
        progress.add(dest.rows() * dest.cols());
        tensors.push((dest, encoding));
    }
    Ok(tensors)
}

fn check_unchanged(input: &Input) -> Result<(), Failure> {
    for file in &input.source.files {
        if file.has_changed()? {
            return Err(refuse(Refusal::SourceChanged, format!("{}: changed during the conversion", file.name)));
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn provenance_record(
    input: &Input,
    options: &Options,
    overrides: &Overrides,
    tensors: &[(Destination, Encoding)],
    written: &[write::Digest256],
    hashes: &BTreeMap<String, String>,
    unread: &[(String, &'static str)],
    head: Head,
) -> Value {
    let a = &input.architecture;
    let ledger: Vec<Value> = tensors
        .iter()
        .zip(written)
        .map(|((dest, encoding), written)| {
            let from = &input.source.tensors[&dest.piece.source];
            json!({
                "name": dest.name,
                "shape": dest.shape,
                "dtype": encoding.dtype.name(),
                "method": encoding.method.name(),
                "sha256": provenance::bytes(written),
                "source": {
                    "name": from.name,
                    "dtype": from.dtype.name(),
                    "shape": from.shape,
                    "file": input.source.files[from.file].name,
                    "range": [from.offset, from.offset + from.bytes],
                    "sha256": hashes[&from.name],
                },
                "transforms": dest.piece.transforms(dest.rows()),
            })
        })
        .collect();
    let pairs = |list: &[(String, String)]| -> Value {
        list.iter().map(|(field, reason)| json!({ "field": field, "reason": reason })).collect()
    };
    json!({
        "format": 1,
        "tool": format!("tinyrustlm {}", env!("CARGO_PKG_VERSION")),
        "source": {
            "kind": input.kind,
            "weights": input.source.files.iter().map(|file| json!({ "name": file.name, "bytes": file.len() })).collect::<Value>(),
            "files": input.kept.iter().map(|(name, data)| {
                json!({ "name": name, "bytes": data.len(), "sha256": provenance::sha256(data) })
            }).collect::<Value>(),
            "licence": input.licence,
        },
        "kept": input.kept.iter().map(|(name, data)| (name.clone(), provenance::keep(data))).collect::<serde_json::Map<_, _>>(),
        "family": a.family.model_type(),
        "head": format!("{head:?}"),
        "ignored": { "config": pairs(&a.ignored), "generation": pairs(&input.special.ignored) },
        "notes": a.notes.iter().chain(&input.special.notes).collect::<Vec<_>>(),
        "overrides": overrides.used(),
        "quantisation": {
            "requested": match options.quant {
                Quant::Auto => "auto",
                Quant::All(dtype) => dtype.name(),
            },
            "rounding": "scale to f16 first, codes against the rounded scale, ties to even, saturating",
        },
        "tokenizer": input.tokenizer.receipt,
        "template": input.template.receipt,
        "ledger": ledger,
        "unread": unread.iter().map(|(name, reason)| json!({ "name": name, "reason": reason, "sha256": hashes[name] })).collect::<Value>(),
    })
}

/// The default name of an output: the folder's or file's own name with `.slm`.
pub fn default_output(source: &Path) -> PathBuf {
    let name = source.file_stem().or(source.file_name()).unwrap_or_default();
    PathBuf::from(name).with_extension("slm")
}
