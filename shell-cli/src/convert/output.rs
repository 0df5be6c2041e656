//! The output file: written without a name where the system can, and given its name only when it is complete, so that a
//! conversion that fails or is killed leaves nothing behind.

use super::source::io;
use crate::failure::{Failure, Kind};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// A file in the making.
#[derive(Debug)]
pub struct Output {
    /// Open for reading and writing.
    pub file: File,
    target: PathBuf,
    /// Present where files without a name are not to be had.
    named: Option<tempfile::TempPath>,
}

impl Output {
    /// Starts a file that is to become `target`.
    pub fn create(target: &Path) -> Result<Self, Failure> {
        let folder = folder_of(target);
        if !folder.is_dir() {
            return Err(Failure::new(Kind::Io, format!("{}: no such folder", folder.display())));
        }
        if target.is_dir() {
            return Err(Failure::new(Kind::Io, format!("{}: is a folder", target.display())));
        }
        if let Some(file) = nameless(folder) {
            return Ok(Self { file, target: target.to_owned(), named: None });
        }
        let named = tempfile::Builder::new().prefix(".slm-convert-").tempfile_in(folder).map_err(|e| io(folder, &e))?;
        let (file, path) = named.into_parts();
        Ok(Self { file, target: target.to_owned(), named: Some(path) })
    }

    /// Gives the file its name, replacing what was there in one step.
    pub fn finish(self) -> Result<(), Failure> {
        let Self { file, target, named } = self;
        file.sync_all().map_err(|e| io(&target, &e))?;
        if let Some(path) = named {
            return path.persist(&target).map_err(|e| io(&target, &e.error));
        }
        let staged = folder_of(&target).join(format!(".slm-convert-{}", std::process::id()));
        link(&file, &staged).map_err(|e| io(&staged, &e))?;
        std::fs::rename(&staged, &target).map_err(|e| {
            let _ = std::fs::remove_file(&staged);
            io(&target, &e)
        })
    }
}

fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::TMPFILE.bits();
    let file = OpenOptions::new().read(true).write(true).mode(0o644).custom_flags(flags as i32).open(folder).ok()?;
    // Some file systems open such a file but cannot name it later; find out now.
    let probe = folder.join(format!(".slm-convert-probe-{}", std::process::id()));
    link(&file, &probe).ok()?;
    std::fs::remove_file(&probe).ok()?;
    let file = OpenOptions::new().read(true).write(true).mode(0o644).custom_flags(flags as i32).open(folder).ok()?;
    Some(file)
}

#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> std::io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use std::os::fd::AsRawFd;
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, descriptor, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_name_appears_only_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.slm");
        let entries = || std::fs::read_dir(folder.path()).unwrap().count();
        let mut output = Output::create(&target).unwrap();
        output.file.write_all(b"x").unwrap();
        assert!(!target.exists());
        drop(output);
        assert_eq!(entries(), 0);
        for content in [b"one", b"two"] {
            let mut output = Output::create(&target).unwrap();
            output.file.write_all(content).unwrap();
            output.finish().unwrap();
            assert_eq!(std::fs::read(&target).unwrap(), content);
        }
        assert_eq!(entries(), 1);
    }

    #[test]
    fn folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Output::create(folder.path()).unwrap_err().kind, Kind::Io);
        assert_eq!(Output::create(&folder.path().join("no/a.slm")).unwrap_err().kind, Kind::Io);
    }
}
