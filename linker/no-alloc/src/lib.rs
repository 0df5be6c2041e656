//! Links the core with a panic handler and nothing else.
//!
//! No `#[global_allocator]` stands here, so the linker refuses the module as soon as the core allocates. The panic handler
//! calls an import, so a panic that can be reached from an exported function shows as an import of the module. The exports
//! use the whole public surface of the core, for what nothing calls is not linked.
#![no_std]

use tinyrustlm_core::diagnostics::{Shell, write_report};
use tinyrustlm_core::kernels::{Isa, Serial};
use tinyrustlm_core::model::Model;
use tinyrustlm_core::plan::{DEFAULT_BATCH, Plan};
use tinyrustlm_core::sampler::SamplerConfig;
use tinyrustlm_core::session::{Generation, Limits, Session};
use tinyrustlm_core::template::{Now, Template};
use tinyrustlm_core::tokenizer::Encode;
use tinyrustlm_core::{Block64, Error};

unsafe extern "C" {
    fn a_panic_can_be_reached() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: the import takes and returns nothing; no module with this import is ever run.
    unsafe { a_panic_can_be_reached() }
}

/// Parses `model`, plans, and computes the logits of `ids` in `memory`. Returns a logit's bits or an error's number.
///
/// # Safety
/// `model` points to `model_len` readable bytes, `ids` to `id_count` words, `memory` to `blocks` writable blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn logits(
    model: *const u8,
    model_len: usize,
    ids: *const u32,
    id_count: usize,
    memory: *mut Block64,
    blocks: usize,
) -> u32 {
    // SAFETY: the caller's promise, for each.
    let model = unsafe { core::slice::from_raw_parts(model, model_len) };
    // SAFETY: as above.
    let ids = unsafe { core::slice::from_raw_parts(ids, id_count) };
    // SAFETY: as above.
    let memory = unsafe { core::slice::from_raw_parts_mut(memory, blocks) };
    compute(model, ids, memory).unwrap_or_else(Error::number)
}

fn compute(model: &[u8], ids: &[u32], memory: &mut [Block64]) -> Result<u32, Error> {
    let model = Model::parse(model)?;
    let plan = Plan::new(&model, model.config.max_context, DEFAULT_BATCH)?.for_workers(2)?;
    let mut session = Session::new(&model, plan, memory, Isa::baseline())?;
    session.prefill(ids, &Serial)?;
    session.truncate(1)?;
    let first = session.step(1, &Serial)?.first().map_or(0, |logit| logit.to_bits());
    session.reset();
    Ok(first)
}

/// Memory of a text from template to tokens.
#[repr(C)]
pub struct Room {
    /// For the session.
    session: [Block64; 1024],
    /// For sampler and transcript.
    generation: [Block64; 1024],
    template: [u64; 4096],
    text: [u8; 4096],
    content: [u8; 512],
    scratch: [u32; 16384],
    ids: [u32; 1024],
    out: [u8; 8192],
}

/// Renders `input` with the model's template, encodes it, samples up to `tokens` tokens and writes the report. Returns its
/// length or an error's number.
///
/// # Safety
/// `model` points to `model_len` readable bytes, `input` to `input_len`, and `room` to a room that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chat(
    model: *const u8,
    model_len: usize,
    input: *const u8,
    input_len: usize,
    tokens: u32,
    room: *mut Room,
) -> u32 {
    // SAFETY: the caller's promise, for each.
    let model = unsafe { core::slice::from_raw_parts(model, model_len) };
    // SAFETY: as above.
    let input = unsafe { core::slice::from_raw_parts(input, input_len) };
    // SAFETY: as above.
    let room = unsafe { &mut *room };
    generate(model, input, tokens, room).unwrap_or_else(Error::number)
}

fn generate(model: &[u8], input: &[u8], tokens: u32, room: &mut Room) -> Result<u32, Error> {
    let model = Model::parse(model)?;
    let tokenizer = model.tokenizer()?;
    let template = Template::parse(model.template_bytes())?;
    let now = Now { year: 2026, month: 1, day: 15, hour: 12, minute: 0, second: 0 };
    let rendered = template
        .render(input, now, &mut room.template, &mut room.text, &mut room.content)
        .map_err(|refusal| refusal.error)?;
    let text = room.text.get(..rendered.len).unwrap_or(&[]);
    let how = Encode { add_special_tokens: false, content: Some(&room.content) };
    let len = tokenizer.encode(text, how, &mut room.scratch, &mut room.ids)?;
    let ids = room.ids.get(..len).unwrap_or(&[]);

    let plan = Plan::new(&model, model.config.max_context, DEFAULT_BATCH)?;
    let session = Session::new(&model, plan, &mut room.session, Isa::baseline())?;
    let config = SamplerConfig::of_publisher(&model.sampling());
    let mut generation = Generation::new(session, &tokenizer, &config, &mut room.generation)?;
    generation.set_stops(&[1], [b"stop".as_slice()].into_iter(), true)?;
    let limits = Limits { max_new_tokens: tokens, logprobs: 4, ..Limits::default() };
    generation.begin(ids, 1, &limits)?;
    while generation.next(&Serial, None, &mut room.out)?.stop.is_none() {}
    Ok(write_report(&generation, &Shell::default(), &mut room.out)? as u32)
}
