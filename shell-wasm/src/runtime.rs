//! What an instance holds: at most one model with its session, and what the host has set.

use crate::event::{self, Event};
use crate::memory::{Block, Buffer};
use crate::profile::Profile;
use crate::prompt;
use crate::report::{self, Stage};
use core::mem::size_of;
use tinyrustlm_core::Block64;
use tinyrustlm_core::bytes::{Bound, Reader, bound, check_bounds, u32_at};
use tinyrustlm_core::error::{Code, Error};
use tinyrustlm_core::kernels::{Isa, Serial};
use tinyrustlm_core::kv_cache::KvType;
use tinyrustlm_core::model::Model;
use tinyrustlm_core::plan::{DEFAULT_BATCH, DEFAULT_CONTEXT, Plan};
use tinyrustlm_core::session::{Generation, Limits, Session};
use tinyrustlm_core::template::{Now, Template};
use tinyrustlm_core::tokenizer::{DecodeMode, Tokenizer};

/// New tokens where the host names no limit.
const DEFAULT_NEW_TOKENS: u32 = 256;
/// A template without a host's clock sees this moment.
const NO_CLOCK: Now = Now { year: 1970, month: 1, day: 1, hour: 0, minute: 0, second: 0 };
/// What the fields of a time may be.
const CLOCK: [Bound; 6] = [
    bound(0, 1, 9999, Code::InvalidLength),
    bound(4, 1, 12, Code::InvalidLength),
    bound(8, 1, 31, Code::InvalidLength),
    bound(12, 0, 23, Code::InvalidLength),
    bound(16, 0, 59, Code::InvalidLength),
    bound(20, 0, 59, Code::InvalidLength),
];

/// The runtime.
pub struct Runtime {
    /// Positions to plan at the next load; 0 is the default.
    pub context: u32,
    /// How keys and values are kept from the next load on.
    pub kv_type: KvType,
    /// The time templates see.
    pub now: Now,
    /// The model, once there is one.
    pub loaded: Option<Loaded>,
    /// The last result.
    pub result: Buffer,
    /// Sampling and stops; `None` is greedy.
    profile: Option<Profile>,
}

/// A model with all memory it will ever take.
pub struct Loaded {
    // Borrows from the blocks below, so it stands before them: fields are dropped in this order.
    generation: Generation<'static, 'static>,
    tokenizer: Tokenizer<'static>,
    template: Template<'static>,
    _memory: Block,
    file: Block,
}

impl Runtime {
    pub const fn new() -> Self {
        Self { context: 0, kv_type: KvType::F32, now: NO_CLOCK, loaded: None, result: Buffer::EMPTY, profile: None }
    }

    fn profile(&self) -> &Profile {
        self.profile.as_ref().unwrap_or(&Profile::GREEDY)
    }

    /// Takes over a block that holds a model file.
    ///
    /// # Errors
    /// What is wrong with the file, or `OutOfMemory`; the block is then the caller's again.
    pub fn load(&mut self, file: Block) -> Result<(), Error> {
        self.loaded = None;
        match self.prepare(&file) {
            Ok(loaded) => {
                let loaded = self.loaded.insert(loaded);
                loaded.file = file;
                report::generation(&loaded.generation);
                Ok(())
            }
            Err(error) => {
                let no_memory = error.is(Code::OutOfMemory) || error.is(Code::PlanTooLarge);
                report::failure(if no_memory { Stage::KvAllocationFailed } else { Stage::ModelRejected }, error);
                file.leak();
                Err(error)
            }
        }
    }

    /// Everything of a model but its file's block.
    #[inline(never)]
    fn prepare(&self, file: &Block) -> Result<Loaded, Error> {
        // SAFETY: the block is stored beside what borrows from it, is dropped after it, and is not written any more.
        let bytes: &'static [u8] = unsafe { core::slice::from_raw_parts(file.ptr(), file.len()) };
        let model = Model::parse(bytes)?;
        let tokenizer = model.tokenizer()?;
        let template = Template::parse(model.template_bytes())?;
        let context = match self.context {
            0 => DEFAULT_CONTEXT.min(model.config.max_context),
            context => context as usize,
        };
        let plan = Plan::new(&model, context, DEFAULT_BATCH)?.for_cache(&model, self.kv_type)?;
        let of_generation = Generation::blocks(plan.vocab_size, plan.context);
        let (_memory, blocks) = leaked_blocks(plan.block_count().saturating_add(of_generation))?;
        let (of_generation, of_session) = blocks.split_at_mut_checked(of_generation).unwrap_or_default();
        let session = Session::new(&model, plan, of_session, Isa::baseline())?;
        let generation = Generation::new(session, &tokenizer, &self.profile().sampler, of_generation)?;
        Ok(Loaded { generation, tokenizer, template, _memory, file: Block::EMPTY })
    }

    /// The loaded model.
    ///
    /// # Errors
    /// `ModelNotLoaded`.
    pub fn loaded(&mut self) -> Result<&mut Loaded, Error> {
        self.loaded.as_mut().ok_or_else(|| Error::new(Code::ModelNotLoaded))
    }

    /// Gives back everything that belongs to a model.
    pub fn free(&mut self) {
        self.loaded = None;
        self.result = Buffer::EMPTY;
    }

    /// Sets the time templates see: year, month, day, hour, minute, second.
    pub fn set_now(&mut self, fields: &[u8]) -> Result<(), Error> {
        check_bounds(fields, 0, &CLOCK).map_err(|_| Code::InvalidLength)?;
        let field = |index: usize| u32_at(fields, index * 4);
        self.now = Now {
            year: field(0) as u16,
            month: field(1) as u8,
            day: field(2) as u8,
            hour: field(3) as u8,
            minute: field(4) as u8,
            second: field(5) as u8,
        };
        Ok(())
    }

    /// Takes a sampling profile; it stays until another one comes.
    pub fn set_profile(&mut self, record: &[u8]) -> Result<(), Error> {
        self.profile = Some(Profile::parse(record)?);
        Ok(())
    }

    /// Sets the stops of the record `bytes`.
    pub fn set_stops(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let include_stop = self.profile().include_stop;
        let generation = &mut self.loaded()?.generation;
        let mut record = Reader::new(bytes, 0, Code::InvalidLength);
        let id_count = record.u32() as usize;
        let ids = record.take(id_count.saturating_mul(4));
        let count = record.u32();
        // Once to see that the record is whole, once to hand the strings over.
        let mut strings = record;
        for _ in 0..count {
            record.string();
            if record.failed() {
                break;
            }
        }
        if record.failed() || !record.rest().is_empty() {
            return Err(Error::new(Code::InvalidLength));
        }
        let ids = prompt::Ids::read(ids)?;
        generation.set_stops(ids.slice(), (0..count).map(|_| strings.string()), include_stop)
    }

    /// The ids of a text, as the last result.
    pub fn encode(&mut self, text: &[u8], specials: bool) -> Result<(), Error> {
        let ids = prompt::of_text(&self.loaded()?.tokenizer, text, specials, None)?;
        self.result.set(ids.bytes())
    }

    /// The bytes of ids, as the last result.
    pub fn decode(&mut self, ids: &[u32], mode: DecodeMode) -> Result<(), Error> {
        let loaded = self.loaded.as_ref().ok_or(Code::ModelNotLoaded)?;
        let most = loaded.tokenizer.max_push_bytes();
        let out = self.result.room(ids.len().saturating_add(1).saturating_mul(most))?;
        let mut decoder = loaded.tokenizer.byte_decoder(mode);
        let mut len = 0usize;
        for id in ids {
            len = len.saturating_add(decoder.push(*id, out.get_mut(len..).unwrap_or(&mut []))?);
        }
        len = len.saturating_add(decoder.finish(out.get_mut(len..).unwrap_or(&mut []))?);
        self.result.set_len(len);
        Ok(())
    }

    /// The prompt of a conversation, as the last result: its ids, or its text.
    pub fn render(&mut self, input: &[u8], as_ids: bool) -> Result<(), Error> {
        let (now, parse_specials) = (self.now, self.profile().parse_specials);
        let loaded = self.loaded.as_ref().ok_or(Code::ModelNotLoaded)?;
        let rendered = prompt::render(&loaded.template, input, now, &mut self.result)?;
        if as_ids {
            let ids = rendered.encode(&loaded.tokenizer, parse_specials)?;
            self.result.set(ids.bytes())
        } else {
            self.result.set(rendered.text())
        }
    }

    /// The logits after `ids` from position 0, as the last result.
    pub fn logits(&mut self, ids: &[u32]) -> Result<(), Error> {
        let generation = &mut self.loaded.as_mut().ok_or(Code::ModelNotLoaded)?.generation;
        generation.reset();
        generation.begin(ids, 0, &Limits { max_new_tokens: 1, ..Limits::default() })?;
        let mut failed = Ok(());
        while failed.is_ok() && !generation.wants_token() {
            let room = self.result.room(generation.room())?;
            failed = generation.next(&Serial, None, room).map(|_| ());
        }
        let filled = failed
            .and_then(|()| self.result.set(bytemuck::try_cast_slice(generation.session().logits()).unwrap_or(&[])));
        generation.reset();
        filled
    }

    /// Begins a generation. `input`: 0 text, 1 conversation, 2 ids, 3 text without added specials.
    pub fn start(&mut self, input: u32, bytes: &[u8], max_new_tokens: u32) -> Result<(), Error> {
        let result = self.begin(input, bytes, max_new_tokens);
        if let Err(error) = result {
            report::failure(Stage::KvAllocationSuccess, error);
        }
        result
    }

    fn begin(&mut self, input: u32, bytes: &[u8], max_new_tokens: u32) -> Result<(), Error> {
        let profile = self.profile.as_ref().unwrap_or(&Profile::GREEDY);
        let loaded = self.loaded.as_mut().ok_or(Code::ModelNotLoaded)?;
        let ids = match input {
            1 => prompt::render(&loaded.template, bytes, self.now, &mut self.result)?
                .encode(&loaded.tokenizer, profile.parse_specials)?,
            2 => prompt::Ids::read(bytes)?,
            0 | 3 => prompt::of_text(&loaded.tokenizer, bytes, input == 0, None)?,
            _ => return Err(Error::new(Code::InvalidLength)),
        };
        // A text's own end token would end the answer before it begins.
        let mut ids = ids.slice();
        if let (0, [rest @ .., last]) = (input, ids)
            && loaded.generation.session().model().stops.contains(*last)
        {
            ids = rest;
        }
        loaded.generation.sampler().set_config(&profile.sampler)?;
        let max_new_tokens = if max_new_tokens == 0 { DEFAULT_NEW_TOKENS } else { max_new_tokens };
        let continues = matches!(input, 0 | 3);
        self.result.set_len(0);
        loaded.generation.begin(ids, 0, &Limits { max_new_tokens, continues, ..profile.limits })
    }

    /// The next piece of work: a batch of the prompt, or a token. New text is the last result.
    pub fn next(&mut self) -> Result<(), Error> {
        let generation = &mut self.loaded.as_mut().ok_or(Code::ModelNotLoaded)?.generation;
        let mut event = Event { kind: event::END, total: generation.prompt().len() as u32, ..Event::default() };
        self.result.set_len(0);
        if generation.is_running() {
            let room = self.result.room(generation.room())?;
            let step = match generation.next(&Serial, None, room) {
                Ok(step) => step,
                Err(error) => {
                    report::generation(generation);
                    // The cache may hold rows of a pass that failed; model and memory stay.
                    self.reset()?;
                    return Err(error);
                }
            };
            self.result.set_len(step.written);
            if let Some(token) = step.token {
                event.kind = event::TOKEN;
                event.id = token.id;
                event.logprob = token.logprob.map_or(f32::NAN, |logprob| logprob as f32);
            } else if step.stop.is_none() {
                event.kind = event::PROMPT;
            }
            if step.stop.is_some() {
                report::generation(generation);
            }
        }
        let generation = &self.loaded()?.generation;
        event.done = match event.kind {
            event::PROMPT => generation.session().kv_len(),
            _ => generation.generated().len(),
        } as u32;
        event.stop = generation.stop().map_or(0, |stop| stop as u32);
        event::record(&event);
        Ok(())
    }

    /// A whole generation from a text; the last result is all of its text.
    pub fn generate(&mut self, text: &[u8], max_new_tokens: u32) -> Result<(), Error> {
        self.start(0, text, max_new_tokens)?;
        let mut whole = Buffer::EMPTY;
        while self.loaded()?.generation.is_running() {
            self.next()?;
            whole.append(self.result.bytes())?;
        }
        self.result = whole;
        Ok(())
    }

    /// The best tokens of the last step by the unmodified logits, as the last result: u32 id, f32 logarithm.
    pub fn top_logprobs(&mut self) -> Result<(), Error> {
        let loaded = self.loaded.as_ref().ok_or(Code::ModelNotLoaded)?;
        let top = loaded.generation.top();
        let room = self.result.room(top.len().saturating_mul(8))?;
        for (to, entry) in room.as_chunks_mut::<8>().0.iter_mut().zip(top) {
            let [i0, i1, i2, i3] = entry.id.to_le_bytes();
            let [l0, l1, l2, l3] = (entry.logprob as f32).to_le_bytes();
            *to = [i0, i1, i2, i3, l0, l1, l2, l3];
        }
        self.result.set_len(top.len().saturating_mul(8));
        Ok(())
    }

    /// Ends the generation under way.
    pub fn cancel(&mut self) -> Result<(), Error> {
        let generation = &mut self.loaded()?.generation;
        if generation.is_running() {
            generation.cancel();
            return self.next();
        }
        Ok(())
    }

    /// Forgets the conversation.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.loaded()?.generation.reset();
        Ok(())
    }
}

impl Loaded {
    /// The file's bytes.
    pub fn file(&self) -> &Block {
        &self.file
    }

    /// Positions in use.
    pub fn context_len(&self) -> usize {
        self.generation.session().kv_len()
    }
}

/// Blocks for the core, whose owner is the first of the pair.
fn leaked_blocks(count: usize) -> Result<(Block, &'static mut [Block64]), Error> {
    let memory = Block::take(count.checked_mul(size_of::<Block64>()).ok_or(Code::OutOfMemory)?)?;
    // SAFETY: memory of this length at a multiple of 64. The owner stands in `Loaded` behind the generation, the
    // only holder of this slice, and reads or writes nothing itself.
    let blocks = unsafe { core::slice::from_raw_parts_mut(memory.ptr().cast(), count) };
    Ok((memory, blocks))
}
