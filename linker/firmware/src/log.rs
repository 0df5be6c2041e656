//! Sends defmt's frames to the host: one line `defmt HEX` a frame, which `frames.py` reads with the names in the ELF.

use core::sync::atomic::{AtomicUsize, Ordering};
use cortex_m_semihosting::hprint;

/// Bytes of the longest frame: an index and a few numbers.
const CAPACITY: usize = 64;

static mut FRAME: [u8; CAPACITY] = [0; CAPACITY];
static LEN: AtomicUsize = AtomicUsize::new(0);

#[defmt::global_logger]
struct Logger;

// SAFETY: one core and no interrupt handler that logs, so acquire, write and release never overlap.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        LEN.store(0, Ordering::Relaxed);
    }

    unsafe fn flush() {}

    unsafe fn release() {
        let len = LEN.load(Ordering::Relaxed).min(CAPACITY);
        // SAFETY: nothing writes between acquire and release of one frame but `write`, which has returned.
        let frame = unsafe { core::slice::from_raw_parts(&raw const FRAME as *const u8, len) };
        hprint!("defmt ");
        for byte in frame {
            hprint!("{:02x}", byte);
        }
        hprint!("\n");
    }

    unsafe fn write(bytes: &[u8]) {
        let at = LEN.fetch_add(bytes.len(), Ordering::Relaxed);
        for (i, byte) in bytes.iter().enumerate() {
            if at + i < CAPACITY {
                // SAFETY: inside the array, and as in `release` nobody else has it now.
                unsafe { (&raw mut FRAME as *mut u8).add(at + i).write(*byte) };
            }
        }
    }
}
