//! Links the core with a panic handler and nothing else.
//!
//! No `#[global_allocator]` stands here, so the linker refuses the module as soon as the core allocates. The panic handler
//! calls an import, so a panic that can be reached from an exported function shows as an import of the module. The exports
//! use the whole public surface of the core, for what nothing calls is not linked.
#![no_std]

use tinyrustlm_core::kernels::{Isa, Serial};
use tinyrustlm_core::model::Model;
use tinyrustlm_core::plan::{DEFAULT_BATCH, Plan};
use tinyrustlm_core::session::Session;
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
