//! Reads the input: JSON to values, without recursion. Strings stay where they are unless they hold escapes.
//!
//! The whole input is one object. What stands in its member `vars` is the host's, everything else is content; of `vars`,
//! `messages`, `tools` and `documents` are content too.

use super::number::{parse_float, parse_int};
use super::value::{self, Value};
use super::vm::Vm;
use crate::error::Code;

const OBJECT: u32 = 1;
const ARRAY: u32 = 0;

/// Where reading stands. The offset of a fault is `at`.
#[derive(Debug)]
pub struct Json {
    /// Next byte of the input.
    pub at: usize,
    base: usize,
    end: usize,
    content: bool,
    /// The host's own text, not content.
    plain: bool,
}

fn is_member(name: &[u8]) -> bool {
    matches!(name, b"messages" | b"tools" | b"documents")
}

impl Json {
    /// Reads `len` bytes that stand at the address `base`. `content` says whose they are.
    pub fn new(base: usize, len: usize, content: bool) -> Self {
        Self { at: 0, base, end: len, content, plain: !content }
    }

    fn peek(&self, vm: &Vm<'_>) -> u8 {
        if self.at < self.end {
            vm.text.slice(self.base.wrapping_add(self.at), 1).first().copied().unwrap_or(0)
        } else {
            0
        }
    }

    fn bump(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn space(&mut self, vm: &Vm<'_>) -> u8 {
        while matches!(self.peek(vm), b' ' | b'\t' | b'\n' | b'\r') && self.at < self.end {
            self.bump();
        }
        self.peek(vm)
    }

    fn expect(&mut self, vm: &Vm<'_>, byte: u8) -> Result<(), Code> {
        if self.space(vm) != byte {
            return Err(Code::JsonSyntax);
        }
        self.bump();
        Ok(())
    }

    /// Reads one value and nothing after it.
    ///
    /// # Errors
    /// `JsonSyntax`, `JsonNumber`, `InvalidUtf8` (a lone surrogate), `TemplateMemory`, `TemplateStack`, `TemplateSteps`.
    pub fn read(&mut self, vm: &mut Vm<'_>) -> Result<Value, Code> {
        let floor = vm.sp;
        // Index of the innermost open container's mark, and how deep it is.
        let mut open = floor;
        let mut depth = 0usize;
        let mut in_vars = false;
        loop {
            // A value.
            vm.charge(1)?;
            let mut done = match self.space(vm) {
                b'{' | b'[' => {
                    let object = self.peek(vm) == b'{';
                    self.bump();
                    vm.push(Value::new(value::MARK, object as u32, open as u64))?;
                    open = vm.sp.saturating_sub(1);
                    depth = depth.saturating_add(1);
                    if self.space(vm) != if object { b'}' } else { b']' } {
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
                        if self.space(vm) != 0 || self.at < self.end {
                            return Err(Code::JsonSyntax);
                        }
                        return Ok(item);
                    }
                    vm.push(item)?;
                }
                let object = vm.stack.get(open).map_or(ARRAY, |mark| mark.len);
                match self.space(vm) {
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
                    _ => return Err(Code::JsonSyntax),
                }
            }
        }
    }

    fn key(&mut self, vm: &mut Vm<'_>, depth: usize, in_vars: &mut bool) -> Result<(), Code> {
        if self.space(vm) != b'"' {
            return Err(Code::JsonSyntax);
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

    fn close(&mut self, vm: &mut Vm<'_>, open: &mut usize, object: u32) -> Result<Value, Code> {
        let mark = vm.stack.get(*open).copied().ok_or(Code::TemplateDamaged)?;
        let first = open.wrapping_add(1);
        let flags = if self.plain { 0 } else { value::CONTENT };
        let mut out = if object == OBJECT {
            vm.make_dict(first)?
        } else {
            let count = vm.sp.saturating_sub(first);
            vm.make_list(value::LIST, count)?
        };
        out.flags = flags;
        vm.sp = *open;
        *open = mark.at();
        Ok(out)
    }

    fn scalar(&mut self, vm: &mut Vm<'_>) -> Result<Value, Code> {
        let start = self.at;
        let mut out = match self.peek(vm) {
            b'"' => return self.string(vm),
            b'-' | b'0'..=b'9' => self.number(vm)?,
            _ => {
                while self.peek(vm).is_ascii_alphabetic() {
                    self.bump();
                }
                match vm.text.slice(self.base.wrapping_add(start), self.at.saturating_sub(start)) {
                    b"true" => Value::bool(true),
                    b"false" => Value::bool(false),
                    b"null" => Value::of(value::NONE),
                    _ => {
                        self.at = start;
                        return Err(Code::JsonSyntax);
                    }
                }
            }
        };
        out.flags = if self.plain { 0 } else { value::CONTENT };
        Ok(out)
    }

    fn number(&mut self, vm: &Vm<'_>) -> Result<Value, Code> {
        let start = self.at;
        while matches!(self.peek(vm), b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') {
            self.bump();
        }
        let text = vm.text.slice(self.base.wrapping_add(start), self.at.saturating_sub(start));
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let bad = match digits {
            [b'0', b'0'..=b'9', ..] | [] | [b'.', ..] | [.., b'.'] | [b'-' | b'+', ..] => true,
            _ => digits
                .windows(2)
                .any(|pair| pair.first() == Some(&b'.') && !pair.last().is_some_and(u8::is_ascii_digit)),
        };
        if bad {
            self.at = start;
            return Err(Code::JsonSyntax);
        }
        if digits.iter().all(u8::is_ascii_digit) {
            let parsed = parse_int(text).ok_or(Code::JsonSyntax)?;
            // Python's integers have no end; ours must not be wrong.
            if digits.len() > 19 || parsed == i64::MAX || parsed == i64::MIN {
                self.at = start;
                return Err(Code::JsonNumber);
            }
            return Ok(Value::int(parsed));
        }
        match parse_float(text) {
            Some(parsed) => Ok(Value::float(parsed)),
            None => {
                self.at = start;
                Err(if digits.len() > super::number::MAX_DIGITS { Code::JsonNumber } else { Code::JsonSyntax })
            }
        }
    }

    fn string(&mut self, vm: &mut Vm<'_>) -> Result<Value, Code> {
        self.bump();
        let start = self.at;
        let mark = vm.text.used();
        // Text of the host is copied, since what lies in the input counts as content.
        let mut copied = self.plain && self.content;
        loop {
            if self.at >= self.end {
                return Err(Code::JsonSyntax);
            }
            let byte = self.peek(vm);
            match byte {
                b'"' => break,
                0..=31 => return Err(Code::JsonSyntax),
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
        Ok(Value::new(value::STR, len as u32, self.base.wrapping_add(start) as u64))
    }

    fn escape(&mut self, vm: &mut Vm<'_>) -> Result<(), Code> {
        let start = self.at;
        self.bump();
        let plain = match self.peek(vm) {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'u' => 0,
            _ => return Err(Code::JsonSyntax),
        };
        self.bump();
        let mut point = plain as u32;
        if plain == 0 {
            point = self.hex(vm)?;
            if matches!(point, 0xd800..=0xdbff) && self.peek(vm) == b'\\' {
                self.bump();
                if self.peek(vm) == b'u' {
                    self.bump();
                    let low = self.hex(vm)?;
                    if matches!(low, 0xdc00..=0xdfff) {
                        point = 0x10000 + ((point & 0x3ff) << 10 | low & 0x3ff);
                    }
                }
            }
            if char::from_u32(point).is_none() {
                self.at = start;
                return Err(Code::InvalidUtf8);
            }
        }
        vm.text.push_char(point, !self.plain)
    }

    fn hex(&mut self, vm: &Vm<'_>) -> Result<u32, Code> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = (self.peek(vm) as char).to_digit(16).ok_or(Code::JsonSyntax)?;
            value = value << 4 | digit;
            self.bump();
        }
        Ok(value)
    }
}
