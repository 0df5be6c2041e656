//! One choice of instruction set for everything.

use super::codes::Codes;
use super::lanes::{Lanes, ScalarLanes};
use super::{Floats, Quantised, Tile, scalar};
use core::ops::Range;

/// The instruction set to use. A variant other than `Scalar` can only be made where the CPU is known to have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// Portable code.
    Scalar,
}

impl Isa {
    /// The best instruction set the compiler may take for granted on this target.
    pub const fn baseline() -> Self {
        Self::Scalar
    }

    /// A short name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
        }
    }

    /// Runs `task` over the lanes of this instruction set.
    #[inline(always)]
    pub fn run<T: Task>(self, task: T) -> T::Out {
        match self {
            Self::Scalar => task.run::<ScalarLanes>(),
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
        Isa::Scalar => scalar::matmul_quantised(w, x, out, groups),
    }
}

pub(super) fn matmul_f32(isa: Isa, w: &Floats<'_>, x: &[f32], out: &Tile<'_>, groups: Range<usize>) {
    match isa {
        Isa::Scalar => scalar::matmul_f32(w, x, out, groups),
    }
}
