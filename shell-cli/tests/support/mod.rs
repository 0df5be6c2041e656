//! Small folders and files to convert: the committed reference folders, copied and changed.
#![allow(dead_code)]

use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tinyrustlm_cli::convert::{Options, Quant, Summary, convert};
use tinyrustlm_cli::failure::Failure;

/// The committed folders of ten families.
pub fn families() -> Vec<PathBuf> {
    folders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/families"))
}

/// The packs of `../shared`, when it is there.
pub fn shared_packs() -> Vec<PathBuf> {
    let shared = std::env::var_os("SHARED_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let packs = folders(&shared.join("data/tiny"));
    if packs.is_empty() {
        eprintln!("SKIPPED packs of ../shared: ../shared not present");
    }
    packs
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut list: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.join("config.json").exists()).collect();
    list.sort();
    list
}

/// Options for a lossless conversion without measurement.
pub fn options(source: &Path, output: &Path, quant: Quant) -> Options {
    Options {
        source: source.to_owned(),
        output: output.to_owned(),
        quant,
        context: None,
        overrides: Vec::new(),
        receipt: None,
        drift: false,
        calibration: None,
        tensor_types: Vec::new(),
        target_bytes: None,
        require_band: None,
    }
}

/// Converts without a word.
pub fn run(options: &Options) -> Result<Summary, Failure> {
    convert(options, &mut |_| {})
}

/// A copy of a committed folder that can be changed.
pub struct Folder {
    dir: TempDir,
}

impl Folder {
    /// Copies the folder of that name.
    pub fn of(name: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/families").join(name);
        let dir = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(from).unwrap().flatten() {
            fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
        fs::remove_file(dir.path().join("golden.json")).unwrap();
        fs::remove_file(dir.path().join("logits.f32")).unwrap();
        Self { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn json(&self, file: &str) -> Map<String, Value> {
        let bytes = fs::read(self.path().join(file)).unwrap_or_else(|_| b"{}".to_vec());
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Sets a field of a JSON file; `null` in `value` removes it.
    pub fn set(&self, file: &str, key: &str, value: Value) -> &Self {
        let mut map = self.json(file);
        if value.is_null() {
            map.shift_remove(key);
        } else {
            map.insert(key.into(), value);
        }
        self.write(file, &serde_json::to_vec(&map).unwrap())
    }

    pub fn write(&self, file: &str, bytes: &[u8]) -> &Self {
        fs::write(self.path().join(file), bytes).unwrap();
        self
    }

    pub fn tensors(&self) -> Tensors {
        Tensors::parse(&fs::read(self.path().join("model.safetensors")).unwrap())
    }

    pub fn put(&self, tensors: &Tensors) -> &Self {
        self.write("model.safetensors", &tensors.bytes())
    }

    /// Converts; checks that a refusal leaves nothing.
    pub fn convert(&self, overrides: &[&str]) -> Result<Summary, Failure> {
        convert_into_empty(self.path(), overrides)
    }
}

/// Converts into a new folder; checks that a refusal leaves nothing there.
pub fn convert_into_empty(source: &Path, overrides: &[&str]) -> Result<Summary, Failure> {
    let out = tempfile::tempdir().unwrap();
    let mut options = options(source, &out.path().join("m.slm"), Quant::Auto);
    options.overrides = overrides.iter().map(|text| (*text).to_owned()).collect();
    let result = run(&options);
    let left = fs::read_dir(out.path()).unwrap().count();
    assert_eq!(left, usize::from(result.is_ok()), "files left behind");
    result
}

/// A safetensors file taken apart: name, dtype, shape, bytes.
#[derive(Clone)]
pub struct Tensors(pub Vec<(String, String, Vec<u64>, Vec<u8>)>);

impl Tensors {
    pub fn parse(file: &[u8]) -> Self {
        let len = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let header: Map<String, Value> = serde_json::from_slice(&file[8..8 + len]).unwrap();
        let tensors = header.iter().filter(|(name, _)| *name != "__metadata__");
        Self(
            tensors
                .map(|(name, info)| {
                    let at = |i: usize| 8 + len + info["data_offsets"][i].as_u64().unwrap() as usize;
                    let shape = info["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
                    (name.clone(), info["dtype"].as_str().unwrap().to_owned(), shape, file[at(0)..at(1)].to_vec())
                })
                .collect(),
        )
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut header = Map::new();
        let mut data = Vec::new();
        for (name, dtype, shape, bytes) in &self.0 {
            let start = data.len();
            data.extend(bytes);
            header.insert(
                name.clone(),
                serde_json::json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, data.len()] }),
            );
        }
        safetensors_file(&Value::Object(header).to_string(), &data)
    }

    pub fn get(&mut self, name: &str) -> &mut (String, String, Vec<u64>, Vec<u8>) {
        self.0.iter_mut().find(|tensor| tensor.0 == name).unwrap()
    }

    pub fn remove(&mut self, name: &str) -> &mut Self {
        self.0.retain(|tensor| tensor.0 != name);
        self
    }

    pub fn add(&mut self, name: &str, dtype: &str, shape: &[u64], bytes: Vec<u8>) -> &mut Self {
        self.0.push((name.into(), dtype.into(), shape.to_vec(), bytes));
        self
    }
}

/// A safetensors file of this header and data.
pub fn safetensors_file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// A GGUF file, field by field.
#[derive(Clone, Default)]
pub struct GgufFile {
    metadata: Vec<u8>,
    entries: u64,
    infos: Vec<u8>,
    tensors: u64,
    data: Vec<u8>,
}

impl GgufFile {
    fn string(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }

    /// A metadata entry of any type: type number and the bytes of the value.
    pub fn raw(&mut self, key: &str, kind: u32, value: &[u8]) -> &mut Self {
        Self::string(&mut self.metadata, key);
        self.metadata.extend(kind.to_le_bytes());
        self.metadata.extend(value);
        self.entries += 1;
        self
    }

    pub fn u32(&mut self, key: &str, value: u32) -> &mut Self {
        self.raw(key, 4, &value.to_le_bytes())
    }

    pub fn f32(&mut self, key: &str, value: f32) -> &mut Self {
        self.raw(key, 6, &value.to_le_bytes())
    }

    pub fn text(&mut self, key: &str, value: &str) -> &mut Self {
        let mut bytes = Vec::new();
        Self::string(&mut bytes, value);
        self.raw(key, 8, &bytes)
    }

    pub fn texts(&mut self, key: &str, values: &[String]) -> &mut Self {
        let mut bytes = 8u32.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| Self::string(&mut bytes, value));
        self.raw(key, 9, &bytes)
    }

    pub fn i32s(&mut self, key: &str, values: &[i32]) -> &mut Self {
        let mut bytes = 5u32.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.raw(key, 9, &bytes)
    }

    /// Dimensions as the file states them, columns first.
    pub fn tensor(&mut self, name: &str, dims: &[u64], kind: u32, bytes: &[u8]) -> &mut Self {
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        let offset = self.data.len() as u64;
        self.info(name, dims, kind, offset);
        self.data.extend(bytes);
        self
    }

    pub fn info(&mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> &mut Self {
        Self::string(&mut self.infos, name);
        self.infos.extend((dims.len() as u32).to_le_bytes());
        self.infos.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
        self.infos.extend(kind.to_le_bytes());
        self.infos.extend(offset.to_le_bytes());
        self.tensors += 1;
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend(self.tensors.to_le_bytes());
        out.extend(self.entries.to_le_bytes());
        out.extend(&self.metadata);
        out.extend(&self.infos);
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&self.data);
        out
    }
}

/// Numbers without a pattern, the same in each run.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
}
