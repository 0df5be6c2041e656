//! The source of a conversion, whatever its format: named tensors in files, read by rows and never whole.

use super::refusal::{Refusal, refuse};
use crate::failure::{Failure, Kind};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// How a source stores numbers. The quantised ones are ggml's blocks of 32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceDtype {
    F32,
    F16,
    Bf16,
    Q8_0,
    Q4_0,
    Q4_1,
}

impl SourceDtype {
    /// Elements of a block.
    pub const fn block(self) -> u64 {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 => 32,
        }
    }

    /// Bytes of a block.
    pub const fn block_bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
        }
    }

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::Q4_1 => "q4_1",
        }
    }
}

/// One tensor of the source. A vector has one column and as many rows as elements.
#[derive(Clone, Debug)]
pub struct SourceTensor {
    pub name: String,
    pub dtype: SourceDtype,
    /// Shape as the file states it, rows first.
    pub shape: Vec<u64>,
    /// Index into [`Source::files`].
    pub file: usize,
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl SourceTensor {
    /// Rows of a matrix, elements of a vector.
    pub fn rows(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Columns of a matrix, 1 for a vector.
    pub fn cols(&self) -> u64 {
        self.shape.get(1).copied().unwrap_or(1)
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> u64 {
        self.bytes / self.rows().max(1)
    }
}

/// A file that holds tensors.
#[derive(Debug)]
pub struct SourceFile {
    /// Name for reports, without folder.
    pub name: String,
    file: File,
    len: u64,
    modified: Option<std::time::SystemTime>,
}

impl SourceFile {
    /// Opens a file for reading by range.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|e| io(path, &e))?;
        let metadata = file.metadata().map_err(|e| io(path, &e))?;
        let (len, modified) = (metadata.len(), metadata.modified().ok());
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, file, len, modified })
    }

    /// Bytes of the file when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Length or time of the last change differ from when the file was opened.
    pub fn has_changed(&self) -> Result<bool, Failure> {
        let now = self.file.metadata()?;
        Ok(now.len() != self.len || now.modified().ok() != self.modified)
    }

    /// Fills `out` with the bytes from `offset` on.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), Failure> {
        let mut file = &self.file;
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(out));
        read.map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                refuse(Refusal::SourceChanged, format!("{}: ends before offset {offset} + {}", self.name, out.len()))
            }
            _ => Failure::new(Kind::Io, format!("{}: {e}", self.name)),
        })
    }
}

/// All tensors of a source.
#[derive(Debug, Default)]
pub struct Source {
    pub files: Vec<SourceFile>,
    pub tensors: BTreeMap<String, SourceTensor>,
}

impl Source {
    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Result<&SourceTensor, Failure> {
        self.tensors
            .get(name)
            .ok_or_else(|| refuse(Refusal::MissingTensor, format!("the source has no tensor {name:?}")))
    }

    /// The stored bytes of `rows` rows of `tensor` from `first` on.
    pub fn read_rows(&self, tensor: &SourceTensor, first: u64, rows: u64, out: &mut Vec<u8>) -> Result<(), Failure> {
        let row = tensor.row_bytes();
        out.resize((row * rows) as usize, 0);
        let file = &self.files[tensor.file];
        file.read_at(tensor.offset + first * row, out)
    }
}

/// Appends the f32 values of stored bytes. Widening is exact; ggml's blocks decode as `SPEC.md` section 4 says.
pub fn widen(dtype: SourceDtype, bytes: &[u8], out: &mut Vec<f32>) {
    match dtype {
        SourceDtype::F32 => {
            out.extend(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)));
        }
        SourceDtype::F16 => {
            out.extend(bytes.as_chunks::<2>().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()));
        }
        SourceDtype::Bf16 => {
            out.extend(
                bytes.as_chunks::<2>().0.iter().map(|b| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16)),
            );
        }
        SourceDtype::Q8_0 | SourceDtype::Q4_0 | SourceDtype::Q4_1 => {
            for block in bytes.chunks_exact(dtype.block_bytes() as usize) {
                out.extend(super::blocks::Block::from_ggml(dtype, block).values(dtype));
            }
        }
    }
}

/// An I/O failure that names the path.
pub fn io(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Kind::Io, format!("{}: {error}", path.display()))
}

/// A whole small file of the source, or `None` when it is not there.
pub fn read_optional(path: PathBuf, limit: u64) -> Result<Option<Vec<u8>>, Failure> {
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io(&path, &e)),
    };
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| io(&path, &e))?;
    if bytes.len() as u64 > limit {
        return Err(refuse(Refusal::BadJson, format!("{}: longer than {limit} bytes", path.display())));
    }
    Ok(Some(bytes))
}
