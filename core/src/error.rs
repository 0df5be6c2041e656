//! Numbered errors. A number never changes its meaning; the words belong to the shells.
//!
//! Numbers 1 to 14 are the classes of the raw ABI. Every single condition has a number of its own, in the block
//! of its layer: container and model 15-99, tokenizer 100-199, template 200-299, plan, kernels, forward and session
//! 300-399, sampler, stops, stream and generation 400-499, shells 500-599. The table of `SPEC.md` lists them all.

use core::fmt;

/// What is wrong, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error {
    /// The condition.
    pub code: Code,
    /// Offset of the fault in the bytes concerned (file, text, JSON), where there is one.
    pub offset: Option<u64>,
    /// Index of what is concerned (directory entry, layer, token), where there is one.
    pub index: Option<u32>,
}

impl Error {
    /// An error with neither offset nor index.
    pub const fn new(code: Code) -> Self {
        Self { code, offset: None, index: None }
    }

    /// The same with the byte offset of the fault.
    pub const fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// The same with the index of what is concerned.
    pub const fn entry(mut self, index: u32) -> Self {
        self.index = Some(index);
        self
    }

    /// The error's number.
    pub const fn number(self) -> u32 {
        self.code as u32
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}", self.number())?;
        if let Some(index) = self.index {
            write!(f, ", entry {index}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", offset {offset}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Error {}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $class:ident;)*) => {
        /// Every condition, with its number.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        #[allow(missing_docs)]
        pub enum Code { $($(#[$doc])* $name = $number,)* }

        impl Code {
            /// Every condition in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The class of the raw ABI this condition belongs to.
            pub const fn class(self) -> Class {
                match self { $(Code::$name => Class::$class,)* }
            }

            /// The name as it stands in `SPEC.md`.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$name => stringify!($name),)* }
            }
        }
    };
}

/// The classes of the raw ABI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Class {
    NullPointer = 1,
    InvalidLength = 2,
    InvalidUtf8 = 3,
    InvalidModelMagic = 4,
    UnsupportedModelVersion = 5,
    InvalidHeader = 6,
    InvalidTensorDirectory = 7,
    MissingTensor = 8,
    ShapeMismatch = 9,
    UnsupportedDType = 10,
    ContextExceeded = 11,
    ModelNotLoaded = 12,
    GenerationFailed = 13,
    OutputBufferExceeded = 14,
}

codes! {
    // Classes used as they are.
    /// Text is not UTF-8; the offset is that of the first bad byte.
    InvalidUtf8 = 3, InvalidUtf8;
    /// The file does not begin with `SLM1`.
    InvalidModelMagic = 4, InvalidModelMagic;
    /// The file's version is not 1.
    UnsupportedModelVersion = 5, UnsupportedModelVersion;
    /// More positions than the planned context holds.
    ContextExceeded = 11, ContextExceeded;
    /// The caller's output buffer is too short.
    OutputBufferExceeded = 14, OutputBufferExceeded;

    // Container and model, 15-99.
    /// The file is shorter than its header.
    FileTooShort = 15, InvalidHeader;

    // Tokenizer, 100-199.
    /// The tokenizer section ends early.
    TokenizerTooShort = 100, InvalidHeader;

    // Template, 200-299.
    /// The template section ends early.
    TemplateTooShort = 200, InvalidHeader;

    // Plan, kernels, forward, session, 300-399.
    /// A prompt of no tokens.
    EmptyPrompt = 300, InvalidLength;

    // Sampler, stops, stream, generation, 400-499.
    /// A sampling parameter that is not finite or out of range.
    InvalidTemperature = 400, InvalidLength;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_ascending() {
        for pair in Code::ALL.windows(2) {
            assert!((pair[0] as u16) < (pair[1] as u16), "{:?} before {:?}", pair[0], pair[1]);
        }
    }
}
