//! Safetensors files of a folder, one or sharded, with checks of our own on the header before anything is used.

use super::refusal::{Refusal, refuse};
use super::source::{Source, SourceDtype, SourceFile, SourceTensor};
use crate::failure::Failure;
use safetensors::tensor::{Dtype, Metadata};
use serde::de::{Deserializer, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Longest header that is read, in bytes; the limit of the format's own library.
const MAX_HEADER: u64 = 100_000_000;

/// Opens the weights of a Hugging Face folder: `model.safetensors.index.json` with its shards, else `model.safetensors`.
pub fn open_folder(folder: &Path) -> Result<Source, Failure> {
    let index_path = folder.join("model.safetensors.index.json");
    let single = folder.join("model.safetensors");
    if let Some(bytes) = super::source::read_optional(index_path, MAX_HEADER)? {
        if single.exists() {
            return Err(refuse(
                Refusal::ShardIndex,
                "the folder has both model.safetensors and model.safetensors.index.json: which one is meant?",
            ));
        }
        return open_sharded(folder, &bytes);
    }
    if !single.exists() {
        return Err(refuse(
            Refusal::MissingFile,
            format!("{}: neither model.safetensors nor model.safetensors.index.json", folder.display()),
        ));
    }
    let mut source = Source::default();
    add_file(&mut source, &single)?;
    Ok(source)
}

#[derive(serde::Deserialize)]
struct Index {
    #[allow(dead_code)]
    metadata: Option<serde_json::Value>,
    #[serde(deserialize_with = "unique_map")]
    weight_map: BTreeMap<String, String>,
}

fn open_sharded(folder: &Path, index: &[u8]) -> Result<Source, Failure> {
    let index: Index = serde_json::from_slice(index)
        .map_err(|e| refuse(Refusal::ShardIndex, format!("model.safetensors.index.json: {e}")))?;
    let shards: BTreeSet<&String> = index.weight_map.values().collect();
    let mut source = Source::default();
    for shard in shards {
        if shard.contains(['/', '\\']) || shard.starts_with('.') {
            return Err(refuse(
                Refusal::ShardIndex,
                format!("model.safetensors.index.json: shard name {shard:?} leaves the folder"),
            ));
        }
        let path = folder.join(shard);
        if !path.exists() {
            let tensor = index.weight_map.iter().find(|(_, file)| *file == shard).map_or("", |(name, _)| name);
            return Err(refuse(
                Refusal::ShardIndex,
                format!("shard {shard:?}, which should hold {tensor:?}, is missing"),
            ));
        }
        add_file(&mut source, &path)?;
    }
    for (name, shard) in &index.weight_map {
        match source.tensors.get(name) {
            Some(tensor) if source.files[tensor.file].name == *shard => {}
            Some(tensor) => {
                let found = &source.files[tensor.file].name;
                return Err(refuse(
                    Refusal::ShardIndex,
                    format!("{name:?} stands in {found:?}, the index says {shard:?}"),
                ));
            }
            None => {
                return Err(refuse(
                    Refusal::ShardIndex,
                    format!("{name:?} is not in {shard:?}, where the index puts it"),
                ));
            }
        }
    }
    if let Some(name) = source.tensors.keys().find(|name| !index.weight_map.contains_key(*name)) {
        return Err(refuse(Refusal::ShardIndex, format!("{name:?} stands in a shard but not in the index")));
    }
    Ok(source)
}

/// Adds the tensors of one file after checking its header:
/// length within the file and below the cap; a JSON object that the `safetensors` crate accepts; no name twice; ranges
/// that equal shape times dtype, do not overlap and cover the data to the last byte.
fn add_file(source: &mut Source, path: &Path) -> Result<(), Failure> {
    let file = SourceFile::open(path)?;
    let name = file.name.clone();
    let bad = |refusal, what: String| refuse(refusal, format!("{name}: {what}"));
    if file.len() < 8 {
        return Err(bad(Refusal::SafetensorsHeader, format!("{} bytes are no safetensors file", file.len())));
    }
    let mut length = [0; 8];
    file.read_at(0, &mut length)?;
    let header_len = u64::from_le_bytes(length);
    if !(2..=MAX_HEADER).contains(&header_len) || header_len > file.len() - 8 {
        return Err(bad(Refusal::SafetensorsHeader, format!("header length {header_len} at offset 0 is out of range")));
    }
    let mut header = vec![0; header_len as usize];
    file.read_at(8, &mut header)?;
    if header[0] != b'{' {
        return Err(bad(Refusal::SafetensorsHeader, "the header does not begin with {".into()));
    }
    // The crate's own parser keeps the last of two equal keys, so the names are counted first.
    check_unique(&header).map_err(|(refusal, what)| bad(refusal, what))?;
    check_ranges(&header, file.len() - 8 - header_len).map_err(|(refusal, what)| bad(refusal, what))?;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|e| bad(Refusal::SafetensorsHeader, e.to_string()))?;
    let data_start = 8 + header_len;
    let file_index = source.files.len();
    for (tensor_name, info) in metadata.tensors() {
        let dtype = match info.dtype {
            Dtype::F32 => SourceDtype::F32,
            Dtype::F16 => SourceDtype::F16,
            Dtype::BF16 => SourceDtype::Bf16,
            _ if is_buffer(&tensor_name) => continue,
            other => {
                return Err(bad(
                    Refusal::UnsupportedDtype,
                    format!("tensor {tensor_name:?} has dtype {other:?}; f32, f16 and bf16 are read"),
                ));
            }
        };
        let (start, end) = info.data_offsets;
        let tensor = SourceTensor {
            name: tensor_name.clone(),
            dtype,
            shape: info.shape.iter().map(|n| *n as u64).collect(),
            file: file_index,
            offset: data_start + start as u64,
            bytes: (end - start) as u64,
        };
        if source.tensors.insert(tensor_name.clone(), tensor).is_some() {
            return Err(bad(Refusal::DuplicateTensor, format!("tensor {tensor_name:?} stands in another shard, too")));
        }
    }
    source.files.push(file);
    Ok(())
}

/// The one kind of tensor that the reference rightly ignores.
pub fn is_buffer(name: &str) -> bool {
    name.ends_with(".rotary_emb.inv_freq") || name == "rotary_emb.inv_freq"
}

type Fault = (Refusal, String);

fn check_unique(header: &[u8]) -> Result<(), Fault> {
    let mut json = serde_json::Deserializer::from_slice(header);
    let names = unique_map::<_, serde::de::IgnoredAny>(&mut json).map_err(|e| {
        let text = e.to_string();
        let refusal =
            if text.starts_with("duplicate name") { Refusal::DuplicateTensor } else { Refusal::SafetensorsHeader };
        (refusal, format!("header: {text}"))
    })?;
    json.end().map_err(|e| (Refusal::SafetensorsHeader, format!("header: {e}")))?;
    if names.is_empty() {
        return Err((Refusal::SafetensorsHeader, "header: no tensors".into()));
    }
    Ok(())
}

/// The fields of one tensor, read strictly.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

#[derive(serde::Deserialize)]
struct Header {
    #[serde(rename = "__metadata__")]
    #[allow(dead_code)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(flatten)]
    tensors: BTreeMap<String, Entry>,
}

fn check_ranges(header: &[u8], data_len: u64) -> Result<(), Fault> {
    let header: Header =
        serde_json::from_slice(header).map_err(|e| (Refusal::SafetensorsHeader, format!("header: {e}")))?;
    let mut ranges: Vec<(u64, u64, &str)> = Vec::with_capacity(header.tensors.len());
    for (name, entry) in &header.tensors {
        let fault = |what: &str| (Refusal::TensorRange, format!("tensor {name:?}: {what}"));
        let bits = dtype_bits(&entry.dtype).ok_or_else(|| fault(&format!("unknown dtype {:?}", entry.dtype)))?;
        let elements = entry.shape.iter().try_fold(1u64, |n, dim| n.checked_mul(*dim));
        let bytes = elements.and_then(|n| n.checked_mul(bits)).map(|n| n / 8);
        let bytes = bytes.ok_or_else(|| fault("its shape overflows"))?;
        let [start, end] = entry.data_offsets;
        if start > end || end - start != bytes {
            return Err(fault(&format!("range {start}..{end} is not the {bytes} bytes of its shape and dtype")));
        }
        if bytes == 0 {
            return Err(fault("it has no elements"));
        }
        ranges.push((start, end, name));
    }
    ranges.sort_unstable();
    let mut at = 0;
    for (start, end, name) in ranges {
        if start != at {
            let what = if start < at { "overlaps the tensor before it" } else { "leaves a hole before it" };
            return Err((
                Refusal::SafetensorsCover,
                format!("tensor {name:?} at {start}..{end} {what} (expected start {at})"),
            ));
        }
        at = end;
    }
    if at != data_len {
        return Err((Refusal::SafetensorsCover, format!("the tensors end at {at}, the data at {data_len}")));
    }
    Ok(())
}

fn dtype_bits(name: &str) -> Option<u64> {
    Some(match name {
        "BOOL" | "I8" | "U8" | "F8_E4M3" | "F8_E5M2" | "F8_E8M0" => 8,
        "I16" | "U16" | "F16" | "BF16" => 16,
        "I32" | "U32" | "F32" => 32,
        "I64" | "U64" | "F64" => 64,
        _ => return None,
    })
}

/// A JSON object whose keys are all different.
fn unique_map<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: serde::Deserialize<'de>,
{
    struct Unique<T>(std::marker::PhantomData<T>);
    impl<'de, T: serde::Deserialize<'de>> Visitor<'de> for Unique<T> {
        type Value = BTreeMap<String, T>;
        fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = access.next_entry::<String, T>()? {
                if map.contains_key(&key) {
                    return Err(serde::de::Error::custom(format!("duplicate name {key:?}")));
                }
                map.insert(key, value);
            }
            Ok(map)
        }
    }
    deserializer.deserialize_map(Unique(std::marker::PhantomData))
}
