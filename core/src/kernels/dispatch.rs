//! One choice of instruction set for everything.
//!
//! A vector instruction set that the target always has is a variant anyone may name; one that must be detected
//! carries a proof that only an unsafe function makes.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use super::aarch64::neon;
use super::codes::Codes;
use super::lanes::Lanes;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use super::wasm32::{SimdLanes, simd128};
#[cfg(target_arch = "x86_64")]
use super::x86_64::{avx2, avx512};
use super::{Floats, Quantised, Stored, Tile};
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
use super::{lanes::ScalarLanes, scalar};
use core::ops::Range;

/// The instruction set to use. All give the same bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// Portable code. A WebAssembly module with SIMD has no use for it and leaves it out.
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    Scalar,
    /// AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    /// AVX-512 with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    /// NEON.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon,
    /// WebAssembly SIMD128.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128,
}

/// Evaluates one expression per instruction set.
macro_rules! choose {
    ($isa:expr, scalar: $scalar:expr, avx2: $avx2:expr, avx512: $avx512:expr, neon: $neon:expr, simd128: $simd128:expr) => {
        match $isa {
            #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
            Isa::Scalar => $scalar,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `Avx2` exists only where its maker vouched for AVX2 and F16C.
            Isa::Avx2(_) => unsafe { $avx2 },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `Avx512` exists only where its maker vouched for what the functions of `avx512` enable.
            Isa::Avx512(_) => unsafe { $avx512 },
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Isa::Neon => $neon,
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Isa::Simd128 => $simd128,
        }
    };
}

impl Isa {
    /// The best instruction set the compiler may take for granted on this target.
    pub const fn baseline() -> Self {
        #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
        return Self::Neon;
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        return Self::Simd128;
        #[cfg(not(any(
            all(target_arch = "aarch64", target_feature = "neon"),
            all(target_arch = "wasm32", target_feature = "simd128")
        )))]
        Self::Scalar
    }

    /// A short name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
            Self::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Self::Neon => "neon",
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Self::Simd128 => "simd128",
        }
    }

    /// The codes of four columns in order, from the four places where this instruction set keeps them.
    pub fn columns(self, places: [i16; 4]) -> [i16; 4] {
        self.run(Columns(places))
    }

    /// The sum of the codes of a block, of [`Step::sum`](super::Step::sum) as this instruction set keeps it.
    pub fn sum_of_codes(self, sum: i32) -> i32 {
        self.run(SumOfCodes(sum))
    }

    /// Runs `task` over the lanes of this instruction set.
    #[inline(always)]
    pub fn run<T: Task>(self, task: T) -> T::Out {
        choose!(
            self,
            scalar: task.run::<ScalarLanes>(),
            avx2: avx2::call(task),
            avx512: avx512::call(task),
            neon: task.run::<neon::NeonLanes>(),
            simd128: task.run::<SimdLanes>()
        )
    }
}

/// Work written over [`Lanes`]. `run` should be `#[inline(always)]`, so that it is compiled for the instruction set.
pub trait Task {
    /// What the work gives.
    type Out;
    /// Does the work.
    fn run<V: Lanes>(self) -> Self::Out;
}

struct Columns([i16; 4]);

impl Task for Columns {
    type Out = [i16; 4];

    #[inline(always)]
    fn run<V: Lanes>(self) -> [i16; 4] {
        V::columns(self.0)
    }
}

struct SumOfCodes(i32);

impl Task for SumOfCodes {
    type Out = i32;

    #[inline(always)]
    fn run<V: Lanes>(self) -> i32 {
        V::sum_of_codes(self.0)
    }
}

pub(super) fn matmul_quantised(isa: Isa, w: &Quantised<'_>, x: &Codes<'_>, out: &Tile<'_>, groups: Range<usize>) {
    choose!(
        isa,
        scalar: scalar::matmul_quantised(w, x, out, groups),
        avx2: avx2::matmul_quantised(w, x, out, groups),
        avx512: avx512::matmul_quantised(w, x, out, groups),
        neon: neon::matmul_quantised(w, x, out, groups),
        simd128: simd128::matmul_quantised(w, x, out, groups)
    )
}

pub(super) fn matmul_floats<W: Stored>(isa: Isa, w: &Floats<'_, W>, x: &[f32], out: &Tile<'_>, groups: Range<usize>) {
    choose!(
        isa,
        scalar: scalar::matmul_floats(w, x, out, groups),
        avx2: avx2::matmul_floats(w, x, out, groups),
        avx512: avx512::matmul_floats(w, x, out, groups),
        neon: neon::matmul_floats(w, x, out, groups),
        simd128: simd128::matmul_floats(w, x, out, groups)
    )
}
