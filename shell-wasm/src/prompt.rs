//! From what people write to ids: texts, conversations, lists of ids. Memory is taken for the call and given back.

use crate::memory::{Block, Buffer};
use tinyrustlm_core::error::{Code, Error};
use tinyrustlm_core::template::{Now, Template};
use tinyrustlm_core::tokenizer::{Encode, Tokenizer};

/// Owned ids.
pub struct Ids {
    block: Block,
    len: usize,
}

impl Ids {
    /// Ids from little-endian bytes, which need not be aligned.
    ///
    /// # Errors
    /// `InvalidLength` for no multiple of 4 bytes.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let (words, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(Error::new(Code::InvalidLength));
        }
        let mut block = Block::of::<u32>(words.len())?;
        for (to, word) in block.slice_mut::<u32>().iter_mut().zip(words) {
            *to = u32::from_le_bytes(*word);
        }
        Ok(Self { block, len: words.len() })
    }

    /// The ids.
    pub fn slice(&self) -> &[u32] {
        self.block.slice().get(..self.len).unwrap_or(&[])
    }

    /// The ids as little-endian bytes.
    pub fn bytes(&self) -> &[u8] {
        self.block.bytes().get(..self.len.saturating_mul(4)).unwrap_or(&[])
    }
}

/// The ids of a text. `content`: a bit per byte, set where no special token may be found.
///
/// # Errors
/// `InvalidUtf8` with the offset, `OutOfMemory`.
pub fn of_text(tokenizer: &Tokenizer<'_>, text: &[u8], specials: bool, content: Option<&[u8]>) -> Result<Ids, Error> {
    let mut scratch = Block::of::<u32>(tokenizer.scratch_words(text.len()))?;
    let mut block = Block::of::<u32>(tokenizer.max_ids(text.len()))?;
    let how = Encode { add_special_tokens: specials, content };
    let len = tokenizer.encode(text, how, scratch.slice_mut(), block.slice_mut())?;
    Ok(Ids { block, len })
}

/// A rendered conversation: its text, and a bit per byte that says whether people wrote it.
pub struct Prompt {
    /// The text, then a bit for each of its bytes.
    texts: Block,
    room: usize,
    len: usize,
}

/// Renders a conversation. What a template raises is left in `message`.
///
/// # Errors
/// What the template or the JSON gives; `OutOfMemory`.
pub fn render(template: &Template<'_>, input: &[u8], now: Now, message: &mut Buffer) -> Result<Prompt, Error> {
    let mut room = input.len().saturating_mul(2).saturating_add(1 << 14);
    let mut words = Template::memory_words(input.len());
    loop {
        let mut memory = Block::of::<u64>(words)?;
        let mut texts = Block::of::<u8>(room.saturating_add(room.div_ceil(8)))?;
        let (text, content) = texts.slice_mut().split_at_mut_checked(room).unwrap_or_default();
        match template.render(input, now, memory.slice_mut(), text, content) {
            Ok(rendered) => return Ok(Prompt { texts, room, len: rendered.len }),
            // Up to 16 MiB of text and 64 MiB to work in.
            Err(refusal) if refusal.error.is(Code::OutputBufferExceeded) && room < 1 << 24 => room *= 4,
            Err(refusal) if refusal.error.is(Code::TemplateMemory) && words < 1 << 23 => words *= 4,
            Err(refusal) => {
                message.set(texts.bytes().get(..refusal.message).unwrap_or(&[]))?;
                return Err(refusal.error);
            }
        }
    }
}

impl Prompt {
    /// The text.
    pub fn text(&self) -> &[u8] {
        self.texts.bytes().get(..self.len).unwrap_or(&[])
    }

    /// The ids. Unless `parse_specials`, what people wrote is text and never a special token.
    ///
    /// # Errors
    /// As [`of_text`].
    pub fn encode(&self, tokenizer: &Tokenizer<'_>, parse_specials: bool) -> Result<Ids, Error> {
        let content = self.texts.bytes().get(self.room..).filter(|_| !parse_specials);
        of_text(tokenizer, self.text(), false, content)
    }
}
