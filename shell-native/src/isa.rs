//! Which instruction sets this machine has.

use tinyrustlm_core::kernels::Isa;

/// The instruction sets of this CPU, the one to use first. All give the same bits.
pub fn available() -> impl Iterator<Item = Isa> {
    let portable = (Isa::baseline() != Isa::Scalar).then_some(Isa::Scalar);
    [avx512(), avx2(), Some(Isa::baseline()), portable].into_iter().flatten()
}

/// The one to use.
pub fn detect() -> Isa {
    available().next().unwrap_or(Isa::baseline())
}

// What is asked for below is the CPU and the system, which has to keep the registers.

#[cfg(target_arch = "x86_64")]
fn avx512() -> Option<Isa> {
    use tinyrustlm_core::kernels::Avx512;
    let known = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni");
    // SAFETY: just detected, and all threads run on the same machine.
    #[allow(unsafe_code)]
    (known && avx2().is_some()).then(|| Isa::Avx512(unsafe { Avx512::assume() }))
}

#[cfg(target_arch = "x86_64")]
fn avx2() -> Option<Isa> {
    use tinyrustlm_core::kernels::Avx2;
    let known = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c");
    // SAFETY: just detected, and all threads run on the same machine.
    #[allow(unsafe_code)]
    known.then(|| Isa::Avx2(unsafe { Avx2::assume() }))
}

#[cfg(not(target_arch = "x86_64"))]
fn avx512() -> Option<Isa> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn avx2() -> Option<Isa> {
    None
}
