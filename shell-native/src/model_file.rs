//! A model file in memory, used where its bytes lie.

use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::Path;

/// The bytes of a model file, mapped.
#[derive(Debug)]
pub struct ModelFile {
    map: Mmap,
}

impl ModelFile {
    /// Maps the file.
    ///
    /// The file must not be changed while it is mapped; replacing it by renaming another over it is fine.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::open(path)?;
        // SAFETY: the map is private and read-only. That nobody truncates or rewrites the file under it is stated
        // above as the caller's duty; no program can rule it out.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file)? };
        #[cfg(unix)]
        {
            // The whole file is read by the checksum at once.
            let _ = map.advise(memmap2::Advice::WillNeed);
        }
        Ok(Self { map })
    }

    /// The bytes, aligned to a page.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}
