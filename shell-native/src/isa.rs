//! Which instruction set this machine has.

use tinyrustlm_core::kernels::Isa;

/// The fastest instruction set of this CPU. All give the same bits.
pub fn detect() -> Isa {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
        use tinyrustlm_core::kernels::Avx2;
        // SAFETY: just detected, and all threads run on the same machine.
        #[allow(unsafe_code)]
        let proof = unsafe { Avx2::assume() };
        return Isa::Avx2(proof);
    }
    Isa::baseline()
}
