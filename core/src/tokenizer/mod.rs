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
pub use normalize::step;
pub use split::{MAX_STAGES, behaviour, flag as split_flag, scheme, stage};
pub use vocab::{Hash, WHOLE, fingerprint, pair_hash, slot_of};

use crate::error::{Code, Error};
use crate::utf8::text_len;
use added::{Part, Parts};
use normalize::{Buffer, View};
use section::{Kind, MAX_ID, Section, field, flag, table, token};
use split::{Pieces, Stages};

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

    #[inline]
    fn push(&mut self, id: u32) {
        match self.memory.get_mut(self.len) {
            Some(slot) => {
                *slot = id;
                self.len = self.len.wrapping_add(1);
            }
            None => self.full = true,
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
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
        normalize::steps(&self.section) > 0 || Stages::new(self.section).change().is_some()
    }

    /// Words of scratch that suffice to encode any text of `text_len` bytes.
    pub fn scratch_words(&self, text_len: usize) -> usize {
        let grown = self.grown(text_len);
        let model = if self.section.is(Kind::Bpe) {
            self.grown_by(text_len, field::GROWTH_UNITS).saturating_mul(bpe::SCRATCH_PER_UNIT)
        } else if self.section.is(Kind::Unigram) {
            grown.saturating_add(1).saturating_mul(unigram::SCRATCH_PER_BYTE)
        } else {
            0
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
        let strip = self.section.word(table::DECODER, 3) as usize;
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
        let affixes = self.section.words(table::AFFIXES);
        let before = affixes.u32(0).unwrap_or(0) as usize;
        if how.add_special_tokens {
            affixes.iter32().skip(1).take(before).for_each(|id| ids.push(id));
        }
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
        if how.add_special_tokens {
            affixes.iter32().skip(before.saturating_add(1)).for_each(|id| ids.push(id));
        }
        Ok(())
    }

    fn cut<'s>(&self, scratch: &'s mut [u32], text_len: usize, marked: bool) -> Result<Scratch<'s>, Error> {
        let none = || Buffer::new(&mut [], &mut []);
        if !self.changes_text() {
            return Ok(Scratch { one: none(), two: none(), model: scratch });
        }
        let grown = self.grown(text_len);
        let (text, marks) = ((grown / 4).saturating_add(1), if marked { (grown / 32).saturating_add(1) } else { 0 });
        let mut rest = scratch;
        let mut take = |len: usize| -> Result<&'s mut [u8], Error> {
            let (part, after) = core::mem::take(&mut rest).split_at_mut_checked(len).ok_or(scratch_error())?;
            rest = after;
            bytemuck::try_cast_slice_mut(part).map_err(|_| scratch_error())
        };
        let (one, one_marks, two, two_marks) = (take(text)?, take(marks)?, take(text)?, take(marks)?);
        Ok(Scratch { one: Buffer::new(one, one_marks), two: Buffer::new(two, two_marks), model: rest })
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
            if normalize::run(&self.section, number, from, other, model)? {
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
        let stages = Stages::new(self.section);
        let engine = Engine::new(&self.section);
        let mut piece = |piece: &[u8]| -> Result<(), Error> {
            observe(Stage::Piece(piece, ids.len));
            engine.encode(&self.section, piece, model, ids)
        };
        let Some(change) = stages.change() else {
            for (start, end) in Pieces::new(&stages, 0, stages.count(), text.bytes) {
                piece(text.bytes.get(start..end).unwrap_or(&[]))?;
            }
            return Ok(());
        };
        for (start, end) in Pieces::new(&stages, 0, change, text.bytes) {
            stages.apply(change, text.part(start, end), buffer)?;
            let text = buffer.view().bytes;
            for (start, end) in Pieces::new(&stages, change.wrapping_add(1), stages.count(), text) {
                piece(text.get(start..end).unwrap_or(&[]))?;
            }
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
        self.section.item(table::OFFSETS, table::BYTES, id)
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
        self.section.table(table::FLAGS).get(id as usize).is_some_and(|f| f & token::SPECIAL != 0)
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
            if let Some(id) = Parts::new(&self.section, number, whole).whole() {
                return Some(id);
            }
        }
        vocab::Vocab::new(&self.section).id(bytes)
    }

    /// Whether a token is what the model makes of its own bytes by merges alone. For the compiler.
    pub fn merges_to_itself(&self, id: u32, scratch: &mut [u32]) -> bool {
        let (_, suffix) = self.section.affixes();
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
    let (before, after): (&[u32], &[u32]) = if around { (&[256], &[257]) } else { (&[], &[]) };
    let bytes = text.iter().map(|byte| u32::from(*byte));
    before.iter().copied().chain(bytes).chain(after.iter().copied()).for_each(|id| ids.push(id));
}

/// The model, ready to encode pieces.
struct Engine<'a> {
    /// Its views of the tables, of a byte-pair model.
    bpe: Option<bpe::Bpe<'a>>,
}

impl<'a> Engine<'a> {
    fn new(section: &Section<'a>) -> Self {
        Self { bpe: section.is(Kind::Bpe).then(|| bpe::Bpe::new(section)) }
    }

    #[inline]
    fn encode(&self, section: &Section<'_>, piece: &[u8], scratch: &mut [u32], ids: &mut Ids<'_>) -> Result<(), Error> {
        match &self.bpe {
            Some(bpe) => bpe.encode(piece, scratch, ids),
            None if section.is(Kind::Unigram) => unigram::encode(section, piece, scratch, ids),
            None if section.is(Kind::WordPiece) => words::encode_piece(section, piece, ids),
            None => words::encode_level(section, piece, ids),
        }
    }
}

const _: () = assert!(MAX_ID.count_ones() == 21 && flag::ALL == 31);
