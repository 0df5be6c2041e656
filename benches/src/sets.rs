//! The instruction sets that are compared.

use tinyrustlm::available;
use tinyrustlm::core::kernels::Isa;

/// The instruction sets of this CPU, portable code first.
pub fn instruction_sets() -> Vec<Isa> {
    let mut sets: Vec<Isa> = available().collect();
    sets.reverse();
    sets
}

/// The one of that name.
///
/// # Errors
/// The names of those there are.
pub fn instruction_set(name: &str) -> Result<Isa, String> {
    let names = || available().map(Isa::name).collect::<Vec<_>>().join(", ");
    available().find(|isa| isa.name() == name).ok_or_else(|| format!("{name}: this CPU has {}", names()))
}
