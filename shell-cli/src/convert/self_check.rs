//! The core's own checks, over the file just written and before it gets its name.

use super::output::Output;
use super::refusal::{Refusal, refuse};
use crate::failure::Failure;
use tinyrustlm_core::model::Model;

/// Refuses a file that the runtime would refuse.
pub fn check(output: &Output) -> Result<(), Failure> {
    #[allow(unsafe_code)]
    // SAFETY: the file has no name yet, or one of a private temporary file; nothing changes it while it is mapped.
    let map = unsafe { memmap2::Mmap::map(&output.file) }?;
    match Model::parse(&map) {
        Ok(_) => Ok(()),
        Err(error) => Err(refuse(
            Refusal::SelfCheck,
            format!("the file just written is not accepted: {error} {}", error.code().name()),
        )),
    }
}
