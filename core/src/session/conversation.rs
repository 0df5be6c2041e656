//! A conversation: messages in, the prompt's tokens out.
//!
//! Every turn renders the whole transcript and encodes it anew; what the cache already holds is found by comparing
//! tokens, so nothing depends on how the last reply was cut into tokens. A transcript that no longer fits loses its oldest
//! turns, whole ones, and never its system message. All memory is the caller's.

use super::Session;
use crate::container::Xxh64;
use crate::error::{Code, Error};
use crate::kernels::Workers;
use crate::memory::Block64;
use crate::template::{Now, Refusal, Template};
use crate::tokenizer::{Encode, Tokenizer};

/// Most messages a conversation keeps.
pub const MAX_MESSAGES: usize = 4096;

/// Version of what [`prefix_key`] covers.
const KEY_VERSION: u32 = 1;

/// Sizes of a conversation's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConversationPlan {
    /// Bytes of the transcript, as JSON.
    pub transcript: usize,
    /// Bytes of the rendered text.
    pub text: usize,
    /// Words of 8 bytes the template works in.
    pub work: usize,
    /// Words of 4 bytes the tokenizer works in.
    pub scratch: usize,
    /// Tokens of the prompt.
    pub ids: usize,
}

impl ConversationPlan {
    /// The plan for a transcript of so many bytes.
    pub fn new(tokenizer: &Tokenizer<'_>, transcript: usize) -> Self {
        let text = transcript.saturating_mul(2).saturating_add(4096);
        Self {
            transcript,
            text,
            work: Template::memory_words(transcript),
            scratch: tokenizer.scratch_words(text),
            ids: tokenizer.max_ids(text),
        }
    }

    fn regions(&self) -> [usize; 6] {
        let input = self.transcript.saturating_mul(2).saturating_add(INPUT_ROOM);
        let bytes = [
            input,
            MAX_MESSAGES * 4,
            self.work.saturating_mul(8),
            self.text.saturating_add(self.text.div_ceil(8)),
            self.scratch.saturating_mul(4),
            self.ids.saturating_mul(4),
        ];
        bytes.map(Block64::count)
    }

    /// Blocks of 64 bytes the conversation takes.
    pub fn blocks(&self) -> usize {
        self.regions().iter().fold(0, |sum: usize, count| sum.saturating_add(*count))
    }
}

/// Bytes the input takes beside the messages.
const INPUT_ROOM: usize = 4096;

/// What decides how a prompt is made.
#[derive(Clone, Copy, Debug)]
pub struct PromptOptions<'v> {
    /// The time the template sees.
    pub now: Now,
    /// Special tokens are found in the messages too, as in the reference.
    pub parse_specials: bool,
    /// Most tokens of the prompt: what the context holds less what the reply needs.
    pub limit: usize,
    /// A JSON object of further variables of the template; empty: none.
    pub vars: &'v [u8],
    /// The prompt ends where the reply begins.
    pub generation_prompt: bool,
}

/// What a prompt is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Prompt {
    /// Tokens.
    pub tokens: usize,
    /// Bytes of the rendered text.
    pub text: usize,
    /// Messages it holds.
    pub messages: usize,
    /// Messages of the transcript that were left out: the oldest turns.
    pub dropped: usize,
    /// The template wrote BOS in front.
    pub has_bos: bool,
}

/// A transcript, and the room to make prompts of it.
#[derive(Debug)]
pub struct Conversation<'m> {
    /// Messages as JSON objects, each followed by a comma.
    store: &'m mut [u8],
    /// End of each message in the store, times 4, plus its role.
    ends: &'m mut [u32],
    count: usize,
    /// The oldest message after the system message that prompts still hold.
    first: usize,
    input: &'m mut [u8],
    work: &'m mut [u64],
    text: &'m mut [u8],
    content: &'m mut [u8],
    scratch: &'m mut [u32],
    ids: &'m mut [u32],
    prompt: Prompt,
}

const SYSTEM: u32 = 0;
const USER: u32 = 1;
const OTHER: u32 = 2;

/// Appends bytes to a buffer.
fn put(buffer: &mut [u8], at: &mut usize, bytes: &[u8]) -> Result<(), Error> {
    let end = at.saturating_add(bytes.len());
    match buffer.get_mut(*at..end) {
        Some(to) => crate::bytes::copy(to, bytes),
        None => return Err(Error::new(Code::ConversationFull).at(end as u64)),
    }
    *at = end;
    Ok(())
}

/// Appends a JSON string.
fn put_string(buffer: &mut [u8], at: &mut usize, text: &str) -> Result<(), Error> {
    put(buffer, at, b"\"")?;
    for byte in text.bytes() {
        let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble };
        match byte {
            b'"' | b'\\' => put(buffer, at, &[b'\\', byte])?,
            0..=31 => put(buffer, at, &[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)])?,
            _ => put(buffer, at, &[byte])?,
        }
    }
    put(buffer, at, b"\"")
}

impl<'m> Conversation<'m> {
    /// An empty conversation in `memory`, of which `plan.blocks()` are used.
    ///
    /// # Errors
    /// `MemoryTooSmall` with the bytes needed.
    pub fn new(plan: &ConversationPlan, memory: &'m mut [Block64]) -> Result<Self, Error> {
        let too_small = Error::new(Code::MemoryTooSmall).at(plan.blocks() as u64 * 64);
        let mut rest = memory;
        let mut regions: [&mut [Block64]; 6] = Default::default();
        for (region, count) in regions.iter_mut().zip(plan.regions()) {
            let (taken, left) = rest.split_at_mut_checked(count).ok_or(too_small)?;
            *region = taken;
            rest = left;
        }
        let [input, ends, work, text, scratch, ids] = regions;
        let bytes = |blocks: &'m mut [Block64]| -> Result<&'m mut [u8], Error> {
            bytemuck::try_cast_slice_mut(blocks).map_err(|_| too_small)
        };
        let (store, input) = bytes(input)?.split_at_mut_checked(plan.transcript).ok_or(too_small)?;
        let (text, content) = bytes(text)?.split_at_mut_checked(plan.text).ok_or(too_small)?;
        Ok(Self {
            store,
            ends: bytemuck::try_cast_slice_mut(ends).map_err(|_| too_small)?,
            count: 0,
            first: 0,
            input,
            work: bytemuck::try_cast_slice_mut(work).map_err(|_| too_small)?,
            text,
            content,
            scratch: bytemuck::try_cast_slice_mut(scratch).map_err(|_| too_small)?,
            ids: bytemuck::try_cast_slice_mut(ids).map_err(|_| too_small)?,
            prompt: Prompt::default(),
        })
    }

    fn end(&self, count: usize) -> usize {
        count.checked_sub(1).and_then(|index| self.ends.get(index)).map_or(0, |end| (end / 4) as usize)
    }

    fn role(&self, index: usize) -> u32 {
        self.ends.get(index).map_or(OTHER, |end| end % 4)
    }

    /// Appends a message.
    ///
    /// # Errors
    /// `ConversationFull` when the transcript has no more room; it stays as it was.
    pub fn push(&mut self, role: &str, content: &str) -> Result<(), Error> {
        let kind = match role {
            "system" => SYSTEM,
            "user" => USER,
            _ => OTHER,
        };
        let mut at = self.end(self.count);
        put(self.store, &mut at, b"{\"role\":")?;
        put_string(self.store, &mut at, role)?;
        put(self.store, &mut at, b",\"content\":")?;
        put_string(self.store, &mut at, content)?;
        put(self.store, &mut at, b"},")?;
        let end = u32::try_from(at).ok().filter(|end| *end < 1 << 30).map(|end| end * 4 + kind);
        match (self.ends.get_mut(self.count).filter(|_| self.count < MAX_MESSAGES), end) {
            (Some(slot), Some(end)) => *slot = end,
            _ => return Err(Error::new(Code::ConversationFull).at(at as u64)),
        }
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// Takes the last message back.
    pub fn pop(&mut self) {
        self.count = self.count.saturating_sub(1);
        self.first = self.first.min(self.count);
    }

    /// Forgets all messages; memory stays.
    pub fn reset(&mut self) {
        self.count = 0;
        self.first = 0;
        self.prompt = Prompt::default();
    }

    /// Messages in the transcript.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The transcript as the members of a JSON array, without its brackets.
    pub fn transcript(&self) -> &[u8] {
        self.store.get(..self.end(self.count).saturating_sub(1)).unwrap_or(&[])
    }

    /// The tokens of the last prompt.
    pub fn ids(&self) -> &[u32] {
        self.ids.get(..self.prompt.tokens).unwrap_or(&[])
    }

    /// The text of the last prompt.
    pub fn text(&self) -> &[u8] {
        self.text.get(..self.prompt.text).unwrap_or(&[])
    }

    /// Which bytes of that text came from messages: one bit each, lowest first.
    pub fn content_bits(&self) -> &[u8] {
        self.content.get(..self.prompt.text.div_ceil(8)).unwrap_or(&[])
    }

    /// The message a template gave with `raise_exception`, after a prompt that failed so.
    pub fn message(&self, refusal: &Refusal) -> &[u8] {
        self.text.get(..refusal.message).unwrap_or(&[])
    }

    /// The first message after the oldest turn that may go: turns begin with a user's message, the last one stays.
    fn next_turn(&self) -> Option<usize> {
        let mut next = self.first.saturating_add(1);
        while next < self.count {
            if self.role(next) == USER {
                return Some(next);
            }
            next = next.saturating_add(1);
        }
        None
    }

    fn write_input(&mut self, options: &PromptOptions<'_>) -> Result<usize, Error> {
        let mut at = 0;
        put(self.input, &mut at, b"{\"messages\":[")?;
        let system = if self.count > 0 && self.role(0) == SYSTEM { 1 } else { 0 };
        let from = self.first.max(system);
        let ranges = [(0, self.end(system)), (self.end(from), self.end(self.count))];
        for (start, end) in ranges {
            put(self.input, &mut at, self.store.get(start..end).unwrap_or(&[]))?;
        }
        // Each message is followed by a comma.
        if at > 13 {
            at = at.saturating_sub(1);
        }
        put(self.input, &mut at, b"],\"add_generation_prompt\":")?;
        put(self.input, &mut at, if options.generation_prompt { b"true" } else { b"false" })?;
        if !options.vars.is_empty() {
            put(self.input, &mut at, b",\"vars\":")?;
            put(self.input, &mut at, options.vars)?;
        }
        put(self.input, &mut at, b"}")?;
        self.prompt.messages = system.saturating_add(self.count.saturating_sub(from));
        self.prompt.dropped = self.count.saturating_sub(self.prompt.messages);
        Ok(at)
    }

    /// Makes the prompt of the transcript: renders it, encodes the text as one, and drops the oldest turns until it has at
    /// most `options.limit` tokens. What was dropped stays dropped in later prompts. Read the tokens with [`Self::ids`].
    ///
    /// # Errors
    /// Those of the template and the tokenizer; `ConversationTooLong` when the system message and the last turn alone do
    /// not fit, with the tokens they take as offset and the limit as index.
    pub fn prompt(
        &mut self,
        template: &Template<'_>,
        tokenizer: &Tokenizer<'_>,
        options: &PromptOptions<'_>,
    ) -> Result<Prompt, Refusal> {
        let plain = |error| Refusal { error, message: 0 };
        self.prompt = Prompt::default();
        loop {
            let len = self.write_input(options).map_err(plain)?;
            let input = self.input.get(..len).unwrap_or(&[]);
            let rendered = template.render(input, options.now, self.work, self.text, self.content)?;
            self.prompt.text = rendered.len;
            self.prompt.has_bos = rendered.has_bos;
            let text = self.text.get(..rendered.len).unwrap_or(&[]);
            let content = if options.parse_specials { None } else { Some(&*self.content) };
            let how = Encode { add_special_tokens: false, content };
            self.prompt.tokens = tokenizer.encode(text, how, self.scratch, self.ids).map_err(plain)?;
            if self.prompt.tokens <= options.limit {
                return Ok(self.prompt);
            }
            match self.next_turn() {
                Some(next) => self.first = next,
                None => {
                    let error = Error::new(Code::ConversationTooLong).at(self.prompt.tokens as u64);
                    return Err(plain(error.entry(options.limit as u32)));
                }
            }
        }
    }
}

/// How many ids two sequences have in common at their beginning.
#[cfg_attr(target_arch = "wasm32", inline(never))]
pub fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Identifies a cached prefix: the file with its weights, configuration, tokenizer and template; positions from 0; the
/// f32 cache as this version lays it out; the tokens. Equal keys mean equal caches, on every backend.
pub fn prefix_key(session: &Session<'_>, ids: &[u32]) -> u64 {
    let mut hash = Xxh64::default();
    let container = session.model().container();
    hash.update(&KEY_VERSION.to_le_bytes());
    hash.update(&container.header().checksum.to_le_bytes());
    hash.update(&(container.bytes().len() as u64).to_le_bytes());
    for id in ids {
        hash.update(&id.to_le_bytes());
    }
    hash.finish()
}

/// What [`resume`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resumed {
    /// Positions whose cache was kept.
    pub reused: usize,
    /// Positions that were computed.
    pub computed: usize,
}

/// Brings a session from the tokens it holds (`cached`) to `ids`: keeps the longest common beginning, forgets the rest
/// and computes what is missing. At least the last position is computed, so that its logits are there; they have the bits
/// of a cold start.
///
/// # Errors
/// Those of [`Session::prefill`]; the session then holds a beginning of `ids`. `TruncateLength` when it holds fewer
/// positions than `cached`.
pub fn resume(session: &mut Session<'_>, cached: &[u32], ids: &[u32], workers: &dyn Workers) -> Result<Resumed, Error> {
    let most = ids.len().saturating_sub(1);
    let reused = common_prefix(cached, ids).min(most);
    session.truncate(reused)?;
    session.prefill(ids.get(reused..).unwrap_or(&[]), workers)?;
    Ok(Resumed { reused, computed: ids.len().saturating_sub(reused) })
}
