//! Numbered errors. A number never changes its meaning; the words belong to the shells.
//!
//! Numbers 1 to 14 are the classes of the raw ABI. Every single condition has a number of its own, in the block
//! of its layer: container and model 15-99, tokenizer 100-199, template 200-299, plan, kernels, forward and session
//! 300-399, sampler, stops, stream and generation 400-499, shells 500-599. The table of `SPEC.md` lists them all.

use crate::bytes::line;
use core::fmt;
use core::num::NonZeroU64;

/// What is wrong, and where: one word that is never zero, so that a `Result` of nothing else fits a register.
///
/// From the lowest bit: the number (10 bits), the index (21), the offset (33).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Error(NonZeroU64);

const INDEX: u32 = 10;
const OFFSET: u32 = 31;
/// All bits set: there is none. What is larger cannot be told and is left out.
const NO_INDEX: u64 = (1 << (OFFSET - INDEX)) - 1;
const NO_OFFSET: u64 = (1 << (64 - OFFSET)) - 1;

const _: () = assert!(size_of::<Result<(), Error>>() == 8);

// Never inlined: each of the many places that fail then costs one call.
impl Error {
    /// An error with neither offset nor index.
    #[cold]
    #[inline(never)]
    pub const fn new(code: Code) -> Self {
        Self::of(u64::MAX << INDEX | code as u64)
    }

    /// The same with the byte offset of the fault; with none from 8 GiB on.
    #[cold]
    #[inline(never)]
    pub const fn at(self, offset: u64) -> Self {
        let offset = if offset < NO_OFFSET { offset } else { NO_OFFSET };
        Self::of(offset << OFFSET | self.0.get() & ((1 << OFFSET) - 1))
    }

    /// The same with the index of what is concerned; with none from 2^21 - 1 on.
    #[cold]
    #[inline(never)]
    pub const fn entry(self, index: u32) -> Self {
        let index = if (index as u64) < NO_INDEX { index as u64 } else { NO_INDEX };
        Self::of(index << INDEX | self.0.get() & !(NO_INDEX << INDEX))
    }

    // A number is never zero, so neither is the word.
    const fn of(word: u64) -> Self {
        Self(match NonZeroU64::new(word) {
            Some(word) => word,
            None => NonZeroU64::MIN,
        })
    }

    /// The condition.
    pub fn code(self) -> Code {
        Code::numbered(self.number()).unwrap_or(Code::NullPointer)
    }

    /// Whether this is the condition.
    pub const fn is(self, code: Code) -> bool {
        self.number() == code as u32
    }

    /// The class of the raw ABI the condition belongs to.
    pub fn class(self) -> Class {
        let number = self.number();
        let begun = CLASS_RUNS.iter().rev().find(|(first, _)| u32::from(*first) <= number);
        begun.map_or(Class::GenerationFailed, |(_, class)| *class)
    }

    /// Offset of the fault in the bytes concerned (file, text, JSON), where there is one.
    pub const fn offset(&self) -> Option<u64> {
        let offset = self.0.get() >> OFFSET;
        if offset == NO_OFFSET { None } else { Some(offset) }
    }

    /// Index of what is concerned (directory entry, layer, token), where there is one.
    pub const fn index(&self) -> Option<u32> {
        let index = self.0.get() >> INDEX & NO_INDEX;
        if index == NO_INDEX { None } else { Some(index as u32) }
    }

    /// The error's number.
    pub const fn number(self) -> u32 {
        self.0.get() as u32 & ((1 << INDEX) - 1)
    }
}

/// Where nothing but the condition is known: inner functions give a bare [`Code`], which fits a register, and `?` makes
/// an error of it.
impl From<Code> for Error {
    #[cold]
    #[inline(never)]
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({self})", self.code())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}", self.number())?;
        if let Some(index) = self.index() {
            write!(f, ", entry {index}")?;
        }
        if let Some(offset) = self.offset() {
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

        /// Class and name of each code in the order of [`Code::ALL`]; the names in one text, a line each.
        const CLASSES: &[Class] = &[$(Class::$class,)*];
        const NAMES: &str = concat!($(stringify!($name), "\n",)*);

        impl Code {
            /// Every condition in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];
        }
    };
}

/// Where each run of numbers of one class begins: far fewer than there are numbers.
const CLASS_RUNS: [(u16, Class); class_runs()] = {
    let mut runs = [(0, Class::NullPointer); class_runs()];
    let (mut at, mut run) = (0, 0);
    while at < CLASSES.len() {
        if begins_run(at) {
            runs[run] = (Code::ALL[at] as u16, CLASSES[at]);
            run += 1;
        }
        at += 1;
    }
    runs
};

const fn class_runs() -> usize {
    let (mut at, mut count) = (0, 0);
    while at < CLASSES.len() {
        count += begins_run(at) as usize;
        at += 1;
    }
    count
}

const fn begins_run(at: usize) -> bool {
    at == 0 || CLASSES[at] as u8 != CLASSES[at - 1] as u8
}

impl Code {
    /// The condition with this number.
    pub fn numbered(number: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|&code| code as u32 == number)
    }

    /// The name as it stands in `SPEC.md`.
    pub fn name(self) -> &'static str {
        line(NAMES, Self::ALL.iter().take_while(|&&code| code != self).count())
    }
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
    /// A null pointer where bytes are needed.
    NullPointer = 1, NullPointer;
    /// A length of zero where bytes are needed, or one that reaches beyond the memory.
    InvalidLength = 2, InvalidLength;
    /// Text is not UTF-8; the offset is that of the first bad byte.
    InvalidUtf8 = 3, InvalidUtf8;
    /// The file does not begin with `SLM1`.
    InvalidModelMagic = 4, InvalidModelMagic;
    /// The file's version is not 1.
    UnsupportedModelVersion = 5, UnsupportedModelVersion;
    /// More positions than the planned context holds.
    ContextExceeded = 11, ContextExceeded;
    /// No model is loaded.
    ModelNotLoaded = 12, ModelNotLoaded;
    /// The caller's output buffer is too short.
    OutputBufferExceeded = 14, OutputBufferExceeded;

    // Container and model, 15-99.
    /// The file is shorter than its header.
    FileTooShort = 15, InvalidHeader;
    /// `header_length` is not 108.
    HeaderLength = 16, InvalidHeader;
    /// `model_type` is not 1.
    ModelType = 17, InvalidHeader;
    /// A flag bit this version does not know.
    UnknownFlags = 18, InvalidHeader;
    /// A size of the header is 0.
    ZeroDimension = 19, InvalidHeader;
    /// A size of the header is over 2^24.
    DimensionTooLarge = 20, InvalidHeader;
    /// `special_token_count` is over `vocab_size`.
    SpecialTokenCount = 21, InvalidHeader;
    /// `layer_count` is over 1,024.
    LayerCount = 22, InvalidHeader;
    /// `kv_head_count` does not divide `head_count`.
    KvHeadCount = 23, InvalidHeader;
    /// `head_dim` is odd.
    HeadDimOdd = 24, InvalidHeader;
    /// `rope_theta` is not finite and positive.
    RopeTheta = 25, InvalidHeader;
    /// `rms_norm_epsilon` is not finite and positive.
    Epsilon = 26, InvalidHeader;
    /// `tokenizer_offset` is not 128.
    TokenizerOffset = 27, InvalidHeader;
    /// The tokenizer section runs past the end of the file.
    TokenizerRange = 28, InvalidHeader;
    /// `tensor_directory_offset` is not the next multiple of 64 after the tokenizer.
    DirectoryOffset = 29, InvalidHeader;
    /// `tensor_count` is 0 or over 16,384.
    TensorCount = 30, InvalidHeader;
    /// `tensor_data_offset` is not the end of the directory.
    DataOffset = 31, InvalidHeader;
    /// The stored checksum is 0.
    ChecksumZero = 32, InvalidHeader;
    /// The bytes do not have the stored checksum: the file is damaged.
    ChecksumMismatch = 33, InvalidHeader;
    /// A byte between sections is not 0.
    PaddingNotZero = 34, InvalidHeader;
    /// The file does not fit the address space.
    FileTooLarge = 35, InvalidHeader;
    /// The file ends before or after its last payload.
    FileLength = 36, InvalidHeader;
    /// The bytes of the model do not begin at a multiple of 4 in memory.
    ModelMisaligned = 37, InvalidLength;

    /// The directory runs past the end of the file.
    DirectoryRange = 38, InvalidTensorDirectory;
    /// A dtype this version does not know.
    UnknownDType = 39, UnsupportedDType;
    /// A rank that does not fit the dtype.
    Rank = 40, InvalidTensorDirectory;
    /// A dimension is 0.
    ZeroDim = 41, InvalidTensorDirectory;
    /// A dimension beyond the rank is not 0.
    UnusedDim = 42, InvalidTensorDirectory;
    /// `byte_length` is not what dtype and dims need.
    ByteLength = 43, InvalidTensorDirectory;
    /// `scale_offset` is not 0.
    ScaleOffset = 44, InvalidTensorDirectory;
    /// `block_size` does not fit the dtype.
    BlockSize = 45, InvalidTensorDirectory;
    /// `layout` does not fit the dtype.
    Layout = 46, InvalidTensorDirectory;
    /// `byte_offset` is no multiple of 64.
    PayloadUnaligned = 47, InvalidTensorDirectory;
    /// A payload begins before the end of the one before.
    PayloadOverlap = 48, InvalidTensorDirectory;
    /// A payload does not begin at the next multiple of 64.
    PayloadGap = 49, InvalidTensorDirectory;
    /// A payload runs past the end of the file.
    PayloadRange = 50, InvalidTensorDirectory;
    /// Two entries have the same name.
    DuplicateName = 51, InvalidTensorDirectory;
    /// `@names` ends early.
    NamesTooShort = 52, InvalidTensorDirectory;
    /// Bytes follow the last name.
    NamesTrailing = 53, InvalidTensorDirectory;
    /// A name of no or of more than 255 bytes.
    NameLength = 54, InvalidTensorDirectory;
    /// A name is not UTF-8.
    NameUtf8 = 55, InvalidTensorDirectory;
    /// A name does not have the hash of its entry.
    NameHash = 56, InvalidTensorDirectory;
    /// The record or tensor that must stand here is not in the file.
    MissingTensor = 57, MissingTensor;
    /// An entry that must not stand here: another one is due, or none.
    UnexpectedTensor = 58, InvalidTensorDirectory;
    /// A tensor has not the shape its role needs.
    TensorShape = 59, ShapeMismatch;
    /// A tensor has a dtype its role cannot have.
    TensorDType = 60, UnsupportedDType;
    /// A weight is not finite.
    WeightNotFinite = 61, InvalidTensorDirectory;
    /// A scale or minimum of a group is not finite.
    ScaleNotFinite = 62, InvalidTensorDirectory;

    /// `@config` ends early.
    ConfigTooShort = 63, InvalidHeader;
    /// `config_version` is not 1.
    ConfigVersion = 64, InvalidHeader;
    /// A family this version does not know.
    UnknownFamily = 65, InvalidHeader;
    /// An activation this version does not know.
    UnknownActivation = 66, InvalidHeader;
    /// A `qk_norm` this version does not know.
    UnknownQkNorm = 67, InvalidHeader;
    /// A bit of `norms` this version does not know.
    UnknownNorms = 68, InvalidHeader;
    /// A bit of `biases` this version does not know.
    UnknownBiases = 69, InvalidHeader;
    /// A float of `@config` is not finite or out of its range.
    ConfigFloat = 70, InvalidHeader;
    /// A reserved byte of `@config` is not 0.
    ConfigReserved = 71, InvalidHeader;
    /// Bytes follow the last window.
    ConfigTrailing = 72, InvalidHeader;
    /// `@rope` ends early.
    RopeTooShort = 73, InvalidHeader;
    /// More than 4 rotary tables.
    RopeTableCount = 74, InvalidHeader;
    /// A `rotary_dim` that is 0, odd or over `head_dim`.
    RotaryDim = 75, InvalidHeader;
    /// A float of `@rope` is not finite, or a frequency is beyond 16.
    RopeFloat = 76, InvalidHeader;
    /// A layer uses a rotary table that is not there.
    RopeTableIndex = 77, InvalidHeader;
    /// Bytes follow the last layer's table index.
    RopeTrailing = 78, InvalidHeader;
    /// `@stops` ends early.
    StopsTooShort = 79, InvalidHeader;
    /// A stop id is no id of the vocabulary.
    StopIdRange = 80, InvalidHeader;
    /// Stop ids are not ascending.
    StopIdOrder = 81, InvalidHeader;
    /// A stop string of no or of more than 256 bytes.
    StopStringLength = 82, InvalidHeader;
    /// A stop string is not UTF-8.
    StopStringUtf8 = 83, InvalidHeader;
    /// Bytes follow the last stop string.
    StopsTrailing = 84, InvalidHeader;
    /// `@sampling` has neither 0 nor 80 bytes.
    SamplingLength = 85, InvalidHeader;
    /// `sampling_version` is not 1.
    SamplingVersion = 86, InvalidHeader;
    /// A bit of `present` this version does not know.
    SamplingPresent = 87, InvalidHeader;
    /// A value of `@sampling` is not finite, out of its range, or given but not present.
    SamplingValue = 88, InvalidHeader;
    /// The reserved word of `@sampling` is not 0.
    SamplingReserved = 89, InvalidHeader;
    /// The tokenizer has more ids than the embedding has rows, or other special tokens than the header says.
    TokenizerDrift = 90, InvalidHeader;

    // Tokenizer, 100-199.
    /// The tokenizer section ends early.
    TokenizerTooShort = 100, InvalidHeader;
    /// The tokenizer section begins with no known magic.
    TokenizerMagic = 101, InvalidHeader;
    /// The tokenizer section's version is not 2 (of the byte tokenizer, not 1).
    TokenizerVersion = 102, InvalidHeader;
    /// The tokenizer section is longer or shorter than it says.
    TokenizerLength = 103, InvalidHeader;
    /// A field of the tokenizer's header is out of range; the offset is the field's.
    TokenizerHeader = 104, InvalidHeader;
    /// A table of the tokenizer is damaged; the index is the table's number.
    TokenizerTable = 105, InvalidHeader;
    /// A token of the tokenizer is damaged; the index is its id.
    TokenizerToken = 106, InvalidHeader;
    /// A step of the normalizer is damaged; the index is the step's.
    TokenizerStep = 107, InvalidHeader;
    /// A stage of the pre-tokenizer is damaged; the index is the stage's.
    TokenizerStage = 108, InvalidHeader;
    /// An entry of a table of added tokens is damaged; the index is the table's number.
    TokenizerAdded = 109, InvalidHeader;
    /// The scratch memory given to the tokenizer is too short.
    TokenizerScratch = 110, InvalidLength;
    /// The text has something the model does not know, and the model has no unknown token.
    MissingUnknownToken = 111, GenerationFailed;

    // Template, 200-299.
    /// The template section ends early.
    TemplateTooShort = 200, InvalidHeader;
    /// The template section has a version this reader does not know.
    TemplateVersion = 201, InvalidHeader;
    /// The template section's parts do not fit it, or its program is none.
    TemplateDamaged = 202, InvalidHeader;
    /// The model has no chat template.
    TemplateMissing = 203, GenerationFailed;
    /// The template took more steps than a rendering may.
    TemplateSteps = 204, GenerationFailed;
    /// The memory given for the rendering is too small for this template and input.
    TemplateMemory = 205, OutputBufferExceeded;
    /// The template nests deeper than the memory given allows.
    TemplateStack = 206, OutputBufferExceeded;
    /// The template does at run time what this machine cannot do exactly.
    TemplateUnsupported = 207, GenerationFailed;
    /// The input is not JSON, or not an object; the offset is where.
    JsonSyntax = 208, InvalidLength;
    /// A number of the input has more digits than can be kept exactly.
    JsonNumber = 209, InvalidLength;
    /// The template called `raise_exception`; its message stands in the output.
    TemplateRaised = 210, GenerationFailed;
    /// A type error as the reference raises it.
    TemplateTypeError = 211, GenerationFailed;
    /// A use of an undefined value.
    TemplateUndefinedError = 212, GenerationFailed;
    /// A run-time error of the template language, such as an unknown filter.
    TemplateRuntimeError = 213, GenerationFailed;
    /// What the reference's sandbox refuses.
    TemplateSecurityError = 214, GenerationFailed;
    /// A value error as the reference raises it.
    TemplateValueError = 215, GenerationFailed;
    /// A division by zero.
    TemplateZeroDivision = 216, GenerationFailed;
    /// A number or range beyond what is kept exactly.
    TemplateOverflow = 217, GenerationFailed;
    /// A missing attribute where the reference raises AttributeError.
    TemplateAttributeError = 218, GenerationFailed;
    /// A missing key in a format string.
    TemplateKeyError = 219, GenerationFailed;
    /// A missing positional value in a format string.
    TemplateIndexError = 220, GenerationFailed;
    /// The transcript has no room for the message; the offset is the bytes it would take.
    ConversationFull = 230, OutputBufferExceeded;
    /// System message and last turn alone exceed the prompt's limit: the offset is the tokens, the index the limit.
    ConversationTooLong = 231, ContextExceeded;

    // Plan, kernels, forward, session, 300-399.
    /// A prompt of no tokens.
    EmptyPrompt = 300, InvalidLength;
    /// A token id that is no id of the vocabulary; the index is its position in the input.
    TokenRange = 301, InvalidLength;
    /// A context or batch of no positions.
    EmptyPlan = 302, InvalidLength;
    /// The planned memory does not fit the address space.
    PlanTooLarge = 303, InvalidLength;
    /// The memory handed over is less than planned; the offset is the bytes needed.
    MemoryTooSmall = 304, InvalidLength;
    /// The plan was made for another model.
    PlanMismatch = 305, InvalidLength;
    /// More positions to keep than there are.
    TruncateLength = 306, InvalidLength;
    /// Attention gave a value that is not finite; the index is the layer.
    NonFiniteAttention = 307, GenerationFailed;
    /// The FFN gave a value that is not finite; the index is the layer.
    NonFiniteFfn = 308, GenerationFailed;
    /// A logit is not finite; the index is its token id.
    NonFiniteLogits = 309, GenerationFailed;
    /// A kernel was called with slices that do not fit its shapes: a fault of this library.
    KernelShape = 310, ShapeMismatch;
    /// The embedding of a token has a value that is not finite after scaling.
    NonFiniteEmbedding = 311, GenerationFailed;

    // Sampler, stops, stream, generation, 400-499.
    /// Temperature is not in 0 to 10^6.
    InvalidTemperature = 400, InvalidLength;
    /// top_k is above 1,024.
    InvalidTopK = 401, InvalidLength;
    /// top_p is not in 0 to 1.
    InvalidTopP = 402, InvalidLength;
    /// min_p is not in 0 to 1.
    InvalidMinP = 403, InvalidLength;
    /// typical_p is not above 0 and at most 1.
    InvalidTypicalP = 404, InvalidLength;
    /// The repetition penalty is not above 0 and at most 10^6.
    InvalidRepetitionPenalty = 405, InvalidLength;
    /// The frequency penalty is not within 10^6 of 0.
    InvalidFrequencyPenalty = 406, InvalidLength;
    /// The presence penalty is not within 10^6 of 0.
    InvalidPresencePenalty = 407, InvalidLength;
    /// A bias entry that is out of order, outside the vocabulary or no number; with the entry's index.
    InvalidLogitBias = 408, InvalidLength;
    /// The sampler's memory is shorter than its vocabulary needs.
    SamplerMemoryTooShort = 410, InvalidLength;
    /// The logits are not as many as the vocabulary.
    LogitsLength = 411, ShapeMismatch;
    /// A logit is NaN or infinite; with its index.
    NonFiniteLogit = 412, GenerationFailed;
    /// Bans and constraints leave no token.
    AllTokensMasked = 413, GenerationFailed;
    /// A token mask with fewer bits than the vocabulary.
    TokenMaskTooShort = 414, InvalidLength;
    /// A stop id outside the vocabulary; with its index in the list.
    InvalidStopId = 420, InvalidLength;
    /// A stop string that is empty or longer than 256 bytes; with its index in the list.
    InvalidStopString = 421, InvalidLength;
    /// More than 32 stop strings.
    TooManyStopStrings = 422, InvalidLength;
    /// A stop string that is not UTF-8; with its index and the offset of the bad byte.
    StopStringNotUtf8 = 423, InvalidUtf8;
    /// The minimum of new tokens is above the maximum.
    InvalidMinimumLength = 430, InvalidLength;
    /// A loop rule with a period above 64 or fewer than 2 repetitions.
    InvalidLoopRule = 431, InvalidLength;
    /// A token was asked for after generation had ended.
    GenerationEnded = 440, GenerationFailed;
    /// A preset of this name does not exist.
    UnknownPreset = 441, InvalidLength;

    // Shells, 500-599.
    /// More bytes than one transfer may have (134,217,728 unless the host raised the ceiling).
    TransferCeilingExceeded = 500, InvalidLength;
    /// The host gives no more memory.
    OutOfMemory = 501, InvalidLength;
    /// Another call is under way, or an earlier one trapped and the instance must be made anew.
    Busy = 502, GenerationFailed;
    /// The block does not come from `alloc`, or not with this length.
    ForeignBlock = 503, NullPointer;
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

    #[test]
    fn names_stand_in_the_order_of_the_table() {
        for code in Code::ALL {
            assert_eq!(code.name(), std::format!("{code:?}"));
        }
    }

    #[test]
    fn every_number_has_the_class_of_the_table() {
        for (code, class) in Code::ALL.iter().zip(CLASSES) {
            assert_eq!(Error::new(*code).class(), *class, "{code:?}");
        }
        assert!(Error::new(Code::ForeignBlock).is(Code::ForeignBlock));
    }

    #[test]
    fn a_place_is_there_or_not() {
        let error = Error::new(Code::NameHash);
        assert_eq!((error.offset(), error.index()), (None, None));
        assert_eq!((error.at(0).offset(), error.entry(0).index()), (Some(0), Some(0)));
        let both = error.entry(7).at(1 << 32).entry(9);
        assert_eq!((both.code(), both.offset(), both.index()), (Code::NameHash, Some(1 << 32), Some(9)));
        let largest = error.at(NO_OFFSET - 1).entry(NO_INDEX as u32 - 1);
        assert_eq!((largest.offset(), largest.index()), (Some(NO_OFFSET - 1), Some(NO_INDEX as u32 - 1)));
        let beyond = error.at(u64::MAX).entry(u32::MAX);
        assert_eq!((beyond.code(), beyond.offset(), beyond.index()), (Code::NameHash, None, None));
        for code in Code::ALL {
            assert_eq!((Error::new(*code).code(), Error::new(*code).at(3).entry(5).code()), (*code, *code));
        }
    }
}
