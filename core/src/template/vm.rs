//! The machine: one loop over the instructions, a stack and a heap of values, text that only grows. Every access is
//! checked, so no program, however damaged, does more than fail.

use super::op::{self, absent, literal};
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
    base: usize,
    /// Next byte of the code, and first byte of the instruction that runs.
    pc: usize,
    pub(super) at: usize,
    serial: usize,
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

/// Values of a function's record below its slots.
const RECORD: usize = 3;
/// Values of a loop's state.
pub(super) const STATE: usize = 4;

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
    fn blame(&self, code: Code) -> Fail {
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

    fn u8(&mut self) -> u8 {
        let byte = self.program.code.get(self.pc).copied().unwrap_or(op::HALT);
        self.pc = self.pc.wrapping_add(1);
        byte
    }

    fn number(&mut self, bytes: u32) -> u64 {
        let mut sum = 0;
        for i in 0..bytes {
            sum |= (self.u8() as u64) << (8 * i);
        }
        sum
    }

    fn u16(&mut self) -> usize {
        self.number(2) as usize
    }

    fn u32(&mut self) -> usize {
        self.number(4) as usize
    }

    /// Reads an address and goes there when `go`.
    fn jump(&mut self, go: bool) {
        let target = self.u32();
        if go {
            self.pc = target;
        }
    }

    fn constant(&mut self) -> Value {
        let index = self.u16();
        self.program.string(index)
    }

    /// `object.name`, with the name next in the code.
    fn attribute(&mut self, object: Value) -> Result<Value, Fail> {
        let index = self.u16();
        self.named_attribute(object, self.program.string(index), self.program.attribute_number(index))
    }

    /// First slot of the function that many levels outward.
    fn frame(&self, up: u8) -> Result<usize, Fail> {
        let mut base = self.base;
        for _ in 0..up {
            base = self.live(self.load(base.wrapping_sub(1)))?;
        }
        Ok(base)
    }

    /// The base a link names, when that function still runs.
    pub(super) fn live(&self, link: Value) -> Result<usize, Fail> {
        let record = self.load(link.at().wrapping_sub(2));
        if link.at() <= self.sp && record.kind() == value::MARK && record.len() as u16 == link.len() as u16 {
            return Ok(link.at());
        }
        self.fail(Code::TemplateUnsupported)
    }

    pub(super) fn set_slot(&mut self, slot: usize, item: Value) {
        self.store(self.base.wrapping_add(slot), item);
    }

    /// Begins a function: record, empty slots. `link` names the function that encloses it.
    pub(super) fn enter(&mut self, entry: usize, slots: usize, link: Value, restore: usize) -> Result<(), Fail> {
        self.serial = self.serial.wrapping_add(1);
        self.push(Value::new(value::MARK, self.base, self.pc))?;
        self.push(Value::new(value::MARK, restore, self.serial as u16 as usize))?;
        self.push(link.seen_as(value::MARK))?;
        self.base = self.sp;
        for _ in 0..slots {
            self.push(Value::of(value::MISSING))?;
        }
        self.pc = entry;
        Ok(())
    }

    /// Ends a function.
    fn leave(&mut self) {
        let record = self.base.wrapping_sub(RECORD);
        let (back, mark) = (self.load(record), self.load(record.wrapping_add(1)));
        self.pc = back.len();
        self.base = back.at();
        self.sp = mark.at();
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

    /// Looks a name up as the reference does: the caller's variables, then the template's own, then the functions.
    fn resolve(&mut self) -> Result<(), Fail> {
        let (name, slot) = (self.constant(), self.u16());
        let (input, absent) = (self.u8() != 0, self.u16() as u16);
        let mut found = match absent {
            absent::MISSING => Value::of(value::MISSING),
            absent::NONE => Value::of(value::NONE),
            absent::FALSE => Value::bool(false),
            function => Value::new(value::FUNCTION, 0, function as usize),
        };
        // What comes last hides what came before.
        for dict in [self.defaults, self.vars, if input { self.input } else { Value::of(value::DICT) }] {
            if let Some(slot) = self.dict_find(dict, name)? {
                found = self.load(slot.wrapping_add(1));
            }
        }
        self.set_slot(slot, found);
        Ok(())
    }

    /// Runs from `entry` with so many slots to the end of the template.
    pub(super) fn run(&mut self, slots: usize) -> Result<(), Fail> {
        self.enter(0, slots, Value::of(value::MARK), 0)?;
        loop {
            self.charge(1)?;
            // In the library a fault is where the library was called.
            if self.pc < self.program.library {
                self.at = self.pc;
            }
            // What an instruction leaves on the stack; those that leave nothing go on at once.
            let result = match self.u8() {
                op::STR => self.constant(),
                op::INT => {
                    let number = self.number(8) as i64;
                    self.integer(number)?
                }
                op::FLOAT => {
                    let number = f64::from_bits(self.number(8));
                    self.float(number)?
                }
                op::LITERAL => match self.u8() {
                    literal::NONE => Value::of(value::NONE),
                    literal::TRUE => Value::bool(true),
                    literal::FALSE => Value::bool(false),
                    literal::MISSING => Value::of(value::MISSING),
                    _ => Value::of(value::UNDEFINED),
                },
                op::LOAD => {
                    let mut item = self.variable()?;
                    if item.kind() == value::MISSING {
                        item = Value::of(value::UNDEFINED);
                    }
                    item
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
                op::ALIAS => {
                    let item = self.variable()?;
                    let slot = self.u16();
                    self.set_slot(slot, item);
                    continue;
                }
                op::CLEAR => {
                    let slot = self.u16();
                    self.set_slot(slot, Value::of(value::MISSING));
                    continue;
                }
                op::EMIT => {
                    let item = self.pop();
                    if item.kind() == value::STR {
                        self.emit(item)?;
                    } else {
                        let mark = self.text.used();
                        self.print(item)?;
                        self.emit(self.text.since(mark))?;
                        self.text.release(mark);
                    }
                    continue;
                }
                op::EMIT_STR => {
                    let item = self.constant();
                    self.emit(item)?;
                    continue;
                }
                op::POP => {
                    self.pop();
                    continue;
                }
                op::JUMP => {
                    self.jump(true);
                    continue;
                }
                op::JUMP_FALSE => {
                    let item = self.pop();
                    let go = !self.truthy(item);
                    self.jump(go);
                    continue;
                }
                code @ (op::AND | op::OR) => {
                    let item = self.peek(0);
                    let keep = self.truthy(item) == (code == op::OR);
                    self.jump(keep);
                    if !keep {
                        self.pop();
                    }
                    continue;
                }
                op::JUMP_GIVEN => {
                    let slot = self.u16();
                    let given = self.load(self.base.wrapping_add(slot)).kind() != value::MISSING;
                    self.jump(given);
                    continue;
                }
                op::NOT => {
                    let item = self.pop();
                    Value::bool(!self.truthy(item))
                }
                code @ (op::NEG | op::POS) => {
                    let item = self.pop();
                    self.sign(item, code == op::NEG)?
                }
                op::BINARY => {
                    let which = self.u8();
                    self.binary(which)?;
                    continue;
                }
                op::COMPARE => {
                    let which = self.u8();
                    let (b, a) = (self.pop(), self.pop());
                    let result = self.compare(which, a, b)?;
                    Value::bool(result)
                }
                op::COMPARE_CHAIN => {
                    let which = self.u8();
                    let (b, a) = (self.pop(), self.pop());
                    let holds = self.compare(which, a, b)?;
                    self.push(if holds { b } else { Value::bool(false) })?;
                    self.jump(!holds);
                    continue;
                }
                op::CONCAT => {
                    let count = self.u16();
                    self.concat(count)?
                }
                code @ (op::LIST | op::TUPLE) => {
                    let count = self.u16();
                    let kind = if code == op::LIST { value::LIST } else { value::TUPLE };
                    self.make_list(kind, count)?
                }
                op::DICT => {
                    let count = self.u16();
                    let first = self.sp.wrapping_sub(2 * count);
                    self.make_dict(first)?
                }
                op::ATTR => {
                    let object = self.pop();
                    let result = self.attribute(object)?;
                    self.bind(result, object)?
                }
                op::ITEM => {
                    let (key, object) = (self.pop(), self.pop());
                    let result = self.item(object, key)?;
                    self.bind(result, object)?
                }
                op::SLICE => {
                    let (step, stop, start, object) = (self.pop(), self.pop(), self.pop(), self.pop());
                    self.slice(object, start, stop, step)?
                }
                op::METHOD => {
                    let object = self.peek(0);
                    self.attribute(object)?
                }
                op::CALL => {
                    let (positional, named, spread) = (self.u8(), self.u8(), self.u8());
                    self.call(positional as usize, named as usize, spread != 0)?;
                    continue;
                }
                op::NATIVE => {
                    let (which, count) = (self.u8(), self.u8());
                    self.native(which, count as usize)?
                }
                op::LIBRARY => {
                    let function = self.u16();
                    self.library(function)?;
                    continue;
                }
                op::TEST => {
                    let set = self.number(8);
                    let item = self.pop();
                    let truth = self.truthy(item);
                    let fits =
                        set >> item.kind() & 1 != 0 && set & if truth { op::test::FALSE } else { op::test::TRUE } == 0;
                    Value::bool(fits)
                }
                op::NOW => {
                    let field = self.u8();
                    Value::small(self.now.field(field) as i64)
                }
                op::ITER => {
                    let source = self.pop();
                    let source = self.iterable(source)?;
                    self.serial = self.serial.wrapping_add(1);
                    let length = self.length(source).unwrap_or(0);
                    self.push(source)?;
                    self.push(Value::new(value::MARK, 0, length))?;
                    self.push(Value::new(value::MARK, self.serial, 0))?;
                    Value::of(value::MARK)
                }
                op::NEXT => {
                    let next = self.advance()?;
                    self.jump(next.is_none());
                    match next {
                        Some(item) => item,
                        None => continue,
                    }
                }
                op::ITER_END => {
                    self.sp = self.sp.wrapping_sub(STATE);
                    continue;
                }
                op::UNPACK => {
                    let count = self.u16();
                    self.unpack(count)?;
                    continue;
                }
                op::LOOP => {
                    let slot = self.u16();
                    let serial = self.peek(1).at();
                    self.set_slot(slot, Value::new(value::LOOP, self.sp.wrapping_sub(STATE), serial));
                    continue;
                }
                op::COLLECT => {
                    let item = self.pop();
                    let (position, aux, cursor, source) = (self.pop(), self.pop(), self.pop(), self.pop());
                    let aux = Value::new(value::MARK, aux.at(), aux.len().wrapping_add(1));
                    for part in [item, source, cursor, aux, position] {
                        self.push(part)?;
                    }
                    continue;
                }
                op::COLLECTED => {
                    let lazy = self.u8() != 0;
                    let aux = self.peek(1);
                    self.sp = self.sp.wrapping_sub(STATE);
                    let list = self.make_list(value::LIST, aux.len())?;
                    if lazy { self.generator(list)? } else { list }
                }
                op::CAPTURE => Value::new(value::MARK, self.out_len, 0),
                code @ (op::CAPTURED | op::CAPTURE_DROP) => {
                    let mark = self.pop();
                    if code == op::CAPTURE_DROP {
                        self.out_len = self.out_len.min(mark.at());
                        continue;
                    }
                    self.captured(mark.at())?
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
                op::SET_ATTR => {
                    let namespace = self.variable()?;
                    let name = self.constant();
                    let item = self.pop();
                    self.set_attribute(namespace, name, item)?;
                    continue;
                }
                op::NAMESPACE => {
                    if self.variable()?.kind() != value::NAMESPACE {
                        return self.fail(Code::TemplateRuntimeError);
                    }
                    continue;
                }
                op::FAIL => {
                    let number = self.u16();
                    let message = self.constant();
                    self.fail_with(message);
                    return self.fail(super::code_of(number));
                }
                op::HALT => return Ok(()),
                op::DUP => self.peek(0),
                _ => return self.fail(Code::TemplateDamaged),
            };
            self.push(result)?;
        }
    }

    fn variable(&mut self) -> Result<Value, Fail> {
        let up = self.u8();
        let slot = self.u16();
        Ok(self.load(self.frame(up)?.wrapping_add(slot)))
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
