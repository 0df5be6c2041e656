//! Blocks of 32 weights and the rows-by-8 groups they are packed into (`SPEC.md` section 4).

use super::source::SourceDtype;
use half::f16;
use tinyrustlm_core::container::DType;

/// Columns of a block.
pub const BLOCK: usize = 32;
/// Rows of a group.
pub const GROUP_ROWS: usize = 8;

/// How a tensor is stored in the container. The numbers are those of the directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Dtype {
    /// Plain f32.
    F32 = 1,
    /// 8-bit codes, scale per block of 32.
    Q8_0 = 2,
    /// 4-bit codes, scale per block.
    Q4_0 = 3,
    /// 4-bit codes, scale and minimum per block.
    Q4_1 = 4,
    /// f32 values whose lower 16 bits are 0.
    Bf16 = 5,
}

impl Dtype {
    /// All of them, in the order users read them in.
    pub const ALL: [Dtype; 5] = [Dtype::F32, Dtype::Bf16, Dtype::Q8_0, Dtype::Q4_0, Dtype::Q4_1];
    /// The quantised dtypes.
    pub const QUANTISED: [Dtype; 3] = [Dtype::Q8_0, Dtype::Q4_0, Dtype::Q4_1];

    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::Q4_1 => "q4_1",
        }
    }

    /// The dtype of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// The same in the core.
    pub const fn core(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::Bf16,
            Self::Q8_0 => DType::Q8_0,
            Self::Q4_0 => DType::Q4_0,
            Self::Q4_1 => DType::Q4_1,
        }
    }

    /// Whether values are kept as they are.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::Bf16)
    }

    /// Bytes of one group of 8 rows x 32 columns; 0 for floats, which have no groups.
    pub const fn group_bytes(self) -> usize {
        match self {
            Self::F32 | Self::Bf16 => 0,
            Self::Q8_0 => 272,
            Self::Q4_0 => 144,
            Self::Q4_1 => 160,
        }
    }

    /// Bytes of a tensor of that shape.
    pub const fn tensor_bytes(self, rows: u64, cols: u64) -> u64 {
        match self {
            Self::F32 => rows * cols * 4,
            Self::Bf16 => rows * cols * 2,
            _ => rows.div_ceil(GROUP_ROWS as u64) * cols.div_ceil(BLOCK as u64) * self.group_bytes() as u64,
        }
    }
}

/// 32 codes of one row with their scale and minimum. Unsigned codes for q4_0 and q4_1, two's complement for q8_0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Block {
    /// Scale.
    pub d: f16,
    /// Minimum; q4_1 only.
    pub m: f16,
    /// Codes.
    pub q: [u8; BLOCK],
}

impl Block {
    /// A block that decodes to zeros.
    pub const fn zero(dtype: Dtype) -> Self {
        let q = if matches!(dtype, Dtype::Q4_0) { 8 } else { 0 };
        Self { d: f16::ZERO, m: f16::ZERO, q: [q; BLOCK] }
    }

    /// Takes one of ggml's blocks apart; `bytes` has exactly the length of one.
    pub fn from_ggml(dtype: SourceDtype, bytes: &[u8]) -> Self {
        let half_at = |at: usize| f16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let mut q = [0; BLOCK];
        let (d, m) = (half_at(0), if dtype == SourceDtype::Q4_1 { half_at(2) } else { f16::ZERO });
        match dtype {
            SourceDtype::Q8_0 => q.copy_from_slice(&bytes[2..34]),
            _ => {
                let nibbles = &bytes[if dtype == SourceDtype::Q4_1 { 4 } else { 2 }..];
                for (at, byte) in nibbles[..16].iter().enumerate() {
                    q[at] = byte & 15;
                    q[at + 16] = byte >> 4;
                }
            }
        }
        Self { d, m, q }
    }

    /// The values of a block of ggml's kinds.
    pub fn values(&self, dtype: SourceDtype) -> [f32; BLOCK] {
        match dtype {
            SourceDtype::Q8_0 => self.decode(Dtype::Q8_0),
            SourceDtype::Q4_0 => self.decode(Dtype::Q4_0),
            _ => self.decode(Dtype::Q4_1),
        }
    }

    /// The values, as `SPEC.md` defines them: no operation is fused.
    pub fn decode(&self, dtype: Dtype) -> [f32; BLOCK] {
        let (d, m) = (self.d.to_f32(), self.m.to_f32());
        self.q.map(|q| match dtype {
            Dtype::Q8_0 => d * f32::from(q as i8),
            Dtype::Q4_0 => d * (f32::from(q) - 8.0),
            _ => d * f32::from(q) + m,
        })
    }
}

/// Appends one group made of the same block of 8 rows.
pub fn pack(dtype: Dtype, rows: &[Block; GROUP_ROWS], out: &mut Vec<u8>) {
    out.extend(rows.iter().flat_map(|row| row.d.to_le_bytes()));
    if dtype == Dtype::Q4_1 {
        out.extend(rows.iter().flat_map(|row| row.m.to_le_bytes()));
    }
    // Vector k: columns 4k..4k+3 of row 0, then of row 1, ...
    let vector = |k: usize| (0..BLOCK).map(move |at| rows[at / 4].q[4 * k + at % 4]);
    if dtype == Dtype::Q8_0 {
        out.extend((0..8).flat_map(vector));
    } else {
        out.extend((0..4).flat_map(|k| vector(k).zip(vector(k + 4)).map(|(low, high)| low | high << 4)));
    }
}

/// Takes a group apart again.
pub fn unpack(dtype: Dtype, group: &[u8]) -> [Block; GROUP_ROWS] {
    let mut rows = [Block::zero(dtype); GROUP_ROWS];
    let half_at = |at: usize| f16::from_le_bytes([group[at], group[at + 1]]);
    let codes = &group[if dtype == Dtype::Q4_1 { 32 } else { 16 }..];
    for (r, row) in rows.iter_mut().enumerate() {
        row.d = half_at(2 * r);
        if dtype == Dtype::Q4_1 {
            row.m = half_at(16 + 2 * r);
        }
        for (c, q) in row.q.iter_mut().enumerate() {
            let at = |k: usize| k * 32 + r * 4 + c % 4;
            *q = match (dtype, c / 4) {
                (Dtype::Q8_0, k) => codes[at(k)],
                (_, k @ 0..4) => codes[at(k)] & 15,
                (_, k) => codes[at(k - 4)] >> 4,
            };
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(seed: u8, dtype: Dtype) -> Block {
        let mask = if dtype == Dtype::Q8_0 { 0xff } else { 15 };
        let q = std::array::from_fn(|i| (i as u8).wrapping_mul(37).wrapping_add(seed.wrapping_mul(11)) & mask);
        let m = if dtype == Dtype::Q4_1 { f16::from_f32(-0.5 * f32::from(seed)) } else { f16::ZERO };
        Block { d: f16::from_f32(0.01 * f32::from(seed + 1)), m, q }
    }

    #[test]
    fn groups_have_the_published_size_and_unpack_to_themselves() {
        for dtype in Dtype::QUANTISED {
            let rows = std::array::from_fn(|r| block(r as u8, dtype));
            let mut group = Vec::new();
            pack(dtype, &rows, &mut group);
            assert_eq!(group.len(), dtype.group_bytes());
            assert_eq!(unpack(dtype, &group), rows);
        }
    }

    #[test]
    fn codes_stand_where_the_specification_says() {
        for (row, col) in [(0, 0), (7, 31), (3, 17), (5, 12)] {
            let mut rows = [Block { d: f16::ZERO, m: f16::ZERO, q: [0; BLOCK] }; GROUP_ROWS];
            rows[row].q[col] = 5;
            let mut group = Vec::new();
            pack(Dtype::Q8_0, &rows, &mut group);
            assert_eq!(group[16 + (col / 4) * 32 + row * 4 + col % 4], 5);
            group.clear();
            pack(Dtype::Q4_1, &rows, &mut group);
            let (k, shift) = if col / 4 < 4 { (col / 4, 0) } else { (col / 4 - 4, 4) };
            assert_eq!(group[32 + k * 32 + row * 4 + col % 4], 5 << shift);
        }
    }

    #[test]
    fn ggml_blocks_decode_as_ggml_defines_them() {
        let mut bytes = vec![0x00, 0x38]; // d = 0.5
        bytes.extend((0..16).map(|i| i | (15 - i) << 4));
        let values = Block::from_ggml(SourceDtype::Q4_0, &bytes).values(SourceDtype::Q4_0);
        for i in 0..16 {
            assert_eq!(values[i], 0.5 * (i as f32 - 8.0));
            assert_eq!(values[i + 16], 0.5 * (7.0 - i as f32));
        }
        bytes.splice(2..2, [0x00, 0xbc]); // m = -1
        let values = Block::from_ggml(SourceDtype::Q4_1, &bytes).values(SourceDtype::Q4_1);
        assert_eq!((values[0], values[1], values[31]), (-1.0, -0.5, -1.0));
    }
}
