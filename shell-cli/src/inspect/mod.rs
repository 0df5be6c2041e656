//! A second reader of SLM1 files, written from `SPEC.md` and sharing nothing with the core's parser, so that a mistake in
//! one shows in the other. It reads by ranges and never maps the file.

mod records;
mod report;

pub use records::Records;
pub use report::{json, text};

use crate::failure::{Failure, Kind};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::hash::Hasher;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Most bytes of a record or tokenizer that are read.
const MAX_RECORD: u64 = 1 << 30;

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Offset in the file.
    pub offset: u64,
    /// The rule that does not hold.
    pub what: String,
}

fn fault<T>(offset: u64, what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { offset, what: what.into() })
}

/// The header's fields, by the names of `SPEC.md`.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[allow(missing_docs)]
pub struct Header {
    pub version: u32,
    pub header_length: u32,
    pub model_type: u32,
    pub flags: u32,
    pub vocab_size: u32,
    pub special_token_count: u32,
    pub hidden_size: u32,
    pub layer_count: u32,
    pub head_count: u32,
    pub kv_head_count: u32,
    pub head_dim: u32,
    pub ffn_size: u32,
    pub max_context: u32,
    pub rope_theta: f32,
    pub rms_norm_epsilon: f32,
    pub tokenizer_offset: u64,
    pub tokenizer_length: u64,
    pub tensor_directory_offset: u64,
    pub tensor_count: u32,
    pub tensor_data_offset: u64,
    pub checksum: u64,
}

/// A directory entry with its name.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[allow(missing_docs)]
pub struct Tensor {
    pub name: String,
    #[serde(skip)]
    pub name_hash: u64,
    pub dtype: &'static str,
    pub shape: Vec<u32>,
    pub byte_offset: u64,
    pub byte_length: u64,
}

/// Everything but the weights.
#[derive(Clone, Debug)]
pub struct Model {
    /// Length of the file.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// The header.
    pub header: Header,
    /// All entries, records included.
    pub tensors: Vec<Tensor>,
    /// The `@` records, decoded.
    pub records: Records,
    /// Bytes of the tokenizer section.
    pub tokenizer: Vec<u8>,
    /// Bytes of `@template`.
    pub template: Vec<u8>,
}

/// Reads a file and checks its structure.
///
/// # Errors
/// Exit code 6 when the file cannot be read, 5 with offset and rule when it breaks one.
pub fn read(path: &Path) -> Result<Model, Failure> {
    let io = |e: std::io::Error| Failure::new(Kind::Io, format!("{}: {e}", path.display()));
    let mut file = File::open(path).map_err(io)?;
    let len = file.metadata().map_err(io)?.len();
    let parsed = Reader { file: &mut file, len }.model().map_err(io)?;
    parsed.map_err(|fault| {
        Failure::new(Kind::Malformed, format!("{}: offset {}: {}", path.display(), fault.offset, fault.what))
    })
}

struct Reader<'a> {
    file: &'a mut File,
    len: u64,
}

type Checked<T> = std::io::Result<Result<T, Fault>>;

/// Passes a fault on, keeping I/O errors apart.
macro_rules! check {
    ($e:expr) => {
        match $e {
            Ok(value) => value,
            Err(fault) => return Ok(Err(fault)),
        }
    };
}

impl Reader<'_> {
    fn range(&mut self, offset: u64, len: u64) -> Checked<Vec<u8>> {
        if len > MAX_RECORD || offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Ok(fault(offset, format!("{len} bytes from here do not lie in the file of {}", self.len)));
        }
        let mut bytes = vec![0; len as usize];
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(&mut bytes)?;
        Ok(Ok(bytes))
    }

    fn model(&mut self) -> Checked<Model> {
        let header_bytes = check!(self.range(0, 108.min(self.len))?);
        let header = check!(parse_header(&header_bytes));
        let directory_len = u64::from(header.tensor_count) * 64;
        let directory = check!(self.range(header.tensor_directory_offset, directory_len)?);
        let mut tensors = check!(parse_directory(&header, &directory, self.len));
        let (computed, sha256) = self.hashes()?;
        if computed != header.checksum {
            return Ok(fault(100, format!("checksum is {:016x}, the bytes give {computed:016x}", header.checksum)));
        }
        let tokenizer = check!(self.range(header.tokenizer_offset, header.tokenizer_length)?);
        let mut gaps = vec![
            (108, header.tokenizer_offset),
            (header.tokenizer_offset + header.tokenizer_length, header.tensor_directory_offset),
        ];
        let mut end = header.tensor_data_offset;
        for tensor in &tensors {
            gaps.push((end, tensor.byte_offset));
            end = tensor.byte_offset + tensor.byte_length;
        }
        for (start, end) in gaps {
            let gap = check!(self.range(start, end.saturating_sub(start))?);
            if let Some(at) = gap.iter().position(|b| *b != 0) {
                return Ok(fault(start + at as u64, "a byte between two parts is not zero"));
            }
        }
        let mut payloads = Vec::new();
        for tensor in tensors.iter().take(records::NAMES.len()) {
            payloads.push(check!(self.range(tensor.byte_offset, tensor.byte_length)?));
        }
        check!(records::name(&mut tensors, &payloads[0]));
        let records = check!(Records::parse(&header, &tensors, &payloads));
        check!(records::check_tensors(&header, &records, &tensors));
        let template = payloads.swap_remove(3);
        Ok(Ok(Model { bytes: self.len, sha256, header, tensors, records, tokenizer, template }))
    }

    /// XXH64 with the checksum's bytes as zero, and SHA-256.
    fn hashes(&mut self) -> std::io::Result<(u64, String)> {
        let mut xxh = twox_hash::XxHash64::with_seed(0);
        let mut sha = Sha256::new();
        self.file.seek(SeekFrom::Start(0))?;
        let mut buffer = vec![0; 1 << 20];
        let mut first = true;
        loop {
            let mut n = 0;
            while n < buffer.len() {
                match self.file.read(&mut buffer[n..])? {
                    0 => break,
                    more => n += more,
                }
            }
            if n == 0 {
                break;
            }
            sha.update(&buffer[..n]);
            if first {
                buffer[100..108].fill(0);
                first = false;
            }
            xxh.write(&buffer[..n]);
        }
        let value = match xxh.finish() {
            0 => 1,
            value => value,
        };
        Ok((value, crate::convert::provenance::hex(&sha.finalize())))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn parse_header(bytes: &[u8]) -> Result<Header, Fault> {
    if bytes.len() < 108 {
        return fault(bytes.len() as u64, "the file ends inside its header of 108 bytes");
    }
    if bytes[..4] != *b"SLM1" {
        return fault(0, "the file does not begin with SLM1");
    }
    let word = |at| u32_at(bytes, at);
    let h = Header {
        version: word(4),
        header_length: word(8),
        model_type: word(12),
        flags: word(16),
        vocab_size: word(20),
        special_token_count: word(24),
        hidden_size: word(28),
        layer_count: word(32),
        head_count: word(36),
        kv_head_count: word(40),
        head_dim: word(44),
        ffn_size: word(48),
        max_context: word(52),
        rope_theta: f32::from_bits(word(56)),
        rms_norm_epsilon: f32::from_bits(word(60)),
        tokenizer_offset: u64_at(bytes, 64),
        tokenizer_length: u64_at(bytes, 72),
        tensor_directory_offset: u64_at(bytes, 80),
        tensor_count: word(88),
        tensor_data_offset: u64_at(bytes, 92),
        checksum: u64_at(bytes, 100),
    };
    let rules = [
        (4, h.version == 1, "version is not 1"),
        (8, h.header_length == 108, "header_length is not 108"),
        (12, h.model_type == 1, "model_type is not 1"),
        (16, h.flags < 2, "an unknown flag is set"),
        (20, h.vocab_size != 0, "vocab_size is 0"),
        (24, h.special_token_count <= h.vocab_size, "special_token_count is above vocab_size"),
        (28, h.hidden_size != 0, "hidden_size is 0"),
        (32, (1..=1024).contains(&h.layer_count), "layer_count is not 1 to 1024"),
        (36, h.head_count != 0, "head_count is 0"),
        (
            40,
            h.kv_head_count != 0 && h.head_count.is_multiple_of(h.kv_head_count.max(1)),
            "kv_head_count does not divide head_count",
        ),
        (44, h.head_dim != 0 && h.head_dim.is_multiple_of(2), "head_dim is not even"),
        (48, h.ffn_size != 0, "ffn_size is 0"),
        (52, h.max_context != 0, "max_context is 0"),
        (56, h.rope_theta.is_finite() && h.rope_theta > 0.0, "rope_theta is not positive"),
        (60, h.rms_norm_epsilon.is_finite() && h.rms_norm_epsilon > 0.0, "rms_norm_epsilon is not positive"),
        (64, h.tokenizer_offset == 128, "tokenizer_offset is not 128"),
        (
            80,
            Some(h.tensor_directory_offset)
                == h.tokenizer_length.checked_add(128).and_then(|end| end.checked_next_multiple_of(64)),
            "tensor_directory_offset is not the multiple of 64 after the tokenizer",
        ),
        (88, (1..=16_384).contains(&h.tensor_count), "tensor_count is not 1 to 16384"),
        (
            92,
            Some(h.tensor_data_offset) == h.tensor_directory_offset.checked_add(u64::from(h.tensor_count) * 64),
            "tensor_data_offset is not the end of the directory",
        ),
        (100, h.checksum != 0, "checksum is 0"),
    ];
    for (offset, holds, what) in rules {
        if !holds {
            return fault(offset, what);
        }
    }
    let sizes = [
        (28, u64::from(h.hidden_size)),
        (48, u64::from(h.ffn_size)),
        (44, u64::from(h.head_count) * u64::from(h.head_dim)),
        (20, u64::from(h.vocab_size)),
    ];
    match sizes.iter().find(|(_, size)| *size > 1 << 24) {
        Some((offset, size)) => fault(*offset, format!("a size of {size} is above 2^24")),
        None => Ok(h),
    }
}

fn parse_directory(header: &Header, bytes: &[u8], file_len: u64) -> Result<Vec<Tensor>, Fault> {
    let mut tensors: Vec<Tensor> = Vec::new();
    let mut hashes = std::collections::HashSet::new();
    let mut end = header.tensor_data_offset;
    for (index, entry) in bytes.chunks_exact(64).enumerate() {
        let base = header.tensor_directory_offset + 64 * index as u64;
        let (rank, dims) = (u32_at(entry, 12), [16, 20, 24, 28].map(|at| u32_at(entry, at)));
        let (name_hash, offset, length) = (u64_at(entry, 0), u64_at(entry, 32), u64_at(entry, 40));
        if !hashes.insert(name_hash) {
            return fault(base, format!("entry {index} has the name hash of an earlier one"));
        }
        let (dtype, group) = match u32_at(entry, 8) {
            1 => ("f32", 0),
            2 => ("q8_0", 272),
            3 => ("q4_0", 144),
            4 => ("q4_1", 160),
            5 => ("bf16", 0),
            16 => ("bytes", 0),
            other => return fault(base + 8, format!("entry {index}: dtype {other} is unknown")),
        };
        let quantised = group != 0;
        let ranks: &[u32] = match dtype {
            "bytes" => &[1],
            "f32" => &[1, 2],
            _ => &[2],
        };
        if !ranks.contains(&rank) {
            return fault(base + 12, format!("entry {index}: rank {rank} of dtype {dtype}"));
        }
        let used = rank as usize;
        let zero = dims[..used].contains(&0) && dtype != "bytes";
        if zero || dims[used..].iter().any(|dim| *dim != 0) {
            return fault(base + 16, format!("entry {index}: dims {dims:?} of rank {rank}"));
        }
        let (rows, cols) = (u128::from(dims[0]), if rank == 2 { u128::from(dims[1]) } else { 1 });
        let want = match dtype {
            "bytes" => rows,
            "f32" => rows * cols * 4,
            "bf16" => rows * cols * 2,
            _ => rows.div_ceil(8) * cols.div_ceil(32) * group,
        };
        if u128::from(length) != want {
            return fault(base + 40, format!("entry {index}: byte_length {length}, the shape needs {want}"));
        }
        if u64_at(entry, 48) != 0 {
            return fault(base + 48, format!("entry {index}: scale_offset is not 0"));
        }
        if u32_at(entry, 56) != if quantised { 32 } else { 0 } {
            return fault(base + 56, format!("entry {index}: block_size {}", u32_at(entry, 56)));
        }
        if u32_at(entry, 60) != u32::from(quantised) {
            return fault(base + 60, format!("entry {index}: layout {}", u32_at(entry, 60)));
        }
        if Some(offset) != end.checked_next_multiple_of(64) {
            return fault(
                base + 32,
                format!("entry {index}: byte_offset {offset} is not the next multiple of 64 after {end}"),
            );
        }
        end = match offset.checked_add(length) {
            Some(end) if end <= file_len => end,
            _ => return fault(base + 40, format!("entry {index} ends beyond the file")),
        };
        let shape = dims[..used].to_vec();
        tensors.push(Tensor { name: String::new(), name_hash, dtype, shape, byte_offset: offset, byte_length: length });
    }
    if end != file_len {
        return fault(end, format!("the last payload ends here, the file at {file_len}"));
    }
    if tensors.len() < records::NAMES.len() {
        return fault(88, "fewer entries than there are records");
    }
    Ok(tensors)
}
