//! Data made from a seed: the same numbers on each run.

use tinyrustlm::core::container::DType;

/// A linear congruential generator; enough for data whose values do not matter.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// 31 bits.
    pub fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// In -1..=1.
    pub fn float(&mut self) -> f32 {
        (self.bits() % 2001) as f32 / 1000.0 - 1.0
    }

    /// So many of them.
    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }
}

/// The payload of a matrix, `rows` a multiple of 8 and `cols` of 32.
pub fn weights(dtype: DType, rows: usize, cols: usize, random: &mut Random) -> Vec<u32> {
    match dtype {
        DType::F32 => return (0..rows * cols).map(|_| random.float().to_bits()).collect(),
        // Two of them a word.
        DType::Bf16 => {
            let mut half = || random.float().to_bits() >> 16;
            return (0..rows * cols / 2).map(|_| half() << 16 | half()).collect();
        }
        _ => {}
    }
    let words = dtype.group_bytes() / 4;
    let mut data: Vec<u32> = (0..rows / 8 * (cols / 32) * words).map(|_| random.bits() << 1).collect();
    for group in data.chunks_exact_mut(words) {
        // Two f16 a word, all of them 2^-8.
        group[..dtype.group_scales() / 2].fill(0x1c00_1c00);
    }
    data
}
