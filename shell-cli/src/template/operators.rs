//! Tokens to a syntax tree: expressions, with the reference's precedences.

use super::Fault;
use super::ast::{Args, Expr, ExprKind};
use super::codegen::NEGATED;
use super::lexer::Kind;
use super::parser::{Parser, is, named};
use tinyrustlm_core::template::op::binary;

impl Parser<'_> {
    /// One expression, or several with commas between as a tuple.
    pub(super) fn tuple(&mut self, conditional: bool, ends: &[&str], parentheses: bool) -> Result<Expr, Fault> {
        let at = self.peek().at;
        let (mut items, tuple) = self.listed(ends, |parser| parser.expression(conditional))?;
        if !tuple {
            match items.pop() {
                Some(item) => return Ok(item),
                None if !parentheses => return self.unexpected("an expression"),
                None => {}
            }
        }
        self.expr(at, ExprKind::Tuple(items))
    }

    pub(super) fn expression(&mut self, conditional: bool) -> Result<Expr, Fault> {
        self.deeper(|parser| if conditional { parser.conditional() } else { parser.or() })
    }

    pub(super) fn conditional(&mut self) -> Result<Expr, Fault> {
        let mut expr = self.or()?;
        while self.skip_name("if") {
            let test = self.or()?;
            let otherwise = if self.skip_name("else") { Some(self.deeper(Self::conditional)?) } else { None };
            expr = self.expr(expr.at, ExprKind::Cond(test, expr, otherwise))?;
        }
        Ok(expr)
    }

    pub(super) fn or(&mut self) -> Result<Expr, Fault> {
        let mut left = self.and()?;
        while self.skip_name("or") {
            let right = self.and()?;
            left = self.expr(left.at, ExprKind::Or(left, right))?;
        }
        Ok(left)
    }

    pub(super) fn and(&mut self) -> Result<Expr, Fault> {
        let mut left = self.not()?;
        while self.skip_name("and") {
            let right = self.not()?;
            left = self.expr(left.at, ExprKind::And(left, right))?;
        }
        Ok(left)
    }

    pub(super) fn not(&mut self) -> Result<Expr, Fault> {
        let at = self.peek().at;
        if self.skip_name("not") {
            let inner = self.deeper(Self::not)?;
            return self.expr(at, ExprKind::Not(inner));
        }
        self.compare()
    }

    pub(super) fn compare(&mut self) -> Result<Expr, Fault> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let op = match &self.peek().kind {
                Kind::Op("==") => binary::EQ,
                Kind::Op("!=") => binary::EQ | NEGATED,
                Kind::Op("<") => binary::LT,
                Kind::Op("<=") => binary::LE,
                Kind::Op(">") => binary::GT,
                Kind::Op(">=") => binary::GE,
                Kind::Name(name) if name == "in" => binary::IN,
                Kind::Name(name) if name == "not" && named(self.look(), "in") => {
                    self.at += 1;
                    binary::IN | NEGATED
                }
                _ => break,
            };
            self.at += 1;
            rest.push((op, self.sum()?));
        }
        if rest.is_empty() { Ok(first) } else { self.expr(first.at, ExprKind::Compare(first, rest)) }
    }

    pub(super) fn binary(
        &mut self,
        ops: &[(&str, u8)],
        operand: fn(&mut Self) -> Result<Expr, Fault>,
    ) -> Result<Expr, Fault> {
        let mut left = operand(self)?;
        while let Some((_, op)) = ops.iter().find(|(text, _)| is(self.peek(), text)) {
            self.at += 1;
            let right = operand(self)?;
            left = self.expr(left.at, ExprKind::Binary(*op, left, right))?;
        }
        Ok(left)
    }

    pub(super) fn sum(&mut self) -> Result<Expr, Fault> {
        self.binary(&[("+", binary::ADD), ("-", binary::SUB)], Self::concat)
    }

    pub(super) fn concat(&mut self) -> Result<Expr, Fault> {
        let at = self.peek().at;
        let mut items = vec![self.product()?];
        while self.skip("~") {
            items.push(self.product()?);
        }
        match items.pop() {
            Some(only) if items.is_empty() => Ok(only),
            last => {
                items.extend(last);
                self.expr(at, ExprKind::Concat(items))
            }
        }
    }

    pub(super) fn product(&mut self) -> Result<Expr, Fault> {
        let ops = [("*", binary::MUL), ("/", binary::DIV), ("//", binary::FLOORDIV), ("%", binary::MOD)];
        self.binary(&ops, Self::power)
    }

    pub(super) fn power(&mut self) -> Result<Expr, Fault> {
        // To the left, unlike in Python.
        self.binary(&[("**", binary::POW)], |parser| parser.unary(true))
    }

    pub(super) fn unary(&mut self, filters: bool) -> Result<Expr, Fault> {
        let at = self.peek().at;
        let node = if self.skip("-") {
            let inner = self.deeper(|parser| parser.unary(false))?;
            self.expr(at, ExprKind::Neg(inner))?
        } else if self.skip("+") {
            let inner = self.deeper(|parser| parser.unary(false))?;
            self.expr(at, ExprKind::Pos(inner))?
        } else {
            self.primary()?
        };
        let node = self.postfix(node)?;
        if filters { self.filter_expr(node) } else { Ok(node) }
    }

    pub(super) fn primary(&mut self) -> Result<Expr, Fault> {
        let token = self.peek();
        let at = token.at;
        let kind = match &token.kind {
            Kind::Name(name) => {
                self.at += 1;
                match name.as_str() {
                    "true" | "True" => ExprKind::Bool(true),
                    "false" | "False" => ExprKind::Bool(false),
                    "none" | "None" => ExprKind::None,
                    _ => ExprKind::Name(name.clone()),
                }
            }
            Kind::Str(_) => {
                let mut text = String::new();
                while let Kind::Str(part) = &self.peek().kind {
                    text.push_str(part);
                    self.at += 1;
                }
                ExprKind::Str(text)
            }
            Kind::Int(value) => {
                self.at += 1;
                ExprKind::Int(*value)
            }
            Kind::Float(value) => {
                self.at += 1;
                ExprKind::Float(*value)
            }
            Kind::Op("(") => {
                self.at += 1;
                let inner = self.tuple(true, &[], true)?;
                self.expect(")")?;
                return Ok(inner);
            }
            Kind::Op("[") => {
                self.at += 1;
                let mut items = Vec::new();
                while !self.skip("]") {
                    if !items.is_empty() {
                        self.expect(",")?;
                        if self.skip("]") {
                            break;
                        }
                    }
                    items.push(self.expression(true)?);
                }
                ExprKind::List(items)
            }
            Kind::Op("{") => {
                self.at += 1;
                let mut pairs = Vec::new();
                while !self.skip("}") {
                    if !pairs.is_empty() {
                        self.expect(",")?;
                        if self.skip("}") {
                            break;
                        }
                    }
                    let key = self.expression(true)?;
                    self.expect(":")?;
                    pairs.push((key, self.expression(true)?));
                }
                ExprKind::Dict(pairs)
            }
            _ => return self.unexpected("an expression"),
        };
        self.expr(at, kind)
    }

    pub(super) fn postfix(&mut self, mut node: Expr) -> Result<Expr, Fault> {
        loop {
            node = match self.peek().kind {
                Kind::Op(".") | Kind::Op("[") => self.subscript(node)?,
                Kind::Op("(") => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    pub(super) fn filter_expr(&mut self, mut node: Expr) -> Result<Expr, Fault> {
        loop {
            node = match &self.peek().kind {
                Kind::Op("|") => self.filters(Some(node))?,
                Kind::Name(name) if name == "is" => self.test(node)?,
                Kind::Op("(") => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    pub(super) fn call(&mut self, node: Expr) -> Result<Expr, Fault> {
        let at = node.at;
        let args = self.args()?;
        self.expr(at, ExprKind::Call(node, args))
    }

    pub(super) fn subscript(&mut self, node: Expr) -> Result<Expr, Fault> {
        let at = self.peek().at;
        if self.skip(".") {
            return match &self.peek().kind {
                Kind::Name(name) => {
                    self.at += 1;
                    self.expr(at, ExprKind::Attr(node, name.clone()))
                }
                Kind::Int(index) => {
                    let key = self.expr(self.peek().at, ExprKind::Int(*index))?;
                    self.at += 1;
                    self.expr(at, ExprKind::Item(node, key))
                }
                _ => self.unexpected("a name or number"),
            };
        }
        self.expect("[")?;
        let start = self.peek().at;
        let first = if is(self.peek(), ":") { None } else { Some(self.expression(true)?) };
        if self.skip(":") {
            let end = |parser: &Self| is(parser.peek(), "]") || is(parser.peek(), ",");
            let second = if is(self.peek(), ":") || end(self) { None } else { Some(self.expression(true)?) };
            let third = if self.skip(":") && !end(self) { Some(self.expression(true)?) } else { None };
            if is(self.peek(), ",") {
                return Err(Fault::unsupported(start, "a slice inside a tuple"));
            }
            self.expect("]")?;
            return self.expr(at, ExprKind::Slice(node, [first, second, third]));
        }
        let Some(mut key) = first else { return self.unexpected("an expression") };
        if is(self.peek(), ",") {
            let mut items = vec![key];
            while self.skip(",") {
                if is(self.peek(), "]") {
                    break;
                }
                items.push(self.expression(true)?);
            }
            key = self.expr(start, ExprKind::Tuple(items))?;
        }
        self.expect("]")?;
        self.expr(at, ExprKind::Item(node, key))
    }

    pub(super) fn args(&mut self) -> Result<Args, Fault> {
        let at = self.peek().at;
        self.expect("(")?;
        let mut args = Args::default();
        let mut comma = false;
        let bad = || Err(Fault::syntax(at, "invalid order of arguments"));
        while !self.skip(")") {
            if comma {
                self.expect(",")?;
                if self.skip(")") {
                    break;
                }
            }
            comma = true;
            if self.skip("*") {
                if args.spread.is_some() || args.spread_named.is_some() {
                    return bad();
                }
                args.spread = Some(self.expression(true)?);
            } else if self.skip("**") {
                if args.spread_named.is_some() {
                    return bad();
                }
                args.spread_named = Some(self.expression(true)?);
            } else if matches!(self.peek().kind, Kind::Name(_)) && is(self.look(), "=") {
                if args.spread_named.is_some() {
                    return bad();
                }
                let name = self.name()?;
                self.at += 1;
                args.named.push((name, self.expression(true)?));
            } else {
                if args.spread.is_some() || args.spread_named.is_some() || !args.named.is_empty() {
                    return bad();
                }
                args.positional.push(self.expression(true)?);
            }
        }
        Ok(args)
    }

    pub(super) fn dotted(&mut self) -> Result<String, Fault> {
        let mut name = self.name()?;
        while self.skip(".") {
            name = format!("{name}.{}", self.name()?);
        }
        Ok(name)
    }

    /// One filter, its name next.
    pub(super) fn filter(&mut self, node: Option<Expr>) -> Result<Expr, Fault> {
        let at = self.peek().at;
        let name = self.dotted()?;
        let args = if is(self.peek(), "(") { self.args()? } else { Args::default() };
        self.expr(at, ExprKind::Filter(node, name, args))
    }

    /// Filters, a `|` next.
    pub(super) fn filters(&mut self, node: Option<Expr>) -> Result<Expr, Fault> {
        self.expect("|")?;
        let mut node = self.filter(node)?;
        while self.skip("|") {
            node = self.filter(Some(node))?;
        }
        Ok(node)
    }

    pub(super) fn test(&mut self, node: Expr) -> Result<Expr, Fault> {
        self.at += 1;
        let at = self.peek().at;
        let negated = self.skip_name("not");
        let name = self.dotted()?;
        let mut args = Args::default();
        let token = self.peek();
        let operand = match &token.kind {
            Kind::Name(name) => !matches!(name.as_str(), "else" | "or" | "and"),
            Kind::Str(_) | Kind::Int(_) | Kind::Float(_) | Kind::Op("[" | "{") => true,
            _ => false,
        };
        if is(token, "(") {
            args = self.args()?;
        } else if operand {
            if named(token, "is") {
                return Err(Fault::syntax(token.at, "tests cannot be chained with `is`"));
            }
            let primary = self.primary()?;
            args.positional.push(self.postfix(primary)?);
        }
        let test = self.expr(at, ExprKind::Test(node, name, args))?;
        if negated { self.expr(at, ExprKind::Not(test)) } else { Ok(test) }
    }
}
