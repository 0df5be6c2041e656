//! Syntax tree to program: statements, and the variables they use.

use super::Fault;
use super::ast::{Expr, Stmt, StmtKind, Target};
use super::library;
use super::scope::{Load, Scopes, Variable, reads};
use std::collections::{BTreeSet, HashMap};
use tinyrustlm_core::template::names::UNSUPPORTED;
use tinyrustlm_core::template::op::{self, absent, hook, literal, native};

/// The parts of a program.
#[derive(Debug, Default)]
pub struct Output {
    /// Constants, each once.
    pub strings: Vec<String>,
    /// Entry, slots, parameters, first parameter, flags of each macro.
    pub macros: Vec<Macro>,
    /// Constants with the names of parameters.
    pub params: Vec<u16>,
    /// Instructions.
    pub code: Vec<u8>,
    /// Address in the code and offset in the source, ascending.
    pub positions: Vec<(u32, u32)>,
    /// Slots of the outermost function.
    pub slots: u16,
    /// Names looked up in the input.
    pub inputs: BTreeSet<String>,
    /// Address at which the library's functions begin.
    pub library: u32,
    /// Functions that operators call.
    pub hooks: [u16; 2],
    /// Constant and function of each of [`NAMES`].
    pub names: Vec<(u16, u16)>,
}

/// A macro of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Macro {
    /// Address of its first instruction.
    pub entry: u32,
    /// Slots it needs.
    pub slots: u16,
    /// Parameters, which have the first slots; three more are for caller, kwargs and varargs.
    pub params: u16,
    /// Index of its first parameter's name.
    pub first_param: u16,
    /// 1 takes a caller, 2 further named, 4 further positional arguments.
    pub flags: u16,
}

/// A loop that `break` and `continue` may leave.
pub(super) struct Loop {
    next: u32,
    breaks: Vec<usize>,
    /// Captures open inside it.
    captures: usize,
}

/// Compiles one template.
pub struct Codegen {
    pub(super) out: Output,
    pub(super) constants: HashMap<String, u16>,
    pub(super) scopes: Scopes,
    /// Slots of each function so far, and the function that encloses it.
    pub(super) functions: Vec<(u16, Option<usize>)>,
    pub(super) function: usize,
    pub(super) slots: HashMap<Variable, u16>,
    pub(super) loops: Vec<Loop>,
    pub(super) soft: bool,
    /// Functions of the library in use, and those of them that are not compiled yet.
    pub(super) used: HashMap<String, u16>,
    pub(super) waiting: Vec<String>,
}

impl Codegen {
    pub(super) fn new() -> Self {
        Self {
            out: Output { hooks: [UNSUPPORTED; 2], ..Output::default() },
            constants: HashMap::new(),
            scopes: Scopes::default(),
            functions: vec![(0, None)],
            function: 0,
            slots: HashMap::new(),
            loops: Vec::new(),
            soft: false,
            used: HashMap::new(),
            waiting: Vec::new(),
        }
    }

    /// Compiles the statements of a template.
    pub fn compile(body: &[Stmt]) -> Result<Output, Fault> {
        let mut codegen = Self::new();
        codegen.scopes.push(0);
        codegen.scopes.body(body);
        codegen.enter()?;
        codegen.body(body)?;
        codegen.op(op::HALT);
        codegen.out.slots = codegen.functions[0].0;
        codegen.library()?;
        Ok(codegen.out)
    }

    /// Whether the library is being compiled.
    pub(super) fn in_library(&self) -> bool {
        self.scopes.flat
    }

    pub(super) fn native(&mut self, which: u8, count: u8) -> Result<(), Fault> {
        if (which, count) == (native::FLAGS, 1) {
            self.out.hooks[hook::ADD_MARKUP] = self.function("add_markup")?;
        }
        self.op8(op::NATIVE, which);
        self.op(count);
        Ok(())
    }

    pub(super) fn binary(&mut self, which: u8) -> Result<(), Fault> {
        if which == op::binary::MOD && !self.in_library() {
            self.out.hooks[hook::PERCENT] = self.function("percent")?;
        }
        self.op8(op::BINARY, which);
        Ok(())
    }

    pub(super) fn op(&mut self, op: u8) {
        self.out.code.push(op);
    }

    pub(super) fn op8(&mut self, op: u8, operand: u8) {
        self.out.code.extend([op, operand]);
    }

    pub(super) fn op16(&mut self, op: u8, operand: u16) {
        self.op(op);
        self.out.code.extend(operand.to_le_bytes());
    }

    /// An instruction that ends in an address, which [`Self::land`] fills in.
    pub(super) fn jump(&mut self, bytes: &[u8]) -> usize {
        self.out.code.extend(bytes);
        self.out.code.extend([0; 4]);
        self.out.code.len() - 4
    }

    /// Lets a jump go to what comes next.
    pub(super) fn land(&mut self, jump: usize) {
        let here = self.here();
        self.out.code[jump..jump + 4].copy_from_slice(&here.to_le_bytes());
    }

    pub(super) fn here(&self) -> u32 {
        self.out.code.len() as u32
    }

    pub(super) fn jump_back(&mut self, op: u8, to: u32) {
        self.op(op);
        self.out.code.extend(to.to_le_bytes());
    }

    /// What follows in the code stands at `at` in the source.
    pub(super) fn mark(&mut self, at: usize) {
        if self.in_library() {
            return;
        }
        let (pc, at) = (self.here(), at as u32);
        match self.out.positions.last_mut() {
            Some(last) if last.1 == at => {}
            Some(last) if last.0 == pc => last.1 = at,
            _ => self.out.positions.push((pc, at)),
        }
    }

    pub(super) fn constant(&mut self, at: usize, text: &str) -> Result<u16, Fault> {
        if let Some(index) = self.constants.get(text) {
            return Ok(*index);
        }
        let index = u16::try_from(self.out.strings.len()).ok().filter(|&index| index < u16::MAX);
        let index = index.filter(|_| text.len() < 1 << 24).ok_or(Fault::unsupported(at, "so many or so long texts"))?;
        self.out.strings.push(text.to_owned());
        self.constants.insert(text.to_owned(), index);
        Ok(index)
    }

    pub(super) fn count(at: usize, count: usize) -> Result<u16, Fault> {
        u16::try_from(count).map_err(|_| Fault::unsupported(at, "so many items"))
    }

    /// A new slot of the running function.
    pub(super) fn fresh(&mut self, function: usize) -> Result<u16, Fault> {
        let next = &mut self.functions[function].0;
        *next = next.checked_add(1).ok_or(Fault::unsupported(0, "so many variables"))?;
        Ok(*next - 1)
    }

    pub(super) fn slot(&mut self, variable: &Variable) -> Result<u16, Fault> {
        if let Some(slot) = self.slots.get(variable) {
            return Ok(*slot);
        }
        let slot = self.fresh(self.scopes.function_of(variable))?;
        self.slots.insert(variable.clone(), slot);
        Ok(slot)
    }

    /// Functions outward, and slot.
    fn place(&mut self, variable: &Variable) -> Result<(u8, u16), Fault> {
        let home = self.scopes.function_of(variable);
        let (mut at, mut up) = (self.function, 0u8);
        while at != home {
            at = self.functions[at].1.unwrap_or(home);
            up = up.checked_add(1).ok_or(Fault::unsupported(0, "macros nested so deep"))?;
        }
        Ok((up, self.slot(variable)?))
    }

    fn placed(&mut self, op: u8, variable: &Variable) -> Result<(), Fault> {
        let (up, slot) = self.place(variable)?;
        self.op8(op, up);
        self.out.code.extend(slot.to_le_bytes());
        Ok(())
    }

    fn missing_name<T>(at: usize, name: &str) -> Result<T, Fault> {
        Err(Fault::unsupported(at, format!("the name `{name}` here")))
    }

    /// Whether a name is looked up in the input, and never set by the template.
    pub(super) fn is_input(&self, name: &str) -> bool {
        let variable = self.scopes.find(name);
        variable.is_some_and(|variable| self.scopes.load_of(&variable) == Some(&Load::Resolve))
    }

    /// Pushes a variable.
    pub(super) fn load(&mut self, at: usize, name: &str) -> Result<(), Fault> {
        match self.scopes.find(name) {
            Some(variable) => self.placed(op::LOAD, &variable),
            None => Self::missing_name(at, name),
        }
    }

    fn store(&mut self, at: usize, name: &str) -> Result<(), Fault> {
        let Some(variable) = self.scopes.find(name) else { return Self::missing_name(at, name) };
        let slot = self.slot(&variable)?;
        self.op16(op::STORE, slot);
        Ok(())
    }

    /// Gives the innermost scope's variables their first values.
    pub(super) fn enter(&mut self) -> Result<(), Fault> {
        for (variable, load) in self.scopes.top().loads.clone() {
            let slot = self.slot(&variable)?;
            if self.in_library() {
                // All slots of a function begin missing.
                let name = &variable.1;
                let function = library::functions().contains_key(name) || name == "_fail";
                if load == Load::Resolve && !function && !self.scopes.sets(name) {
                    return Self::missing_name(0, name);
                }
                continue;
            }
            match load {
                Load::Parameter => {}
                Load::Missing => self.op16(op::CLEAR, slot),
                Load::Alias(outer) => {
                    self.placed(op::ALIAS, &outer)?;
                    self.out.code.extend(slot.to_le_bytes());
                }
                Load::Resolve => {
                    if matches!(variable.1.as_str(), "cycler" | "joiner" | "lipsum") {
                        return Err(Fault::unsupported(0, format!("the function `{}`", variable.1)));
                    }
                    self.out.inputs.insert(variable.1.clone());
                    let name = self.constant(0, &variable.1)?;
                    let (visible, absent) = self.absent(&variable.1)?;
                    self.op16(op::RESOLVE, name);
                    self.out.code.extend(slot.to_le_bytes());
                    self.op(visible as u8);
                    self.out.code.extend(absent.to_le_bytes());
                }
            }
        }
        Ok(())
    }

    /// Whether a name is looked up in the input itself, and what it is when it is nowhere.
    fn absent(&mut self, name: &str) -> Result<(bool, u16), Fault> {
        Ok(match name {
            "messages" => (true, absent::MISSING),
            "tools" | "documents" => (true, absent::NONE),
            "add_generation_prompt" => (true, absent::FALSE),
            // With a constant format it is no call; otherwise it is refused when it is called.
            "strftime_now" => (false, absent::UNSUPPORTED),
            "namespace" | "raise_exception" | "range" | "dict" => (false, self.function(&format!("function_{name}"))?),
            _ => (false, absent::MISSING),
        })
    }

    /// A scope around a part of the same function.
    fn scoped(
        &mut self,
        analyse: impl FnOnce(&mut Scopes),
        emit: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if self.in_library() {
            return emit(self);
        }
        self.scopes.push(self.function);
        analyse(&mut self.scopes);
        let soft = std::mem::replace(&mut self.soft, false);
        emit(self)?;
        self.soft = soft;
        self.scopes.pop();
        Ok(())
    }

    pub(super) fn body(&mut self, body: &[Stmt]) -> Result<(), Fault> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn softly(&mut self, emit: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        let soft = std::mem::replace(&mut self.soft, true);
        emit(self)?;
        self.soft = soft;
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Fault> {
        let at = stmt.at;
        self.mark(at);
        match &stmt.kind {
            StmtKind::Data(_) if self.in_library() => {}
            StmtKind::Data(text) => {
                let text = self.constant(at, text)?;
                self.op16(op::EMIT_STR, text);
            }
            StmtKind::Print(expr) => {
                self.expr(expr)?;
                self.mark(at);
                self.op(op::EMIT);
            }
            StmtKind::If { test, body, elifs, otherwise } => {
                let branches = std::iter::once((test, body)).chain(elifs.iter().map(|(test, body)| (test, body)));
                let mut ends = Vec::new();
                for (test, body) in branches {
                    self.mark(test.at);
                    self.softly(|codegen| {
                        codegen.expr(test)?;
                        let past = codegen.jump(&[op::JUMP_FALSE]);
                        codegen.body(body)?;
                        ends.push(codegen.jump(&[op::JUMP]));
                        codegen.land(past);
                        Ok(())
                    })?;
                }
                self.softly(|codegen| codegen.body(otherwise))?;
                ends.into_iter().for_each(|end| self.land(end));
            }
            StmtKind::For { target, iter, test, body, otherwise } => {
                self.for_loop(at, target, iter, test, body, otherwise)?
            }
            StmtKind::Set(target, value) => {
                self.check_namespaces(at, target)?;
                self.expr(value)?;
                self.mark(at);
                self.assign(at, target)?;
            }
            StmtKind::SetBlock { target, filter, body } => {
                self.captured(body, |codegen| match filter {
                    Some(filter) => codegen.expr(filter),
                    None => Ok(()),
                })?;
                self.check_namespaces(at, target)?;
                self.assign(at, target)?;
            }
            StmtKind::FilterBlock { filter, body } => {
                self.captured(body, |codegen| codegen.expr(filter))?;
                self.op(op::EMIT);
            }
            StmtKind::Macro { name, params, body } => {
                let index = self.function_of(at, params, body)?;
                self.op16(op::MACRO, index);
                self.store(at, name)?;
            }
            StmtKind::CallBlock { params, call, body } => {
                let caller = self.function_of(at, params, body)?;
                self.call_with(call, Some(caller))?;
                self.op(op::EMIT);
            }
            StmtKind::Generation(body) => {
                let loops = std::mem::take(&mut self.loops);
                self.scoped(
                    |scopes| scopes.body(body),
                    |codegen| {
                        codegen.enter()?;
                        codegen.body(body)
                    },
                )?;
                self.loops = loops;
            }
            StmtKind::With { targets, body } => {
                // Values first, outside; then the scope.
                for (_, value) in targets {
                    self.expr(value)?;
                }
                let analyse = |scopes: &mut Scopes| {
                    targets.iter().for_each(|(target, _)| scopes.target(target, true));
                    scopes.body(body);
                };
                self.scoped(analyse, |codegen| {
                    for (target, _) in targets.iter().rev() {
                        codegen.assign(at, target)?;
                    }
                    codegen.enter()?;
                    codegen.body(body)
                })?;
            }
            StmtKind::Return(value) => {
                self.expr(value)?;
                self.op(op::RESULT);
            }
            StmtKind::Collect(value) => {
                self.expr(value)?;
                self.op(op::COLLECT);
            }
            StmtKind::Forever(body) => {
                let next = self.here();
                self.loops.push(Loop { next, breaks: Vec::new(), captures: 0 });
                self.body(body)?;
                self.jump_back(op::JUMP, next);
                self.end_loop();
            }
            StmtKind::Gather { name, each, body } => {
                match each {
                    Some((_, iter)) => self.expr(iter)?,
                    None => self.op16(op::TUPLE, 0),
                }
                self.op(op::ITER);
                if let Some((target, _)) = each {
                    let next = self.here();
                    let end = self.jump(&[op::NEXT]);
                    self.loops.push(Loop { next, breaks: vec![end], captures: 0 });
                    self.assign(at, target)?;
                    self.body(body)?;
                    self.jump_back(op::JUMP, next);
                    self.end_loop();
                } else {
                    self.body(body)?;
                }
                self.op8(op::COLLECTED, 0);
                self.store(at, name)?;
            }
            StmtKind::Break | StmtKind::Continue => {
                let Some(innermost) = self.loops.last() else {
                    return Err(Fault::syntax(at, "`break` or `continue` outside of a loop"));
                };
                let (next, captures) = (innermost.next, innermost.captures);
                for _ in 0..captures {
                    self.op(op::CAPTURE_DROP);
                }
                if stmt.kind == StmtKind::Continue {
                    self.jump_back(op::JUMP, next);
                } else {
                    let jump = self.jump(&[op::JUMP]);
                    self.loops.last_mut().into_iter().for_each(|innermost| innermost.breaks.push(jump));
                }
            }
        }
        Ok(())
    }

    /// What a body prints, as a string on the stack that `then` may change; both in the body's scope.
    fn captured(&mut self, body: &[Stmt], then: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        self.scoped(
            |scopes| scopes.body(body),
            |codegen| {
                codegen.enter()?;
                codegen.op(op::CAPTURE);
                codegen.loops.iter_mut().last().into_iter().for_each(|innermost| innermost.captures += 1);
                codegen.body(body)?;
                codegen.loops.iter_mut().last().into_iter().for_each(|innermost| innermost.captures -= 1);
                codegen.op(op::CAPTURED);
                then(codegen)
            },
        )
    }

    /// Namespaces are checked before the value is computed.
    fn check_namespaces(&mut self, at: usize, target: &Target) -> Result<(), Fault> {
        match target {
            Target::Attr(namespace, _) => match self.scopes.find(namespace) {
                Some(variable) => self.placed(op::NAMESPACE, &variable),
                None => Self::missing_name(at, namespace),
            },
            Target::Tuple(items) => items.iter().try_for_each(|item| self.check_namespaces(at, item)),
            Target::Name(_) => Ok(()),
        }
    }

    /// Pops the top of the stack into a target.
    fn assign(&mut self, at: usize, target: &Target) -> Result<(), Fault> {
        match target {
            Target::Name(name) => self.store(at, name),
            Target::Attr(namespace, attribute) => {
                let Some(variable) = self.scopes.find(namespace) else { return Self::missing_name(at, namespace) };
                self.placed(op::SET_ATTR, &variable)?;
                let attribute = self.constant(at, attribute)?;
                self.out.code.extend(attribute.to_le_bytes());
                Ok(())
            }
            Target::Tuple(items) => {
                self.op16(op::UNPACK, Self::count(at, items.len())?);
                items.iter().try_for_each(|item| self.assign(at, item))
            }
        }
    }

    fn for_loop(
        &mut self,
        at: usize,
        target: &Target,
        iter: &Expr,
        test: &Option<Expr>,
        body: &[Stmt],
        otherwise: &[Stmt],
    ) -> Result<(), Fault> {
        if writes_loop(target, body) {
            return Err(Fault::syntax(at, "cannot assign to the special variable `loop`"));
        }
        self.expr(iter)?;
        self.mark(iter.at);
        self.op(op::ITER);
        if let Some(test) = test {
            let analyse = |scopes: &mut Scopes| {
                scopes.target(target, true);
                scopes.expr(test);
            };
            self.scoped(analyse, |codegen| {
                codegen.enter()?;
                codegen.collecting(0, |codegen| {
                    codegen.op(op::DUP);
                    codegen.assign(at, target)?;
                    codegen.expr(test)
                })
            })?;
            self.op(op::ITER);
        }
        // Runs the `else` unless the end of a body was reached.
        let untouched = if otherwise.is_empty() { None } else { Some(self.fresh(self.function)?) };
        let flag = |codegen: &mut Self, value: u8| {
            if let Some(slot) = untouched {
                codegen.op8(op::LITERAL, value);
                codegen.op16(op::STORE, slot);
            }
        };
        flag(self, literal::TRUE);
        let next = self.here();
        self.mark(at);
        let end = self.jump(&[op::NEXT]);
        self.loops.push(Loop { next, breaks: vec![end], captures: 0 });
        let extended = reads(body, "loop") && !self.in_library();
        let analyse = |scopes: &mut Scopes| {
            if extended {
                scopes.parameter("loop");
            }
            scopes.target(target, true);
            scopes.body(body);
        };
        self.scoped(analyse, |codegen| {
            codegen.assign(at, target)?;
            if extended && let Some(variable) = codegen.scopes.find("loop") {
                let slot = codegen.slot(&variable)?;
                codegen.op16(op::LOOP, slot);
            }
            if !codegen.in_library() {
                codegen.enter()?;
            }
            codegen.body(body)
        })?;
        flag(self, literal::FALSE);
        self.jump_back(op::JUMP, next);
        self.end_loop();
        self.op(op::ITER_END);
        if let Some(slot) = untouched {
            self.op8(op::LOAD, 0);
            self.out.code.extend(slot.to_le_bytes());
            let past = self.jump(&[op::JUMP_FALSE]);
            self.scoped(
                |scopes| scopes.body(otherwise),
                |codegen| {
                    codegen.enter()?;
                    codegen.body(otherwise)
                },
            )?;
            self.land(past);
        }
        Ok(())
    }

    /// Goes through the loop state on the stack and keeps each item for which `test`, which finds it on top of the
    /// stack, leaves true above it.
    pub(super) fn collecting(
        &mut self,
        lazy: u8,
        test: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let next = self.here();
        let end = self.jump(&[op::NEXT]);
        test(self)?;
        let skip = self.jump(&[op::JUMP_FALSE]);
        self.op(op::COLLECT);
        self.jump_back(op::JUMP, next);
        self.land(skip);
        self.op(op::POP);
        self.jump_back(op::JUMP, next);
        self.land(end);
        self.op8(op::COLLECTED, lazy);
        Ok(())
    }

    /// Ends the innermost loop: those who left it go on here.
    fn end_loop(&mut self) {
        let breaks = self.loops.pop().map_or(Vec::new(), |done| done.breaks);
        breaks.into_iter().for_each(|jump| self.land(jump));
    }
}

fn writes_loop(target: &Target, body: &[Stmt]) -> bool {
    fn in_target(target: &Target) -> bool {
        match target {
            Target::Name(name) => name == "loop",
            Target::Tuple(items) => items.iter().any(in_target),
            Target::Attr(..) => false,
        }
    }
    in_target(target)
        || body.iter().any(|stmt| match &stmt.kind {
            StmtKind::Set(target, _) | StmtKind::SetBlock { target, .. } => in_target(target),
            StmtKind::If { body, elifs, otherwise, .. } => {
                let parts = elifs.iter().map(|(_, body)| body).chain([body, otherwise]);
                parts.into_iter().any(|body| writes_loop(&Target::Tuple(Vec::new()), body))
            }
            StmtKind::For { target, body, otherwise, .. } => {
                writes_loop(target, body) || writes_loop(target, otherwise)
            }
            _ => false,
        })
}
