//! Statements to instructions.

use super::Fault;
use super::ast::{Expr, Stmt, StmtKind, Target};
use super::codegen::Codegen;
use super::scope::{Scopes, reads};
use tinyrustlm_core::Code;
use tinyrustlm_core::template::op;
use tinyrustlm_core::template::value::{self, Value};

/// A loop that `break` and `continue` may leave.
pub(super) struct Loop {
    next: u32,
    breaks: Vec<usize>,
    /// Captures open inside it.
    captures: usize,
}

impl Codegen {
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
                self.text(at, text)?;
                self.op(op::EMIT);
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
            StmtKind::Collect(value) => self.expr(value)?,
            StmtKind::Forever(body) => {
                let next = self.here();
                self.loops.push(Loop { next, breaks: Vec::new(), captures: 0 });
                self.body(body)?;
                self.jump_back(op::JUMP, next);
                self.end_loop();
            }
            StmtKind::Gather { kind, name, each, body } => {
                let collected = self.begin_collecting()?;
                if let Some((target, iter)) = each {
                    self.expr(iter)?;
                    let state = self.iterate()?;
                    let next = self.here();
                    let end = self.next(state);
                    self.loops.push(Loop { next, breaks: vec![end], captures: 0 });
                    self.assign(at, target)?;
                    self.body(body)?;
                    self.jump_back(op::JUMP, next);
                    self.end_loop();
                } else {
                    self.body(body)?;
                }
                self.collected(*kind, collected);
                self.store(at, name)?;
            }
            StmtKind::Break | StmtKind::Continue => {
                let Some(innermost) = self.loops.last() else {
                    return Err(Fault::syntax(at, "`break` or `continue` outside of a loop"));
                };
                let (next, captures) = (innermost.next, innermost.captures);
                for _ in 0..captures {
                    self.op(op::CAPTURED);
                    self.op(op::POP);
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
                codegen.op(op::MARK);
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
                Some(variable) => {
                    self.placed(op::LOAD_RAW, &variable)?;
                    self.call_library("check_namespace")?;
                    self.op(op::POP);
                    Ok(())
                }
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
                if attribute.starts_with('_') {
                    return self.fail(at, Code::TemplateSecurityError, "");
                }
                self.placed(op::LOAD_RAW, &variable)?;
                self.text(at, attribute)?;
                self.call_library("set_attribute")?;
                self.op(op::POP);
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
        let mut state = self.iterate()?;
        if let Some(test) = test {
            let analyse = |scopes: &mut Scopes| {
                scopes.target(target, true);
                scopes.expr(test);
            };
            self.scoped(analyse, |codegen| {
                codegen.enter()?;
                codegen.collecting(state, |codegen| {
                    codegen.op(op::DUP);
                    codegen.assign(at, target)?;
                    codegen.expr(test)
                })
            })?;
            state = self.iterate()?;
        }
        // Runs the `else` unless the end of a body was reached.
        let untouched = if otherwise.is_empty() { None } else { Some(self.fresh(self.function)?) };
        let flag = |codegen: &mut Self, value: bool| {
            if let Some(slot) = untouched {
                codegen.push(Value::bool(value));
                codegen.op16(op::STORE, slot);
            }
        };
        flag(self, true);
        let next = self.here();
        self.mark(at);
        let end = self.next(state);
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
                codegen.op16(op::LOOP, state);
                codegen.op16(op::STORE, slot);
            }
            if !codegen.in_library() {
                codegen.enter()?;
            }
            codegen.body(body)
        })?;
        flag(self, false);
        self.jump_back(op::JUMP, next);
        self.end_loop();
        if let Some(slot) = untouched {
            self.load_slot(slot);
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

    /// Begins a loop over the value on the stack; gives the first of its slots.
    pub(super) fn iterate(&mut self) -> Result<u16, Fault> {
        let state = self.fresh(self.function)?;
        self.fresh(self.function)?;
        self.fresh(self.function)?;
        self.op16(op::ITER, state);
        Ok(state)
    }

    /// The next item of a loop on the stack, or the jump that is landed where the loop ends.
    pub(super) fn next(&mut self, state: u16) -> usize {
        let [low, high] = state.to_le_bytes();
        self.jump(&[op::NEXT, low, high])
    }

    /// What is left on the stack from here on is collected; gives the slot that remembers where.
    pub(super) fn begin_collecting(&mut self) -> Result<u16, Fault> {
        let slot = self.fresh(self.function)?;
        self.op(op::MARK);
        self.op16(op::STORE, slot);
        Ok(slot)
    }

    /// What was collected becomes one value.
    pub(super) fn collected(&mut self, kind: u8, slot: u16) {
        self.load_slot(slot);
        self.op8(op::COLLECTED, kind);
    }

    /// Lists the items of a loop for which `test`, which finds one on top of the stack, leaves true above it.
    pub(super) fn collecting(
        &mut self,
        state: u16,
        test: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let collected = self.begin_collecting()?;
        let next = self.here();
        let end = self.next(state);
        test(self)?;
        let skip = self.jump(&[op::JUMP_FALSE]);
        self.jump_back(op::JUMP, next);
        self.land(skip);
        self.op(op::POP);
        self.jump_back(op::JUMP, next);
        self.land(end);
        self.collected(value::LIST, collected);
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
