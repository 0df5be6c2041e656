//! Builds small files with seeded weights.

use crate::Block64;
use crate::container::{DType, Entry, Fnv, Header, RESERVED, align_up, checksum, header};
use crate::model::config::{Config, norms};
use crate::model::tensors::for_each_tensor;
use crate::model::{Activation, QkNorm, SamplingDefaults};
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// xorshift64*; enough for test data.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    /// In -1..1.
    pub fn float(&mut self) -> f32 {
        self.word() as f32 / 2_147_483_648.0 - 1.0
    }
}

/// Bytes that begin at a multiple of 64, as a mapped file does.
#[derive(Clone)]
pub struct Aligned {
    blocks: Vec<Block64>,
    len: usize,
}

impl Aligned {
    pub fn new(bytes: &[u8]) -> Self {
        let mut blocks = vec![Block64::ZERO; Block64::count(bytes.len())];
        bytemuck::cast_slice_mut::<_, u8>(&mut blocks)[..bytes.len()].copy_from_slice(bytes);
        Self { blocks, len: bytes.len() }
    }

    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.len]
    }
}

/// Everything a matrix may be stored as.
pub const DTYPES: [DType; 5] = [DType::F32, DType::Bf16, DType::Q8_0, DType::Q4_0, DType::Q4_1];

/// What a test file holds.
#[derive(Clone)]
pub struct Builder {
    pub config: Config,
    pub windows: Vec<u32>,
    /// Per table: rotary_dim, theta.
    pub ropes: Vec<(u32, f32)>,
    pub rope_of_layer: Vec<u8>,
    pub stop_ids: Vec<u32>,
    pub stop_strings: Vec<String>,
    pub sampling: Option<SamplingDefaults>,
    /// dtype of each matrix in turn.
    pub dtypes: Vec<DType>,
    pub tokenizer: Vec<u8>,
    /// Records written instead of the right ones: index in `RESERVED`, bytes.
    pub records: Vec<(usize, Vec<u8>)>,
    /// An entry after the last tensor.
    pub surplus: bool,
    pub seed: u64,
}

impl Builder {
    /// A llama of two layers with odd sizes.
    pub fn tiny() -> Self {
        let config = Config {
            vocab_size: 37,
            special_token_count: 3,
            hidden_size: 36,
            layer_count: 2,
            head_count: 4,
            kv_head_count: 2,
            head_dim: 10,
            ffn_size: 50,
            max_context: 64,
            rms_norm_epsilon: 1e-5,
            tied: true,
            family: 0,
            activation: Activation::Silu,
            qk_norm: QkNorm::None,
            norms: norms::BEFORE_ATTENTION | norms::BEFORE_FFN,
            biases: 0,
            embedding_scale: 1.0,
            attention_scale: 0.316_227_76,
            residual_scale: 1.0,
            attention_softcap: 0.0,
            logit_softcap: 0.0,
            logit_divisor: 1.0,
            source_context: 64,
        };
        Self {
            config,
            windows: vec![0; 2],
            ropes: vec![(10, 10_000.0)],
            rope_of_layer: vec![0; 2],
            stop_ids: vec![2],
            stop_strings: vec!["\n\n".to_string()],
            sampling: None,
            dtypes: vec![DType::F32],
            tokenizer: vec![],
            records: vec![],
            surplus: false,
            seed: 1,
        }
    }

    /// As few bytes as a llama of one layer can have, for what parses many files.
    pub fn least() -> Self {
        let mut least = Self::tiny();
        least.config = Config {
            vocab_size: 5,
            special_token_count: 1,
            hidden_size: 4,
            layer_count: 1,
            head_count: 2,
            kv_head_count: 1,
            head_dim: 2,
            ffn_size: 6,
            ..least.config
        };
        least.windows = vec![0];
        least.ropes = vec![(2, 10_000.0)];
        least.rope_of_layer = vec![0];
        least
    }

    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtypes = vec![dtype];
        self
    }

    /// The bytes of the file.
    pub fn build(&self) -> Aligned {
        let mut random = Random(self.seed | 1);
        let c = &self.config;
        let mut specs = Vec::new();
        for_each_tensor(c, &mut |spec| {
            specs.push(*spec);
            Ok(())
        })
        .unwrap();
        let mut names = vec![];
        for name in RESERVED.iter().map(|n| n.to_string()).chain(specs.iter().map(|s| s.to_string())) {
            names.extend((name.len() as u16).to_le_bytes());
            names.extend(name.as_bytes());
        }
        let mut config = c.emit().to_vec();
        config.extend(self.windows.iter().flat_map(|w| w.to_le_bytes()));
        let mut rope = (self.ropes.len() as u32).to_le_bytes().to_vec();
        for &(dim, theta) in &self.ropes {
            rope.extend(dim.to_le_bytes());
            rope.extend(1.0f32.to_le_bytes());
            for i in 0..dim / 2 {
                rope.extend((1.0 / libm::powf(theta, (2 * i) as f32 / dim as f32)).to_le_bytes());
            }
        }
        rope.extend(&self.rope_of_layer);
        let mut stops = (self.stop_ids.len() as u32).to_le_bytes().to_vec();
        stops.extend(self.stop_ids.iter().flat_map(|id| id.to_le_bytes()));
        stops.extend((self.stop_strings.len() as u32).to_le_bytes());
        for text in &self.stop_strings {
            stops.extend((text.len() as u32).to_le_bytes());
            stops.extend(text.as_bytes());
        }
        let sampling = self.sampling.map_or(vec![], |s| s.emit().to_vec());
        if self.surplus {
            names.extend(*b"\x05\0extra");
        }
        let mut records = [names, config, rope, vec![], stops, sampling, vec![0xa0]];
        for (index, record) in &self.records {
            records[*index] = record.clone();
        }

        let mut payloads: Vec<(u64, DType, u32, u32, u32, Vec<u8>)> = vec![];
        for (name, record) in RESERVED.iter().zip(records) {
            payloads.push((Fnv::of(name.as_bytes()), DType::Bytes, 1, record.len() as u32, 0, record));
        }
        let mut matrices = 0;
        for spec in &specs {
            let (rows, cols) = (spec.rows as u32, spec.cols as u32);
            let (dtype, rank) = if cols == 0 {
                (DType::F32, 1)
            } else {
                matrices += 1;
                (self.dtypes[(matrices - 1) % self.dtypes.len()], 2)
            };
            let data = if cols == 0 {
                let mut norm = || 1.0 + 0.3 * random.float();
                (0..rows).flat_map(|_| norm().to_le_bytes()).collect()
            } else {
                matrix(&mut random, dtype, rows, cols)
            };
            payloads.push((spec.name_hash(), dtype, rank, rows, cols, data));
        }
        if self.surplus {
            payloads.push((Fnv::of(b"extra"), DType::F32, 1, 1, 0, vec![0; 4]));
        }

        let tokenizer_length = self.tokenizer.len() as u64;
        let tensor_directory_offset = align_up(128 + tokenizer_length).unwrap();
        let tensor_data_offset = tensor_directory_offset + 64 * payloads.len() as u64;
        let header = Header {
            flags: c.tied.into(),
            vocab_size: c.vocab_size as u32,
            special_token_count: c.special_token_count as u32,
            hidden_size: c.hidden_size as u32,
            layer_count: c.layer_count as u32,
            head_count: c.head_count as u32,
            kv_head_count: c.kv_head_count as u32,
            head_dim: c.head_dim as u32,
            ffn_size: c.ffn_size as u32,
            max_context: c.max_context as u32,
            rope_theta: self.ropes.first().map_or(10_000.0, |r| r.1),
            rms_norm_epsilon: c.rms_norm_epsilon,
            tokenizer_offset: 128,
            tokenizer_length,
            tensor_directory_offset,
            tensor_count: payloads.len() as u32,
            tensor_data_offset,
            checksum: 1,
        };
        let mut file = header.emit().to_vec();
        file.resize(128, 0);
        file.extend(&self.tokenizer);
        file.resize(tensor_data_offset as usize, 0);
        for (i, (hash, dtype, rank, rows, cols, data)) in payloads.into_iter().enumerate() {
            file.resize(align_up(file.len() as u64).unwrap() as usize, 0);
            let entry = Entry::new(hash, dtype, rank, rows, cols, file.len() as u64).unwrap();
            assert_eq!(entry.byte_length, data.len() as u64);
            let at = tensor_directory_offset as usize + 64 * i;
            file[at..at + 64].copy_from_slice(&entry.emit());
            file.extend(data);
        }
        seal(&mut file);
        Aligned::new(&file)
    }
}

/// Stores the checksum.
pub fn seal(file: &mut [u8]) {
    let sum = checksum(file);
    if let Some(place) = file.get_mut(header::CHECKSUM..header::CHECKSUM + 8) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
}

/// A payload of seeded values of about 1 / sqrt(cols). Padding rows and columns hold noise on purpose.
pub fn matrix(random: &mut Random, dtype: DType, rows: u32, cols: u32) -> Vec<u8> {
    let amplitude = 1.7 / libm::sqrtf(cols as f32);
    let mut out = vec![];
    if !dtype.is_quantised() {
        for _ in 0..rows * cols {
            let bytes = (random.float() * amplitude).to_le_bytes();
            // The upper half of a float.
            out.extend(&bytes[if dtype == DType::Bf16 { 2 } else { 0 }..]);
        }
        return out;
    }
    let half = match dtype {
        DType::Q8_0 => amplitude / 127.0,
        _ => amplitude / 8.0,
    };
    // f16 bits of a small normal number: sign, exponent of `half`, random mantissa.
    let exponent = ((half.to_bits() >> 23) as i32 - 127 + 15).clamp(1, 30) as u16;
    for _ in 0..rows.div_ceil(8) * cols.div_ceil(32) {
        for _ in 0..dtype.group_scales() {
            let bits = (random.word() as u16 & 0x83ff) | exponent << 10;
            out.extend(bits.to_le_bytes());
        }
        for _ in 0..dtype.group_bytes() - 2 * dtype.group_scales() {
            out.push(random.word() as u8);
        }
    }
    out
}
