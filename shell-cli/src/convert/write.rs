//! The container's bytes: header, tokenizer, directory, records, tensors (`SPEC.md` section 2). Tensors are streamed.

use super::config::Architecture;
use super::encode::{self, Encoding};
use super::forward::Moments;
use super::mapping::Destination;
use super::output::Output;
use super::progress::Progress;
use super::records;
use super::source::Source;
use crate::failure::{Failure, Kind};
use sha2::{Digest, Sha256};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use tinyrustlm_core::container::{DType, Entry, Fnv, Header, RESERVED, Xxh64, align_up, header};

/// All that goes into a file but the tensors' bytes.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    pub architecture: &'a Architecture,
    pub tied: bool,
    pub special_count: u32,
    pub tokenizer: &'a [u8],
    pub template: &'a [u8],
    pub stops: &'a [u8],
    pub sampling: &'a [u8],
    pub tensors: &'a [(Destination, Encoding)],
    /// Weights of the columns of a matrix, by its name.
    pub importance: &'a Moments,
}

/// SHA-256 of a payload.
pub type Digest256 = [u8; 32];

/// Positions of all payloads.
#[derive(Debug)]
pub struct Map {
    entries: Vec<Entry>,
    directory_offset: u64,
    data_offset: u64,
}

impl Map {
    /// The length of the file.
    pub fn file_len(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.byte_offset + entry.byte_length)
    }

    /// Offset and length of the tensor number `index`.
    pub fn tensor(&self, index: usize) -> (u64, u64) {
        let entry = &self.entries[RESERVED.len() + index];
        (entry.byte_offset, entry.byte_length)
    }
}

fn too_large() -> Failure {
    Failure::new(Kind::Unsupported, "the file would be larger than its format can describe")
}

/// Lays out the file, given the length of the provenance.
pub fn map(parts: &Parts, provenance_len: usize) -> Result<Map, Failure> {
    let records = records(parts, &[]);
    let lens: Vec<usize> =
        records.iter().enumerate().map(|(at, record)| if at == 6 { provenance_len } else { record.len() }).collect();
    let count = RESERVED.len() + parts.tensors.len();
    let directory_offset = align_up(header::TOKENIZER_START + parts.tokenizer.len() as u64).ok_or_else(too_large)?;
    let data_offset = directory_offset + 64 * count as u64;
    let mut at = data_offset;
    let mut entries = Vec::with_capacity(count);
    let mut add = |name: &str, dtype, rank, rows: u64, cols: u64| -> Result<(), Failure> {
        at = align_up(at).ok_or_else(too_large)?;
        let size = |n: u64| u32::try_from(n).map_err(|_| too_large());
        let entry =
            Entry::new(Fnv::of(name.as_bytes()), dtype, rank, size(rows)?, size(cols)?, at).ok_or_else(too_large)?;
        at += entry.byte_length;
        entries.push(entry);
        Ok(())
    };
    for (name, len) in RESERVED.iter().zip(lens) {
        add(name, DType::Bytes, 1, len as u64, 0)?;
    }
    for (dest, encoding) in parts.tensors {
        let rank = dest.shape.len() as u32;
        add(&dest.name, encoding.dtype.core(), rank, dest.rows(), if rank == 2 { dest.cols() } else { 0 })?;
    }
    Ok(Map { entries, directory_offset, data_offset })
}

/// The `@` records in the order of the directory.
fn records(parts: &Parts, provenance: &[u8]) -> [Vec<u8>; 7] {
    let names = RESERVED.iter().copied().chain(parts.tensors.iter().map(|(dest, _)| dest.name.as_str()));
    [
        records::names(names),
        records::config(parts.architecture),
        records::rope(parts.architecture),
        parts.template.to_vec(),
        parts.stops.to_vec(),
        parts.sampling.to_vec(),
        provenance.to_vec(),
    ]
}

fn header_bytes(parts: &Parts, map: &Map) -> [u8; header::LENGTH] {
    let a = parts.architecture;
    let header = Header {
        flags: if parts.tied { header::FLAG_TIED } else { 0 },
        vocab_size: a.vocab_size,
        special_token_count: parts.special_count,
        hidden_size: a.hidden_size,
        layer_count: a.layer_count,
        head_count: a.head_count,
        kv_head_count: a.kv_head_count,
        head_dim: a.head_dim,
        ffn_size: a.ffn_size,
        max_context: a.max_context,
        rope_theta: a.rope_theta,
        rms_norm_epsilon: a.rms_norm_epsilon,
        tokenizer_offset: header::TOKENIZER_START,
        tokenizer_length: parts.tokenizer.len() as u64,
        tensor_directory_offset: map.directory_offset,
        tensor_count: map.entries.len() as u32,
        tensor_data_offset: map.data_offset,
        checksum: 0,
    };
    header.emit()
}

/// Writes everything but the checksum. The provenance is that of `map`, and may be replaced by one of the same length.
pub fn write(
    output: &mut Output,
    parts: &Parts,
    map: &Map,
    provenance: &[u8],
    source: &Source,
    progress: &Progress,
) -> Result<Vec<Digest256>, Failure> {
    let mut out = Sink { to: BufWriter::with_capacity(1 << 20, &mut output.file), at: 0 };
    out.put(&header_bytes(parts, map))?;
    out.pad(header::TOKENIZER_START)?;
    out.put(parts.tokenizer)?;
    out.pad(map.directory_offset)?;
    for entry in &map.entries {
        out.put(&entry.emit())?;
    }
    for (entry, record) in map.entries.iter().zip(records(parts, provenance)) {
        out.pad(entry.byte_offset)?;
        out.put(&record)?;
    }
    let mut written = Vec::with_capacity(parts.tensors.len());
    for (index, (dest, encoding)) in parts.tensors.iter().enumerate() {
        let (offset, bytes) = map.tensor(index);
        out.pad(offset)?;
        let mut hash = Sha256::new();
        let importance = parts.importance.get(&dest.name).map(Vec::as_slice);
        encode::payload(source, dest, *encoding, importance, |piece| {
            hash.update(piece);
            progress.add(piece.len() as u64);
            out.put(piece)
        })?;
        debug_assert_eq!(out.at, offset + bytes);
        written.push(hash.finalize().into());
    }
    out.to.flush()?;
    Ok(written)
}

/// Reads bytes of the file written so far.
pub fn read_back(output: &Output, offset: u64, out: &mut [u8]) -> Result<(), Failure> {
    let mut file = &output.file;
    file.seek(SeekFrom::Start(offset))?;
    Ok(file.read_exact(out)?)
}

/// Puts another provenance of the same length in place.
pub fn replace_provenance(output: &mut Output, map: &Map, provenance: &[u8]) -> Result<(), Failure> {
    let entry = &map.entries[6];
    debug_assert_eq!(entry.byte_length, provenance.len() as u64);
    output.file.seek(SeekFrom::Start(entry.byte_offset))?;
    output.file.write_all(provenance)?;
    Ok(())
}

/// Reads the file back, stores its checksum, and returns the SHA-256 of the whole.
pub fn seal(output: &mut Output) -> Result<String, Failure> {
    let mut checksum = Xxh64::new();
    // The checksum's own bytes are still zero.
    read_through(output, |bytes| checksum.update(bytes))?;
    let value = match checksum.finish() {
        0 => 1,
        value => value,
    };
    output.file.seek(SeekFrom::Start(header::CHECKSUM as u64))?;
    output.file.write_all(&u64::to_le_bytes(value))?;
    let mut hash = Sha256::new();
    read_through(output, |bytes| hash.update(bytes))?;
    Ok(super::provenance::hex(&hash.finalize()))
}

fn read_through(output: &mut Output, mut each: impl FnMut(&[u8])) -> Result<(), Failure> {
    output.file.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match output.file.read(&mut buffer)? {
            0 => return Ok(()),
            n => each(&buffer[..n]),
        }
    }
}

struct Sink<W> {
    to: W,
    at: u64,
}

impl<W: Write> Sink<W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.at += bytes.len() as u64;
        Ok(self.to.write_all(bytes)?)
    }

    fn pad(&mut self, to: u64) -> Result<(), Failure> {
        self.put(&vec![0; (to - self.at) as usize])
    }
}
