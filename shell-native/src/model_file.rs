//! A model file in memory, used where its bytes lie.

use memmap2::{Mmap, MmapMut};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The bytes of a model file.
#[derive(Debug)]
pub struct ModelFile {
    map: Mmap,
    backing: Backing,
}

/// How the bytes come into memory. The bytes are the same, and so are all results.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Backing {
    /// Mapped from the page cache: nothing is copied, and processes share it.
    #[default]
    Mapped,
    /// Copied into memory of its own in huge pages, which is faster to read; costs the file's size and the copy.
    HugePages,
}

/// Readings of the weights after which a copy in huge pages has paid for itself.
const COPY_PAYS: usize = 48;
/// Memory that must stay free beside the copy.
const SPARE: u64 = 256 << 20;

impl Backing {
    /// The faster one for a file of `len` bytes whose weights will be read `passes` times: a token is one pass, a batch of a
    /// prompt too. Huge pages only where the system has them and enough memory is free.
    pub fn fastest(len: u64, passes: usize) -> Self {
        let free = free_memory().is_some_and(|free| free > len.saturating_add(SPARE));
        if passes >= COPY_PAYS && free && has_huge_pages() { Self::HugePages } else { Self::Mapped }
    }
}

/// Whether a program that asks for huge pages gets them. Linux only.
fn has_huge_pages() -> bool {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    setting.contains("[madvise]") || setting.contains("[always]")
}

/// Bytes that can be had without pushing others out. Linux only.
fn free_memory() -> Option<u64> {
    let table = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
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
        Ok(Self { map, backing: Backing::Mapped })
    }

    /// Opens the file with this backing. Where the system has no huge pages, ordinary ones are used.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_as(path: impl AsRef<Path>, backing: Backing) -> io::Result<Self> {
        if backing == Backing::Mapped {
            return Self::open(path);
        }
        let mut file = File::open(path)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut pages = MmapMut::map_anon(len.max(1))?;
        #[cfg(target_os = "linux")]
        {
            // Advice: a system without huge pages says no.
            let _ = pages.advise(memmap2::Advice::HugePage);
        }
        file.read_exact(&mut pages[..len])?;
        Ok(Self { map: pages.make_read_only()?, backing })
    }

    /// How the bytes came into memory.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// The bytes, aligned to a page.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_made_only_where_it_pays_and_fits() {
        assert_eq!(Backing::fastest(1 << 20, COPY_PAYS - 1), Backing::Mapped);
        assert_eq!(Backing::fastest(u64::MAX, usize::MAX), Backing::Mapped);
        let free = free_memory().is_some_and(|free| free > SPARE + (1 << 20)) && has_huge_pages();
        let expected = if free { Backing::HugePages } else { Backing::Mapped };
        assert_eq!(Backing::fastest(1 << 20, COPY_PAYS), expected);
    }

    #[test]
    fn both_ways_give_the_same_bytes() {
        let path = std::env::temp_dir().join(format!("tinyrustlm-backing-{}", std::process::id()));
        std::fs::write(&path, [7u8; 5000]).unwrap();
        for backing in [Backing::Mapped, Backing::HugePages] {
            let file = ModelFile::open_as(&path, backing).unwrap();
            assert_eq!((file.bytes(), file.backing()), ([7u8; 5000].as_slice(), backing));
        }
        std::fs::remove_file(&path).unwrap();
    }
}
