//! The file: header, directory, names, payload ranges. [`Container::parse`] is the one door; what it has accepted
//! has no overlap, no hole that is not zero, and payloads that lie inside the file.

pub mod checksum;
pub mod directory;
pub mod header;
pub mod names;

pub use checksum::{Xxh64, checksum};
pub use directory::{DType, Entry};
pub use header::Header;
pub use names::{Fnv, Names};

use crate::bytes::{slice, u64_at};
use crate::error::{Code, Error};
use crate::limits::ALIGN;
use bytemuck::Zeroable;

/// Names of the records that stand before all tensors, in their order.
pub const RESERVED: [&str; 7] = ["@names", "@config", "@rope", "@template", "@stops", "@sampling", "@provenance"];

/// `offset` rounded up to the alignment of payloads.
pub fn align_up(offset: u64) -> Option<u64> {
    offset.checked_next_multiple_of(ALIGN as u64)
}

/// A file whose structure has been checked.
#[derive(Clone, Copy, Debug)]
pub struct Container<'a> {
    bytes: &'a [u8],
    header: Header,
    directory: &'a [u8],
    tokenizer: &'a [u8],
}

impl<'a> Container<'a> {
    /// Checks header, checksum, directory, padding and names of `bytes`, the whole file. Reads every byte once.
    ///
    /// # Errors
    /// The number of the first condition that does not hold, with its offset and directory index.
    #[inline(never)]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut container = Self::empty();
        container.read(bytes)?;
        Ok(container)
    }

    /// A container that is still to be read.
    pub(crate) fn empty() -> Self {
        Self { bytes: &[], header: Zeroable::zeroed(), directory: &[], tokenizer: &[] }
    }

    /// [`Container::parse`], in place.
    #[inline(never)]
    pub(crate) fn read(&mut self, bytes: &'a [u8]) -> Result<(), Error> {
        self.bytes = bytes;
        self.header.read(bytes)?;
        let (header, len) = (&self.header, bytes.len() as u64);
        if usize::try_from(header.tensor_data_offset).is_err() {
            return Err(Error::new(Code::FileTooLarge).at(header::TENSOR_DATA_OFFSET as u64));
        }
        let Some(tokenizer) = slice(bytes, header.tokenizer_offset, header.tokenizer_length) else {
            return Err(Error::new(Code::TokenizerRange).at(header::TOKENIZER_LENGTH as u64));
        };
        let directory_len = header.tensor_data_offset.saturating_sub(header.tensor_directory_offset);
        let Some(directory) = slice(bytes, header.tensor_directory_offset, directory_len) else {
            return Err(Error::new(Code::DirectoryRange).at(header::TENSOR_DIRECTORY_OFFSET as u64));
        };
        (self.tokenizer, self.directory) = (tokenizer, directory);

        // A cut or extended file is named as such before the checksum calls it damaged.
        let last = header.tensor_count.saturating_sub(1);
        let start = self.field(last as usize, directory::BYTE_OFFSET);
        let length = self.field(last as usize, directory::BYTE_LENGTH);
        if start.checked_add(length) != Some(len) {
            return Err(Error::new(Code::FileLength).at(len).entry(last));
        }
        if checksum(bytes) != header.checksum {
            return Err(Error::new(Code::ChecksumMismatch).at(header::CHECKSUM as u64));
        }

        self.zeros(header::LENGTH as u64, header.tokenizer_offset)?;
        let tokenizer_end = header.tokenizer_offset.saturating_add(header.tokenizer_length);
        self.zeros(tokenizer_end, header.tensor_directory_offset)?;
        self.check_payloads()?;
        self.check_names()
    }

    #[inline(never)]
    fn check_payloads(&self) -> Result<(), Error> {
        let mut end = self.header.tensor_data_offset;
        for index in 0..self.header.tensor_count {
            let at = self.entry_offset(index);
            let fail = |code, field: usize| Error::new(code).at(at.saturating_add(field as u64)).entry(index);
            let Some(entry) = self.entry(index as usize) else {
                return Err(fail(Code::UnknownDType, directory::DTYPE));
            };
            if let Some((code, field)) = entry.broken_rule() {
                return Err(fail(code, field));
            }
            if entry.byte_offset % ALIGN as u64 != 0 {
                return Err(fail(Code::PayloadUnaligned, directory::BYTE_OFFSET));
            }
            if entry.byte_offset < end {
                return Err(fail(Code::PayloadOverlap, directory::BYTE_OFFSET));
            }
            if align_up(end) != Some(entry.byte_offset) {
                return Err(fail(Code::PayloadGap, directory::BYTE_OFFSET));
            }
            self.zeros(end, entry.byte_offset)?;
            if slice(self.bytes, entry.byte_offset, entry.byte_length).is_none() {
                return Err(fail(Code::PayloadRange, directory::BYTE_LENGTH));
            }
            // In the order of the file the earlier names are fewer and already known to differ.
            let name = entry.name_hash;
            if (0..index as usize).any(|i| self.name_hash(i) == name) {
                return Err(fail(Code::DuplicateName, directory::NAME_HASH));
            }
            end = entry.byte_offset.saturating_add(entry.byte_length);
        }
        Ok(())
    }

    #[inline(never)]
    fn check_names(&self) -> Result<(), Error> {
        if !self.is_record(0, Fnv::of(b"@names")) {
            return Err(Error::new(Code::MissingTensor).at(self.entry_offset(0)).entry(0));
        }
        let mut names = self.names();
        for index in 0..self.header.tensor_count {
            let at = names.offset();
            let name = names.next_name();
            names.check().map_err(|e| e.entry(index))?;
            if self.name_hash(index as usize) != Fnv::of(name) {
                return Err(Error::new(Code::NameHash).at(at).entry(index));
            }
        }
        if !names.is_at_end() {
            return Err(Error::new(Code::NamesTrailing).at(names.offset()).entry(0));
        }
        Ok(())
    }

    fn zeros(&self, start: u64, end: u64) -> Result<(), Error> {
        let gap = slice(self.bytes, start, end.saturating_sub(start)).unwrap_or(&[]);
        match gap.iter().position(|&b| b != 0) {
            Some(at) => Err(Error::new(Code::PaddingNotZero).at(start.saturating_add(at as u64))),
            None => Ok(()),
        }
    }

    fn entry_bytes(&self, index: usize) -> &'a [u8] {
        let start = index.saturating_mul(directory::LENGTH);
        self.directory.get(start..start.saturating_add(directory::LENGTH)).unwrap_or(&[])
    }

    /// A field of eight bytes of an entry; 0 where there is no such entry.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    fn field(&self, index: usize, field: usize) -> u64 {
        u64_at(self.entry_bytes(index), field)
    }

    pub(crate) fn name_hash(&self, index: usize) -> u64 {
        self.field(index, directory::NAME_HASH)
    }

    /// Whether an entry has this name and holds bytes.
    pub(crate) fn is_record(&self, index: usize, hash: u64) -> bool {
        self.name_hash(index) == hash && self.dtype(index) == Some(DType::Bytes)
    }

    /// The dtype of an entry; `None` beyond the last.
    pub(crate) fn dtype(&self, index: usize) -> Option<DType> {
        DType::from_number(self.field(index, directory::DTYPE) as u32)
    }

    /// Rows and columns of an entry, columns 0 for a vector.
    pub(crate) fn shape(&self, index: usize) -> [usize; 2] {
        let dims = self.field(index, directory::DIMS);
        [dims as u32 as usize, (dims >> 32) as usize]
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The whole file.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of the tokenizer section.
    pub fn tokenizer(&self) -> &'a [u8] {
        self.tokenizer
    }

    /// Directory entry `index`, or `None` beyond the last.
    pub fn entry(&self, index: usize) -> Option<Entry> {
        Entry::read(self.entry_bytes(index))
    }

    /// Offset of directory entry `index` in the file.
    pub fn entry_offset(&self, index: u32) -> u64 {
        self.header.tensor_directory_offset.saturating_add(u64::from(index).saturating_mul(directory::LENGTH as u64))
    }

    /// Bytes of payload `index`; empty beyond the last.
    pub fn payload(&self, index: usize) -> &'a [u8] {
        slice(self.bytes, self.payload_offset(index), self.field(index, directory::BYTE_LENGTH)).unwrap_or(&[])
    }

    /// Offset of an entry's payload in the file.
    pub(crate) fn payload_offset(&self, index: usize) -> u64 {
        self.field(index, directory::BYTE_OFFSET)
    }

    /// All names, in the order of the directory.
    pub fn names(&self) -> Names<'a> {
        Names::new(self.payload(0), self.payload_offset(0))
    }

    /// Directory index of `name`. Walks the directory.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.find_hash(Fnv::of(name.as_bytes()))
    }

    /// Directory index of the entry with this name hash.
    pub fn find_hash(&self, hash: u64) -> Option<usize> {
        (0..self.header.tensor_count as usize).find(|&i| self.name_hash(i) == hash)
    }
}
