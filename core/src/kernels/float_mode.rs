//! The float mode of the CPU: round to nearest, subnormals kept, whatever the host has set for itself.
//!
//! Audio and graphics hosts often flush subnormals to zero, and threads inherit that; either would change bits.
#![allow(unsafe_code)]

/// Round to nearest, nothing flushed, every exception masked.
#[cfg(target_arch = "x86_64")]
const STANDARD: u64 = 0x1f80;
/// The flags of what has happened, which change no result.
#[cfg(target_arch = "x86_64")]
const FLAGS: u64 = 0x3f;
#[cfg(not(target_arch = "x86_64"))]
const STANDARD: u64 = 0;
#[cfg(not(target_arch = "x86_64"))]
const FLAGS: u64 = 0;

/// While it lives, the thread computes as IEEE 754 says; then the host's mode is back.
pub(crate) struct FloatMode {
    host: u64,
}

impl FloatMode {
    /// Cost: some cycles; more where the host's mode is another.
    pub(crate) fn standard() -> Self {
        let host = read();
        if host & !FLAGS != STANDARD {
            write(STANDARD);
        }
        Self { host }
    }
}

impl Drop for FloatMode {
    fn drop(&mut self) {
        if self.host & !FLAGS != STANDARD {
            write(self.host);
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn read() -> u64 {
    let mut mode = 0u32;
    // SAFETY: stores MXCSR to the four bytes named; every x86-64 CPU has it.
    unsafe { core::arch::asm!("stmxcsr [{}]", in(reg) &mut mode, options(nostack, preserves_flags)) };
    u64::from(mode)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn write(mode: u64) {
    let mode = mode as u32;
    // SAFETY: `mode` is the standard mode or what `read` gave, so no reserved bit is set, and no exception is unmasked that was
    // masked before. Without `nomem`, no access to memory, and so no float on its way to or from there, moves across.
    unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &mode, options(nostack, preserves_flags)) };
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn read() -> u64 {
    let mode: u64;
    // SAFETY: reads FPCR, which user programs may.
    unsafe { core::arch::asm!("mrs {}, fpcr", out(reg) mode, options(nostack, preserves_flags)) };
    mode
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
fn write(mode: u64) {
    // SAFETY: FPCR may be written by user programs; `mode` is 0, the standard mode, or what `read` gave. Without `nomem`, no
    // access to memory moves across.
    unsafe { core::arch::asm!("msr fpcr, {}", in(reg) mode, options(nostack, preserves_flags)) };
}

/// WebAssembly has no other mode; the microcontroller's own start-up code decides there.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
fn read() -> u64 {
    STANDARD
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
fn write(_: u64) {}
