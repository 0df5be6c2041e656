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

use crate::bytes::slice;
use crate::error::{Code, Error};
use crate::limits::ALIGN;

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
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let header = Header::parse(bytes)?;
        let len = bytes.len() as u64;
        if usize::try_from(header.tensor_data_offset).is_err() {
            return Err(Error::new(Code::FileTooLarge).at(header::TENSOR_DATA_OFFSET as u64));
        }
        let tokenizer = slice(bytes, header.tokenizer_offset, header.tokenizer_length)
            .ok_or(Error::new(Code::TokenizerRange).at(header::TOKENIZER_LENGTH as u64))?;
        let directory_len = header.tensor_data_offset.saturating_sub(header.tensor_directory_offset);
        let directory = slice(bytes, header.tensor_directory_offset, directory_len)
            .ok_or(Error::new(Code::DirectoryRange).at(header::TENSOR_DIRECTORY_OFFSET as u64))?;
        let container = Self { bytes, header, directory, tokenizer };

        // A cut or extended file is named as such before the checksum calls it damaged.
        let last = header.tensor_count.saturating_sub(1);
        let start = container.u64_of(last as usize, directory::BYTE_OFFSET);
        let length = container.u64_of(last as usize, directory::BYTE_LENGTH);
        if start.zip(length).and_then(|(start, length)| start.checked_add(length)) != Some(len) {
            return Err(Error::new(Code::FileLength).at(len).entry(last));
        }
        if checksum(bytes) != header.checksum {
            return Err(Error::new(Code::ChecksumMismatch).at(header::CHECKSUM as u64));
        }

        container.zeros(header::LENGTH as u64, header.tokenizer_offset)?;
        let tokenizer_end = header.tokenizer_offset.saturating_add(header.tokenizer_length);
        container.zeros(tokenizer_end, header.tensor_directory_offset)?;
        container.check_payloads()?;
        container.check_names()?;
        Ok(container)
    }

    fn check_payloads(&self) -> Result<(), Error> {
        let mut end = self.header.tensor_data_offset;
        for index in 0..self.header.tensor_count {
            let at = self.entry_offset(index);
            let fail = |code, field: usize| Error::new(code).at(at.saturating_add(field as u64)).entry(index);
            let entry = Entry::parse(self.entry_bytes(index as usize)).map_err(|(code, field)| fail(code, field))?;
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
            if (0..index as usize).any(|i| self.name_hash(i) == Some(name)) {
                return Err(fail(Code::DuplicateName, directory::NAME_HASH));
            }
            end = entry.byte_offset.saturating_add(entry.byte_length);
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), Error> {
        let first = self.entry(0).ok_or(Code::DirectoryRange)?;
        if first.name_hash != Fnv::of(b"@names") || first.dtype != DType::Bytes {
            return Err(Error::new(Code::MissingTensor).at(self.entry_offset(0)).entry(0));
        }
        let mut names = self.names();
        for index in 0..self.header.tensor_count {
            let at = names.offset();
            let name = names.next_name().map_err(|e| e.entry(index))?;
            if self.name_hash(index as usize) != Some(Fnv::of(name.as_bytes())) {
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

    fn u64_of(&self, index: usize, field: usize) -> Option<u64> {
        let bytes = self.entry_bytes(index).get(field..field.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn name_hash(&self, index: usize) -> Option<u64> {
        self.u64_of(index, directory::NAME_HASH)
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
        Entry::parse(self.entry_bytes(index)).ok()
    }

    /// Offset of directory entry `index` in the file.
    pub fn entry_offset(&self, index: u32) -> u64 {
        self.header.tensor_directory_offset.saturating_add(u64::from(index).saturating_mul(directory::LENGTH as u64))
    }

    /// Bytes of payload `index`; empty beyond the last.
    pub fn payload(&self, index: usize) -> &'a [u8] {
        let (start, length) = (self.u64_of(index, directory::BYTE_OFFSET), self.u64_of(index, directory::BYTE_LENGTH));
        let range = start.zip(length);
        range.and_then(|(start, length)| slice(self.bytes, start, length)).unwrap_or(&[])
    }

    /// All names, in the order of the directory.
    pub fn names(&self) -> Names<'a> {
        let base = self.entry(0).map_or(0, |entry| entry.byte_offset);
        Names::new(self.payload(0), base)
    }

    /// Directory index of `name`. Walks the directory.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.find_hash(Fnv::of(name.as_bytes()))
    }

    /// Directory index of the entry with this name hash.
    pub fn find_hash(&self, hash: u64) -> Option<usize> {
        (0..self.header.tensor_count as usize).find(|&i| self.name_hash(i) == Some(hash))
    }
}
