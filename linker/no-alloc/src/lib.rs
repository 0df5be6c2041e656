//! Links the core with a panic handler and nothing else.
//!
//! No `#[global_allocator]` stands here, so the linker refuses the module as soon as the core allocates. The panic handler
//! calls an import, so a panic that can be reached from an exported function shows as an import of the module. The exports
//! use the whole public surface of the core, for what nothing calls is not linked.
#![no_std]

use tinyrustlm_core::bytes::{self, Reader};
use tinyrustlm_core::{Code, Error};

unsafe extern "C" {
    fn a_panic_can_be_reached() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: the import takes and returns nothing; no module with this import is ever run.
    unsafe { a_panic_can_be_reached() }
}

/// # Safety
/// `data` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(data: *const u8, len: usize, start: u64, count: u64) -> u32 {
    // SAFETY: the caller's promise.
    let data = unsafe { core::slice::from_raw_parts(data, len) };
    match fields(bytes::slice(data, start, count).unwrap_or(data)) {
        Ok(sum) => sum,
        Err(error) => error.number(),
    }
}

fn fields(data: &[u8]) -> Result<u32, Error> {
    let mut reader = Reader::new(data, 0, Code::FileTooShort);
    let sum = u32::from(reader.u8()?)
        .wrapping_add(u32::from(reader.u16()?))
        .wrapping_add(reader.u32()?)
        .wrapping_add(reader.u64()? as u32)
        .wrapping_add(reader.f32()?.to_bits())
        .wrapping_add(reader.f64()?.to_bits() as u32);
    Ok(sum.wrapping_add(reader.take(3)?.len() as u32))
}
