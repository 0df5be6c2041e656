//! Tokenizer: text to ids and back, by tables that the converter compiled.
//!
//! The core holds no Unicode data and no pattern engine. A section (SPEC, section 7) carries the classes of code points,
//! an automaton per pattern, the vocabulary and the merges as hash tables, added tokens with their flags, the
//! ids put around a text, and the texts of all tokens. [`Tokenizer::parse`] checks all of it once; what follows
//! cannot meet a damaged table.
//!
//! Order of work: added tokens, normalizer, added tokens of the normalised text, pre-tokenizer, model, ids around it.

mod added;
mod automaton;
mod bpe;
mod canonical;
mod check;
mod decode;
mod layout;
mod normalize;
pub mod section;
mod split;
mod text;
mod unigram;
mod vocab;
mod words;

pub use added::flag as added_flag;
pub use decode::{DecodeMode, Decoder, MAX_RUN, flag as decoder_flag};
pub use split::MAX_STAGES;
pub use vocab::{Hash, WHOLE, fingerprint, pair_hash, slot_of};

use crate::error::{Code, Error};
use crate::utf8::text_len;
use added::{Part, Parts};
use normalize::{Buffer, View};
use section::{Kind, MAX_ID, Section, field, flag, head, table, token};
use split::Pieces;

/// How to encode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Encode<'c> {
    /// Put the ids the tokenizer declares around the text.
    pub add_special_tokens: bool,
    /// A bit per byte of the text, lowest first: content. No special token is found that touches it.
    /// `None`: special tokens are found everywhere, as the reference does.
    pub content: Option<&'c [u8]>,
}

/// What an observer is told while a text is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage<'t> {
    /// An added token in the text.
    Added(u32),
    /// A section of text after normalisation.
    Normalized(&'t [u8]),
    /// A piece for the model, and how many ids there were before it.
    Piece(&'t [u8], usize),
}

/// A checked tokenizer section. A plain view; copying is free.
#[derive(Clone, Copy, Debug)]
pub struct Tokenizer<'a> {
    section: Section<'a>,
}

fn scratch_error() -> Error {
    Error::new(Code::TokenizerScratch)
}

/// The ids found so far, in the caller's memory.
#[derive(Debug)]
pub struct Ids<'i> {
    memory: &'i mut [u32],
    len: usize,
    /// One did not fit: nothing that is found afterwards counts.
    full: bool,
}

impl<'i> Ids<'i> {
    fn new(memory: &'i mut [u32]) -> Self {
        Self { memory, len: 0, full: false }
    }

    #[cfg_attr(target_arch = "wasm32", inline(never))]
    fn push(&mut self, id: u32) {
        match self.memory.get_mut(self.len) {
            Some(slot) => {
                *slot = id;
                self.len = self.len.wrapping_add(1);
            }
            None => self.full = true,
        }
    }
}

/// The caller's scratch, cut into its parts.
struct Scratch<'s> {
    one: Buffer<'s>,
    two: Buffer<'s>,
    model: &'s mut [u32],
}

impl<'a> Tokenizer<'a> {
    /// Reads and checks a section.
    ///
    /// # Errors
    /// One of the numbers 100 to 112, with the offset or index of the fault. Cost: one pass over the section.
    pub fn parse(section: &'a [u8]) -> Result<Self, Error> {
        Ok(Self { section: Section::parse(section)? })
    }

    /// Ids are below this. Not each of them need have a text.
    pub fn vocab_size(&self) -> u32 {
        self.section.field(field::ID_COUNT)
    }

    /// Ids left out of visible text.
    pub fn special_count(&self) -> u32 {
        self.section.field(field::SPECIAL_COUNT)
    }

    /// The checked section, for tools that show it.
    pub fn section(&self) -> &Section<'a> {
        &self.section
    }

    /// Bytes a text may grow to on its way to the model.
    fn grown(&self, text_len: usize) -> usize {
        self.grown_by(text_len, field::GROWTH)
    }

    /// The same of the growth that stands in `field`: of bytes, or of the model's units.
    fn grown_by(&self, text_len: usize, field: usize) -> usize {
        let fixed = self.section.field(field::GROWTH_FIXED) as usize;
        text_len.saturating_mul(self.section.field(field) as usize).saturating_add(fixed)
    }

    fn changes_text(&self) -> bool {
        normalize::steps(&self.section) > 0 || split::change(&self.section) < split::stages(&self.section)
    }

    /// Words of scratch that suffice to encode any text of `text_len` bytes.
    pub fn scratch_words(&self, text_len: usize) -> usize {
        let grown = self.grown(text_len);
        let model = if self.section.is(Kind::Unigram) {
            grown.saturating_add(1).saturating_mul(unigram::SCRATCH_PER_BYTE)
        } else if self.section.is(Kind::WordPiece) || self.section.is(Kind::Bytes) {
            0
        } else {
            self.grown_by(text_len, field::GROWTH_UNITS).saturating_mul(bpe::SCRATCH_PER_UNIT)
        };
        if !self.changes_text() {
            return model;
        }
        // Two texts with their marks; normal forms take two lines of characters where the model works later.
        let text = (grown / 4).saturating_add(grown / 32).saturating_add(2);
        model.max(grown.saturating_mul(2)).saturating_add(text.saturating_mul(2))
    }

    /// Ids that suffice for any text of `text_len` bytes, those put around it included.
    pub fn max_ids(&self, text_len: usize) -> usize {
        let per_byte = self.grown_by(1, field::GROWTH_UNITS);
        let around = self.section.words(table::AFFIXES).len32().saturating_add(2);
        text_len.saturating_mul(per_byte).saturating_add(around)
    }

    /// Bytes that suffice for one call of [`Decoder::push`] or [`Decoder::finish`].
    pub fn max_push_bytes(&self) -> usize {
        let longest = (0..self.vocab_size()).fold(0, |longest, id| decode::longest(&self.section, id).max(longest));
        let strip = self.section.field(field::STRIP_STOP) as usize;
        longest.saturating_add(MAX_RUN + 8).saturating_mul(3).saturating_add(strip.saturating_mul(4))
    }

    /// Encodes `text` and returns the number of ids written.
    ///
    /// # Errors
    /// [`Code::InvalidUtf8`] with the offset of the first bad byte; [`Code::OutputBufferExceeded`] when `ids` is too
    /// short ([`Tokenizer::max_ids`] always suffices); [`Code::TokenizerScratch`] when `scratch` is;
    /// [`Code::MissingUnknownToken`] when the text has something the model does not know and no id for it.
    /// Cost: O(n log n) in the worst case, nothing allocated.
    pub fn encode(&self, text: &[u8], how: Encode<'_>, scratch: &mut [u32], ids: &mut [u32]) -> Result<usize, Error> {
        self.encode_observed(text, how, scratch, ids, &mut |_| ())
    }

    /// [`Tokenizer::encode`], telling `observe` what happens.
    pub fn encode_observed(
        &self,
        text: &[u8],
        how: Encode<'_>,
        scratch: &mut [u32],
        ids: &mut [u32],
        observe: &mut impl FnMut(Stage<'_>),
    ) -> Result<usize, Error> {
        let good = text_len(text);
        if good != text.len() {
            return Err(Error::new(Code::InvalidUtf8).at(good as u64));
        }
        let mut ids = Ids::new(ids);
        let done = if self.section.is(Kind::Bytes) {
            encode_bytes(text, how.add_special_tokens, &mut ids);
            Ok(())
        } else {
            self.encode_text(text, how, scratch, &mut ids, observe)
        };
        // What went wrong first counts.
        if ids.full {
            return Err(Error::new(Code::OutputBufferExceeded));
        }
        done.map(|()| ids.len)
    }

    fn encode_text(
        &self,
        text: &[u8],
        how: Encode<'_>,
        scratch: &mut [u32],
        ids: &mut Ids<'_>,
        observe: &mut impl FnMut(Stage<'_>),
    ) -> Result<(), Error> {
        let affixes = self.section.words(table::AFFIXES).len32();
        let behind = (self.section.word(table::AFFIXES, 0) as usize).saturating_add(1);
        let put = |around: core::ops::Range<usize>, ids: &mut Ids<'_>| {
            if how.add_special_tokens {
                around.for_each(|i| ids.push(self.section.word(table::AFFIXES, i)));
            }
        };
        put(1..behind.min(affixes), ids);
        let mut scratch = self.cut(scratch, text.len(), how.content.is_some())?;
        let whole = View {
            bytes: text,
            marks: how.content.unwrap_or(&[]),
            base: 0,
            first: text.first().map_or(0, |b| text::char_len(*b)),
        };
        for part in Parts::new(&self.section, table::ADDED_RAW, whole) {
            match part {
                Part::Token(id) => {
                    observe(Stage::Added(id));
                    ids.push(id);
                }
                Part::Text(start, end) => {
                    self.encode_section(whole.part(start, end), &mut scratch, ids, observe)?;
                }
            }
        }
        put(behind..affixes, ids);
        Ok(())
    }

    fn cut<'s>(&self, scratch: &'s mut [u32], text_len: usize, marked: bool) -> Result<Scratch<'s>, Error> {
        let (mut text, mut marks) = (0usize, 0usize);
        if self.changes_text() {
            let grown = self.grown(text_len);
            text = (grown / 4).saturating_add(1);
            marks = if marked { (grown / 32).saturating_add(1) } else { 0 };
        }
        let each = text.saturating_add(marks);
        let (one, rest) = scratch.split_at_mut_checked(each).ok_or(scratch_error())?;
        let (two, model) = rest.split_at_mut_checked(each).ok_or(scratch_error())?;
        let buffer = |words: &'s mut [u32]| {
            let bytes = bytemuck::try_cast_slice_mut(words).unwrap_or(&mut []);
            Buffer::new(bytes, text.saturating_mul(4))
        };
        Ok(Scratch { one: buffer(one), two: buffer(two), model })
    }

    /// Encodes text that holds no added token of the raw text.
    fn encode_section(
        &self,
        text: View<'_>,
        scratch: &mut Scratch<'_>,
        ids: &mut Ids<'_>,
        observe: &mut impl FnMut(Stage<'_>),
    ) -> Result<(), Error> {
        let Scratch { one, two, model } = scratch;
        let (mut now, mut other) = (one, two);
        let mut changed = false;
        for number in 0..normalize::steps(&self.section) {
            let from = if changed { now.view() } else { text };
            if normalize::run(&self.section, table::NORMALIZER, number, from, other, model)? {
                core::mem::swap(&mut now, &mut other);
                changed = true;
            }
        }
        let text = if changed { now.view() } else { text };
        observe(Stage::Normalized(text.bytes));
        for part in Parts::new(&self.section, table::ADDED_NORMALIZED, text) {
            match part {
                Part::Token(id) => {
                    observe(Stage::Added(id));
                    ids.push(id);
                }
                Part::Text(start, end) => self.pre_tokenize(text.part(start, end), other, model, ids, observe)?,
            }
        }
        Ok(())
    }

    /// Cuts text into pieces and encodes them.
    fn pre_tokenize(
        &self,
        text: View<'_>,
        buffer: &mut Buffer<'_>,
        model: &mut [u32],
        ids: &mut Ids<'_>,
        observe: &mut impl FnMut(Stage<'_>),
    ) -> Result<(), Error> {
        let section = &self.section;
        let (count, change) = (split::stages(section), split::change(section));
        let engine = Engine::new(section);
        let mut encode = |text: &[u8], pieces: Pieces<'_, '_>| -> Result<(), Error> {
            for (start, end) in pieces {
                let piece = text.get(start..end).unwrap_or(&[]);
                observe(Stage::Piece(piece, ids.len));
                engine.encode(section, piece, model, ids)?;
            }
            Ok(())
        };
        let pieces = Pieces::new(section, 0, change, text.bytes);
        if change == count {
            return encode(text.bytes, pieces);
        }
        for (start, end) in pieces {
            let piece = text.part(start, end);
            let changed = normalize::run(section, table::PRE_TOKENIZER, change, piece, buffer, &mut [])?;
            let piece = if changed { buffer.view() } else { piece };
            encode(piece.bytes, Pieces::new(section, change.wrapping_add(1), count, piece.bytes))?;
        }
        Ok(())
    }

    /// A decoder that gives text: ill-formed bytes show as U+FFFD, as in the reference.
    pub fn decoder(&self, mode: DecodeMode) -> Decoder<'a> {
        Decoder::new(&self.section, mode, true)
    }

    /// A decoder that gives the true bytes.
    pub fn byte_decoder(&self, mode: DecodeMode) -> Decoder<'a> {
        Decoder::new(&self.section, mode, false)
    }

    /// A token's bytes as the model has them; empty where there is no such token.
    pub fn token_bytes(&self, id: u32) -> &'a [u8] {
        self.section.item(table::OFFSETS, id)
    }

    /// A token's text in the middle of a text.
    pub fn piece(&self, id: u32) -> &'a [u8] {
        decode::piece(&self.section, id, 0)
    }

    /// Whether the id is left out of visible text.
    pub fn is_special(&self, id: u32) -> bool {
        if self.section.is(Kind::Bytes) {
            return (256..260).contains(&id);
        }
        decode::token_flags(&self.section, id) & token::SPECIAL != 0
    }

    /// The id of the token with these bytes: an added token's content, or a token of the model.
    pub fn token_to_id(&self, bytes: &[u8]) -> Option<u32> {
        if self.section.is(Kind::Bytes) {
            return match bytes {
                [byte] => Some(u32::from(*byte)),
                _ => None,
            };
        }
        let whole = View { bytes, marks: &[], base: 0, first: 0 };
        for number in [table::ADDED_RAW, table::ADDED_NORMALIZED] {
            if let Some((entry, end)) = Parts::new(&self.section, number, whole).longest(0)
                && end == bytes.len()
            {
                return Some(entry & MAX_ID);
            }
        }
        vocab::Vocab::new(&self.section).id(bytes)
    }

    /// Whether a token is what the model makes of its own bytes by merges alone. For the compiler.
    pub fn merges_to_itself(&self, id: u32, scratch: &mut [u32]) -> bool {
        let suffix = self.section.head(head::SUFFIX);
        let Some(word) = self.token_bytes(id).strip_suffix(suffix).filter(|w| !w.is_empty()) else { return false };
        let mut found = [0u32; 2];
        let mut ids = Ids::new(&mut found);
        bpe::Bpe::new(&self.section).merge(word, scratch, &mut ids).is_ok()
            && !ids.full
            && ids.len == 1
            && found[0] == id
    }
}

fn encode_bytes(text: &[u8], around: bool, ids: &mut Ids<'_>) {
    if around {
        ids.push(256);
    }
    text.iter().for_each(|byte| ids.push(u32::from(*byte)));
    if around {
        ids.push(257);
    }
}

/// The model, ready to encode pieces.
struct Engine<'a> {
    /// Its views of the tables, of a byte-pair or word-level model.
    bpe: Option<bpe::Bpe<'a>>,
}

impl<'a> Engine<'a> {
    fn new(section: &Section<'a>) -> Self {
        let other = section.is(Kind::Unigram) || section.is(Kind::WordPiece);
        Self { bpe: (!other).then(|| bpe::Bpe::new(section)) }
    }

    #[inline]
    fn encode(&self, section: &Section<'_>, piece: &[u8], scratch: &mut [u32], ids: &mut Ids<'_>) -> Result<(), Error> {
        match &self.bpe {
            Some(bpe) => bpe.encode(piece, scratch, ids),
            None if section.is(Kind::Unigram) => unigram::encode(section, piece, scratch, ids),
            None => words::encode(section, piece, ids),
        }
    }
}

const _: () = assert!(MAX_ID.count_ones() == 21 && flag::ALL == 31);
