//! How a command fails: a sentence for the user and the exit code that scripts rely on.

use std::fmt::Display;
use std::process::ExitCode;

/// Why a command ended without success. The discriminant is the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A check the user asked for did not hold.
    CheckFailed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The publisher's files contradict each other.
    Conflict = 3,
    /// What the source needs cannot be run exactly.
    Unsupported = 4,
    /// The input is damaged.
    Malformed = 5,
    /// Reading or writing failed.
    Io = 6,
    /// Who read the output wants no more (`slm run ... | head`): said by the number that shells give for it, without a word.
    OutputClosed = 141,
}

/// A failed command: what happened, and what the user can do.
#[derive(Debug)]
pub struct Failure {
    /// The exit code's meaning.
    pub kind: Kind,
    /// One or more sentences for the user.
    pub message: String,
}

impl Failure {
    /// A failure with its sentence.
    pub fn new(kind: Kind, message: impl Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    /// Prints the sentence to stderr and gives the exit code.
    pub fn report(self) -> ExitCode {
        if self.kind != Kind::OutputClosed {
            eprintln!("slm: {}", self.message);
        }
        ExitCode::from(self.kind as u8)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let closed = error.kind() == std::io::ErrorKind::BrokenPipe;
        Self::new(if closed { Kind::OutputClosed } else { Kind::Io }, error)
    }
}
