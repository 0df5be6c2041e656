//! Directory entries and the dtypes they name.

use crate::bytes::{u32_at, u64_at};
use crate::error::Code;

/// Bytes of an entry.
pub const LENGTH: usize = 64;

/// Position of `name_hash`.
pub const NAME_HASH: usize = 0;
/// Position of `dtype`.
pub const DTYPE: usize = 8;
/// Position of `rank`.
pub const RANK: usize = 12;
/// Position of `dims[0]`.
pub const DIMS: usize = 16;
/// Position of `byte_offset`.
pub const BYTE_OFFSET: usize = 32;
/// Position of `byte_length`.
pub const BYTE_LENGTH: usize = 40;
/// Position of `scale_offset`.
pub const SCALE_OFFSET: usize = 48;
/// Position of `block_size`.
pub const BLOCK_SIZE: usize = 56;
/// Position of `layout`.
pub const LAYOUT: usize = 60;

/// Rows that stand side by side in a group.
pub const GROUP_ROWS: usize = 8;
/// Columns of a block, which share a scale per row.
pub const BLOCK_COLS: usize = 32;

/// How a payload's values are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum DType {
    /// Row-major floats.
    F32 = 1,
    /// `w = d * q`, 8-bit codes.
    Q8_0 = 2,
    /// `w = d * (q - 8)`, 4-bit codes.
    Q4_0 = 3,
    /// `w = d * q + m`, 4-bit codes.
    Q4_1 = 4,
    /// A record.
    Bytes = 16,
}

impl DType {
    /// The dtype of this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::F32,
            2 => Self::Q8_0,
            3 => Self::Q4_0,
            4 => Self::Q4_1,
            16 => Self::Bytes,
            _ => return None,
        })
    }

    /// Bytes of a group of 8 rows and 32 columns; 0 where the layout has no groups.
    pub const fn group_bytes(self) -> usize {
        match self {
            Self::F32 | Self::Bytes => 0,
            Self::Q8_0 => 272,
            Self::Q4_0 => 144,
            Self::Q4_1 => 160,
        }
    }

    /// What an entry of this dtype states as `block_size`.
    pub const fn block_size(self) -> u32 {
        if self.group_bytes() == 0 { 0 } else { BLOCK_COLS as u32 }
    }

    /// What an entry of this dtype states as `layout`.
    pub const fn layout(self) -> u32 {
        if self.group_bytes() == 0 { 0 } else { 1 }
    }

    /// f16 numbers at the start of a group: scales, then minimums.
    pub const fn group_scales(self) -> usize {
        match self {
            Self::F32 | Self::Bytes => 0,
            Self::Q8_0 | Self::Q4_0 => GROUP_ROWS,
            Self::Q4_1 => 2 * GROUP_ROWS,
        }
    }

    /// Payload bytes of a matrix `[rows, cols]`, or of `rows` bytes.
    pub fn payload_bytes(self, rows: u32, cols: u32) -> Option<u64> {
        let (rows, cols) = (u64::from(rows), u64::from(cols));
        match self {
            Self::F32 => rows.checked_mul(cols)?.checked_mul(4),
            Self::Bytes => Some(rows),
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 => rows
                .div_ceil(GROUP_ROWS as u64)
                .checked_mul(cols.div_ceil(BLOCK_COLS as u64))?
                .checked_mul(self.group_bytes() as u64),
        }
    }
}

/// One directory entry, by the names of `SPEC.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Entry {
    pub name_hash: u64,
    pub dtype: DType,
    pub rank: u32,
    pub dims: [u32; 4],
    pub byte_offset: u64,
    pub byte_length: u64,
    pub scale_offset: u64,
    pub block_size: u32,
    pub layout: u32,
}

impl Entry {
    /// An entry of this shape with what its dtype prescribes. `rank` 1: `cols` is not used.
    pub fn new(name_hash: u64, dtype: DType, rank: u32, rows: u32, cols: u32, byte_offset: u64) -> Option<Self> {
        let cols = if rank == 2 { cols } else { 1 };
        Some(Self {
            name_hash,
            dtype,
            rank,
            dims: [rows, if rank == 2 { cols } else { 0 }, 0, 0],
            byte_offset,
            byte_length: dtype.payload_bytes(rows, cols)?,
            scale_offset: 0,
            block_size: dtype.block_size(),
            layout: dtype.layout(),
        })
    }

    /// Reads the entry at the start of `bytes` and checks every rule that needs nothing but the entry.
    ///
    /// # Errors
    /// The rule that does not hold, and the position of its field.
    pub fn parse(bytes: &[u8]) -> Result<Self, (Code, usize)> {
        let record = bytes.first_chunk::<LENGTH>().ok_or((Code::DirectoryRange, NAME_HASH))?;
        let (word, long) = (|field| u32_at(record, field), |field| u64_at(record, field));
        let entry = Self {
            name_hash: long(NAME_HASH),
            dtype: DType::from_number(word(DTYPE)).ok_or((Code::UnknownDType, DTYPE))?,
            rank: word(RANK),
            dims: [word(DIMS), word(DIMS + 4), word(DIMS + 8), word(DIMS + 12)],
            byte_offset: long(BYTE_OFFSET),
            byte_length: long(BYTE_LENGTH),
            scale_offset: long(SCALE_OFFSET),
            block_size: word(BLOCK_SIZE),
            layout: word(LAYOUT),
        };
        entry.check()?;
        Ok(entry)
    }

    fn check(&self) -> Result<(), (Code, usize)> {
        let [rows, cols, rest @ ..] = self.dims;
        let ranks = match self.dtype {
            DType::Bytes => 1..=1,
            DType::F32 => 1..=2,
            DType::Q8_0 | DType::Q4_0 | DType::Q4_1 => 2..=2,
        };
        if !ranks.contains(&self.rank) {
            return Err((Code::Rank, RANK));
        }
        let zero_rows = rows == 0 && self.dtype != DType::Bytes;
        if zero_rows || (self.rank == 2 && cols == 0) {
            return Err((Code::ZeroDim, DIMS));
        }
        if rest != [0, 0] || (self.rank == 1 && cols != 0) {
            return Err((Code::UnusedDim, DIMS));
        }
        let cols = if self.rank == 2 { cols } else { 1 };
        if self.dtype.payload_bytes(rows, cols) != Some(self.byte_length) {
            return Err((Code::ByteLength, BYTE_LENGTH));
        }
        if self.scale_offset != 0 {
            return Err((Code::ScaleOffset, SCALE_OFFSET));
        }
        if self.block_size != self.dtype.block_size() {
            return Err((Code::BlockSize, BLOCK_SIZE));
        }
        if self.layout != self.dtype.layout() {
            return Err((Code::Layout, LAYOUT));
        }
        Ok(())
    }

    /// The bytes of the entry.
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        let mut put = |at: usize, bytes: &[u8]| {
            for (to, from) in out.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        };
        put(DTYPE, &(self.dtype as u32).to_le_bytes());
        put(RANK, &self.rank.to_le_bytes());
        for (at, dim) in (DIMS..BYTE_OFFSET).step_by(4).zip(self.dims) {
            put(at, &dim.to_le_bytes());
        }
        for (at, value) in [
            (NAME_HASH, self.name_hash),
            (BYTE_OFFSET, self.byte_offset),
            (BYTE_LENGTH, self.byte_length),
            (SCALE_OFFSET, self.scale_offset),
        ] {
            put(at, &value.to_le_bytes());
        }
        put(BLOCK_SIZE, &self.block_size.to_le_bytes());
        put(LAYOUT, &self.layout.to_le_bytes());
        out
    }
}
