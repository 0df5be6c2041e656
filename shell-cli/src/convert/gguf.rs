//! GGUF files: metadata and tensor table, every count and offset checked before it is used.

use super::refusal::{Refusal, refuse};
use super::source::{Source, SourceDtype, SourceFile, SourceTensor};
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::path::Path;

/// Most metadata entries and tensors.
const MAX_ENTRIES: u64 = 65_536;
/// Most bytes of a key or tensor name.
const MAX_NAME: u64 = 65_535;
/// Read from the file at a time.
const WINDOW: usize = 1 << 16;

/// Metadata and tensors.
type Head = (BTreeMap<String, Value>, BTreeMap<String, SourceTensor>);
/// Name, dimensions, type and relative offset of a tensor.
type Info = (String, Vec<u64>, u32, u64);

/// A metadata value. Whole numbers keep their value whatever their width.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    List(Vec<Value>),
}

impl Value {
    /// A whole number that is not negative.
    pub fn unsigned(&self) -> Option<u64> {
        match self {
            Self::Unsigned(n) => Some(*n),
            Self::Signed(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    /// Any number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Unsigned(n) => Some(*n as f64),
            Self::Signed(n) => Some(*n as f64),
            Self::Float(f) => Some(*f),
            _ => None,
        }
    }

    /// A string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A GGUF file.
#[derive(Debug)]
pub struct Gguf {
    pub metadata: BTreeMap<String, Value>,
    pub source: Source,
}

/// Reads the head of the file at `path`.
pub fn open(path: &Path) -> Result<Gguf, Failure> {
    let file = SourceFile::open(path)?;
    let name = file.name.clone();
    let mut reader = Reader { file: &file, at: 0, window: Vec::new(), window_at: 0 };
    let (metadata, tensors) = reader.head().map_err(|fault| match fault {
        Fault::Io(failure) => failure,
        Fault::Bad(at, what) => refuse(Refusal::BadGguf, format!("{name}: offset {at}: {what}")),
        Fault::Unsupported(what) => refuse(Refusal::UnsupportedGguf, format!("{name}: {what}")),
    })?;
    Ok(Gguf { metadata, source: Source { files: vec![file], tensors } })
}

enum Fault {
    Io(Failure),
    Bad(u64, String),
    Unsupported(String),
}

struct Reader<'a> {
    file: &'a SourceFile,
    at: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Reader<'_> {
    fn bad<T>(&self, what: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::Bad(self.at, what.into()))
    }

    fn left(&self) -> u64 {
        self.file.len() - self.at
    }

    fn take(&mut self, len: u64) -> Result<Vec<u8>, Fault> {
        if len > self.left() {
            return self.bad(format!("{len} bytes from here lie beyond the end of the file"));
        }
        let len = len as usize;
        let start = self.at.checked_sub(self.window_at).map_or(usize::MAX, |n| n as usize);
        if start > self.window.len() || self.window.len() - start < len {
            let size = len.max(WINDOW).min(self.left() as usize);
            self.window.resize(size, 0);
            self.window_at = self.at;
            self.file.read_at(self.at, &mut self.window).map_err(Fault::Io)?;
        }
        let start = (self.at - self.window_at) as usize;
        self.at += len as u64;
        Ok(self.window[start..start + len].to_vec())
    }

    fn word<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let bytes = self.take(N as u64)?;
        let mut word = [0; N];
        word.copy_from_slice(&bytes);
        Ok(word)
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.word()?))
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.word()?))
    }

    fn text(&mut self, most: u64) -> Result<String, Fault> {
        let at = self.at;
        let len = self.u64()?;
        if len > most {
            return Err(Fault::Bad(at, format!("a string of {len} bytes")));
        }
        let bytes = self.take(len)?;
        String::from_utf8(bytes).map_err(|_| Fault::Bad(at, "a string that is not UTF-8".into()))
    }

    fn value(&mut self, kind: u32, nested: bool) -> Result<Value, Fault> {
        Ok(match kind {
            0 => Value::Unsigned(u64::from(self.word::<1>()?[0])),
            1 => Value::Signed(i64::from(self.word::<1>()?[0] as i8)),
            2 => Value::Unsigned(u64::from(u16::from_le_bytes(self.word()?))),
            3 => Value::Signed(i64::from(i16::from_le_bytes(self.word()?))),
            4 => Value::Unsigned(u64::from(self.u32()?)),
            5 => Value::Signed(i64::from(i32::from_le_bytes(self.word()?))),
            6 => Value::Float(f64::from(f32::from_le_bytes(self.word()?))),
            7 => match self.word::<1>()?[0] {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                other => return self.bad(format!("a boolean of {other}")),
            },
            8 => Value::Text(self.text(self.left())?),
            9 if nested => return self.bad("a list of lists"),
            9 => {
                let kind = self.u32()?;
                let count = self.u64()?;
                let least = match kind {
                    0 | 1 | 7 => 1,
                    2 | 3 => 2,
                    4..=6 => 4,
                    8 | 10..=12 => 8,
                    _ => return self.bad(format!("a list of type {kind}")),
                };
                if count > self.left() / least {
                    return self.bad(format!("a list of {count} values, more than the file has bytes for"));
                }
                // Grown as values are read, so that a count alone takes no memory.
                let mut list = Vec::new();
                for _ in 0..count {
                    list.push(self.value(kind, true)?);
                }
                Value::List(list)
            }
            10 => Value::Unsigned(self.u64()?),
            11 => Value::Signed(i64::from_le_bytes(self.word()?)),
            12 => Value::Float(f64::from_le_bytes(self.word()?)),
            _ => return self.bad(format!("metadata type {kind}")),
        })
    }

    fn head(&mut self) -> Result<Head, Fault> {
        if self.word::<4>()? != *b"GGUF" {
            return Err(Fault::Bad(0, "the file does not begin with GGUF".into()));
        }
        match self.u32()? {
            2 | 3 => {}
            version if version.swap_bytes() <= 3 => return Err(Fault::Unsupported("big-endian GGUF".into())),
            version => return Err(Fault::Unsupported(format!("GGUF version {version}; 2 and 3 are read"))),
        }
        let (tensor_count, entry_count) = (self.u64()?, self.u64()?);
        if tensor_count > MAX_ENTRIES || entry_count > MAX_ENTRIES {
            return Err(Fault::Bad(8, format!("{tensor_count} tensors and {entry_count} metadata entries")));
        }
        let mut metadata = BTreeMap::new();
        for _ in 0..entry_count {
            let at = self.at;
            let key = self.text(MAX_NAME)?;
            let kind = self.u32()?;
            let value = self.value(kind, false)?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(Fault::Bad(at, format!("key {key:?} stands twice")));
            }
        }
        let alignment = match metadata.get("general.alignment") {
            None => 32,
            Some(Value::Unsigned(n)) if n.is_power_of_two() && (8..=1 << 20).contains(n) => *n,
            Some(other) => return self.bad(format!("general.alignment is {other:?}")),
        };
        let mut infos = Vec::new();
        for _ in 0..tensor_count {
            infos.push((self.at, self.info()?));
        }
        let Some(start) = self.at.checked_next_multiple_of(alignment) else { return self.bad("no room for data") };
        self.place(infos, start, alignment).map(|tensors| (metadata, tensors))
    }

    fn info(&mut self) -> Result<Info, Fault> {
        let name = self.text(MAX_NAME)?;
        let rank = self.u32()?;
        if rank == 0 || rank > 4 {
            return self.bad(format!("tensor {name:?} has {rank} dimensions"));
        }
        let mut dims = Vec::new();
        for _ in 0..rank {
            dims.push(self.u64()?);
        }
        let (kind, offset) = (self.u32()?, self.u64()?);
        Ok((name, dims, kind, offset))
    }

    /// Checks shapes and ranges, and turns the dimensions around: GGUF writes columns first.
    fn place(
        &self,
        infos: Vec<(u64, Info)>,
        start: u64,
        alignment: u64,
    ) -> Result<BTreeMap<String, SourceTensor>, Fault> {
        let mut tensors = BTreeMap::new();
        let mut ranges = Vec::new();
        for (at, (name, dims, kind, offset)) in infos {
            let bad = |what: String| Fault::Bad(at, format!("tensor {name:?}: {what}"));
            let dtype = match kind {
                0 => SourceDtype::F32,
                1 => SourceDtype::F16,
                30 => SourceDtype::Bf16,
                2 => SourceDtype::Q4_0,
                3 => SourceDtype::Q4_1,
                8 => SourceDtype::Q8_0,
                6 | 7 | 9..=29 | 31..=39 => {
                    return Err(Fault::Unsupported(format!(
                        "tensor {name:?} has ggml type {kind}; F32, F16, BF16, Q8_0, Q4_0 and Q4_1 are imported"
                    )));
                }
                _ => return Err(bad(format!("ggml type {kind} is unknown"))),
            };
            let elements = dims.iter().try_fold(1u64, |n, dim| n.checked_mul(*dim)).filter(|n| *n > 0);
            let elements = elements.ok_or_else(|| bad(format!("dimensions {dims:?} are zero or overflow")))?;
            if !dims[0].is_multiple_of(dtype.block()) {
                return Err(bad(format!("{} columns are no multiple of {}", dims[0], dtype.block())));
            }
            let bytes = (elements / dtype.block()).checked_mul(dtype.block_bytes());
            let end = bytes.and_then(|bytes| start.checked_add(offset)?.checked_add(bytes));
            let (Some(bytes), Some(end)) = (bytes, end) else { return Err(bad("its size overflows".into())) };
            if !offset.is_multiple_of(alignment) || end > self.file.len() {
                return Err(bad(format!("offset {offset} is not aligned, or its {bytes} bytes end beyond the file")));
            }
            let mut shape = dims.clone();
            while shape.len() > 1 && shape.last() == Some(&1) {
                shape.pop();
            }
            shape.reverse();
            ranges.push((start + offset, end, name.clone()));
            let tensor = SourceTensor { name: name.clone(), dtype, shape, file: 0, offset: start + offset, bytes };
            if tensors.insert(name.clone(), tensor).is_some() {
                return Err(bad("the name stands twice".into()));
            }
        }
        ranges.sort_unstable();
        match ranges.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            Some(pair) => Err(Fault::Bad(pair[1].0, format!("tensors {:?} and {:?} overlap", pair[0].2, pair[1].2))),
            None => Ok(tensors),
        }
    }
}
