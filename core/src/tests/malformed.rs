//! One malformed file per error of the container and the model, named after the error it must give.

use super::build::{Aligned, Builder, seal};
#[cfg(target_pointer_width = "32")]
use crate::container::Container;
use crate::container::{DType, directory, header};
use crate::error::Code;
use crate::model::{Model, SamplingDefaults, config, sampling};
use std::sync::OnceLock;
use std::vec;
use std::vec::Vec;

/// A sound file that is then damaged field by field. The checksum is stored anew unless it is the damage.
struct File(Vec<u8>);

impl File {
    fn sound() -> Self {
        // Built once: an interpreter takes seconds for it.
        static SOUND: OnceLock<Vec<u8>> = OnceLock::new();
        let build = || Self::of(&Builder { sampling: Some(SamplingDefaults::default()), ..Builder::least() }).0;
        Self(SOUND.get_or_init(build).clone())
    }

    fn of(builder: &Builder) -> Self {
        Self(builder.build().bytes().to_vec())
    }

    /// Another record in the place of `RESERVED[index]`; the file is whole again around it.
    fn with_record(index: usize, bytes: &[u8]) -> Self {
        Self::of(&Builder { records: vec![(index, bytes.to_vec())], ..Builder::least() })
    }

    fn entry_field(&self, index: usize, field: usize) -> usize {
        let directory = u64::from_le_bytes(self.0[header::TENSOR_DIRECTORY_OFFSET..][..8].try_into().unwrap());
        directory as usize + index * directory::LENGTH + field
    }

    /// Where the payload of entry `index` begins.
    fn payload(&self, index: usize) -> usize {
        let at = self.entry_field(index, directory::BYTE_OFFSET);
        u64::from_le_bytes(self.0[at..][..8].try_into().unwrap()) as usize
    }

    fn record(&self, index: usize) -> Vec<u8> {
        let length = self.entry_field(index, directory::BYTE_LENGTH);
        let length = u64::from_le_bytes(self.0[length..][..8].try_into().unwrap()) as usize;
        self.0[self.payload(index)..][..length].to_vec()
    }

    fn put(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// A u32 of the header.
    fn header(self, field: usize, value: u32) -> Self {
        self.put(field, &value.to_le_bytes())
    }

    /// A u32 of directory entry `index`.
    fn entry(self, index: usize, field: usize, value: u32) -> Self {
        let at = self.entry_field(index, field);
        self.put(at, &value.to_le_bytes())
    }

    /// Bytes `at` in the payload of entry `index`.
    fn inside(self, index: usize, at: usize, bytes: &[u8]) -> Self {
        let at = self.payload(index) + at;
        self.put(at, bytes)
    }

    fn seal(mut self) -> Self {
        seal(&mut self.0);
        self
    }
}

/// Indexes of `RESERVED`.
const NAMES: usize = 0;
const CONFIG: usize = 1;
const ROPE: usize = 2;
const STOPS: usize = 4;
const SAMPLING: usize = 5;
/// Index of the entry `tok_embeddings.weight` [5, 4], of `layers.0.attn_norm.weight` [4] and of `layers.0.wq.weight`.
const EMBEDDING: usize = 7;
const NORM: usize = 8;
const MATRIX: usize = 9;

fn f32_bytes(value: f32) -> [u8; 4] {
    value.to_le_bytes()
}

/// Words, then bytes.
fn record(words: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    out.extend(bytes);
    out
}

fn header_files() -> Vec<(Code, File)> {
    let sound = File::sound;
    let mut short = sound();
    short.0.truncate(header::LENGTH - 1);
    let mut cut_directory = sound();
    let end = cut_directory.entry_field(3, 0);
    cut_directory.0.truncate(end);
    let mut cut_payload = sound();
    cut_payload.0.pop();
    let mut damaged = sound();
    *damaged.0.last_mut().unwrap() ^= 1;
    vec![
        (Code::InvalidModelMagic, sound().put(0, b"SLM2")),
        (Code::UnsupportedModelVersion, sound().header(header::VERSION, 2)),
        (Code::FileTooShort, short),
        (Code::HeaderLength, sound().header(header::HEADER_LENGTH, 112)),
        (Code::ModelType, sound().header(header::MODEL_TYPE, 2)),
        (Code::UnknownFlags, sound().header(header::FLAGS, 1 | 2)),
        (Code::ZeroDimension, sound().header(header::FFN_SIZE, 0)),
        (Code::DimensionTooLarge, sound().header(header::HIDDEN_SIZE, (1 << 24) + 1)),
        (Code::SpecialTokenCount, sound().header(header::SPECIAL_TOKEN_COUNT, 6)),
        (Code::LayerCount, sound().header(header::LAYER_COUNT, 1025)),
        (Code::KvHeadCount, sound().header(header::KV_HEAD_COUNT, 4)),
        (Code::HeadDimOdd, sound().header(header::HEAD_DIM, 3)),
        (Code::RopeTheta, sound().put(header::ROPE_THETA, &f32_bytes(0.0))),
        (Code::Epsilon, sound().put(header::RMS_NORM_EPSILON, &f32_bytes(f32::INFINITY))),
        (Code::TokenizerOffset, sound().header(header::TOKENIZER_OFFSET, 64)),
        (Code::TokenizerRange, sound().put(header::TOKENIZER_LENGTH, &[0xff; 8])),
        (Code::DirectoryOffset, sound().header(header::TENSOR_DIRECTORY_OFFSET, 192)),
        (Code::TensorCount, sound().header(header::TENSOR_COUNT, 16_385)),
        (Code::DataOffset, sound().header(header::TENSOR_DATA_OFFSET, 64)),
        (Code::ChecksumZero, sound().put(header::CHECKSUM, &[0; 8])),
        (Code::ChecksumMismatch, damaged),
        // The byte after the header.
        (Code::PaddingNotZero, sound().put(header::LENGTH, &[1]).seal()),
        (Code::FileLength, cut_payload),
        (Code::DirectoryRange, cut_directory),
    ]
}

fn directory_files() -> Vec<(Code, File)> {
    let sound = File::sound;
    // 2^31 rows of 4 columns, with the length that goes with them: beyond the end of any file here.
    let rows = 1u32 << 31;
    let length = DType::F32.payload_bytes(rows, 4).unwrap();
    let at = sound().entry_field(MATRIX, directory::BYTE_LENGTH);
    let far = sound().entry(MATRIX, directory::DIMS, rows).put(at, &length.to_le_bytes());
    let offset = sound().payload(MATRIX) as u32;
    let same_name = {
        let (from, to) = (sound().entry_field(NORM, 0), sound().entry_field(MATRIX, 0));
        let hash: [u8; 8] = sound().0[from..from + 8].try_into().unwrap();
        sound().put(to, &hash)
    };
    let names = sound().record(NAMES);
    let swapped = {
        // Names and entries of rope and template in the other order: both are there, neither where it must be.
        let file = sound();
        let (a, b) = (file.entry_field(2, 0), file.entry_field(3, 0));
        let (first, second): ([u8; 8], [u8; 8]) =
            (file.0[a..a + 8].try_into().unwrap(), file.0[b..b + 8].try_into().unwrap());
        let at = names.windows(5).position(|w| w == b"@rope").unwrap() - 2;
        let mut other = names.clone();
        other[at..at + 2 + 9 + 2 + 5].copy_from_slice(b"\x09\0@template\x05\0@rope");
        file.put(a, &second).put(b, &first).inside(NAMES, 0, &other)
    };
    let quantised = File::of(&Builder::least().dtype(DType::Q4_1));
    // A norm as an entry of dtype bytes: 4 floats are 16 bytes.
    let norm_as_bytes = sound().entry(NORM, directory::DTYPE, 16).entry(NORM, directory::DIMS, 16);
    // The embedding transposed: as many bytes, another shape.
    let transposed = sound().entry(EMBEDDING, directory::DIMS, 4).entry(EMBEDDING, directory::DIMS + 4, 5);
    let mut no_name = names.clone();
    no_name[0] = 0;
    let mut bad_text = names.clone();
    bad_text[2] = 0xff;
    let mut other_text = names.clone();
    other_text[3] = b'N';
    let mut longer = names.clone();
    longer.push(0);
    [
        (Code::UnknownDType, sound().entry(MATRIX, directory::DTYPE, 6)),
        (Code::Rank, sound().entry(MATRIX, directory::RANK, 3)),
        (Code::ZeroDim, sound().entry(MATRIX, directory::DIMS, 0)),
        (Code::UnusedDim, sound().entry(MATRIX, directory::DIMS + 8, 1)),
        (Code::ByteLength, sound().entry(MATRIX, directory::BYTE_LENGTH, 4)),
        (Code::ScaleOffset, sound().entry(MATRIX, directory::SCALE_OFFSET, 64)),
        (Code::BlockSize, sound().entry(MATRIX, directory::BLOCK_SIZE, 32)),
        (Code::Layout, sound().entry(MATRIX, directory::LAYOUT, 1)),
        (Code::PayloadUnaligned, sound().entry(MATRIX, directory::BYTE_OFFSET, offset + 4)),
        (Code::PayloadOverlap, sound().entry(MATRIX, directory::BYTE_OFFSET, offset - 64)),
        (Code::PayloadGap, sound().entry(MATRIX, directory::BYTE_OFFSET, offset + 64)),
        (Code::PayloadRange, far),
        (Code::DuplicateName, same_name),
        (Code::NamesTooShort, File::with_record(NAMES, &names[..names.len() - 1])),
        (Code::NamesTrailing, File::with_record(NAMES, &longer)),
        (Code::NameLength, File::with_record(NAMES, &no_name)),
        (Code::NameUtf8, File::with_record(NAMES, &bad_text)),
        (Code::NameHash, File::with_record(NAMES, &other_text)),
        // Untied in the header alone: the head is due after the last entry.
        (Code::MissingTensor, sound().header(header::FLAGS, 0)),
        (Code::UnexpectedTensor, swapped),
        (Code::UnexpectedTensor, File::of(&Builder { surplus: true, ..Builder::least() })),
        (Code::TensorShape, transposed),
        (Code::TensorDType, norm_as_bytes),
        (Code::WeightNotFinite, sound().inside(MATRIX, 8, &f32_bytes(f32::NAN))),
        // The last minimum of the first group.
        (Code::ScaleNotFinite, quantised.inside(MATRIX, 30, &0x7c00u16.to_le_bytes())),
    ]
    .into_iter()
    .map(|(code, file)| (code, file.seal()))
    .collect()
}

fn record_files() -> Vec<(Code, File)> {
    let sound = File::sound;
    let config = sound().record(CONFIG);
    let in_config = |field: usize, value: u32| sound().inside(CONFIG, field, &value.to_le_bytes());
    let rope = sound().record(ROPE);
    let in_sampling = |field: usize, value: u32| sound().inside(SAMPLING, field, &value.to_le_bytes());
    let longer = |record: &[u8]| [record, &[0]].concat();
    // One table of two dimensions, then a table index per layer.
    let one_table = |dim: u32, factor: f32, frequency: f32, layers: &[u8]| {
        File::with_record(ROPE, &record(&[1, dim, factor.to_bits(), frequency.to_bits()], layers))
    };
    let stops = |words: &[u32], bytes: &[u8]| File::with_record(STOPS, &record(words, bytes));
    [
        (Code::ConfigTooShort, File::with_record(CONFIG, &config[..config.len() - 1])),
        (Code::ConfigVersion, in_config(0, 2)),
        (Code::UnknownFamily, in_config(config::FAMILY, config::LAST_FAMILY + 1)),
        (Code::UnknownActivation, in_config(config::ACTIVATION, 3)),
        (Code::UnknownQkNorm, in_config(config::QK_NORM, 3)),
        (Code::UnknownNorms, in_config(config::NORMS, 16)),
        (Code::UnknownBiases, in_config(config::BIASES, 128)),
        (Code::ConfigFloat, in_config(config::LOGIT_DIVISOR, 0)),
        (Code::ConfigFloat, in_config(config::ATTENTION_SOFTCAP, (-1.0f32).to_bits())),
        (Code::ConfigReserved, in_config(config::RESERVED + 8, 1)),
        (Code::ConfigTrailing, File::with_record(CONFIG, &longer(&config))),
        (Code::RopeTooShort, File::with_record(ROPE, &rope[..rope.len() - 1])),
        (Code::RopeTableCount, File::with_record(ROPE, &record(&[5], &[255]))),
        (Code::RotaryDim, one_table(4, 1.0, 1.0, &[0])),
        (Code::RotaryDim, one_table(1, 1.0, 1.0, &[0])),
        (Code::RopeFloat, one_table(2, f32::NAN, 1.0, &[0])),
        (Code::RopeFloat, one_table(2, 1.0, f32::INFINITY, &[0])),
        (Code::RopeTableIndex, one_table(2, 1.0, 1.0, &[1])),
        (Code::RopeTrailing, File::with_record(ROPE, &longer(&rope))),
        (Code::StopsTooShort, stops(&[2, 3], &[])),
        (Code::StopIdRange, stops(&[1, 5, 0], &[])),
        (Code::StopIdOrder, stops(&[2, 3, 3, 0], &[])),
        (Code::StopStringLength, stops(&[0, 1, 0], &[])),
        (Code::StopStringUtf8, stops(&[0, 1, 1], b"\xff")),
        (Code::StopsTrailing, stops(&[0, 0], &[0])),
        (Code::SamplingLength, File::with_record(SAMPLING, &[0; 79])),
        (Code::SamplingVersion, in_sampling(0, 2)),
        (Code::SamplingPresent, in_sampling(sampling::PRESENT, 1 << 10)),
        // Present is 0, so the value must be too.
        (Code::SamplingValue, in_sampling(sampling::TOP_K, 5)),
        (Code::SamplingReserved, in_sampling(sampling::RESERVED, 1)),
    ]
    .into_iter()
    .map(|(code, file)| (code, file.seal()))
    .collect()
}

#[test]
fn each_malformed_file_gives_the_error_it_is_named_after() {
    let files: Vec<_> = [header_files(), directory_files(), record_files()].into_iter().flatten().collect();
    for (i, (code, file)) in files.iter().enumerate() {
        let found = Model::parse(Aligned::new(&file.0).bytes()).err();
        assert_eq!(found.map(|e| e.code()), Some(*code), "file {i}");
        assert!(found.is_some_and(|e| e.offset().is_some()), "{code:?} says no offset");
    }
    // Where a container cannot show the error on this machine, or another layer's tests do.
    let elsewhere = [Code::FileTooLarge, Code::ModelMisaligned, Code::TokenizerDrift];
    for &code in Code::ALL.iter().filter(|&&code| (15..100).contains(&(code as u16))) {
        let here = files.iter().any(|(named, _)| *named == code);
        assert!(here != elsewhere.contains(&code), "{code:?} has no malformed file");
    }
}

#[test]
fn a_file_that_does_not_begin_at_a_multiple_of_4_is_refused() {
    let file = File::sound();
    let shifted = Aligned::new(&[&[0], file.0.as_slice()].concat());
    assert_eq!(Model::parse(&shifted.bytes()[1..]).err().map(|e| e.code()), Some(Code::ModelMisaligned));
}

/// Sizes are u64 in the file; where `usize` has 32 bits a larger one is refused by name, never cut.
#[test]
#[cfg(target_pointer_width = "32")]
fn offsets_over_4_gib_are_refused_where_usize_has_32_bits() {
    let mut file = File::sound();
    // A tokenizer of 4 GiB, with the directory and the data where they would have to stand.
    let end = 128 + (1u64 << 32);
    let count = u64::from(u32::from_le_bytes(file.0[header::TENSOR_COUNT..][..4].try_into().unwrap()));
    file = file.put(header::TOKENIZER_LENGTH, &(1u64 << 32).to_le_bytes());
    file = file.put(header::TENSOR_DIRECTORY_OFFSET, &end.to_le_bytes());
    file = file.put(header::TENSOR_DATA_OFFSET, &(end + 64 * count).to_le_bytes());
    assert_eq!(Container::parse(&file.0).err().map(|e| e.code()), Some(Code::FileTooLarge));
}
