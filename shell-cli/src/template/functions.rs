//! Functions of a program: macros, call blocks, and what it needs of the library.

use super::Fault;
use super::ast::{Param, Stmt};
use super::codegen::Codegen;
#[cfg(test)]
use super::codegen::Output;
use super::library;
use super::names::NAMES;
use super::scope::reads;
use tinyrustlm_core::template::names::UNSUPPORTED;
use tinyrustlm_core::template::op::{self, takes};
use tinyrustlm_core::template::value::{self, Value};

impl Codegen {
    /// Compiles a function of the library and what it calls, for its tests.
    #[cfg(test)]
    pub fn compile_library(name: &str) -> Result<Output, Fault> {
        let mut codegen = Self::new();
        codegen.function(name)?;
        codegen.library()?;
        Ok(codegen.out)
    }

    /// Compiles what the program needs of the library behind it. A method that the program does not name is not there.
    pub(super) fn library(&mut self) -> Result<(), Fault> {
        self.out.library = self.here();
        let mut names = Vec::new();
        for (name, _) in NAMES {
            let method = format!("method_{name}");
            let known = self.constants.contains_key(*name) && library::functions().contains_key(&method);
            let function = if known { self.function(&method)? } else { UNSUPPORTED };
            names.push((self.constant(0, name)?, function));
        }
        self.out.names = names;
        (self.scopes, self.slots) = Default::default();
        self.scopes.flat = true;
        while let Some(name) = self.waiting.pop() {
            let Some((params, body)) = library::functions().get(&name) else {
                return Err(Fault::unsupported(0, format!("the function `{name}`")));
            };
            self.function = self.functions.len();
            self.functions.push((0, None));
            self.function_body(0, self.used[&name], params, body)?;
        }
        Ok(())
    }

    /// Number of a function of the library.
    pub(super) fn function(&mut self, name: &str) -> Result<u16, Fault> {
        if let Some(index) = self.used.get(name) {
            return Ok(*index);
        }
        let index = Self::count(0, self.out.functions.len())?;
        self.out.functions.push(0);
        self.used.insert(name.to_owned(), index);
        self.waiting.push(name.to_owned());
        Ok(index)
    }

    /// Calls a function of the library that finds all its parameters on the stack.
    pub(super) fn call_library(&mut self, name: &str) -> Result<(), Fault> {
        let function = self.function(name)?;
        self.op16(op::LIBRARY, function);
        Ok(())
    }

    /// Compiles a macro or call block as a function, aside from the way; gives its number.
    pub(super) fn function_of(&mut self, at: usize, params: &[Param], body: &[Stmt]) -> Result<u16, Fault> {
        let index = Self::count(at, self.out.functions.len())?;
        self.out.functions.push(0);
        let past = self.jump(&[op::JUMP]);
        let outer = (self.function, std::mem::take(&mut self.loops), std::mem::replace(&mut self.soft, false));
        self.function = self.functions.len();
        self.functions.push((0, Some(outer.0)));
        self.function_body(at, index, params, body)?;
        (self.function, self.loops, self.soft) = outer;
        self.land(past);
        Ok(index)
    }

    /// Compiles the function that is number `index`, in a scope of its own.
    pub(super) fn function_body(
        &mut self,
        at: usize,
        index: u16,
        params: &[Param],
        body: &[Stmt],
    ) -> Result<(), Fault> {
        let entry = self.here();
        self.scopes.push(self.function);
        let given = |name: &str| params.iter().any(|(param, _)| param == name);
        let mut names = Vec::new();
        for (name, _) in params {
            // Python's methods have few parameters with a name.
            let named = !self.in_library() || library::NAMED.contains(&name.as_str());
            names.push(self.constant(at, if named { name } else { "" })?);
        }
        self.scopes.params(params);
        let mut flags = 0;
        for (name, _) in params {
            let variable = self.scopes.find(name).unwrap_or_default();
            self.slot(&variable)?;
        }
        for (bit, name) in [(takes::CALLER, "caller"), (takes::KWARGS, "kwargs"), (takes::VARARGS, "varargs")] {
            let slot = self.fresh(self.function)?;
            if reads(body, name) && !given(name) {
                flags |= bit;
                let variable = self.scopes.parameter(name);
                self.slots.insert(variable, slot);
                if bit == takes::CALLER {
                    names.push(self.constant(at, name)?);
                }
            } else if bit == takes::CALLER
                && reads(body, name)
                && params.iter().any(|(p, default)| p == name && default.is_none())
            {
                return Err(Fault::syntax(at, "a parameter `caller` needs a default"));
            }
        }
        let head = self.head(&names, Self::count(at, params.len())?, flags)?;
        self.scopes.body(body);
        if !self.in_library() {
            self.op(op::MARK);
        }
        self.enter()?;
        for (slot, (_, default)) in params.iter().enumerate() {
            let slot = Self::count(at, slot)?;
            if let Some(default) = default {
                self.load_slot(slot);
                self.op(op::TEST);
                self.out.code.extend(op::test::MISSING.to_le_bytes());
                let given = self.jump(&[op::JUMP_FALSE]);
                self.expr(default)?;
                self.op16(op::STORE, slot);
                self.land(given);
            }
        }
        self.body(body)?;
        if self.in_library() {
            self.push(Value::of(value::UNDEFINED));
        } else {
            self.op(op::CAPTURED);
        }
        self.op(op::RESULT);
        self.scopes.pop();
        self.end_head(head);
        self.out.functions[index as usize] = entry;
        Ok(())
    }
}
