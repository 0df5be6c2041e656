//! Boots the core with models in flash: greedy tokens and the digest of the last logits go to the host.
//!
//! Output, read by `check.sh`: per model `NAME ids 1,2,3 sha256 HEX`, which are prompt and generated tokens and the logits
//! after the last of them, and lines `defmt HEX` with the core's own events.
#![no_std]
#![no_main]

mod log;

use core::fmt::Write as _;
use cortex_m_rt::{ExceptionFrame, entry, exception};
use cortex_m_semihosting::hio::{self, HostStream};
use cortex_m_semihosting::{debug, hprintln};
use sha2::{Digest, Sha256};
use tinyrustlm_core::kernels::{Isa, Serial};
use tinyrustlm_core::model::Model;
use tinyrustlm_core::plan::Plan;
use tinyrustlm_core::session::Session;
use tinyrustlm_core::{Block64, Error};

/// Files are read in place, at a multiple of 64.
#[repr(C, align(64))]
struct InFlash<T: ?Sized>(T);

macro_rules! in_flash {
    ($name:literal) => {{
        static FILE: &InFlash<[u8]> = &InFlash(*include_bytes!(concat!("../../../fixtures/models/", $name, ".slm")));
        ($name, &FILE.0)
    }};
}

/// Memory for keys, values, logits and scratch.
const BLOCKS: usize = 2048;
static mut MEMORY: [Block64; BLOCKS] = [Block64::ZERO; BLOCKS];

/// Byte tokens of `<bos>Hello`.
const PROMPT: [u32; 6] = [256, 72, 101, 108, 108, 111];
/// Prompt and generated tokens.
const IDS: usize = 22;

#[entry]
fn main() -> ! {
    // SAFETY: `main` runs once and is the only place that names MEMORY.
    let memory = unsafe { &mut *(&raw mut MEMORY) };
    match generate_all(memory) {
        Ok(()) => debug::exit(debug::EXIT_SUCCESS),
        Err(error) => {
            hprintln!("error {} at {:?}, entry {:?}", error.number(), error.offset(), error.index());
            debug::exit(debug::EXIT_FAILURE);
        }
    }
    loop {
        cortex_m::asm::wfi();
    }
}

/// Every dtype: the same sizes, odd on purpose.
fn generate_all(memory: &mut [Block64]) -> Result<(), Error> {
    for (name, file) in
        [in_flash!("tiny-odd-f32"), in_flash!("tiny-odd-q8_0"), in_flash!("tiny-odd-q4_0"), in_flash!("tiny-odd-q4_1")]
    {
        generate(name, file, memory)?;
    }
    Ok(())
}

fn generate(name: &str, file: &'static [u8], memory: &mut [Block64]) -> Result<(), Error> {
    let model = Model::parse(file)?;
    let plan = Plan::new(&model, IDS, 4)?;
    let mut session = Session::new(&model, plan, memory, Isa::baseline())?;
    let mut ids = [0; IDS];
    ids[..PROMPT.len()].copy_from_slice(&PROMPT);
    let mut logits = session.prefill(&PROMPT, &Serial)?;
    for slot in &mut ids[PROMPT.len()..] {
        *slot = best(logits);
        logits = session.step(*slot, &Serial)?;
    }
    let digest = Sha256::digest(bytemuck::cast_slice(logits));
    // The host's stream may be gone; then there is nobody to tell.
    if let Ok(mut out) = hio::hstdout() {
        let _ = report(&mut out, name, &ids, &digest);
    }
    Ok(())
}

fn report(out: &mut HostStream, name: &str, ids: &[u32], digest: &[u8]) -> core::fmt::Result {
    write!(out, "{name} ids ")?;
    for (i, id) in ids.iter().enumerate() {
        write!(out, "{}{id}", if i == 0 { "" } else { "," })?;
    }
    write!(out, " sha256 ")?;
    for byte in digest {
        write!(out, "{byte:02x}")?;
    }
    writeln!(out)
}

/// The highest logit; the lower id of equals.
fn best(logits: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (id, &logit) in (0u32..).zip(logits) {
        if logit > best.1 {
            best = (id, logit);
        }
    }
    best.0
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    hprintln!("{}", info);
    debug::exit(debug::EXIT_FAILURE);
    loop {
        cortex_m::asm::wfi();
    }
}

#[exception]
unsafe fn HardFault(frame: &ExceptionFrame) -> ! {
    hprintln!("hard fault {:?}", frame);
    debug::exit(debug::EXIT_FAILURE);
    loop {
        cortex_m::asm::wfi();
    }
}
