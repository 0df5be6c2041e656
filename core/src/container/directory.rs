//! Directory entries and the dtypes they name.

use crate::error::Code;
use bytemuck::{CheckedBitPattern, NoUninit};

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

/// Where the code of a row and a column stands in its group, behind the scales: a vector has 4 columns of 8 rows. Two columns 16
/// apart share a byte of nibbles, which is that of the lower one.
pub fn place(row: usize, col: usize) -> usize {
    let vector = col % BLOCK_COLS / 4;
    vector.wrapping_mul(4 * GROUP_ROWS).wrapping_add(row % GROUP_ROWS * 4).wrapping_add(col % 4)
}

/// How a payload's values are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
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
    /// Row-major floats whose lower 16 bits are 0 and not stored.
    Bf16 = 5,
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
            5 => Self::Bf16,
            16 => Self::Bytes,
            _ => return None,
        })
    }

    /// Bytes of a group of 8 rows and 32 columns; 0 where the layout has no groups.
    pub const fn group_bytes(self) -> usize {
        match self {
            Self::F32 | Self::Bf16 | Self::Bytes => 0,
            Self::Q8_0 => 272,
            Self::Q4_0 => 144,
            Self::Q4_1 => 160,
        }
    }

    /// Whether values are codes in groups.
    pub const fn is_quantised(self) -> bool {
        self.group_bytes() != 0
    }

    /// What an entry of this dtype states as `block_size`.
    pub const fn block_size(self) -> u32 {
        if self.is_quantised() { BLOCK_COLS as u32 } else { 0 }
    }

    /// What an entry of this dtype states as `layout`.
    pub const fn layout(self) -> u32 {
        if self.is_quantised() { 1 } else { 0 }
    }

    /// f16 numbers at the start of a group: scales, then minimums.
    pub const fn group_scales(self) -> usize {
        match self {
            Self::F32 | Self::Bf16 | Self::Bytes => 0,
            Self::Q8_0 | Self::Q4_0 => GROUP_ROWS,
            Self::Q4_1 => 2 * GROUP_ROWS,
        }
    }

    /// Payload bytes of a matrix `[rows, cols]`, or of `rows` bytes.
    pub fn payload_bytes(self, rows: u32, cols: u32) -> Option<u64> {
        let (rows, cols) = (u64::from(rows), u64::from(cols));
        match self {
            Self::F32 => rows.checked_mul(cols)?.checked_mul(4),
            Self::Bf16 => rows.checked_mul(cols)?.checked_mul(2),
            Self::Bytes => Some(rows),
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 => rows
                .div_ceil(GROUP_ROWS as u64)
                .checked_mul(cols.div_ceil(BLOCK_COLS as u64))?
                .checked_mul(self.group_bytes() as u64),
        }
    }
}

/// One directory entry, by the names of `SPEC.md` and as it stands in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, NoUninit, CheckedBitPattern)]
#[repr(C)]
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

static_assertions::const_assert_eq!(size_of::<Entry>(), LENGTH);

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

    /// Reads an entry; `None` for a dtype this version does not know.
    pub fn read(record: &[u8]) -> Option<Self> {
        bytemuck::checked::try_pod_read_unaligned(record).ok()
    }

    /// The first rule that does not hold, and the position of its field.
    pub(super) fn broken_rule(&self) -> Option<(Code, usize)> {
        let [rows, cols, rest @ ..] = self.dims;
        let ranks = match self.dtype {
            DType::Bytes => 1..=1,
            DType::F32 => 1..=2,
            DType::Q8_0 | DType::Q4_0 | DType::Q4_1 | DType::Bf16 => 2..=2,
        };
        if !ranks.contains(&self.rank) {
            return Some((Code::Rank, RANK));
        }
        let zero_rows = rows == 0 && self.dtype != DType::Bytes;
        if zero_rows || (self.rank == 2 && cols == 0) {
            return Some((Code::ZeroDim, DIMS));
        }
        if rest != [0, 0] || (self.rank == 1 && cols != 0) {
            return Some((Code::UnusedDim, DIMS));
        }
        let cols = if self.rank == 2 { cols } else { 1 };
        if self.dtype.payload_bytes(rows, cols) != Some(self.byte_length) {
            return Some((Code::ByteLength, BYTE_LENGTH));
        }
        if self.scale_offset != 0 {
            return Some((Code::ScaleOffset, SCALE_OFFSET));
        }
        if self.block_size != self.dtype.block_size() {
            return Some((Code::BlockSize, BLOCK_SIZE));
        }
        if self.layout != self.dtype.layout() {
            return Some((Code::Layout, LAYOUT));
        }
        None
    }

    /// The bytes of the entry.
    pub fn emit(&self) -> [u8; LENGTH] {
        bytemuck::cast(*self)
    }
}
