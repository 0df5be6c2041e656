//! Reads the input: JSON to values, without recursion. Strings stay where they are unless they hold escapes.
//!
//! The whole input is one object. What stands in its member `vars` is the host's, everything else is content; of `vars`,
//! `messages`, `tools` and `documents` are content too.

use super::Fail;
use super::number::{parse_float, parse_int};
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

const OBJECT: usize = 1;

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
}

fn is_member(name: &[u8]) -> bool {
    matches!(name, b"messages" | b"tools" | b"documents")
}

impl<'j> Json<'j> {
    /// Reads `bytes`, which stand at the address `base`. `content` says whose they are.
    pub fn new(bytes: &'j [u8], base: usize, content: bool) -> Self {
        Self { at: 0, bytes, base, content, plain: !content }
    }

    /// The next byte; 0 at the end, where no JSON has one.
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn since(&self, start: usize) -> &'j [u8] {
        self.bytes.get(start..self.at).unwrap_or(&[])
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

    /// Reads one value and nothing after it.
    ///
    /// # Errors
    /// `JsonSyntax`, `JsonNumber`, `InvalidUtf8` (a lone surrogate), `TemplateMemory`, `TemplateStack`, `TemplateSteps`.
    pub fn read(&mut self, vm: &mut Vm<'_>) -> Result<Value, Fail> {
        let floor = vm.sp;
        // Index of the innermost open container's mark, and how deep it is.
        let mut open = floor;
        let mut depth = 0usize;
        let mut in_vars = false;
        loop {
            // A value.
            vm.charge(1)?;
            let mut done = match self.space() {
                b'{' | b'[' => {
                    let object = self.peek() == b'{';
                    self.bump();
                    vm.push(Value::new(value::MARK, open, object as usize))?;
                    open = vm.sp.saturating_sub(1);
                    depth = depth.saturating_add(1);
                    if self.space() != if object { b'}' } else { b']' } {
                        if object {
                            self.key(vm, depth, &mut in_vars)?;
                        }
                        continue;
                    }
                    None
                }
                _ => Some(self.scalar(vm)?),
            };
            // What may follow it.
            loop {
                if let Some(item) = done.take() {
                    if depth == 0 {
                        if self.space() != 0 || self.at < self.bytes.len() {
                            return vm.fail(Code::JsonSyntax);
                        }
                        return Ok(item);
                    }
                    vm.push(item)?;
                }
                let object = vm.load(open).len();
                match self.space() {
                    b',' => {
                        self.bump();
                        if object == OBJECT {
                            self.key(vm, depth, &mut in_vars)?;
                        }
                        break;
                    }
                    byte if byte == if object == OBJECT { b'}' } else { b']' } => {
                        self.bump();
                        done = Some(self.close(vm, &mut open, object)?);
                        depth = depth.saturating_sub(1);
                    }
                    _ => return vm.fail(Code::JsonSyntax),
                }
            }
        }
    }

    fn key(&mut self, vm: &mut Vm<'_>, depth: usize, in_vars: &mut bool) -> Result<(), Fail> {
        if self.space() != b'"' {
            return vm.fail(Code::JsonSyntax);
        }
        let key = self.string(vm)?;
        vm.push(key)?;
        let name = vm.text.of(key);
        if depth == 1 && self.content {
            *in_vars = name == b"vars";
            self.plain = *in_vars;
        } else if depth == 2 && *in_vars {
            self.plain = !is_member(name);
        }
        self.expect(vm, b':')
    }

    fn close(&mut self, vm: &mut Vm<'_>, open: &mut usize, object: usize) -> Result<Value, Fail> {
        let mark = vm.load(*open);
        let count = vm.sp.saturating_sub(open.wrapping_add(1));
        let flags = if self.plain { 0 } else { value::CONTENT };
        let out = vm.make(if object == OBJECT { value::DICT } else { value::LIST }, count)?;
        vm.sp = *open;
        *open = mark.at();
        Ok(out.flagged(flags))
    }

    fn scalar(&mut self, vm: &mut Vm<'_>) -> Result<Value, Fail> {
        let start = self.at;
        let out = match self.peek() {
            b'"' => return self.string(vm),
            b'-' | b'0'..=b'9' => self.number(vm)?,
            _ => {
                while self.peek().is_ascii_alphabetic() {
                    self.bump();
                }
                match self.since(start) {
                    b"true" => Value::bool(true),
                    b"false" => Value::bool(false),
                    b"null" => Value::of(value::NONE),
                    _ => {
                        self.at = start;
                        return vm.fail(Code::JsonSyntax);
                    }
                }
            }
        };
        Ok(out.flagged(if self.plain { 0 } else { value::CONTENT }))
    }

    fn number(&mut self, vm: &mut Vm<'_>) -> Result<Value, Fail> {
        let start = self.at;
        while matches!(self.peek(), b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') {
            self.bump();
        }
        let text = self.since(start);
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let bad = match digits {
            [b'0', b'0'..=b'9', ..] | [] | [b'.', ..] | [.., b'.'] | [b'-' | b'+', ..] => true,
            _ => digits
                .windows(2)
                .any(|pair| pair.first() == Some(&b'.') && !pair.last().is_some_and(u8::is_ascii_digit)),
        };
        if bad {
            self.at = start;
            return vm.fail(Code::JsonSyntax);
        }
        if digits.iter().all(u8::is_ascii_digit) {
            let parsed = vm.need(parse_int(text), Code::JsonSyntax)?;
            // Python's integers have no end; ours must not be wrong.
            if digits.len() > 19 || parsed == i64::MAX || parsed == i64::MIN {
                self.at = start;
                return vm.fail(Code::JsonNumber);
            }
            return vm.integer(parsed);
        }
        match parse_float(text) {
            Some(parsed) => vm.float(parsed),
            None => {
                self.at = start;
                vm.fail(if digits.len() > super::number::MAX_DIGITS { Code::JsonNumber } else { Code::JsonSyntax })
            }
        }
    }

    fn string(&mut self, vm: &mut Vm<'_>) -> Result<Value, Fail> {
        self.bump();
        let start = self.at;
        let mark = vm.text.used();
        // Text of the host is copied, since what lies in the input counts as content.
        let mut copied = self.plain && self.content;
        loop {
            if self.at >= self.bytes.len() {
                return vm.fail(Code::JsonSyntax);
            }
            let byte = self.peek();
            match byte {
                b'"' => break,
                0..=31 => return vm.fail(Code::JsonSyntax),
                b'\\' => {
                    if !copied {
                        vm.text.push_from(self.base.wrapping_add(start), self.at.saturating_sub(start))?;
                        copied = true;
                    }
                    self.escape(vm)?;
                    continue;
                }
                _ if copied => vm.text.push(byte, !self.plain)?,
                _ => {}
            }
            self.bump();
        }
        let len = self.at.saturating_sub(start);
        vm.charge(len / 16)?;
        self.bump();
        if copied {
            return Ok(vm.text.since(mark));
        }
        Ok(Value::new(value::STR, self.base.wrapping_add(start), len))
    }

    fn escape(&mut self, vm: &mut Vm<'_>) -> Result<(), Fail> {
        let start = self.at;
        self.bump();
        let plain = match self.peek() {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'u' => 0,
            _ => return vm.fail(Code::JsonSyntax),
        };
        self.bump();
        let mut point = plain as u32;
        if plain == 0 {
            point = self.hex(vm)?;
            if matches!(point, 0xd800..=0xdbff) && self.peek() == b'\\' {
                self.bump();
                if self.peek() == b'u' {
                    self.bump();
                    let low = self.hex(vm)?;
                    if matches!(low, 0xdc00..=0xdfff) {
                        point = 0x10000 + ((point & 0x3ff) << 10 | low & 0x3ff);
                    }
                }
            }
            if char::from_u32(point).is_none() {
                self.at = start;
                return vm.fail(Code::InvalidUtf8);
            }
        }
        vm.text.push_char(point, !self.plain)
    }

    fn hex(&mut self, vm: &Vm<'_>) -> Result<u32, Fail> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = vm.need((self.peek() as char).to_digit(16), Code::JsonSyntax)?;
            value = value << 4 | digit;
            self.bump();
        }
        Ok(value)
    }
}
