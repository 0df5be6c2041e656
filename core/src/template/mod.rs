//! Chat templates: a compiled program, and the machine that renders a conversation with it.
//!
//! The converter compiles the publisher's template to a section of the file; this module only runs such programs. A
//! rendering takes a JSON object, a memory of the caller's and an output buffer. It is bounded in steps, memory and output,
//! reads no clock, and calls nothing outside. For each byte of the output it says whether the template wrote it or
//! whether it came from the conversation; the tokenizer makes no special token out of the latter.

mod access;
mod arith;
mod call;
mod heap;
mod json;
pub mod names;
mod native;
pub mod op;
mod print;
mod strings;
mod text;
mod time;
pub mod unicode;
pub mod value;
mod vm;

pub use text::{bit, set_bit};
pub use time::Now;

use crate::error::{Code, Error};
use crate::limits::TEMPLATE_STEPS as MAX_STEPS;
use crate::utf8::text_len;
use json::Json;
use text::Text;
use unicode::Unicode;
use value::Value;
use vm::Vm;

/// Bytes of the section's header.
pub const HEADER: usize = 116;
/// Version of the section this module runs.
pub const VERSION: u32 = 3;
/// Parts after the header.
pub const PARTS: usize = 11;

/// Where in the header the lengths of the parts stand, as numbers of `u32`.
const LENGTHS: usize = 18;
// The parts by number.
const STRINGS: usize = 0;
const FUNCTIONS: usize = 1;
const OPERATORS: usize = 2;
const CODE: usize = 3;
const POSITIONS: usize = 4;
const NAMES: usize = 5;
const TABLES: usize = 7;
const VARIABLES: usize = 8;
const NAME: usize = 9;
const SOURCE: usize = 10;

/// A compiled template; possibly none at all. Its parts are read where they stand.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    section: &'a [u8],
}

/// The tables a machine runs on.
#[derive(Clone, Copy, Debug)]
struct Program<'a> {
    strings: &'a [u8],
    /// Address of each function.
    functions: &'a [u8],
    /// Function of each operator.
    operators: &'a [u8],
    code: &'a [u8],
    positions: &'a [u8],
    names: &'a [u8],
    /// Where the library begins in the code.
    library: usize,
}

fn u16_at(bytes: &[u8], index: usize) -> Option<u16> {
    let at = index.checked_mul(2)?;
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], index: usize) -> Option<u32> {
    let at = index.checked_mul(4)?;
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

impl Program<'_> {
    fn string(&self, index: usize) -> Value {
        let (at, packed) = (u32_at(self.strings, 2 * index), u32_at(self.strings, 2 * index + 1));
        let (at, packed) = (at.unwrap_or(0), packed.unwrap_or(0));
        Value::new(value::STR, at as usize, (packed & 0xff_ffff) as usize)
    }

    /// The number of an attribute's name.
    fn attribute_number(&self, index: usize) -> usize {
        (u32_at(self.strings, 2 * index + 1).unwrap_or(0) >> 24) as usize
    }

    /// Offset in the source of what stands at an address of the code.
    fn position(&self, pc: usize) -> Option<u64> {
        let mut found = None;
        let mut index = 0;
        while let (Some(at), Some(offset)) = (u32_at(self.positions, index), u32_at(self.positions, index + 1)) {
            if at as usize > pc {
                break;
            }
            found = Some(offset as u64);
            index += 2;
        }
        found
    }
}

/// A step of the machine failed. Why stands in the machine, so that a value and this fit one word together.
#[derive(Clone, Copy, Debug)]
struct Fail;

/// What a rendering left in the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rendered {
    /// Bytes of text.
    pub len: usize,
    /// The template itself wrote the BOS token in front: none must be added.
    pub has_bos: bool,
    /// The template itself wrote the EOS token at the end.
    pub has_eos: bool,
}

/// Why there is no text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The condition. Its offset counts in the input for an error of the input, else in the template's source.
    pub error: Error,
    /// The template's own message stands in so many bytes at the beginning of the output.
    pub message: usize,
}

impl<'a> Template<'a> {
    /// Reads a section. An empty one is a model without a template.
    ///
    /// Only the layout is checked here; the machine checks every access, so a damaged program fails when it runs.
    ///
    /// # Errors
    /// `TemplateTooShort`, `TemplateVersion`, `TemplateDamaged`, with the offset in the section.
    #[inline(never)]
    pub fn parse(section: &'a [u8]) -> Result<Self, Error> {
        let template = Self { section };
        if section.is_empty() {
            return Ok(template);
        }
        if section.len() < HEADER {
            return Err(Error::new(Code::TemplateTooShort).at(section.len() as u64));
        }
        if u32_at(section, 0) != Some(VERSION) {
            return Err(Error::new(Code::TemplateVersion));
        }
        for part in 0..PARTS {
            if template.start(part.wrapping_add(1)) > section.len() {
                return Err(Error::new(Code::TemplateTooShort).at(4 * (LENGTHS + part) as u64));
            }
        }
        if template.start(PARTS) != section.len() || u32::try_from(section.len()).is_err() {
            return Err(Error::new(Code::TemplateDamaged).at(4 * LENGTHS as u64));
        }
        Ok(template)
    }

    fn length(&self, part: usize) -> usize {
        u32_at(self.section, LENGTHS.wrapping_add(part)).unwrap_or(0) as usize
    }

    /// Where a part begins, and the one before ends.
    fn start(&self, part: usize) -> usize {
        (0..part).fold(HEADER, |at, part| at.saturating_add(self.length(part)))
    }

    fn part(&self, part: usize) -> &'a [u8] {
        let at = self.start(part);
        self.section.get(at..at.saturating_add(self.length(part))).unwrap_or(&[])
    }

    /// Whether there is no template.
    pub const fn is_empty(&self) -> bool {
        self.section.is_empty()
    }

    /// The template as its publisher wrote it.
    pub fn source(&self) -> &'a [u8] {
        self.part(SOURCE)
    }

    /// Which of the publisher's named templates this is; empty for the only one.
    pub fn name(&self) -> &'a [u8] {
        self.part(NAME)
    }

    /// The variables every rendering has, special tokens above all: a JSON object.
    pub fn variables(&self) -> &'a [u8] {
        self.part(VARIABLES)
    }

    /// SHA-256 of the source, and of the program.
    pub fn hashes(&self) -> (&'a [u8], &'a [u8]) {
        (self.section.get(8..40).unwrap_or(&[]), self.section.get(40..72).unwrap_or(&[]))
    }

    /// A memory, in words of 8 bytes, that ordinary templates can work in with an input of so many bytes.
    pub const fn memory_words(input_len: usize) -> usize {
        (1 << 16) + input_len.saturating_mul(8)
    }

    /// Renders a conversation.
    ///
    /// `input` is a JSON object with `messages` and, where wanted, `tools`, `documents`, `add_generation_prompt` and `vars`
    /// (an object of further variables). The text goes to `out`; `content` has one bit per byte of it, lowest first: set
    /// where the byte came from messages, tools or documents. Takes time in proportion to the steps, which are bounded.
    ///
    /// # Errors
    /// What the template raised, a limit, or bad input: see [`Refusal`].
    pub fn render(
        &self,
        input: &[u8],
        now: Now,
        memory: &mut [u64],
        out: &mut [u8],
        content: &mut [u8],
    ) -> Result<Rendered, Refusal> {
        let refuse = |code| Refusal { error: Error::new(code), message: 0 };
        if self.is_empty() {
            return Err(refuse(Code::TemplateMissing));
        }
        let good = text_len(input);
        if good != input.len() {
            return Err(Refusal { error: Error::new(Code::InvalidUtf8).at(good as u64), message: 0 });
        }
        if content.len().saturating_mul(8) < out.len() {
            return Err(refuse(Code::OutputBufferExceeded));
        }
        // Half the memory for values, the rest for text with one bit per byte.
        let (values, text) = memory.split_at_mut_checked(memory.len() / 2).unwrap_or_default();
        let values = values.get_mut(..values.len().min(1 << value::FIELD)).unwrap_or_default();
        let text: &mut [u8] = bytemuck::try_cast_slice_mut(text).map_err(|_| refuse(Code::TemplateMemory))?;
        let bits = text.len().div_ceil(9);
        let (bits, arena) = text.split_at_mut_checked(bits).unwrap_or_default();
        let text = Text::new(self.section, input, arena, bits).map_err(refuse)?;
        let program = Program {
            strings: self.part(STRINGS),
            functions: self.part(FUNCTIONS),
            operators: self.part(OPERATORS),
            code: self.part(CODE),
            positions: self.part(POSITIONS),
            names: self.part(NAMES),
            library: u32_at(self.section, 1).unwrap_or(0) as usize,
        };
        let unicode = Unicode::new(self.part(TABLES));
        let mut vm = Vm::new(program, unicode, text, values, out, content, now);

        let mut json = Json::new(self.variables(), self.start(VARIABLES), false);
        vm.defaults = json.read(&mut vm).map_err(|_| refuse(Code::TemplateDamaged))?;
        let mut json = Json::new(input, vm.text.input_base(), true);
        match json.read(&mut vm) {
            Ok(object) if object.kind() == value::DICT => vm.input = object,
            read => {
                let code = if read.is_ok() { Code::JsonSyntax } else { vm.why() };
                return Err(Refusal { error: Error::new(code).at(json.at as u64), message: 0 });
            }
        }
        let vars = vm.member_named(vm.input, b"vars");
        match vars.kind() {
            value::MISSING => {}
            value::DICT => vm.vars = vars,
            _ => return Err(refuse(Code::JsonSyntax)),
        }
        match vm.run() {
            Ok(()) => {
                let (has_bos, has_eos) = (vm.has_token(b"bos_token", true), vm.has_token(b"eos_token", false));
                Ok(Rendered { len: vm.out_len, has_bos, has_eos })
            }
            Err(Fail) => {
                let code = vm.why();
                let error = match program.position(vm.at) {
                    Some(offset) => Error::new(code).at(offset),
                    None => Error::new(code),
                };
                let spoken =
                    matches!(code, Code::TemplateRaised | Code::TemplateRuntimeError | Code::TemplateTypeError);
                Err(Refusal { error, message: if spoken && vm.spoken { vm.out_len } else { 0 } })
            }
        }
    }
}

impl Vm<'_> {
    fn member_named(&self, dict: Value, name: &[u8]) -> Value {
        let index = (0..dict.len()).find(|&index| self.text.of(self.entry(dict, index)) == name);
        index.map_or(Value::of(value::MISSING), |index| self.entry(dict.seen_as(value::VALUES), index))
    }

    /// Whether the text begins (or ends) with a token that the template itself wrote.
    fn has_token(&self, name: &[u8], begins: bool) -> bool {
        let mut token = self.member_named(self.vars, name);
        if token.kind() == value::MISSING {
            token = self.member_named(self.defaults, name);
        }
        if token.kind() != value::STR || token.is_empty() {
            return false;
        }
        let from = if begins { 0 } else { self.out_len.wrapping_sub(token.len()) };
        let to = from.wrapping_add(token.len());
        to <= self.out_len
            && self.out.get(from..to) == Some(self.text.of(token))
            && !(from..to).any(|index| bit(self.out_bits, index))
    }
}
