//! What the door lets in and what it refuses, by error.

use super::build::{Aligned, Builder, DTYPES, Random, seal};
use crate::container::{Container, DType, directory, header};
use crate::error::{Code, Error};
use crate::model::tensors::Role;
use crate::model::{Model, SamplingDefaults};
use std::vec::Vec;

fn parse(bytes: &[u8]) -> Result<(), Error> {
    Model::parse(Aligned::new(bytes).bytes()).map(|_| ())
}

/// The error after writing `bytes` at `at` and storing the checksum anew.
fn with(file: &[u8], at: usize, bytes: &[u8]) -> Option<Code> {
    let mut file = file.to_vec();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    if !(header::CHECKSUM..header::CHECKSUM + 8).contains(&at) {
        seal(&mut file);
    }
    parse(&file).err().map(|e| e.code())
}

#[test]
fn accepts_what_it_should_and_reads_it_back() {
    for dtype in DTYPES {
        let mut builder = Builder::tiny().dtype(dtype);
        builder.tokenizer = Vec::from(*b"tokens");
        builder.sampling = Some(SamplingDefaults { top_p: Some(0.9), max_new_tokens: Some(7), ..Default::default() });
        let file = builder.build();
        let model = Model::parse(file.bytes()).unwrap();
        assert_eq!(model.config, builder.config);
        assert_eq!(model.tokenizer_bytes(), b"tokens");
        assert_eq!(model.stops.ids(), [2]);
        assert!(model.stops.strings().eq([b"\n\n".as_slice()]));
        assert_eq!(model.sampling(), builder.sampling.unwrap());
        assert_eq!(model.rope.table(0).unwrap().inv_freq.len(), 5);
        let names: Vec<_> = model.container().names().collect();
        assert_eq!(names[7], "tok_embeddings.weight");
        assert_eq!(names[16], "layers.0.w2.weight");
        assert_eq!(names.len(), 7 + 1 + 2 * 9 + 1);
        let layer = model.layer(1);
        assert_eq!((layer.linear(Role::W2).matrix.rows, layer.linear(Role::W2).matrix.cols), (36, 50));
        assert_eq!(
            layer.linear(Role::W2).matrix.data,
            model.container().payload(model.container().find("layers.1.w2.weight").unwrap())
        );
        assert_eq!(model.final_norm().len(), 36);
        assert_eq!(model.head().data, model.embedding().data);
    }
}

#[test]
fn each_header_rule_has_its_error() {
    let file = Builder::tiny().build();
    let file = file.bytes();
    let nan = f32::NAN.to_le_bytes();
    let word = |at: usize, value: u32, code: Code| assert_eq!(with(file, at, &value.to_le_bytes()), Some(code));
    assert_eq!(with(file, 0, b"SLM2"), Some(Code::InvalidModelMagic));
    word(header::VERSION, 2, Code::UnsupportedModelVersion);
    word(header::HEADER_LENGTH, 112, Code::HeaderLength);
    word(header::MODEL_TYPE, 2, Code::ModelType);
    word(header::FLAGS, 2, Code::UnknownFlags);
    word(header::FLAGS, 0, Code::MissingTensor);
    word(header::HIDDEN_SIZE, 0, Code::ZeroDimension);
    word(header::HIDDEN_SIZE, 32, Code::TensorShape);
    word(header::FFN_SIZE, u32::MAX, Code::DimensionTooLarge);
    word(header::SPECIAL_TOKEN_COUNT, 38, Code::SpecialTokenCount);
    word(header::LAYER_COUNT, 1025, Code::LayerCount);
    word(header::KV_HEAD_COUNT, 3, Code::KvHeadCount);
    word(header::HEAD_DIM, 9, Code::HeadDimOdd);
    assert_eq!(with(file, header::ROPE_THETA, &nan), Some(Code::RopeTheta));
    assert_eq!(with(file, header::RMS_NORM_EPSILON, &nan), Some(Code::Epsilon));
    word(header::TOKENIZER_OFFSET, 192, Code::TokenizerOffset);
    word(header::TOKENIZER_LENGTH, 64, Code::DirectoryOffset);
    assert_eq!(with(file, header::TOKENIZER_LENGTH, &[0xff; 8]), Some(Code::TokenizerRange));
    word(header::TENSOR_DIRECTORY_OFFSET, 192, Code::DirectoryOffset);
    word(header::TENSOR_COUNT, 0, Code::TensorCount);
    word(header::TENSOR_COUNT, 26, Code::DataOffset);
    word(header::TENSOR_DATA_OFFSET, 64, Code::DataOffset);
    assert_eq!(with(file, header::CHECKSUM, &[0; 8]), Some(Code::ChecksumZero));
    assert_eq!(with(file, header::CHECKSUM, &[1; 8]), Some(Code::ChecksumMismatch));
    assert_eq!(with(file, 110, &[1]), Some(Code::PaddingNotZero));
}

#[test]
fn each_directory_rule_has_its_error() {
    let built = Builder::tiny().build();
    let file = built.bytes();
    let container = Container::parse(file).unwrap();
    let entry = |index: u32, field: usize| container.entry_offset(index) as usize + field;
    let word = |index, field, value: u32, code: Code| {
        assert_eq!(with(file, entry(index, field), &value.to_le_bytes()), Some(code), "{index} {field} {value}");
    };
    word(0, directory::NAME_HASH, 5, Code::MissingTensor);
    word(8, directory::NAME_HASH, 5, Code::NameHash);
    word(9, directory::DTYPE, 7, Code::UnknownDType);
    word(9, directory::DTYPE, 2, Code::ByteLength);
    word(9, directory::RANK, 3, Code::Rank);
    word(9, directory::DIMS, 0, Code::ZeroDim);
    word(9, directory::DIMS + 8, 1, Code::UnusedDim);
    word(9, directory::BYTE_LENGTH, 4, Code::ByteLength);
    word(9, directory::SCALE_OFFSET, 4, Code::ScaleOffset);
    word(9, directory::BLOCK_SIZE, 32, Code::BlockSize);
    word(9, directory::LAYOUT, 1, Code::Layout);
    let offset = container.entry(9).unwrap().byte_offset as u32;
    word(9, directory::BYTE_OFFSET, offset + 4, Code::PayloadUnaligned);
    word(9, directory::BYTE_OFFSET, offset - 64, Code::PayloadOverlap);
    word(9, directory::BYTE_OFFSET, offset + 64, Code::PayloadGap);
    let name = container.entry(8).unwrap().name_hash.to_le_bytes();
    assert_eq!(with(file, entry(9, 0), &name), Some(Code::DuplicateName));
    let payload = container.entry(9).unwrap().byte_offset as usize;
    assert_eq!(with(file, payload + 4, &f32::INFINITY.to_le_bytes()), Some(Code::WeightNotFinite));

    let quantised = Builder::tiny().dtype(DType::Q4_1).build();
    let payload = Container::parse(quantised.bytes()).unwrap().entry(9).unwrap().byte_offset as usize;
    assert_eq!(with(quantised.bytes(), payload + 160 + 30, &[0, 0x7c]), Some(Code::ScaleNotFinite));

    let halves = Builder::tiny().dtype(DType::Bf16).build();
    let payload = Container::parse(halves.bytes()).unwrap().entry(9).unwrap().byte_offset as usize;
    assert_eq!(with(halves.bytes(), payload + 6, &[0x80, 0xff]), Some(Code::WeightNotFinite));

    let mut longer = file.to_vec();
    longer.push(0);
    assert_eq!(parse(&longer).unwrap_err().code(), Code::FileLength);
}

#[test]
fn the_offset_and_entry_are_those_of_the_fault() {
    let built = Builder::tiny().build();
    let container = Container::parse(built.bytes()).unwrap();
    let mut file = built.bytes().to_vec();
    let at = container.entry(9).unwrap().byte_offset as usize + 8;
    file[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    seal(&mut file);
    assert_eq!(parse(&file), Err(Error::new(Code::WeightNotFinite).at(at as u64).entry(9)));
}

#[test]
fn truncations_and_flips_give_an_error_or_a_valid_model() {
    let built = Builder::tiny().dtype(DType::Q4_0).build();
    let file = built.bytes();
    let step = if cfg!(miri) { 997 } else { 31 };
    for len in (0..file.len()).step_by(step).chain(0..if cfg!(miri) { 10 } else { 300 }) {
        assert!(parse(&file[..len]).is_err(), "{len} bytes");
    }
    let mut random = Random(9);
    let structure = Container::parse(file).unwrap().header().tensor_data_offset as usize + 2048;
    for round in 0..if cfg!(miri) { 40 } else { 1000 } {
        let mut damaged = file.to_vec();
        let end = if round % 2 == 0 { structure } else { file.len() };
        let at = random.word() as usize % end;
        damaged[at] ^= 1 << (random.word() % 8);
        if !(header::CHECKSUM..header::CHECKSUM + 8).contains(&at) {
            assert!(parse(&damaged).is_err(), "flip at {at}");
        }
        seal(&mut damaged);
        // Whatever comes out, it must be a value: no panic, no read out of range.
        let _ = parse(&damaged);
    }
}
