//! Reads the input: JSON to values, without recursion. Strings stay where they are unless they hold escapes.
//!
//! The whole input is one object. What stands in its member `vars` is the host's, everything else is content; of `vars`,
//! `messages`, `tools` and `documents` are content too.

use super::Fail;
use super::op::hook;
use super::text::find;
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

/// Significant digits a number may have. A longer word that the library does not read is taken for one of more.
const MAX_DIGITS: usize = 100;

/// Words with a meaning: JSON's own, the member with the host's variables, and those of its members that are content.
const WORDS: [&[u8]; 7] = [b"null", b"false", b"true", b"vars", b"messages", b"tools", b"documents"];
const NULL: usize = 0;
const FALSE: usize = 1;
const TRUE: usize = 2;
const VARS: usize = 3;

/// Number of a word in [`WORDS`]; beyond them for others.
#[inline(never)]
fn meaning(word: &[u8]) -> usize {
    WORDS.iter().position(|known| *known == word).unwrap_or(WORDS.len())
}

/// Where reading stands. The offset of a fault is `at`.
#[derive(Debug)]
pub struct Json<'j> {
    /// Next byte of the input.
    pub at: usize,
    bytes: &'j [u8],
    /// Address of the first byte.
    base: usize,
    content: bool,
    /// The host's own text, not content.
    plain: bool,
    /// Index in the stack of the innermost open container's mark, which holds the one before and how it closes.
    open: usize,
    depth: usize,
    in_vars: bool,
}

impl<'j> Json<'j> {
    /// Reads `bytes`, which stand at the address `base`. `content` says whose they are.
    pub fn new(bytes: &'j [u8], base: usize, content: bool) -> Self {
        Self { at: 0, bytes, base, content, plain: !content, open: 0, depth: 0, in_vars: false }
    }

    /// The next byte; 0 at the end, where no JSON has one.
    #[inline(never)]
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn bump(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn space(&mut self) -> u8 {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.bump();
        }
        self.peek()
    }

    fn expect(&mut self, vm: &Vm<'_>, byte: u8) -> Result<(), Fail> {
        if self.space() != byte {
            return vm.fail(Code::JsonSyntax);
        }
        self.bump();
        Ok(())
    }

    /// Fails at the byte `at`.
    fn fail_at<T>(&mut self, vm: &Vm<'_>, at: usize, code: Code) -> Result<T, Fail> {
        self.at = at;
        vm.fail(code)
    }

    /// Reads one value and nothing after it.
    ///
    /// # Errors
    /// `JsonSyntax`, `JsonNumber`, `InvalidUtf8` (a lone surrogate), `TemplateMemory`, `TemplateStack`, `TemplateSteps`.
    pub fn read(&mut self, vm: &mut Vm<'_>) -> Result<Value, Fail> {
        // Whether a value ends here, or a container begins.
        let (mut ended, mut begun) = (false, false);
        loop {
            vm.charge(1)?;
            let next = self.space();
            if self.depth == 0 && ended {
                return if self.at < self.bytes.len() { vm.fail(Code::JsonSyntax) } else { Ok(vm.pop()) };
            }
            let closing = if self.depth == 0 { 0 } else { vm.load(self.open).len() as u8 };
            if next == closing && (ended || begun) {
                self.bump();
                self.close(vm, closing)?;
                (ended, begun) = (true, false);
                continue;
            }
            if ended {
                self.expect(vm, b',')?;
            }
            if closing == b'}' {
                self.key(vm)?;
            }
            let next = self.space();
            begun = matches!(next, b'{' | b'[');
            ended = !begun;
            let item = if begun {
                self.bump();
                let mark = Value::new(value::MARK, self.open, next.wrapping_add(2) as usize);
                self.open = vm.sp;
                self.depth = self.depth.saturating_add(1);
                mark
            } else if next == b'"' {
                self.string(vm)?
            } else {
                self.scalar(vm)?.flagged(self.flags())
            };
            vm.push(item)?;
        }
    }

    /// The flags of what is no string.
    fn flags(&self) -> u8 {
        if self.plain { 0 } else { value::CONTENT }
    }

    fn key(&mut self, vm: &mut Vm<'_>) -> Result<(), Fail> {
        if self.space() != b'"' {
            return vm.fail(Code::JsonSyntax);
        }
        let key = self.string(vm)?;
        vm.push(key)?;
        let name = meaning(vm.text.of(key));
        if self.depth == 1 && self.content {
            self.in_vars = name == VARS;
            self.plain = self.in_vars;
        } else if self.depth == 2 && self.in_vars {
            self.plain = name <= VARS || name >= WORDS.len();
        }
        self.expect(vm, b':')
    }

    /// Makes a value of the innermost open container.
    fn close(&mut self, vm: &mut Vm<'_>, closing: u8) -> Result<(), Fail> {
        let mark = vm.load(self.open);
        let count = vm.sp.saturating_sub(self.open.wrapping_add(1));
        let item = vm.make(if closing == b'}' { value::DICT } else { value::LIST }, count)?;
        vm.store(self.open, item.flagged(self.flags()));
        self.open = mark.at();
        self.depth = self.depth.saturating_sub(1);
        Ok(())
    }

    /// A number, `true`, `false` or `null`.
    fn scalar(&mut self, vm: &mut Vm<'_>) -> Result<Value, Fail> {
        let start = self.at;
        let numeric = matches!(self.peek(), b'-' | b'0'..=b'9');
        while match self.peek() {
            b'-' | b'+' | b'.' | b'0'..=b'9' => numeric,
            b'e' | b'E' if numeric => true,
            byte => !numeric && byte.is_ascii_alphabetic(),
        } {
            self.bump();
        }
        let word = self.bytes.get(start..self.at).unwrap_or(&[]);
        match meaning(word) {
            NULL => return Ok(Value::of(value::NONE)),
            name @ (FALSE | TRUE) => return Ok(Value::bool(name == TRUE)),
            _ => {}
        }
        let digits = word.strip_prefix(b"-").unwrap_or(word);
        if let Some(number) = parse_int(word) {
            // Python's integers have no end; ours must not be wrong.
            if digits.len() > 1 && digits.starts_with(b"0") {
                return self.fail_at(vm, start, Code::JsonSyntax);
            }
            if digits.len() > 19 || number == i64::MAX || number == i64::MIN {
                return self.fail_at(vm, start, Code::JsonNumber);
            }
            return vm.integer(number);
        }
        if digits.first().is_some_and(u8::is_ascii_digit) {
            let text = Value::new(value::STR, self.base.wrapping_add(start), word.len());
            let number = vm.ask(hook::NUMBER, text)?;
            if number.kind() == value::FLOAT {
                return Ok(number);
            }
        }
        let code = if digits.len() > MAX_DIGITS { Code::JsonNumber } else { Code::JsonSyntax };
        self.fail_at(vm, start, code)
    }

    fn string(&mut self, vm: &mut Vm<'_>) -> Result<Value, Fail> {
        self.bump();
        let start = self.at;
        let mark = vm.text.used();
        // Text of the host is copied, since what lies in the input counts as content.
        let mut copied = self.plain && self.content;
        // What is not copied yet begins here.
        let mut run = start;
        loop {
            let byte = self.peek();
            if byte < 32 {
                return vm.fail(Code::JsonSyntax);
            }
            copied |= byte == b'\\';
            if copied && matches!(byte, b'"' | b'\\') {
                vm.text.copy(self.base.wrapping_add(run), self.at.wrapping_sub(run), Some(!self.plain))?;
            }
            if byte == b'"' {
                break;
            }
            if byte == b'\\' {
                self.escape(vm)?;
                run = self.at;
            } else {
                self.bump();
            }
        }
        let len = self.at.saturating_sub(start);
        vm.charge(len / 16)?;
        self.bump();
        Ok(if copied { vm.text.since(mark) } else { Value::new(value::STR, self.base.wrapping_add(start), len) })
    }

    fn escape(&mut self, vm: &mut Vm<'_>) -> Result<(), Fail> {
        let start = self.at;
        self.bump();
        let mut point = match find(b"\"\\/bfnrt", &[self.peek()], 0, false) {
            Some(at) => {
                self.bump();
                b"\"\\/\x08\x0c\n\r\t".get(at).copied().unwrap_or(0) as u32
            }
            None => self.hex(vm)?,
        };
        if matches!(point, 0xd800..=0xdbff) && self.peek() == b'\\' {
            self.bump();
            if self.peek() == b'u' {
                let low = self.hex(vm)?;
                if matches!(low, 0xdc00..=0xdfff) {
                    point = 0x10000 + ((point & 0x3ff) << 10 | low & 0x3ff);
                }
            }
        }
        if char::from_u32(point).is_none() {
            return self.fail_at(vm, start, Code::InvalidUtf8);
        }
        vm.text.push_char(point, !self.plain)
    }

    /// `uXXXX`
    fn hex(&mut self, vm: &Vm<'_>) -> Result<u32, Fail> {
        if self.peek() != b'u' {
            return vm.fail(Code::JsonSyntax);
        }
        self.bump();
        let mut value = 0;
        for _ in 0..4 {
            let digit = vm.need((self.peek() as char).to_digit(16), Code::JsonSyntax)?;
            value = value << 4 | digit;
            self.bump();
        }
        Ok(value)
    }
}

/// The magnitude of the smallest i64.
const END: u64 = 1 << 63;

/// Reads an optional sign and decimal digits. Values beyond i64 are cut off at its ends.
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let negative = text.first() == Some(&b'-');
    let digits = text.get((negative || text.first() == Some(&b'+')) as usize..)?;
    if digits.is_empty() {
        return None;
    }
    let mut size = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Once beyond an i64 it stays there.
        size = if size < END / 10 + 1 { size * 10 + digit as u64 } else { END };
    }
    Some(if negative { (size.min(END) as i64).wrapping_neg() } else { size.min(END - 1) as i64 })
}
