//! The memory of a session or a conversation.

use memmap2::MmapMut;
use std::io;
use tinyrustlm_core::Block64;
use tinyrustlm_core::plan::Plan;

/// Zeroed blocks, in pages of its own that the system backs when they are first written.
#[derive(Debug)]
pub struct Memory {
    pages: MmapMut,
}

impl Memory {
    /// Takes `plan.bytes()`.
    ///
    /// # Errors
    /// What the system says when it has not that much.
    pub fn new(plan: &Plan) -> io::Result<Self> {
        Self::of_blocks(plan.block_count())
    }

    /// Takes `count` blocks.
    ///
    /// # Errors
    /// As [`Memory::new`].
    pub fn of_blocks(count: usize) -> io::Result<Self> {
        let pages = MmapMut::map_anon(count.saturating_mul(size_of::<Block64>()))?;
        #[cfg(target_os = "linux")]
        {
            // Worth up to a tenth of the time at long contexts; a system without it says no, which changes nothing.
            let _ = pages.advise(memmap2::Advice::HugePage);
        }
        Ok(Self { pages })
    }

    /// The memory in the core's units.
    pub fn blocks(&mut self) -> &mut [Block64] {
        let whole = self.pages.len() / size_of::<Block64>() * size_of::<Block64>();
        bytemuck::cast_slice_mut(&mut self.pages[..whole])
    }
}
