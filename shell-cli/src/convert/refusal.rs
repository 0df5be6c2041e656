//! Why a conversion is refused: one number per condition, in one append-only table.
//!
//! The numbers are those of tools only and start at 1000; `SPEC.md` lists them. The exit code follows from the
//! condition: 3 the publisher's files contradict each other, 4 cannot be run exactly, 5 damaged input.

use crate::failure::{Failure, Kind};
use std::fmt::Display;

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $kind:ident;)*) => {
        /// Every condition under which a conversion stops.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        #[allow(dead_code)]
        pub enum Refusal { $($(#[$doc])* $name = $number,)* }

        impl Refusal {
            /// Every condition, in the order of the table.
            #[cfg(test)]
            pub const ALL: &'static [Refusal] = &[$(Refusal::$name,)*];

            /// The name as it stands in `SPEC.md`.
            pub const fn name(self) -> &'static str {
                match self { $(Refusal::$name => stringify!($name),)* }
            }

            /// The exit code's meaning.
            pub const fn kind(self) -> Kind {
                match self { $(Refusal::$name => Kind::$kind,)* }
            }
        }
    };
}

refusals! {
    /// A file of the source is missing.
    MissingFile = 1000, Malformed;
    /// A JSON file of the source is no valid JSON object, or a field has the wrong kind or range.
    BadJson = 1001, Malformed;
    /// A safetensors header is cut, too long or of the wrong shape.
    SafetensorsHeader = 1010, Malformed;
    /// A name stands twice in a safetensors header or in several shards.
    DuplicateTensor = 1011, Malformed;
    /// The ranges of a safetensors file overlap or leave bytes uncovered.
    SafetensorsCover = 1012, Malformed;
    /// Shape, dtype and byte range of a tensor do not belong together, or their product overflows.
    TensorRange = 1013, Malformed;
    /// An index names a tensor or a shard that is not there.
    ShardIndex = 1014, Malformed;
    /// A tensor the family needs is not in the source.
    MissingTensor = 1015, Malformed;
    /// A tensor of the source is not consumed.
    ExtraTensor = 1016, Malformed;
    /// A tensor has another shape than the configuration says.
    TensorShape = 1017, Malformed;
    /// A weight is NaN or infinite.
    NonFiniteWeight = 1018, Malformed;
    /// A scale does not fit f16.
    ScaleOverflow = 1019, Unsupported;
    /// A file changed while it was read.
    SourceChanged = 1020, Malformed;
    /// The dtype of a tensor cannot be imported.
    UnsupportedDtype = 1021, Unsupported;
    /// bf16 was asked for and does not hold a weight.
    NotBf16 = 1022, Unsupported;
    /// The architecture is not one of the ten families.
    UnsupportedFamily = 1030, Unsupported;
    /// A field of the configuration that may change the result is unknown.
    UnknownField = 1031, Unsupported;
    /// A field has a value that the runtime cannot run exactly.
    UnsupportedValue = 1032, Unsupported;
    /// The rotary scaling is unknown.
    UnsupportedRope = 1033, Unsupported;
    /// The checkpoint is already quantised by a method that is not imported.
    PreQuantised = 1034, Unsupported;
    /// A field that the family needs is missing.
    MissingField = 1035, Malformed;
    /// The sizes of the configuration do not fit each other.
    BadDimensions = 1036, Malformed;
    /// Two files of the publisher contradict each other.
    Conflict = 1040, Conflict;
    /// A GGUF file is damaged.
    BadGguf = 1050, Malformed;
    /// A GGUF file needs what is not imported.
    UnsupportedGguf = 1051, Unsupported;
    /// A llama2.c checkpoint is damaged.
    BadLlama2c = 1060, Malformed;
    /// The tokenizer is damaged or cannot be expressed.
    Tokenizer = 1070, Unsupported;
    /// The file would not meet the band that was asked for.
    BandMissed = 1080, CheckFailed;
    /// No choice of dtypes fits the size that was asked for.
    TargetTooSmall = 1081, CheckFailed;
    /// The file written does not pass the core's own checks.
    SelfCheck = 1090, Malformed;
}

/// A refusal with its sentence.
pub fn refuse(refusal: Refusal, message: impl Display) -> Failure {
    Failure::new(refusal.kind(), format!("{message} (error {} {})", refusal as u16, refusal.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_from_1000() {
        assert!(Refusal::ALL.iter().all(|r| *r as u16 >= 1000));
        assert!(Refusal::ALL.windows(2).all(|pair| (pair[0] as u16) < pair[1] as u16));
    }
}
