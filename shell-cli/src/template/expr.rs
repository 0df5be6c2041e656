//! Expressions to instructions: operators and calls.

use super::Fault;
use super::ast::{Args, Expr, ExprKind};
use super::codegen::Codegen;
use super::library;
use super::names::NAMES;
use tinyrustlm_core::Code;
use tinyrustlm_core::template::names::GETTER;
use tinyrustlm_core::template::op::{self, native};
use tinyrustlm_core::template::value::{self, Value};

impl Codegen {
    /// Leaves the value of an expression on the stack.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<(), Fault> {
        let at = expr.at;
        match &*expr.kind {
            ExprKind::Str(text) => self.text(at, text)?,
            ExprKind::Int(value) => self.int(*value),
            ExprKind::Now(field) => {
                self.int(*field as i64);
                self.native(native::NOW, 1);
            }
            ExprKind::Float(value) => self.float(*value),
            ExprKind::Bool(value) => self.push(Value::bool(*value)),
            ExprKind::None => self.push(Value::of(value::NONE)),
            ExprKind::Name(name) => self.load(at, name)?,
            ExprKind::List(items) => self.items(at, value::LIST, items)?,
            ExprKind::Tuple(items) => self.items(at, value::TUPLE, items)?,
            ExprKind::Concat(items) => {
                for item in items {
                    self.expr(item)?;
                    if !matches!(*item.kind, ExprKind::Str(_) | ExprKind::Concat(_)) {
                        self.mark(at);
                        self.op(op::TEXT);
                    }
                }
                self.mark(at);
                self.make(at, value::STR, items.len())?;
            }
            ExprKind::Dict(pairs) => {
                for (key, value) in pairs {
                    self.expr(key)?;
                    self.expr(value)?;
                }
                self.mark(at);
                self.make(at, value::DICT, 2 * pairs.len())?;
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
                        None => self.push(Value::of(value::NONE)),
                    }
                }
                self.mark(at);
                self.call_library("slice")?;
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
                let negative = matches!(*expr.kind, ExprKind::Neg(_));
                if let (true, ExprKind::Int(number)) = (negative, &*value.kind) {
                    self.mark(at);
                    self.int(-number);
                    return Ok(());
                }
                self.expr(value)?;
                self.mark(at);
                self.call_library(if negative { "negative" } else { "positive" })?;
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
                    if index + 1 == rest.len() {
                        self.mark(at);
                        self.binary(*which)?;
                        break;
                    }
                    // The operand is compared with the next one too.
                    let kept = self.fresh(self.function)?;
                    self.op(op::DUP);
                    self.op16(op::STORE, kept);
                    self.mark(at);
                    self.binary(*which)?;
                    ends.push(self.jump(&[op::AND]));
                    self.load_slot(kept);
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
                    None => self.push(Value::of(value::UNDEFINED)),
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

    fn items(&mut self, at: usize, kind: u8, items: &[Expr]) -> Result<(), Fault> {
        for item in items {
            self.expr(item)?;
        }
        self.mark(at);
        self.make(at, kind, items.len())
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
        let getter = |name: &str| NAMES.iter().any(|&(known, kinds)| known == name && kinds & GETTER != 0);
        if let ExprKind::Attr(object, name) = &*callee.kind
            && !getter(name)
        {
            self.expr(object)?;
            let name = self.constant(callee.at, name)?;
            self.mark(callee.at);
            self.op16(op::METHOD, name);
        } else {
            self.push(Value::of(value::UNDEFINED));
            self.expr(callee)?;
        }
        if args.spread_named.is_some() {
            return Err(Fault::unsupported(call.at, "`**` in a call"));
        }
        if args.spread.is_some() && !(args.named.is_empty() && caller.is_none()) {
            return Err(Fault::unsupported(call.at, "`*` beside named arguments in a call"));
        }
        for arg in &args.positional {
            self.expr(arg)?;
        }
        if let Some(spread) = &args.spread {
            self.expr(spread)?;
            self.mark(callee.at);
            self.call_library("list")?;
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
        if let ("_fail", Some(ExprKind::Str(code))) = (name, args.first().map(|arg| &*arg.kind)) {
            let code = Code::ALL.iter().find(|known| known.name() == code);
            let code = *code.ok_or(Fault::syntax(at, "no such error"))?;
            match args.get(1) {
                Some(message) => self.expr(message)?,
                None => self.text(at, "")?,
            }
            self.raise(code);
            return Ok(());
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
        self.mark(at);
        self.text(at, message)?;
        self.raise(code);
        Ok(())
    }

    /// Fails; the message is on the stack.
    fn raise(&mut self, code: Code) {
        self.int(code as i64);
        self.native(native::RAISE, 2);
    }
}
