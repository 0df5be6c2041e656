//! Expressions to instructions: operators and calls.

use super::Fault;
use super::ast::{Args, Expr, ExprKind};
use super::codegen::Codegen;
use super::library;
use tinyrustlm_core::Code;
use tinyrustlm_core::template::op::{self, literal};

impl Codegen {
    /// Leaves the value of an expression on the stack.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<(), Fault> {
        let at = expr.at;
        match &*expr.kind {
            ExprKind::Str(text) => self.text(at, text)?,
            ExprKind::Int(value) => self.int(*value),
            ExprKind::Now(field) => self.op8(op::NOW, *field),
            ExprKind::Float(value) => {
                self.op(op::FLOAT);
                self.out.code.extend(value.to_le_bytes());
            }
            ExprKind::Bool(value) => self.op8(op::LITERAL, if *value { literal::TRUE } else { literal::FALSE }),
            ExprKind::None => self.op8(op::LITERAL, literal::NONE),
            ExprKind::Name(name) => self.load(at, name)?,
            ExprKind::List(items) => self.items(at, op::LIST, items)?,
            ExprKind::Tuple(items) => self.items(at, op::TUPLE, items)?,
            ExprKind::Concat(items) => self.items(at, op::CONCAT, items)?,
            ExprKind::Dict(pairs) => {
                for (key, value) in pairs {
                    self.expr(key)?;
                    self.expr(value)?;
                }
                self.mark(at);
                self.op16(op::DICT, Self::count(at, pairs.len())?);
            }
            ExprKind::Attr(object, name) => {
                self.expr(object)?;
                let name = self.constant(at, name)?;
                self.mark(at);
                self.op16(op::ATTR, name);
            }
            ExprKind::Item(object, key) => {
                self.expr(object)?;
                self.expr(key)?;
                self.mark(at);
                self.op(op::ITEM);
            }
            ExprKind::Slice(object, bounds) => {
                self.expr(object)?;
                for bound in bounds {
                    match bound {
                        Some(bound) => self.expr(bound)?,
                        None => self.op8(op::LITERAL, literal::NONE),
                    }
                }
                self.mark(at);
                self.op(op::SLICE);
            }
            ExprKind::Call(..) => self.call_with(expr, None)?,
            ExprKind::Filter(value, name, args) => {
                if let Some(value) = value {
                    self.expr(value)?;
                }
                self.filter(at, name, args)?;
            }
            ExprKind::Test(value, name, args) => {
                self.expr(value)?;
                let args: Vec<&Expr> = self.plain(at, args)?;
                self.test(at, name, &args)?;
            }
            ExprKind::Not(value) => {
                self.expr(value)?;
                self.op(op::NOT);
            }
            ExprKind::Neg(value) | ExprKind::Pos(value) => {
                self.expr(value)?;
                self.mark(at);
                self.op(if matches!(*expr.kind, ExprKind::Neg(_)) { op::NEG } else { op::POS });
            }
            ExprKind::Binary(which, a, b) => {
                self.expr(a)?;
                self.expr(b)?;
                self.mark(at);
                self.binary(*which)?;
            }
            ExprKind::And(a, b) | ExprKind::Or(a, b) => {
                self.expr(a)?;
                let end = self.jump(&[if matches!(*expr.kind, ExprKind::And(..)) { op::AND } else { op::OR }]);
                self.expr(b)?;
                self.land(end);
            }
            ExprKind::Compare(first, rest) => {
                self.expr(first)?;
                let mut ends = Vec::new();
                for (index, (which, operand)) in rest.iter().enumerate() {
                    self.expr(operand)?;
                    self.mark(at);
                    if index + 1 < rest.len() {
                        ends.push(self.jump(&[op::COMPARE_CHAIN, *which]));
                    } else {
                        self.op8(op::COMPARE, *which);
                    }
                }
                ends.into_iter().for_each(|end| self.land(end));
            }
            ExprKind::Cond(test, then, otherwise) => {
                let soft = std::mem::replace(&mut self.soft, true);
                self.expr(test)?;
                let past = self.jump(&[op::JUMP_FALSE]);
                self.expr(then)?;
                let end = self.jump(&[op::JUMP]);
                self.land(past);
                match otherwise {
                    Some(otherwise) => self.expr(otherwise)?,
                    None => self.op8(op::LITERAL, literal::UNDEFINED),
                }
                self.land(end);
                self.soft = soft;
            }
        }
        Ok(())
    }

    pub(super) fn text(&mut self, at: usize, text: &str) -> Result<(), Fault> {
        let text = self.constant(at, text)?;
        self.op16(op::STR, text);
        Ok(())
    }

    fn items(&mut self, at: usize, op: u8, items: &[Expr]) -> Result<(), Fault> {
        for item in items {
            self.expr(item)?;
        }
        self.mark(at);
        self.op16(op, Self::count(at, items.len())?);
        Ok(())
    }

    /// A call; with `caller`, that macro is a further named argument.
    pub(super) fn call_with(&mut self, call: &Expr, caller: Option<u16>) -> Result<(), Fault> {
        let ExprKind::Call(callee, args) = &*call.kind else {
            return Err(Fault::syntax(call.at, "expected a call"));
        };
        if matches!(&*callee.kind, ExprKind::Name(name) if name == "strftime_now" && self.is_input(name)) {
            return self.expr(&super::time::formatted(call.at, args)?);
        }
        if let (true, ExprKind::Name(name)) = (self.in_library(), &*callee.kind) {
            return self.call_in_library(call.at, name, args);
        }
        if let ExprKind::Attr(object, name) = &*callee.kind {
            self.expr(object)?;
            let name = self.constant(callee.at, name)?;
            self.mark(callee.at);
            self.op16(op::METHOD, name);
        } else {
            self.op8(op::LITERAL, literal::UNDEFINED);
            self.expr(callee)?;
        }
        if args.spread_named.is_some() {
            return Err(Fault::unsupported(call.at, "`**` in a call"));
        }
        if args.spread.is_some() && !(args.named.is_empty() && caller.is_none()) {
            return Err(Fault::unsupported(call.at, "`*` beside named arguments in a call"));
        }
        for arg in args.positional.iter().chain(&args.spread) {
            self.expr(arg)?;
        }
        for (name, value) in &args.named {
            self.text(call.at, name)?;
            self.expr(value)?;
        }
        if let Some(caller) = caller {
            self.text(call.at, "caller")?;
            self.op16(op::MACRO, caller);
        }
        let positional = args.positional.len() + args.spread.is_some() as usize;
        let named = args.named.len() + caller.is_some() as usize;
        let small = |count: usize| u8::try_from(count).map_err(|_| Fault::unsupported(call.at, "so many arguments"));
        self.mark(callee.at);
        self.op8(op::CALL, small(positional)?);
        self.out.code.extend([small(named)?, args.spread.is_some() as u8]);
        Ok(())
    }

    /// A call of the library's own functions, or a failure.
    fn call_in_library(&mut self, at: usize, name: &str, args: &Args) -> Result<(), Fault> {
        let args = self.plain(at, args)?;
        if let ("_fail", [ExprKind::Str(code)]) = (name, &args.iter().map(|arg| &*arg.kind).collect::<Vec<_>>()[..]) {
            let code = Code::ALL.iter().find(|known| known.name() == code);
            return self.fail(at, *code.ok_or(Fault::syntax(at, "no such error"))?, "");
        }
        let fits = library::functions().get(name).is_some_and(|(params, _)| params.len() == args.len());
        if !fits {
            return Err(Fault::syntax(at, format!("the library has no such function `{name}`")));
        }
        for arg in args {
            self.expr(arg)?;
        }
        self.call_library(name)
    }

    /// Arguments by position alone.
    pub(super) fn plain<'e>(&self, at: usize, args: &'e Args) -> Result<Vec<&'e Expr>, Fault> {
        if !args.named.is_empty() || args.spread.is_some() || args.spread_named.is_some() {
            return Err(Fault::unsupported(at, "named or spread arguments here"));
        }
        Ok(args.positional.iter().collect())
    }

    pub(super) fn fail(&mut self, at: usize, code: Code, message: &str) -> Result<(), Fault> {
        let message = self.constant(at, message)?;
        self.mark(at);
        self.op16(op::FAIL, code as u16);
        self.out.code.extend(message.to_le_bytes());
        Ok(())
    }
}
