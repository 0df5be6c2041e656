//! Boots the core with models in flash: greedy tokens and the digest of the last logits go to the host.
//!
//! Output, read by `check.sh`: per model `NAME ids 1,2,3 sha256 HEX`, which are prompt and generated tokens and the logits
//! after the last of them, and lines `defmt HEX` with the core's own events.
#![no_std]
#![no_main]

#[path = "../../greedy.rs"]
mod greedy;
mod log;

use cortex_m_rt::{ExceptionFrame, entry, exception};
use cortex_m_semihosting::hio;
use cortex_m_semihosting::{debug, hprintln};
use greedy::{IDS, model};
use tinyrustlm_core::kernels::Isa;
use tinyrustlm_core::model::Model;
use tinyrustlm_core::plan::Plan;
use tinyrustlm_core::session::Session;
use tinyrustlm_core::{Block64, Error};

/// Memory for keys, values, logits and scratch.
const BLOCKS: usize = 2048;
static mut MEMORY: [Block64; BLOCKS] = [Block64::ZERO; BLOCKS];

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
    for (name, file) in [
        model!("tiny-odd-f32"),
        model!("tiny-odd-bf16"),
        model!("tiny-odd-q8_0"),
        model!("tiny-odd-q4_0"),
        model!("tiny-odd-q4_1"),
    ] {
        generate(name, file, memory)?;
    }
    Ok(())
}

fn generate(name: &str, file: &'static [u8], memory: &mut [Block64]) -> Result<(), Error> {
    let model = Model::parse(file)?;
    let plan = Plan::new(&model, IDS, 4)?;
    let mut session = Session::new(&model, plan, memory, Isa::baseline())?;
    let answer = greedy::generate(&mut session)?;
    // The host's stream may be gone; then there is nobody to tell.
    if let Ok(mut out) = hio::hstdout() {
        let _ = greedy::report(&mut out, name, &answer);
    }
    Ok(())
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
