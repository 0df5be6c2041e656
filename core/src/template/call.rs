//! Calls of functions: those of the template, those of the library, and methods, which are the library's too.

use super::op::takes;
use super::value::{self, Value};
use super::vm::Vm;
use super::{Fail, u16_at, u32_at};
use crate::error::Code;

/// The arguments of a call: where they stand on the stack, how many positional ones and how many pairs of name and value.
#[derive(Clone, Copy, Debug)]
struct Args {
    first: usize,
    positional: usize,
    named: usize,
    /// Where the stack ends when the call is done.
    restore: usize,
}

/// Number of positional arguments: as many as there are parameters, on top of the stack.
const ALL: usize = usize::MAX;
/// Values of a function's record below its slots: where to go on, how far the stack is dropped, the enclosing function.
const RECORD: usize = 3;

impl Vm<'_> {
    /// On the stack: object, callee, positional arguments, pairs of name and value. Begins the function.
    pub(super) fn call(&mut self, positional: usize, named: usize, spread: bool) -> Result<(), Fail> {
        let mut positional = positional;
        if spread {
            // The library made it a list.
            let more = self.pop();
            for index in 0..more.len() {
                self.push(self.entry(more, index))?;
            }
            positional = positional.wrapping_sub(1).wrapping_add(more.len());
        }
        let first = self.sp.wrapping_sub(positional.wrapping_add(2 * named));
        let restore = first.wrapping_sub(2);
        let callee = self.load(restore.wrapping_add(1));
        let mut args = Args { first, positional, named, restore };
        let mut function = callee.len();
        match callee.kind() {
            value::MACRO => {
                function >>= 16;
                self.live(callee)?;
            }
            value::FUNCTION => {}
            value::METHOD => {
                // The object is the first argument: it takes the callee's place.
                let object = match callee.at() {
                    0 => self.load(restore),
                    at => self.load(at),
                };
                args.first = first.wrapping_sub(1);
                args.positional = positional.wrapping_add(1);
                self.store(args.first, object);
            }
            _ => return Err(self.refuse(callee)),
        }
        self.enter(function, callee, args)
    }

    /// Begins a function of the library that finds all its parameters on the stack.
    pub(super) fn library(&mut self, function: usize) -> Result<(), Fail> {
        self.enter(function, Value::of(value::MARK), Args { first: 0, positional: ALL, named: 0, restore: 0 })
    }

    /// Begins the function that gives an attribute of the loop on top of the stack.
    pub(super) fn get(&mut self, function: usize) -> Result<(), Fail> {
        let first = self.sp.wrapping_sub(1);
        self.enter(function, Value::of(value::MARK), Args { first, positional: 1, named: 0, restore: first })
    }

    /// Begins the library's function for an operator, whose operands stand on the stack.
    pub(super) fn operator(&mut self, which: u8) -> Result<(), Fail> {
        self.library(u16_at(self.program.operators, which as usize).unwrap_or(u16::MAX) as usize)
    }

    /// Begins a function: record, slots, of which its arguments are the first. `link` names the function that encloses it.
    fn enter(&mut self, function: usize, link: Value, args: Args) -> Result<(), Fail> {
        // Methods and functions that this machine lacks have a number that no function has.
        let entry = self.need(u32_at(self.program.functions, function), Code::TemplateUnsupported)?;
        let back = Value::new(value::MARK, self.base, self.pc);
        self.pc = entry as usize;
        let (slots, params, flags) = (self.u16(), self.u16(), self.u8());
        let Args { mut first, mut positional, named, mut restore } = args;
        if positional == ALL {
            first = self.sp.wrapping_sub(params);
            (positional, restore) = (params, first);
        }
        self.serial = self.serial.wrapping_add(1);
        self.push(back)?;
        self.push(Value::new(value::MARK, restore, self.serial as u16 as usize))?;
        self.push(link.seen_as(value::MARK))?;
        self.base = self.sp;
        for _ in 0..slots {
            self.push(Value::of(value::MISSING))?;
        }
        let given = positional.min(params);
        self.move_words(first, self.base, given);
        // A caller is one more parameter, by name alone. The names follow in the code.
        let last = params.wrapping_add((flags & takes::CALLER) as usize);
        let (names, rest) = (self.pc, self.sp);
        for pair in 0..named {
            let index = first.wrapping_add(positional).wrapping_add(2 * pair);
            let (name, item) = (self.load(index), self.load(index.wrapping_add(1)));
            let mut taken = false;
            self.pc = names;
            for slot in 0..last {
                let param = self.constant();
                if slot >= given && self.same(param, name) {
                    taken = true;
                    self.set_slot(slot, item);
                }
            }
            if !taken {
                if flags & takes::KWARGS == 0 {
                    return self.fail(Code::TemplateTypeError);
                }
                self.push(name)?;
                self.push(item)?;
            }
        }
        self.pc = names.wrapping_add(2 * last);
        if flags & takes::KWARGS != 0 {
            let kwargs = self.make(value::DICT, self.sp.saturating_sub(rest))?;
            self.set_slot(params.wrapping_add(1), kwargs);
        }
        if flags & takes::VARARGS != 0 {
            for index in params..positional {
                self.push(self.load(first.wrapping_add(index)))?;
            }
            let varargs = self.make(value::TUPLE, positional.saturating_sub(params))?;
            self.set_slot(params.wrapping_add(2), varargs);
        } else if positional > params {
            return self.fail(Code::TemplateTypeError);
        }
        Ok(())
    }

    /// Ends a function.
    pub(super) fn leave(&mut self) {
        let record = self.base.wrapping_sub(RECORD);
        let (back, mark) = (self.load(record), self.load(record.wrapping_add(1)));
        self.pc = back.len();
        self.base = back.at();
        self.sp = mark.at();
    }

    /// First slot of the function that many levels outward.
    pub(super) fn frame(&self, up: u8) -> Result<usize, Fail> {
        let mut base = self.base;
        for _ in 0..up {
            base = self.live(self.load(base.wrapping_sub(1)))?;
        }
        Ok(base)
    }

    /// The base a link names, when that function still runs.
    fn live(&self, link: Value) -> Result<usize, Fail> {
        let record = self.load(link.at().wrapping_sub(2));
        if link.at() <= self.sp && record.kind() == value::MARK && record.len() as u16 == link.len() as u16 {
            return Ok(link.at());
        }
        self.fail(Code::TemplateUnsupported)
    }
}
