//! What an instance holds: at most one model with its session, and what the host has set.

use crate::event::{self, Event};
use crate::memory::Block;
use alloc::vec::Vec;
use core::mem::size_of;
use tinyrustlm_core::error::{Code, Error};
use tinyrustlm_core::kernels::{Isa, Serial};
use tinyrustlm_core::model::Model;
use tinyrustlm_core::plan::{DEFAULT_BATCH, DEFAULT_CONTEXT, Plan};
use tinyrustlm_core::session::Session;

/// The runtime.
pub struct Runtime {
    /// Positions to plan at the next load; 0 is the default.
    pub context: u32,
    /// The model, once there is one.
    pub loaded: Option<Loaded>,
    /// The last result.
    pub result: Vec<u8>,
    generation: Option<Generation>,
}

/// A generation under way.
struct Generation {
    prompt: Vec<u32>,
    computed: usize,
    generated: u32,
    max: u32,
    pending: Option<u32>,
}

/// A model with all memory it will ever take.
pub struct Loaded {
    // Borrows from the two blocks below, so it stands before them: fields are dropped in this order.
    pub session: Session<'static>,
    _memory: Block,
    file: Block,
}

impl Runtime {
    pub const fn new() -> Self {
        Self { context: 0, loaded: None, result: Vec::new(), generation: None }
    }

    /// Takes over a block that holds a model file.
    ///
    /// # Errors
    /// What is wrong with the file, or `OutOfMemory`. The block is given back to the caller in either case of failure.
    pub fn load(&mut self, file: Block) -> Result<(), (Block, Error)> {
        self.loaded = None;
        match self.prepare(&file) {
            Ok((session, memory)) => {
                self.loaded = Some(Loaded { session, _memory: memory, file });
                Ok(())
            }
            Err(error) => Err((file, error)),
        }
    }

    fn prepare(&self, file: &Block) -> Result<(Session<'static>, Block), Error> {
        // SAFETY: the block is stored beside what borrows from it, is dropped after it, and is not written any more.
        let bytes: &'static [u8] = unsafe { core::slice::from_raw_parts(file.ptr(), file.len()) };
        let model = Model::parse(bytes)?;
        let context = match self.context {
            0 => DEFAULT_CONTEXT.min(model.config.max_context),
            context => context as usize,
        };
        let plan = Plan::new(&model, context, DEFAULT_BATCH)?;
        let memory = Block::take(plan.block_count().saturating_mul(size_of::<tinyrustlm_core::Block64>()))?;
        // SAFETY: zeroed memory of this length at a multiple of 64, which nothing else refers to until the session,
        // the only holder of this slice, is gone.
        let blocks = unsafe { core::slice::from_raw_parts_mut(memory.ptr().cast(), plan.block_count()) };
        Ok((Session::new(&model, plan, blocks, Isa::baseline())?, memory))
    }

    /// The loaded model.
    ///
    /// # Errors
    /// `ModelNotLoaded`.
    pub fn loaded(&mut self) -> Result<&mut Loaded, Error> {
        self.loaded.as_mut().ok_or(Error::new(Code::ModelNotLoaded))
    }

    /// The logits after `ids` from position 0, as the last result.
    pub fn logits(&mut self, ids: &[u32]) -> Result<(), Error> {
        let loaded = self.loaded.as_mut().ok_or(Error::new(Code::ModelNotLoaded))?;
        loaded.session.reset();
        let logits = loaded.session.prefill(ids, &Serial)?;
        self.result.clear();
        self.result.extend(logits.iter().flat_map(|logit| logit.to_le_bytes()));
        Ok(())
    }

    pub fn start(&mut self, prompt: Vec<u32>, max_new_tokens: u32) -> Result<(), Error> {
        self.loaded()?.session.reset();
        let max = if max_new_tokens == 0 { 256 } else { max_new_tokens };
        self.generation = Some(Generation { prompt, computed: 0, generated: 0, max, pending: None });
        Ok(())
    }

    pub fn next(&mut self) -> Result<Event, Error> {
        self.result.clear();
        let loaded = self.loaded.as_mut().ok_or(Error::new(Code::ModelNotLoaded))?;
        let session = &mut loaded.session;
        let Some(run) = self.generation.as_mut() else {
            return Ok(Event { kind: event::END, ..Event::default() });
        };
        let total = run.prompt.len() as u32;
        if run.computed < run.prompt.len() {
            let end = run.prompt.len().min(run.computed + DEFAULT_BATCH);
            session.prefill(run.prompt.get(run.computed..end).unwrap_or(&[]), &Serial)?;
            run.computed = end;
            return Ok(Event { kind: event::PROMPT, done: end as u32, total, ..Event::default() });
        }
        if let Some(id) = run.pending.take() {
            session.step(id, &Serial)?;
        }
        if run.generated == run.max {
            return Ok(Event { kind: event::END, done: run.generated, total, stop: 4, ..Event::default() });
        }
        let mut best = (0u32, f32::NEG_INFINITY);
        for (id, logit) in session.logits().iter().enumerate() {
            if *logit > best.1 {
                best = (id as u32, *logit);
            }
        }
        run.pending = Some(best.0);
        run.generated += 1;
        Ok(Event { kind: event::TOKEN, id: best.0, done: run.generated, total, ..Event::default() })
    }
}

impl Loaded {
    /// The file's bytes.
    pub fn file(&self) -> &Block {
        &self.file
    }
}
