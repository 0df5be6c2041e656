//! WebAssembly's 128-bit SIMD. No check at run time is possible: a host either accepts a module with these
//! instructions or refuses it, so the instruction set is chosen by the build.

mod lanes;
pub mod simd128;

pub use lanes::{SimdLanes, registers, sqrt, widened};

use core::arch::wasm32::{v128, v128_load};

/// The 16 bytes as they lie.
#[inline(always)]
#[allow(unsafe_code)]
fn load<T: bytemuck::Pod, const N: usize>(from: &[T; N]) -> v128 {
    const { assert!(size_of::<[T; N]>() == 16) };
    // SAFETY: the reference covers 16 initialised bytes; the instruction needs no alignment.
    unsafe { v128_load(from.as_ptr().cast()) }
}
