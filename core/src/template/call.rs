//! Calls of functions: those of the template, those of the library, and methods, which are the library's too.

use super::Fail;
use super::value::{self, Value};
use super::vm::Vm;
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

impl Vm<'_> {
    /// On the stack: object, callee, positional arguments, pairs of name and value. Begins the function.
    pub(super) fn call(&mut self, positional: usize, named: usize, spread: bool) -> Result<(), Fail> {
        let mut positional = positional;
        if spread {
            if named > 0 {
                return self.fail(Code::TemplateUnsupported);
            }
            let more = self.pop();
            let more = self.listed(more)?;
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
                    at => self.load(at.wrapping_sub(1)),
                };
                args.first = first.wrapping_sub(1);
                args.positional = positional.wrapping_add(1);
                self.store(args.first, object);
            }
            _ if callee.is_undefined() => return self.fail(Self::misuse(callee)),
            _ => return self.fail(Code::TemplateTypeError),
        }
        self.begin_function(function, callee, args)
    }

    /// Begins a function of the library that finds all its parameters on the stack.
    pub(super) fn library(&mut self, function: usize) -> Result<(), Fail> {
        let positional = self.program.macro_at(function).map_or(0, |def| def.params);
        let first = self.sp.wrapping_sub(positional);
        self.begin_function(function, Value::of(value::MARK), Args { first, positional, named: 0, restore: first })
    }

    /// Begins the library's function for an operator.
    pub(super) fn hook(&mut self, number: usize, a: Value, b: Value) -> Result<(), Fail> {
        self.push(a)?;
        self.push(b)?;
        self.library(super::u16_at(self.program.hooks, number).unwrap_or(0) as usize)
    }

    /// Begins a function: its arguments become its first slots.
    fn begin_function(&mut self, function: usize, callee: Value, args: Args) -> Result<(), Fail> {
        let Args { first, positional, named, restore } = args;
        // Methods and functions that this machine lacks have a number that no function has.
        let def = self.need(self.program.macro_at(function), Code::TemplateUnsupported)?;
        self.enter(def.entry, def.slots, callee, restore)?;
        let params = def.params;
        let given = positional.min(params);
        for slot in 0..given {
            self.set_slot(slot, self.load(first.wrapping_add(slot)));
        }
        // A caller is one more parameter, by name alone.
        let last = params.wrapping_add(def.takes_caller as usize);
        let rest = self.sp;
        for pair in 0..named {
            let index = first.wrapping_add(positional).wrapping_add(2 * pair);
            let (name, item) = (self.load(index), self.load(index.wrapping_add(1)));
            let slot = (given..last).find(|&slot| {
                let param = self.program.param(def.first_param.wrapping_add(slot));
                self.text.of(param) == self.text.of(name)
            });
            match slot {
                Some(slot) => self.set_slot(slot, item),
                None if !def.takes_kwargs => return self.fail(Code::TemplateTypeError),
                None => {
                    self.push(name)?;
                    self.push(item)?;
                }
            }
        }
        if def.takes_kwargs {
            let kwargs = self.make_dict(rest)?;
            self.set_slot(params.wrapping_add(1), kwargs);
        }
        if !def.takes_varargs {
            return if positional > params { self.fail(Code::TemplateTypeError) } else { Ok(()) };
        }
        for index in params..positional {
            self.push(self.load(first.wrapping_add(index)))?;
        }
        let varargs = self.make_list(value::TUPLE, positional.saturating_sub(params))?;
        self.set_slot(params.wrapping_add(2), varargs);
        Ok(())
    }
}
