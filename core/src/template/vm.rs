//! The machine: one loop over the instructions, a stack and a heap of values, text that only grows. Every access is
//! checked, so no program, however damaged, does more than fail.

use super::op;
use super::text::{self, Text};
use super::unicode::Unicode;
use super::value::{self, Value};
use super::{Fail, Now, Program};
use crate::error::Code;
use core::cell::Cell;

/// State of one rendering.
#[derive(Debug)]
pub struct Vm<'m> {
    pub(super) text: Text<'m>,
    pub(super) program: Program<'m>,
    pub(super) unicode: Unicode<'m>,
    /// The stack, and behind it the heap.
    pub(super) memory: &'m mut [u64],
    pub(super) stack_end: usize,
    pub(super) sp: usize,
    /// End of what the heap holds.
    pub(super) top: usize,
    /// First slot of the running function; its record stands below.
    pub(super) base: usize,
    /// Next byte of the code, and first byte of the instruction that runs.
    pub(super) pc: usize,
    pub(super) at: usize,
    pub(super) serial: usize,
    steps: Cell<u32>,
    pub(super) out: &'m mut [u8],
    pub(super) out_bits: &'m mut [u8],
    pub(super) out_len: usize,
    pub(super) input: Value,
    pub(super) vars: Value,
    pub(super) defaults: Value,
    pub(super) now: Now,
    /// What stands in the output is a message.
    pub(super) spoken: bool,
    why: Cell<Option<Code>>,
}

impl<'m> Vm<'m> {
    pub(super) fn new(
        program: Program<'m>,
        unicode: Unicode<'m>,
        text: Text<'m>,
        memory: &'m mut [u64],
        out: &'m mut [u8],
        out_bits: &'m mut [u8],
        now: Now,
    ) -> Self {
        let stack_end = memory.len() / 4;
        let none = Value::of(value::DICT);
        Self {
            text,
            program,
            unicode,
            memory,
            stack_end,
            sp: 0,
            top: stack_end,
            base: 0,
            pc: 0,
            at: 0,
            serial: 0,
            steps: Cell::new(super::MAX_STEPS),
            out,
            out_bits,
            out_len: 0,
            input: none,
            vars: none,
            defaults: none,
            now,
            spoken: false,
            why: Cell::new(None),
        }
    }

    /// Fails for a reason. The first reason counts.
    #[inline(always)]
    pub(super) fn fail<T>(&self, code: Code) -> Result<T, Fail> {
        Err(self.blame(code))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn blame(&self, code: Code) -> Fail {
        self.why.set(self.why.get().or(Some(code)));
        Fail
    }

    /// Why it failed. The only failure that does not say so is that text found no more room.
    pub(super) fn why(&self) -> Code {
        self.why.get().unwrap_or(Code::TemplateMemory)
    }

    /// What is there, or a failure.
    pub(super) fn need<T>(&self, item: Option<T>, code: Code) -> Result<T, Fail> {
        match item {
            Some(item) => Ok(item),
            None => self.fail(code),
        }
    }

    /// Takes steps from what is left.
    pub(super) fn charge(&self, steps: usize) -> Result<(), Fail> {
        let left = self.steps.get().checked_sub(steps.min(u32::MAX as usize) as u32);
        self.steps.set(left.unwrap_or(0));
        if left.is_some() { Ok(()) } else { self.fail(Code::TemplateSteps) }
    }

    pub(super) fn u8(&mut self) -> u8 {
        self.number(1) as u8
    }

    /// The next bytes of the code as a number. Behind its end the program halts.
    #[inline(never)]
    fn number(&mut self, bytes: usize) -> u64 {
        let mut sum = 0;
        for index in 0..bytes {
            let byte = self.program.code.get(self.pc).copied().unwrap_or(op::HALT);
            self.pc = self.pc.wrapping_add(1);
            sum |= (byte as u64) << (8 * index);
        }
        sum
    }

    pub(super) fn u16(&mut self) -> usize {
        self.number(2) as usize
    }

    pub(super) fn constant(&mut self) -> Value {
        let index = self.u16();
        self.program.string(index)
    }

    /// A slot of the running function.
    pub(super) fn slot(&self, slot: usize) -> Value {
        self.load(self.base.wrapping_add(slot))
    }

    pub(super) fn set_slot(&mut self, slot: usize, item: Value) {
        self.store(self.base.wrapping_add(slot), item);
    }

    /// Takes back what was printed after `mark`, as a string.
    fn captured(&mut self, mark: usize) -> Result<Value, Fail> {
        let start = self.text.used();
        self.charge(self.out_len.saturating_sub(mark) / 4)?;
        for index in mark..self.out_len {
            let byte = self.out.get(index).copied().unwrap_or(0);
            self.text.push(byte, text::bit(self.out_bits, index))?;
        }
        self.out_len = self.out_len.min(mark);
        Ok(self.text.since(start))
    }

    /// Prints a string.
    fn emit(&mut self, item: Value) -> Result<(), Fail> {
        self.charge(item.len() / 4)?;
        let bytes = self.text.of(item);
        let end = self.out_len.wrapping_add(bytes.len());
        match self.out.get_mut(self.out_len..end) {
            Some(to) => to.copy_from_slice(bytes),
            None => return self.fail(Code::OutputBufferExceeded),
        }
        for i in 0..bytes.len() {
            let content = self.text.is_content(item.at().wrapping_add(i));
            text::set_bit(self.out_bits, self.out_len.wrapping_add(i), content);
        }
        self.out_len = end;
        Ok(())
    }

    /// Looks a name up as the reference does: the caller's variables, then the template's own.
    fn resolve(&mut self) -> Result<(), Fail> {
        let (name, visible) = (self.constant(), self.u8() != 0);
        let input = if visible { self.input } else { Value::of(value::DICT) };
        let mut found = self.pop();
        // What comes last hides what came before.
        for dict in [self.defaults, self.vars, input] {
            if let Some(slot) = self.dict_find(dict, name)? {
                found = self.load(slot.wrapping_add(1));
            }
        }
        self.push(found)
    }

    /// Runs the first function of the program, the template, to its end.
    pub(super) fn run(&mut self) -> Result<(), Fail> {
        self.library(0)?;
        self.go()
    }

    /// What a function of the library gives for a value.
    pub(super) fn ask(&mut self, function: u8, item: Value) -> Result<Value, Fail> {
        self.push(item)?;
        // It returns to where there is no code, which ends the run.
        self.pc = self.program.code.len();
        self.operator(function)?;
        self.go()?;
        Ok(self.pop())
    }

    fn go(&mut self) -> Result<(), Fail> {
        loop {
            self.charge(1)?;
            // In the library a fault is where the library was called.
            if self.pc < self.program.library {
                self.at = self.pc;
            }
            // What an instruction leaves on the stack; those that leave nothing go on at once.
            let result = match self.u8() {
                op::STR => self.constant(),
                op::PUSH => Value::from_word(self.number(8)),
                op::WIDE => {
                    let kind = self.u8();
                    let word = self.number(8);
                    self.cell(kind, word)?
                }
                code @ (op::LOAD | op::LOAD_RAW) => {
                    let up = self.u8();
                    let slot = self.u16();
                    let item = self.load(self.frame(up)?.wrapping_add(slot));
                    if code == op::LOAD && item.kind() == value::MISSING { Value::of(value::UNDEFINED) } else { item }
                }
                op::STORE => {
                    let slot = self.u16();
                    let item = self.pop();
                    self.set_slot(slot, item);
                    continue;
                }
                op::RESOLVE => {
                    self.resolve()?;
                    continue;
                }
                op::EMIT => {
                    let (item, mark) = (self.pop(), self.text.used());
                    // Where the library makes a text of it, this instruction comes again.
                    self.pc = self.pc.wrapping_sub(1);
                    if let Some(text) = self.text_of(item)? {
                        self.pc = self.pc.wrapping_add(1);
                        self.emit(text)?;
                        self.text.release(mark);
                    }
                    continue;
                }
                op::TEXT => {
                    let item = self.pop();
                    match self.text_of(item)? {
                        Some(text) => text,
                        None => continue,
                    }
                }
                op::POP => {
                    self.pop();
                    continue;
                }
                op::DUP => self.peek(0),
                code @ op::JUMP..=op::OR => {
                    let target = self.number(4) as usize;
                    let truth = self.truthy(self.peek(0));
                    let go = code == op::JUMP || truth == (code == op::OR);
                    if go {
                        self.pc = target;
                    }
                    if code == op::JUMP_FALSE || code != op::JUMP && !go {
                        self.pop();
                    }
                    continue;
                }
                op::NOT => {
                    let item = self.pop();
                    Value::bool(!self.truthy(item))
                }
                op::BINARY => {
                    let which = self.u8();
                    let result = self.binary(which, self.peek(1), self.peek(0))?;
                    if result.kind() == value::MISSING {
                        self.operator(which)?;
                        continue;
                    }
                    self.sp = self.sp.wrapping_sub(2);
                    result
                }
                op::MAKE => {
                    let kind = self.u8();
                    let count = self.u16();
                    self.make(kind, count)?
                }
                code @ (op::ATTR | op::ITEM) => {
                    let key = if code == op::ITEM { self.pop() } else { Value::of(value::MISSING) };
                    let object = self.pop();
                    let found = if code == op::ITEM { self.item(object, key)? } else { self.attribute(object)? };
                    match found.kind() {
                        value::GETTER => {
                            self.push(object)?;
                            self.get(found.len())?;
                            continue;
                        }
                        // A method that is not called at once takes its object along.
                        value::METHOD if found.at() == 0 => {
                            let cell = self.cell(value::METHOD, object.word())?;
                            Value::new(value::METHOD, cell.at(), found.len())
                        }
                        _ => found,
                    }
                }
                op::METHOD => self.attribute(self.peek(0))?,
                op::CALL => {
                    let (positional, named, spread) = (self.u8(), self.u8(), self.u8());
                    self.call(positional as usize, named as usize, spread != 0)?;
                    continue;
                }
                op::LIBRARY => {
                    let function = self.u16();
                    self.library(function)?;
                    continue;
                }
                op::NATIVE => {
                    let (which, count) = (self.u8(), self.u8());
                    self.native(which, count as usize)?
                }
                op::TEST => {
                    let set = self.number(8);
                    let item = self.pop();
                    let mut lacking = if self.truthy(item) { op::test::FALSE } else { op::test::TRUE };
                    if item.flags() & value::MARKUP == 0 {
                        lacking |= op::test::SAFE;
                    }
                    Value::bool(set >> item.kind() & 1 != 0 && set & lacking == 0)
                }
                op::ITER => {
                    let slot = self.u16();
                    self.begin_loop(slot)?;
                    continue;
                }
                op::NEXT => {
                    let slot = self.u16();
                    let end = self.number(4) as usize;
                    let item = self.advance(slot);
                    if item.kind() == value::MISSING {
                        self.pc = end;
                        continue;
                    }
                    item
                }
                op::LOOP => {
                    let slot = self.u16();
                    let serial = self.slot(slot.wrapping_add(2)).len();
                    Value::new(value::LOOP, self.base.wrapping_add(slot), serial)
                }
                op::UNPACK => {
                    let count = self.u16();
                    self.unpack(count)?;
                    continue;
                }
                op::MARK => Value::new(value::MARK, self.sp, self.out_len),
                op::COLLECTED => {
                    let kind = self.u8();
                    let mark = self.pop();
                    self.make(kind, self.sp.saturating_sub(mark.at()))?
                }
                op::CAPTURED => {
                    let mark = self.pop();
                    self.captured(mark.len())?
                }
                op::MACRO => {
                    let index = self.u16();
                    let serial = self.load(self.base.wrapping_sub(2)).len();
                    Value::new(value::MACRO, self.base, index << 16 | serial)
                }
                op::RESULT => {
                    let result = self.pop();
                    self.leave();
                    result
                }
                op::HALT => return Ok(()),
                _ => return self.fail(Code::TemplateDamaged),
            };
            self.push(result)?;
        }
    }

    /// Puts a message where the caller of the rendering finds it.
    pub(super) fn fail_with(&mut self, message: Value) {
        self.out_len = 0;
        self.spoken = true;
        let bytes = self.text.of(message);
        let len = bytes.len().min(self.out.len());
        if let (Some(to), Some(from)) = (self.out.get_mut(..len), bytes.get(..len)) {
            to.copy_from_slice(from);
            self.out_len = len;
        }
    }
}
