//! The header: 108 bytes at the start of the file.

use super::align_up;
use super::directory;
use crate::bytes::{u32_at, u64_at};
use crate::error::{Code, Error};

/// Bytes of the header.
pub const LENGTH: usize = 108;
/// The first four bytes of every file.
pub const MAGIC: [u8; 4] = *b"SLM1";
/// The only version.
pub const FORMAT_VERSION: u32 = 1;
/// The generic decoder.
pub const GENERIC_DECODER: u32 = 1;
/// Flag: the embedding is the head.
pub const FLAG_TIED: u32 = 1;
/// Where the tokenizer stands: the first multiple of 64 after the header.
pub const TOKENIZER_START: u64 = 128;
/// Most layers.
pub const MAX_LAYERS: u32 = 1024;
/// Most directory entries.
pub const MAX_TENSORS: u32 = 16_384;
/// Most of every dimension. Keeps all products of two dimensions far below 2^64 and all sums of columns in i32.
pub const MAX_DIMENSION: u64 = 1 << 24;

// Field positions, used by parse, emit and tests alike.
/// Position of `version`.
pub const VERSION: usize = 4;
/// Position of `header_length`.
pub const HEADER_LENGTH: usize = 8;
/// Position of `model_type`.
pub const MODEL_TYPE: usize = 12;
/// Position of `flags`.
pub const FLAGS: usize = 16;
/// Position of `vocab_size`.
pub const VOCAB_SIZE: usize = 20;
/// Position of `special_token_count`.
pub const SPECIAL_TOKEN_COUNT: usize = 24;
/// Position of `hidden_size`.
pub const HIDDEN_SIZE: usize = 28;
/// Position of `layer_count`.
pub const LAYER_COUNT: usize = 32;
/// Position of `head_count`.
pub const HEAD_COUNT: usize = 36;
/// Position of `kv_head_count`.
pub const KV_HEAD_COUNT: usize = 40;
/// Position of `head_dim`.
pub const HEAD_DIM: usize = 44;
/// Position of `ffn_size`.
pub const FFN_SIZE: usize = 48;
/// Position of `max_context`.
pub const MAX_CONTEXT: usize = 52;
/// Position of `rope_theta`.
pub const ROPE_THETA: usize = 56;
/// Position of `rms_norm_epsilon`.
pub const RMS_NORM_EPSILON: usize = 60;
/// Position of `tokenizer_offset`.
pub const TOKENIZER_OFFSET: usize = 64;
/// Position of `tokenizer_length`.
pub const TOKENIZER_LENGTH: usize = 72;
/// Position of `tensor_directory_offset`.
pub const TENSOR_DIRECTORY_OFFSET: usize = 80;
/// Position of `tensor_count`.
pub const TENSOR_COUNT: usize = 88;
/// Position of `tensor_data_offset`. Not aligned.
pub const TENSOR_DATA_OFFSET: usize = 92;
/// Position of `checksum`. Not aligned.
pub const CHECKSUM: usize = 100;

/// The fields of the header, by their names in `SPEC.md`.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct Header {
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

impl Header {
    /// Reads the header at the start of `bytes` and checks every rule that needs nothing but the header.
    ///
    /// # Errors
    /// The first rule that does not hold, with the offset of its field.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let fail = |code, field: usize| Err(Error::new(code).at(field as u64));
        let Some(record) = bytes.first_chunk::<LENGTH>() else {
            // A file of another kind is called that, however short it is.
            let magic = bytes.first_chunk().is_none_or(|magic| *magic == MAGIC);
            return fail(if magic { Code::FileTooShort } else { Code::InvalidModelMagic }, 0);
        };
        let (word, long) = (|field| u32_at(record, field), |field| u64_at(record, field));
        if word(0) != u32::from_le_bytes(MAGIC) {
            return fail(Code::InvalidModelMagic, 0);
        }
        let header = Self {
            flags: word(FLAGS),
            vocab_size: word(VOCAB_SIZE),
            special_token_count: word(SPECIAL_TOKEN_COUNT),
            hidden_size: word(HIDDEN_SIZE),
            layer_count: word(LAYER_COUNT),
            head_count: word(HEAD_COUNT),
            kv_head_count: word(KV_HEAD_COUNT),
            head_dim: word(HEAD_DIM),
            ffn_size: word(FFN_SIZE),
            max_context: word(MAX_CONTEXT),
            rope_theta: f32::from_bits(word(ROPE_THETA)),
            rms_norm_epsilon: f32::from_bits(word(RMS_NORM_EPSILON)),
            tokenizer_offset: long(TOKENIZER_OFFSET),
            tokenizer_length: long(TOKENIZER_LENGTH),
            tensor_directory_offset: long(TENSOR_DIRECTORY_OFFSET),
            tensor_count: word(TENSOR_COUNT),
            tensor_data_offset: long(TENSOR_DATA_OFFSET),
            checksum: long(CHECKSUM),
        };
        let fixed = [
            (VERSION, FORMAT_VERSION, Code::UnsupportedModelVersion),
            (HEADER_LENGTH, LENGTH as u32, Code::HeaderLength),
            (MODEL_TYPE, GENERIC_DECODER, Code::ModelType),
        ];
        for (field, value, code) in fixed {
            if word(field) != value {
                return fail(code, field);
            }
        }
        match header.broken_rule() {
            Some((code, field)) => fail(code, field),
            None => Ok(header),
        }
    }

    fn broken_rule(&self) -> Option<(Code, usize)> {
        if self.flags & !FLAG_TIED != 0 {
            return Some((Code::UnknownFlags, FLAGS));
        }
        let dimensions = [
            (self.vocab_size, VOCAB_SIZE),
            (self.hidden_size, HIDDEN_SIZE),
            (self.layer_count, LAYER_COUNT),
            (self.head_count, HEAD_COUNT),
            (self.kv_head_count, KV_HEAD_COUNT),
            (self.head_dim, HEAD_DIM),
            (self.ffn_size, FFN_SIZE),
            (self.max_context, MAX_CONTEXT),
        ];
        if let Some(&(_, field)) = dimensions.iter().find(|(value, _)| *value == 0) {
            return Some((Code::ZeroDimension, field));
        }
        let query = u64::from(self.head_count).saturating_mul(u64::from(self.head_dim));
        let sizes = [
            (u64::from(self.vocab_size), VOCAB_SIZE),
            (u64::from(self.hidden_size), HIDDEN_SIZE),
            (query, HEAD_DIM),
            (u64::from(self.ffn_size), FFN_SIZE),
            (u64::from(self.max_context), MAX_CONTEXT),
        ];
        if let Some(&(_, field)) = sizes.iter().find(|(value, _)| *value > MAX_DIMENSION) {
            return Some((Code::DimensionTooLarge, field));
        }
        if self.special_token_count > self.vocab_size {
            return Some((Code::SpecialTokenCount, SPECIAL_TOKEN_COUNT));
        }
        if self.layer_count > MAX_LAYERS {
            return Some((Code::LayerCount, LAYER_COUNT));
        }
        if !self.head_count.is_multiple_of(self.kv_head_count) {
            return Some((Code::KvHeadCount, KV_HEAD_COUNT));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Some((Code::HeadDimOdd, HEAD_DIM));
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 0.0) {
            return Some((Code::RopeTheta, ROPE_THETA));
        }
        if !(self.rms_norm_epsilon.is_finite() && self.rms_norm_epsilon > 0.0) {
            return Some((Code::Epsilon, RMS_NORM_EPSILON));
        }
        if self.tokenizer_offset != TOKENIZER_START {
            return Some((Code::TokenizerOffset, TOKENIZER_OFFSET));
        }
        let tokenizer_end = self.tokenizer_offset.checked_add(self.tokenizer_length);
        if tokenizer_end.and_then(align_up).is_none() {
            return Some((Code::TokenizerRange, TOKENIZER_LENGTH));
        }
        if tokenizer_end.and_then(align_up) != Some(self.tensor_directory_offset) {
            return Some((Code::DirectoryOffset, TENSOR_DIRECTORY_OFFSET));
        }
        if self.tensor_count == 0 || self.tensor_count > MAX_TENSORS {
            return Some((Code::TensorCount, TENSOR_COUNT));
        }
        let directory_len = u64::from(self.tensor_count).saturating_mul(directory::LENGTH as u64);
        if self.tensor_directory_offset.checked_add(directory_len) != Some(self.tensor_data_offset) {
            return Some((Code::DataOffset, TENSOR_DATA_OFFSET));
        }
        if self.checksum == 0 {
            return Some((Code::ChecksumZero, CHECKSUM));
        }
        None
    }

    /// The bytes of the header.
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        let mut put = |at: usize, bytes: &[u8]| {
            for (to, from) in out.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        };
        put(0, &MAGIC);
        put(ROPE_THETA, &self.rope_theta.to_le_bytes());
        put(RMS_NORM_EPSILON, &self.rms_norm_epsilon.to_le_bytes());
        for (at, value) in [
            (VERSION, FORMAT_VERSION),
            (HEADER_LENGTH, LENGTH as u32),
            (MODEL_TYPE, GENERIC_DECODER),
            (FLAGS, self.flags),
            (VOCAB_SIZE, self.vocab_size),
            (SPECIAL_TOKEN_COUNT, self.special_token_count),
            (HIDDEN_SIZE, self.hidden_size),
            (LAYER_COUNT, self.layer_count),
            (HEAD_COUNT, self.head_count),
            (KV_HEAD_COUNT, self.kv_head_count),
            (HEAD_DIM, self.head_dim),
            (FFN_SIZE, self.ffn_size),
            (MAX_CONTEXT, self.max_context),
            (TENSOR_COUNT, self.tensor_count),
        ] {
            put(at, &value.to_le_bytes());
        }
        for (at, value) in [
            (TOKENIZER_OFFSET, self.tokenizer_offset),
            (TOKENIZER_LENGTH, self.tokenizer_length),
            (TENSOR_DIRECTORY_OFFSET, self.tensor_directory_offset),
            (TENSOR_DATA_OFFSET, self.tensor_data_offset),
            (CHECKSUM, self.checksum),
        ] {
            put(at, &value.to_le_bytes());
        }
        out
    }

    /// True where the embedding is the head.
    pub const fn tied(&self) -> bool {
        self.flags & FLAG_TIED != 0
    }
}
