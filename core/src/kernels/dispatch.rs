//! One choice of instruction set for everything.

use super::codes::Codes;
use super::lanes::Lanes;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use super::wasm32::{SimdLanes, simd128};
use super::{Floats, Quantised, Tile};
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
use super::{lanes::ScalarLanes, scalar};
use core::ops::Range;

/// The instruction set to use. A variant other than `Scalar` can only be made where the CPU is known to have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// Portable code. A WebAssembly module with SIMD has no use for it and leaves it out.
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    Scalar,
    /// WebAssembly's 128-bit SIMD.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128,
}

impl Isa {
    /// The best instruction set the compiler may take for granted on this target.
    pub const fn baseline() -> Self {
        #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
        let best = Self::Scalar;
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        let best = Self::Simd128;
        best
    }

    /// A short name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
            Self::Scalar => "scalar",
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Self::Simd128 => "simd128",
        }
    }

    /// Runs `task` over the lanes of this instruction set.
    #[inline(always)]
    pub fn run<T: Task>(self, task: T) -> T::Out {
        match self {
            #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
            Self::Scalar => task.run::<ScalarLanes>(),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Self::Simd128 => task.run::<SimdLanes>(),
        }
    }
}

/// Work written over [`Lanes`]. `run` should be `#[inline(always)]`, so that it is compiled for the instruction set.
pub trait Task {
    /// What the work gives.
    type Out;
    /// Does the work.
    fn run<V: Lanes>(self) -> Self::Out;
}

pub(super) fn matmul_quantised(isa: Isa, w: &Quantised<'_>, x: &Codes<'_>, out: &Tile<'_>, groups: Range<usize>) {
    match isa {
        #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
        Isa::Scalar => scalar::matmul_quantised(w, x, out, groups),
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Isa::Simd128 => simd128::matmul_quantised(w, x, out, groups),
    }
}

pub(super) fn matmul_f32(isa: Isa, w: &Floats<'_>, x: &[f32], out: &Tile<'_>, groups: Range<usize>) {
    match isa {
        #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
        Isa::Scalar => scalar::matmul_f32(w, x, out, groups),
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Isa::Simd128 => simd128::matmul_f32(w, x, out, groups),
    }
}
