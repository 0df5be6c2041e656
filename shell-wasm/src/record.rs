//! Records the host reads between calls: words at a constant address.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Stands for "none" in a record.
pub const NONE: u32 = u32::MAX;

/// A record of `N` words.
pub struct Record<const N: usize>([AtomicU32; N]);

impl<const N: usize> Record<N> {
    /// All zero.
    pub const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; N])
    }

    /// Its address.
    pub const fn ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    /// Writes the words from `first` on.
    #[inline(always)]
    pub fn write(&self, first: usize, words: &[u32]) {
        store(self.0.get(first..).unwrap_or(&[]), words);
    }
}

#[inline(never)]
fn store(to: &[AtomicU32], words: &[u32]) {
    for (to, word) in to.iter().zip(words) {
        to.store(*word, Relaxed);
    }
}
