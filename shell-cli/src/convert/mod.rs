//! From a published checkpoint to a container: what is accepted runs exactly, what cannot be run exactly is refused by
//! name, and where the publisher's files contradict each other the conversion stops and says so.

pub mod blocks;
mod choose;
mod config;
mod drift;
mod encode;
mod forward;
mod gguf;
mod gguf_model;
mod gguf_tokenizer;
mod grid;
mod input;
mod llama2c;
mod mapping;
mod measure;
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
/// How two rows of logits are compared, for benchmarks too.
pub use drift::{best, cosine, divergence};
use encode::Encoding;
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
    /// What holds every value in the fewest bytes: the source's own codes, bf16, or f32.
    Exact,
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
    /// Measure the drift of lossy dtypes, and search scales under the mean squares of the activations.
    pub drift: bool,
    /// Text to measure on, a prompt per line, instead of the built-in prompts.
    pub calibration: Option<PathBuf>,
    /// `PATTERN=DTYPE`; `*` stands for any characters.
    pub tensor_types: Vec<String>,
    /// Largest file, in bytes: matrices get the dtypes that cost least within it.
    pub target_bytes: Option<u64>,
    /// Fail when the file does not meet this band.
    pub require_band: Option<String>,
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
    let tensor_types = choose::TensorTypes::parse(&options.tensor_types)?;
    let mut tensors = choose::choose(&input, list, options.quant, &tensor_types)?;
    tensor_types.check_all_used(&tensors)?;
    let lossy = |tensors: &[(Destination, Encoding)]| tensors.iter().any(|(_, e)| e.method.is_lossy());
    let wanted = options.drift && (lossy(&tensors) || options.target_bytes.is_some());
    if !wanted && (options.target_bytes.is_some() || options.require_band.is_some()) && !options.drift {
        return Err(Failure::new(
            Kind::Usage,
            "--target-bytes and --require-band need the measurement that --no-drift skips",
        ));
    }
    let study = if wanted { measure::Study::new(&input, tied, options.calibration.as_deref())? } else { None };
    let mut importance = forward::Moments::new();
    let calibration = study.as_ref().and_then(measure::Study::calibration);
    let record = |tensors: &[(Destination, Encoding)], written: &[write::Digest256], drift: Option<drift::Drift>| {
        let mut record = provenance_record(&input, options, &overrides, tensors, written, &hashes, &unread, head);
        record["drift"] = drift.map_or(Value::Null, |drift| drift.record(calibration));
        record
    };
    let empty = study.as_ref().map(measure::Study::empty);
    let (stops, sampling) = (
        records::stops(&input.special.stop_ids, &input.special.stop_strings),
        records::sampling(&input.special.sampling),
    );
    let unwritten = vec![[0; 32]; tensors.len()];
    let base = write::Parts {
        architecture: &input.architecture,
        tied,
        special_count: input.tokenizer.special_count,
        tokenizer: &input.tokenizer.section,
        template: &input.template.section,
        stops: &stops,
        sampling: &sampling,
        tensors: &[],
        importance: &forward::Moments::new(),
    };
    let lay_out = |tensors: &[(Destination, Encoding)], importance: &forward::Moments| {
        let parts = write::Parts { tensors, importance, ..base };
        let placeholder = provenance::encode(&record(tensors, &unwritten, empty))?;
        Ok::<_, Failure>((write::map(&parts, placeholder.len())?, placeholder))
    };
    let reference = match &study {
        None => None,
        Some(study) => {
            let (states, moments) = study.reference(&tensors, &input.source)?;
            importance = measure::importance(moments, tied);
            if let Some(target) = options.target_bytes {
                // The names of dtypes and methods in the provenance differ by a few bytes per tensor.
                let (map, _) = lay_out(&tensors, &importance)?;
                let overhead =
                    map.file_len().saturating_sub(choose::tensor_bytes(&tensors)) + 8 * tensors.len() as u64 + 128;
                choose::fit(&input, &mut tensors, &importance, target, overhead)?;
            }
            choose::search(&mut tensors, &importance);
            Some(states)
        }
    };
    let (map, placeholder) = lay_out(&tensors, &importance)?;
    let parts = write::Parts { tensors: &tensors, importance: &importance, ..base };
    if let Some(target) = options.target_bytes.filter(|target| map.file_len() > *target) {
        return Err(refuse(
            Refusal::TargetTooSmall,
            format!("--target-bytes {target}: the smallest choice of dtypes gives {} bytes", map.file_len()),
        ));
    }
    let mut output = Output::create(&options.output)?;
    let written = {
        let progress = Progress::new("writing", map.file_len());
        write::write(&mut output, &parts, &map, &placeholder, &input.source, &progress)?
    };
    check_unchanged(&input)?;
    let drift = match (&study, &reference) {
        (Some(study), Some(reference)) => Some(study.drift(reference, &tensors, &input.source, &map, &output)?),
        _ => None,
    };
    let provenance = record(&tensors, &written, drift);
    write::replace_provenance(&mut output, &map, &provenance::encode(&provenance)?)?;
    let sha256 = write::seal(&mut output)?;
    self_check::check(&output)?;
    let receipt = json!({
        "status": "converted",
        "bytes": map.file_len(),
        "sha256": sha256,
        "provenance": printable(provenance),
    });
    report_tensors(&tensors, say);
    for line in drift.iter().flat_map(drift::Drift::describe) {
        say(&line);
    }
    if let Some(wanted) = &options.require_band {
        require_band(wanted, drift)?;
    }
    output.finish()?;
    write_receipt(options, &receipt)?;
    Ok(Summary { receipt, bytes: map.file_len(), sha256 })
}

/// A file without drift is lossless and meets every band.
fn require_band(wanted: &str, drift: Option<drift::Drift>) -> Result<(), Failure> {
    let rank = |name: &str| drift::BANDS.iter().position(|band| band.name == name);
    let Some(least) = rank(wanted) else {
        return Err(Failure::new(Kind::Usage, format!("--require-band {wanted}: use q8, q6, q5 or q4")));
    };
    let met = drift.map_or(Some(0), |drift| drift.band().and_then(|band| rank(band.name)));
    match met {
        Some(met) if met <= least => Ok(()),
        _ => Err(refuse(Refusal::BandMissed, format!("the file would not meet band {wanted}"))),
    }
}

/// How many tensors got which dtype, by which method.
fn report_tensors(tensors: &[(Destination, Encoding)], say: &mut dyn FnMut(&str)) {
    let mut kinds = BTreeMap::<(Dtype, &str), usize>::new();
    for (_, encoding) in tensors {
        *kinds.entry((encoding.dtype, encoding.method.describe())).or_default() += 1;
    }
    let list: Vec<String> =
        kinds.iter().map(|((dtype, how), count)| format!("{count} {} ({how})", dtype.name())).collect();
    say(&format!("stored    {}", list.join(", ")));
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
                Quant::Exact => "exact",
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
