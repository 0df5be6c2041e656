//! Damaged and forged files: a numbered error or a model that runs, whatever the bytes. Never a panic, a hang or a read
//! out of range.
//!
//! `HOSTILE_COUNT` sets the number of files of each seeded kind and fixture (10,000 in the gate; 100 by default, for a
//! build without optimisation, and fewer under Miri).

use std::path::{Path, PathBuf};
use tinyrustlm_core::Block64;
use tinyrustlm_core::container::{Container, checksum, directory, header};
use tinyrustlm_core::error::Code;
use tinyrustlm_core::kernels::{Isa, Serial};
use tinyrustlm_core::model::Model;
use tinyrustlm_core::model::tensors::Role;
use tinyrustlm_core::plan::Plan;
use tinyrustlm_core::session::Session;

fn count() -> usize {
    let default = if cfg!(miri) { 6 } else { 100 };
    std::env::var("HOSTILE_COUNT").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The committed models; under Miri the smallest one.
fn fixtures() -> Vec<(PathBuf, Buffer)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "slm"))
        .collect();
    assert!(paths.len() >= 9, "the committed models are missing");
    paths.sort_by_key(|path| (std::fs::metadata(path).unwrap().len(), path.clone()));
    if cfg!(miri) {
        paths.truncate(1);
    }
    paths.into_iter().map(|path| (path.clone(), Buffer::new(&std::fs::read(path).unwrap()))).collect()
}

/// File bytes at a multiple of 64, as in a mapped file.
struct Buffer {
    blocks: Vec<Block64>,
    len: usize,
}

impl Buffer {
    fn new(bytes: &[u8]) -> Self {
        let mut blocks = vec![Block64::ZERO; Block64::count(bytes.len())];
        bytemuck::cast_slice_mut::<_, u8>(&mut blocks)[..bytes.len()].copy_from_slice(bytes);
        Self { blocks, len: bytes.len() }
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.len]
    }

    fn seal(&mut self) {
        let sum = checksum(self.bytes()).to_le_bytes();
        self.bytes_mut()[header::CHECKSUM..header::CHECKSUM + 8].copy_from_slice(&sum);
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }
}

/// True when the bytes are a model, which then has to run.
fn outcome(bytes: &[u8]) -> bool {
    match Model::parse(bytes) {
        Ok(model) => {
            use_up(&model);
            true
        }
        Err(error) => {
            assert!(error.number() > 0);
            false
        }
    }
}

/// Reads all that an accepted model offers, and computes three positions.
fn use_up(model: &Model<'_>) {
    assert_eq!(model.container().names().count(), model.container().header().tensor_count as usize);
    for layer in 0..model.config.layer_count {
        let layer = model.layer(layer);
        assert_eq!(layer.linear(Role::W2).matrix.rows, model.config.hidden_size);
    }
    assert_eq!(model.final_norm().len(), model.config.hidden_size);
    assert_eq!(model.head().rows, model.config.vocab_size);
    assert!(model.stops.ids().iter().all(|&id| (id as usize) < model.config.vocab_size));
    assert_eq!(model.stops.strings().count(), model.stops.string_count());

    let plan = Plan::new(model, model.config.max_context.min(4), 2).unwrap();
    let mut memory = vec![Block64::ZERO; plan.block_count()];
    let mut session = Session::new(model, plan, &mut memory, Isa::Scalar).unwrap();
    let ids = [0, (model.config.vocab_size - 1) as u32, 1].map(|id| id.min(model.config.vocab_size as u32 - 1));
    // Damaged weights may overflow: that is an error with a number. What is computed is finite.
    match session.prefill(&ids[..plan.context.min(3)], &Serial) {
        Ok(logits) => assert!(logits.len() == model.config.vocab_size && logits.iter().all(|x| x.is_finite())),
        Err(error) => assert!(error.number() >= 300, "{error}"),
    }
}

#[test]
fn every_truncation_is_refused() {
    for (path, file) in fixtures() {
        assert!(outcome(file.bytes()), "{} is sound", path.display());
        let step = if cfg!(miri) { 1301 } else { 1 };
        for len in (0..file.len).step_by(step) {
            assert!(!outcome(&file.bytes()[..len]), "{} cut to {len} bytes", path.display());
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed_and_none_does_harm() {
    let (mut valid, mut total) = (0, 0);
    for (path, mut file) in fixtures() {
        let mut random = Random(1);
        for _ in 0..count() {
            let (at, bit) = (random.below(file.len), 1 << random.below(8));
            file.bytes_mut()[at] ^= bit;
            assert!(!outcome(file.bytes()), "{}: a flip at {at} passes", path.display());
            let stored: [u8; 8] = file.bytes()[header::CHECKSUM..][..8].try_into().unwrap();
            file.seal();
            valid += usize::from(outcome(file.bytes()));
            total += 1;
            file.bytes_mut()[header::CHECKSUM..][..8].copy_from_slice(&stored);
            file.bytes_mut()[at] ^= bit;
        }
        assert!(outcome(file.bytes()), "every flip was taken back");
    }
    eprintln!("{total} flips with the checksum recomputed: {valid} valid models, {} numbered errors", total - valid);
    assert!(valid > 0, "most bits are weights");
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    for (path, mut file) in fixtures() {
        let found =
            |file: &Buffer| Model::parse(file.bytes()).unwrap().tokenizer().err().map(|e| (e.code(), e.offset()));
        assert_eq!(found(&file), None, "{}", path.display());
        for (field, change) in [(header::SPECIAL_TOKEN_COUNT, 1), (header::SPECIAL_TOKEN_COUNT, u8::MAX)] {
            let count = file.bytes()[field];
            file.bytes_mut()[field] = count.wrapping_add(change);
            file.seal();
            assert_eq!(found(&file), Some((Code::TokenizerDrift, Some(field as u64))), "{}", path.display());
            file.bytes_mut()[field] = count;
        }
    }
}

/// A field of the file: where it stands and how many bytes it has.
fn fields(file: &[u8]) -> Vec<(usize, usize)> {
    let container = Container::parse(file).unwrap();
    let mut fields: Vec<(usize, usize)> =
        (header::VERSION..header::TOKENIZER_OFFSET).step_by(4).map(|at| (at, 4)).collect();
    let wide = [
        header::TOKENIZER_OFFSET,
        header::TOKENIZER_LENGTH,
        header::TENSOR_DIRECTORY_OFFSET,
        header::TENSOR_DATA_OFFSET,
    ];
    fields.extend(wide.map(|at| (at, 8)));
    fields.push((header::TENSOR_COUNT, 4));
    for index in 0..container.header().tensor_count {
        let at = container.entry_offset(index) as usize;
        let words = [directory::DTYPE, directory::RANK, directory::BLOCK_SIZE, directory::LAYOUT];
        fields.extend(words.map(|field| (at + field, 4)));
        fields.extend((0..4).map(|dim| (at + directory::DIMS + 4 * dim, 4)));
        let wide = [directory::NAME_HASH, directory::BYTE_OFFSET, directory::BYTE_LENGTH, directory::SCALE_OFFSET];
        fields.extend(wide.map(|field| (at + field, 8)));
    }
    fields
}

/// Words of the tokenizer and of the records, where counts and lengths stand.
fn words(file: &[u8]) -> Vec<(usize, usize)> {
    let container = Container::parse(file).unwrap();
    let tokenizer = (container.header().tokenizer_offset as usize, container.tokenizer().len());
    let records =
        (0..7).filter_map(|index| container.entry(index)).map(|e| (e.byte_offset as usize, e.byte_length as usize));
    let places = [tokenizer].into_iter().chain(records).flat_map(|(start, len)| (start..(start + len) & !3).step_by(4));
    places.map(|at| (at, 4)).collect()
}

/// A value that means trouble: an edge, or something near what stands there.
fn forged(old: u64, len: usize, random: &mut Random) -> u64 {
    let near = [
        old.wrapping_add(1),
        old.wrapping_sub(1),
        old.wrapping_mul(2),
        old / 2,
        old.wrapping_add(64),
        old.wrapping_sub(64),
    ];
    let edges = [
        0,
        1,
        2,
        3,
        4,
        16,
        255,
        1 << 16,
        1 << 24,
        (1 << 24) + 1,
        1 << 31,
        u64::from(u32::MAX),
        1 << 32,
        1 << 63,
        u64::MAX,
    ];
    match random.below(4) {
        0 => near[random.below(near.len())],
        1 => edges[random.below(edges.len())],
        2 => [len as u64, len as u64 - 1, (len as u64).next_multiple_of(64), len as u64 / 2][random.below(4)],
        _ => random.word() >> random.below(64),
    }
}

#[test]
fn forged_fields_give_an_error_or_a_model_that_runs() {
    let (mut valid, mut total) = (0, 0);
    for (_, sound) in fixtures() {
        let mut random = Random(2);
        let (fields, words) = (fields(sound.bytes()), words(sound.bytes()));
        for _ in 0..count() {
            let mut file = Buffer { blocks: sound.blocks.clone(), len: sound.len };
            for _ in 0..=random.below(3) {
                let list = if random.below(3) == 0 { &words } else { &fields };
                let (at, width) = list[random.below(list.len())];
                let place = &mut file.bytes_mut()[at..at + width];
                let mut old = [0; 8];
                old[..width].copy_from_slice(place);
                let value = forged(u64::from_le_bytes(old), sound.len, &mut random);
                place.copy_from_slice(&value.to_le_bytes()[..width]);
            }
            consistent(&mut file, &mut random);
            file.seal();
            valid += usize::from(outcome(file.bytes()));
            total += 1;
        }
    }
    eprintln!("{total} forged files: {valid} valid models, {} numbered errors", total - valid);
}

/// Now and then makes the length of an entry fit its forged shape, so that later checks are reached too.
fn consistent(file: &mut Buffer, random: &mut Random) {
    if random.below(2) == 0 {
        return;
    }
    let word = |bytes: &[u8], at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes(b.try_into().unwrap()));
    let start = word(file.bytes(), header::TENSOR_DIRECTORY_OFFSET).map_or(0, |at| (at as usize).min(file.len));
    for at in (start..).step_by(directory::LENGTH).take(64) {
        let dims = [0, 4].map(|dim| word(file.bytes(), at + directory::DIMS + dim));
        let dtype = word(file.bytes(), at + directory::DTYPE).and_then(directory::DType::from_number);
        let (Some(dtype), [Some(rows), Some(cols)]) = (dtype, dims) else { continue };
        let Some(bytes) = dtype.payload_bytes(rows, cols.max(1)) else { continue };
        let place = at + directory::BYTE_LENGTH..at + directory::BYTE_LENGTH + 8;
        if let Some(place) = file.bytes_mut().get_mut(place) {
            place.copy_from_slice(&bytes.to_le_bytes());
        }
    }
}
