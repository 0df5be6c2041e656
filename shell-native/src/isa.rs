//! Which instruction set this machine has.

use tinyrustlm_core::kernels::Isa;

/// The fastest instruction set of this CPU. All give the same bits.
pub fn detect() -> Isa {
    Isa::baseline()
}
