//! The header: 108 bytes at the start of the file.

use super::align_up;
use super::directory;
use crate::bytes::{Bound, bound, check_bounds, copy};
use crate::error::{Code, Error};
use bytemuck::{Pod, Zeroable};

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
pub const MAX_DIMENSION: u32 = 1 << 24;

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

const ALONE: [Bound; 15] = [
    bound(0, u32::from_le_bytes(MAGIC), u32::from_le_bytes(MAGIC), Code::InvalidModelMagic),
    bound(VERSION, FORMAT_VERSION, FORMAT_VERSION, Code::UnsupportedModelVersion),
    bound(HEADER_LENGTH, LENGTH as u32, LENGTH as u32, Code::HeaderLength),
    bound(MODEL_TYPE, GENERIC_DECODER, GENERIC_DECODER, Code::ModelType),
    bound(FLAGS, 0, FLAG_TIED, Code::UnknownFlags),
    bound(VOCAB_SIZE, 1, u32::MAX, Code::ZeroDimension),
    bound(HIDDEN_SIZE, 1, u32::MAX, Code::ZeroDimension),
    bound(LAYER_COUNT, 1, u32::MAX, Code::ZeroDimension),
    bound(HEAD_COUNT, 1, u32::MAX, Code::ZeroDimension),
    bound(KV_HEAD_COUNT, 1, u32::MAX, Code::ZeroDimension),
    bound(HEAD_DIM, 1, u32::MAX, Code::ZeroDimension),
    bound(FFN_SIZE, 1, u32::MAX, Code::ZeroDimension),
    bound(MAX_CONTEXT, 1, u32::MAX, Code::ZeroDimension),
    bound(VOCAB_SIZE, 1, MAX_DIMENSION, Code::DimensionTooLarge),
    bound(HIDDEN_SIZE, 1, MAX_DIMENSION, Code::DimensionTooLarge),
];
const SIZES: [Bound; 2] = [
    bound(FFN_SIZE, 1, MAX_DIMENSION, Code::DimensionTooLarge),
    bound(MAX_CONTEXT, 1, MAX_DIMENSION, Code::DimensionTooLarge),
];
/// The bits of a finite number above 0 are an integer above 0 and below those of infinity.
const FLOATS: [Bound; 2] = [
    bound(ROPE_THETA, 1, f32::MAX.to_bits(), Code::RopeTheta),
    bound(RMS_NORM_EPSILON, 1, f32::MAX.to_bits(), Code::Epsilon),
];

/// The fields of the header from `flags` on, by their names in `SPEC.md` and as they stand in the file.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C, packed(4))]
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

static_assertions::const_assert_eq!(size_of::<Header>(), LENGTH - FLAGS);

impl Header {
    /// Reads the header at the start of `bytes` and checks every rule that needs nothing but the header.
    ///
    /// # Errors
    /// The first rule that does not hold, with the offset of its field.
    #[inline(never)]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut header = Self::zeroed();
        header.read(bytes)?;
        Ok(header)
    }

    /// The same, in place.
    #[inline(never)]
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(record) = bytes.first_chunk::<LENGTH>() else {
            // A file of another kind is called that, however short it is.
            let magic = bytes.first_chunk().is_none_or(|magic| *magic == MAGIC);
            return fail(if magic { Code::FileTooShort } else { Code::InvalidModelMagic }, 0);
        };
        check_bounds(record, 0, &ALONE)?;
        copy(bytemuck::bytes_of_mut(self), record.get(FLAGS..).unwrap_or(&[]));
        self.check(record)
    }

    fn check(&self, record: &[u8; LENGTH]) -> Result<(), Error> {
        // All heads together are one of the sizes, and their turn is here.
        if u64::from(self.head_count).wrapping_mul(u64::from(self.head_dim)) > u64::from(MAX_DIMENSION) {
            return fail(Code::DimensionTooLarge, HEAD_DIM);
        }
        check_bounds(record, 0, &SIZES)?;
        if self.special_token_count > self.vocab_size {
            return fail(Code::SpecialTokenCount, SPECIAL_TOKEN_COUNT);
        }
        if self.layer_count > MAX_LAYERS {
            return fail(Code::LayerCount, LAYER_COUNT);
        }
        if !self.head_count.is_multiple_of(self.kv_head_count) {
            return fail(Code::KvHeadCount, KV_HEAD_COUNT);
        }
        if !self.head_dim.is_multiple_of(2) {
            return fail(Code::HeadDimOdd, HEAD_DIM);
        }
        check_bounds(record, 0, &FLOATS)?;
        if self.tokenizer_offset != TOKENIZER_START {
            return fail(Code::TokenizerOffset, TOKENIZER_OFFSET);
        }
        let Some(directory) = TOKENIZER_START.checked_add(self.tokenizer_length).and_then(align_up) else {
            return fail(Code::TokenizerRange, TOKENIZER_LENGTH);
        };
        if directory != self.tensor_directory_offset {
            return fail(Code::DirectoryOffset, TENSOR_DIRECTORY_OFFSET);
        }
        if !(1..=MAX_TENSORS).contains(&self.tensor_count) {
            return fail(Code::TensorCount, TENSOR_COUNT);
        }
        let directory_len = u64::from(self.tensor_count).wrapping_mul(directory::LENGTH as u64);
        if directory.checked_add(directory_len) != Some(self.tensor_data_offset) {
            return fail(Code::DataOffset, TENSOR_DATA_OFFSET);
        }
        if self.checksum == 0 {
            return fail(Code::ChecksumZero, CHECKSUM);
        }
        Ok(())
    }

    /// The bytes of the header.
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        for (to, value) in out.as_chunks_mut::<4>().0.iter_mut().zip([
            u32::from_le_bytes(MAGIC),
            FORMAT_VERSION,
            LENGTH as u32,
            GENERIC_DECODER,
        ]) {
            *to = value.to_le_bytes();
        }
        copy(out.get_mut(FLAGS..).unwrap_or(&mut []), bytemuck::bytes_of(self));
        out
    }

    /// True where the embedding is the head.
    pub const fn tied(&self) -> bool {
        self.flags & FLAG_TIED != 0
    }
}

#[cold]
#[inline(never)]
fn fail(code: Code, field: usize) -> Result<(), Error> {
    Err(Error::new(code).at(field as u64))
}
