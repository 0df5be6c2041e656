//! Tokens to a syntax tree: the reference's grammar, its precedences included.

use super::Fault;
use super::ast::{Args, Expr, ExprKind, Param, Stmt, StmtKind, Target};
use super::lexer::{Kind, Token};
use tinyrustlm_core::template::op::{binary, compare};

/// Deepest nesting of expressions and of statements.
const MAX_DEPTH: usize = 120;

/// Reads the tokens of one template.
pub struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: usize,
    /// Whether the library's own statements are known.
    library: bool,
}

fn is(token: &Token, op: &str) -> bool {
    matches!(token.kind, Kind::Op(o) if o == op)
}

fn named(token: &Token, name: &str) -> bool {
    matches!(&token.kind, Kind::Name(n) if n == name)
}

impl<'t> Parser<'t> {
    /// A parser of these tokens, the last of which is the end.
    pub fn new(tokens: &'t [Token]) -> Self {
        Self { tokens, at: 0, depth: 0, library: false }
    }

    /// A parser of the library.
    pub fn of_library(tokens: &'t [Token]) -> Self {
        Self { library: true, ..Self::new(tokens) }
    }

    fn peek(&self) -> &'t Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn look(&self) -> &'t Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> &'t Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn skip(&mut self, op: &str) -> bool {
        let hit = is(self.peek(), op);
        self.at += hit as usize;
        hit
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let hit = named(self.peek(), name);
        self.at += hit as usize;
        hit
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T, Fault> {
        let found = match &self.peek().kind {
            Kind::Data(_) => "text".to_owned(),
            Kind::Name(name) => format!("`{name}`"),
            Kind::Op(op) => format!("`{op}`"),
            Kind::Str(_) => "a string".to_owned(),
            Kind::Int(_) | Kind::Float(_) => "a number".to_owned(),
            Kind::End => "the end of the template".to_owned(),
            Kind::BlockBegin | Kind::VariableBegin => "a tag".to_owned(),
            Kind::BlockEnd | Kind::VariableEnd => "the end of the tag".to_owned(),
        };
        Err(Fault::syntax(self.peek().at, format!("expected {wanted}, found {found}")))
    }

    fn expect(&mut self, op: &str) -> Result<(), Fault> {
        if self.skip(op) { Ok(()) } else { self.unexpected(&format!("`{op}`")) }
    }

    fn name(&mut self) -> Result<String, Fault> {
        match &self.peek().kind {
            Kind::Name(name) => {
                self.at += 1;
                Ok(name.clone())
            }
            _ => self.unexpected("a name"),
        }
    }

    fn end_of_block(&mut self) -> Result<(), Fault> {
        if self.peek().kind == Kind::BlockEnd {
            self.at += 1;
            return Ok(());
        }
        self.unexpected("the end of the tag")
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth >= MAX_DEPTH {
            return Err(Fault::unsupported(self.peek().at, format!("nesting deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn expr(&self, at: usize, kind: ExprKind) -> Result<Expr, Fault> {
        let expr = Expr::new(at, kind);
        if expr.depth > MAX_DEPTH {
            return Err(Fault::unsupported(at, format!("an expression deeper than {MAX_DEPTH}")));
        }
        Ok(expr)
    }

    /// The whole template.
    pub fn template(&mut self) -> Result<Vec<Stmt>, Fault> {
        let body = self.statements(&[])?;
        if self.peek().kind != Kind::End {
            return self.unexpected("the end of the template");
        }
        Ok(body)
    }

    /// Statements up to a tag with one of these names, which is left unread behind its beginning; or to the end.
    fn statements(&mut self, ends: &[&str]) -> Result<Vec<Stmt>, Fault> {
        self.deeper(|parser| {
            let mut body = Vec::new();
            loop {
                let token = parser.next();
                let at = token.at;
                match &token.kind {
                    Kind::Data(text) => body.push(Stmt { kind: StmtKind::Data(text.clone()), at }),
                    Kind::VariableBegin => {
                        let expr = parser.tuple(true, &[], false)?;
                        if parser.peek().kind != Kind::VariableEnd {
                            return parser.unexpected("`}}`");
                        }
                        parser.at += 1;
                        body.push(Stmt { kind: StmtKind::Print(expr), at });
                    }
                    Kind::BlockBegin => {
                        if ends.iter().any(|end| named(parser.peek(), end)) {
                            return Ok(body);
                        }
                        let at = parser.peek().at;
                        let kind = parser.statement()?;
                        parser.end_of_block()?;
                        body.push(Stmt { kind, at });
                    }
                    _ if ends.is_empty() => {
                        parser.at -= 1;
                        return Ok(body);
                    }
                    _ => {
                        parser.at -= 1;
                        return parser.unexpected(&format!("`{}`", ends.join("` or `")));
                    }
                }
            }
        })
    }

    /// The body of a block and its closing tag's name.
    fn body(&mut self, ends: &[&str]) -> Result<(Vec<Stmt>, String), Fault> {
        self.end_of_block()?;
        let body = self.statements(ends)?;
        Ok((body, self.name()?))
    }

    fn statement(&mut self) -> Result<StmtKind, Fault> {
        let at = self.peek().at;
        let name = self.name()?;
        Ok(match name.as_str() {
            "if" => {
                let test = self.tuple(false, &[], false)?;
                let (body, mut end) = self.body(&["elif", "else", "endif"])?;
                let (mut elifs, mut otherwise) = (Vec::new(), Vec::new());
                while end == "elif" {
                    let test = self.tuple(false, &[], false)?;
                    let (body, next) = self.body(&["elif", "else", "endif"])?;
                    elifs.push((test, body));
                    end = next;
                }
                if end == "else" {
                    (otherwise, _) = self.body(&["endif"])?;
                }
                StmtKind::If { test, body, elifs, otherwise }
            }
            "for" => {
                let target = self.target(&["in"], false)?;
                if !self.skip_name("in") {
                    return self.unexpected("`in`");
                }
                let iter = self.tuple(false, &["recursive"], false)?;
                let test = if self.skip_name("if") { Some(self.expression(true)?) } else { None };
                if named(self.peek(), "recursive") {
                    return Err(Fault::unsupported(self.peek().at, "a recursive loop"));
                }
                let (body, end) = self.body(&["endfor", "else"])?;
                let otherwise = if end == "else" { self.body(&["endfor"])?.0 } else { Vec::new() };
                StmtKind::For { target, iter, test, body, otherwise }
            }
            "set" => {
                let target = self.target(&[], true)?;
                if self.skip("=") {
                    StmtKind::Set(target, self.tuple(true, &[], false)?)
                } else {
                    let filter = if is(self.peek(), "|") { Some(self.filters(None)?) } else { None };
                    let (body, _) = self.body(&["endset"])?;
                    StmtKind::SetBlock { target, filter, body }
                }
            }
            "macro" => {
                let name = self.name()?;
                let params = self.signature()?;
                let (body, _) = self.body(&["endmacro"])?;
                StmtKind::Macro { name, params, body }
            }
            "call" => {
                let params = if is(self.peek(), "(") { self.signature()? } else { Vec::new() };
                let call = self.expression(true)?;
                if !matches!(*call.kind, ExprKind::Call(..)) {
                    return Err(Fault::syntax(call.at, "expected a call"));
                }
                let (body, _) = self.body(&["endcall"])?;
                StmtKind::CallBlock { params, call, body }
            }
            "filter" => {
                let filter = self.filter(None)?;
                let filter = if is(self.peek(), "|") { self.filters(Some(filter))? } else { filter };
                let (body, _) = self.body(&["endfilter"])?;
                StmtKind::FilterBlock { filter, body }
            }
            "generation" => StmtKind::Generation(self.body(&["endgeneration"])?.0),
            "with" => {
                let mut targets = Vec::new();
                while self.peek().kind != Kind::BlockEnd {
                    if !targets.is_empty() {
                        self.expect(",")?;
                    }
                    let target = self.target(&[], false)?;
                    self.expect("=")?;
                    targets.push((target, self.expression(true)?));
                }
                let (body, _) = self.body(&["endwith"])?;
                StmtKind::With { targets, body }
            }
            "return" if self.library => StmtKind::Return(self.tuple(true, &[], false)?),
            "collect" if self.library => StmtKind::Collect(self.tuple(true, &[], false)?),
            "loop" if self.library => StmtKind::Forever(self.body(&["endloop"])?.0),
            "gather" if self.library => {
                let name = self.name()?;
                let mut each = None;
                if self.skip_name("for") {
                    let target = self.target(&["in"], false)?;
                    if !self.skip_name("in") {
                        return self.unexpected("`in`");
                    }
                    each = Some((target, self.tuple(false, &[], false)?));
                }
                StmtKind::Gather { name, each, body: self.body(&["endgather"])?.0 }
            }
            "break" => StmtKind::Break,
            "continue" => StmtKind::Continue,
            "block" | "extends" | "include" | "import" | "from" | "print" | "autoescape" => {
                return Err(Fault::unsupported(at, format!("the statement `{name}`")));
            }
            _ => return Err(Fault::syntax(at, format!("unknown statement `{name}`"))),
        })
    }

    fn signature(&mut self) -> Result<Vec<Param>, Fault> {
        self.expect("(")?;
        let mut params: Vec<Param> = Vec::new();
        while !self.skip(")") {
            if !params.is_empty() {
                self.expect(",")?;
            }
            let at = self.peek().at;
            let name = self.name()?;
            let default = if self.skip("=") { Some(self.expression(true)?) } else { None };
            if default.is_none() && params.last().is_some_and(|(_, default)| default.is_some()) {
                return Err(Fault::syntax(at, "a parameter without a default follows one with"));
            }
            if params.iter().any(|(other, _)| *other == name) {
                return Err(Fault::syntax(at, format!("the parameter `{name}` comes twice")));
            }
            params.push((name, default));
        }
        Ok(params)
    }

    /// What is assigned to: names, tuples of them, attributes of namespaces where allowed.
    fn target(&mut self, ends: &[&str], attributes: bool) -> Result<Target, Fault> {
        let mut items = Vec::new();
        let mut tuple = false;
        loop {
            if !items.is_empty() {
                self.expect(",")?;
            }
            if self.is_tuple_end(ends) {
                break;
            }
            items.push(self.target_item(attributes)?);
            if !is(self.peek(), ",") {
                break;
            }
            tuple = true;
        }
        match (tuple, items.pop()) {
            (false, Some(item)) => Ok(item),
            (true, Some(last)) => {
                items.push(last);
                Ok(Target::Tuple(items))
            }
            (_, None) => self.unexpected("a name"),
        }
    }

    fn target_item(&mut self, attributes: bool) -> Result<Target, Fault> {
        if is(self.peek(), "(") || is(self.peek(), "[") {
            let close = if is(self.peek(), "(") { ")" } else { "]" };
            self.at += 1;
            let inner = self.deeper(|parser| parser.target(&[], false))?;
            self.expect(close)?;
            return Ok(inner);
        }
        let at = self.peek().at;
        let name = self.name()?;
        if matches!(name.as_str(), "true" | "false" | "none" | "True" | "False" | "None") {
            return Err(Fault::syntax(at, format!("cannot assign to `{name}`")));
        }
        if attributes && self.skip(".") {
            return Ok(Target::Attr(name, self.name()?));
        }
        Ok(Target::Name(name))
    }

    fn is_tuple_end(&self, ends: &[&str]) -> bool {
        let token = self.peek();
        matches!(token.kind, Kind::VariableEnd | Kind::BlockEnd)
            || is(token, ")")
            || ends.iter().any(|end| named(token, end))
    }

    /// One expression, or several with commas between as a tuple.
    fn tuple(&mut self, conditional: bool, ends: &[&str], parentheses: bool) -> Result<Expr, Fault> {
        let at = self.peek().at;
        let mut items = Vec::new();
        let mut tuple = false;
        loop {
            if !items.is_empty() {
                self.expect(",")?;
            }
            if self.is_tuple_end(ends) {
                break;
            }
            items.push(self.expression(conditional)?);
            if !is(self.peek(), ",") {
                break;
            }
            tuple = true;
        }
        if !tuple {
            match items.pop() {
                Some(item) => return Ok(item),
                None if !parentheses => return self.unexpected("an expression"),
                None => {}
            }
        }
        self.expr(at, ExprKind::Tuple(items))
    }

    fn expression(&mut self, conditional: bool) -> Result<Expr, Fault> {
        self.deeper(|parser| if conditional { parser.conditional() } else { parser.or() })
    }

    fn conditional(&mut self) -> Result<Expr, Fault> {
        let mut expr = self.or()?;
        while self.skip_name("if") {
            let test = self.or()?;
            let otherwise = if self.skip_name("else") { Some(self.deeper(Self::conditional)?) } else { None };
            expr = self.expr(expr.at, ExprKind::Cond(test, expr, otherwise))?;
        }
        Ok(expr)
    }

    fn or(&mut self) -> Result<Expr, Fault> {
        let mut left = self.and()?;
        while self.skip_name("or") {
            let right = self.and()?;
            left = self.expr(left.at, ExprKind::Or(left, right))?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr, Fault> {
        let mut left = self.not()?;
        while self.skip_name("and") {
            let right = self.not()?;
            left = self.expr(left.at, ExprKind::And(left, right))?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expr, Fault> {
        let at = self.peek().at;
        if self.skip_name("not") {
            let inner = self.deeper(Self::not)?;
            return self.expr(at, ExprKind::Not(inner));
        }
        self.compare()
    }

    fn compare(&mut self) -> Result<Expr, Fault> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let op = match &self.peek().kind {
                Kind::Op("==") => compare::EQ,
                Kind::Op("!=") => compare::NE,
                Kind::Op("<") => compare::LT,
                Kind::Op("<=") => compare::LE,
                Kind::Op(">") => compare::GT,
                Kind::Op(">=") => compare::GE,
                Kind::Name(name) if name == "in" => compare::IN,
                Kind::Name(name) if name == "not" && named(self.look(), "in") => {
                    self.at += 1;
                    compare::NOT_IN
                }
                _ => break,
            };
            self.at += 1;
            rest.push((op, self.sum()?));
        }
        if rest.is_empty() { Ok(first) } else { self.expr(first.at, ExprKind::Compare(first, rest)) }
    }

    fn binary(&mut self, ops: &[(&str, u8)], operand: fn(&mut Self) -> Result<Expr, Fault>) -> Result<Expr, Fault> {
        let mut left = operand(self)?;
        while let Some((_, op)) = ops.iter().find(|(text, _)| is(self.peek(), text)) {
            self.at += 1;
            let right = operand(self)?;
            left = self.expr(left.at, ExprKind::Binary(*op, left, right))?;
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr, Fault> {
        self.binary(&[("+", binary::ADD), ("-", binary::SUB)], Self::concat)
    }

    fn concat(&mut self) -> Result<Expr, Fault> {
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

    fn product(&mut self) -> Result<Expr, Fault> {
        let ops = [("*", binary::MUL), ("/", binary::DIV), ("//", binary::FLOORDIV), ("%", binary::MOD)];
        self.binary(&ops, Self::power)
    }

    fn power(&mut self) -> Result<Expr, Fault> {
        // To the left, unlike in Python.
        self.binary(&[("**", binary::POW)], |parser| parser.unary(true))
    }

    fn unary(&mut self, filters: bool) -> Result<Expr, Fault> {
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

    fn primary(&mut self) -> Result<Expr, Fault> {
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

    fn postfix(&mut self, mut node: Expr) -> Result<Expr, Fault> {
        loop {
            node = match self.peek().kind {
                Kind::Op(".") | Kind::Op("[") => self.subscript(node)?,
                Kind::Op("(") => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    fn filter_expr(&mut self, mut node: Expr) -> Result<Expr, Fault> {
        loop {
            node = match &self.peek().kind {
                Kind::Op("|") => self.filters(Some(node))?,
                Kind::Name(name) if name == "is" => self.test(node)?,
                Kind::Op("(") => self.call(node)?,
                _ => return Ok(node),
            };
        }
    }

    fn call(&mut self, node: Expr) -> Result<Expr, Fault> {
        let at = node.at;
        let args = self.args()?;
        self.expr(at, ExprKind::Call(node, args))
    }

    fn subscript(&mut self, node: Expr) -> Result<Expr, Fault> {
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

    fn args(&mut self) -> Result<Args, Fault> {
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

    fn dotted(&mut self) -> Result<String, Fault> {
        let mut name = self.name()?;
        while self.skip(".") {
            name = format!("{name}.{}", self.name()?);
        }
        Ok(name)
    }

    /// One filter, its name next.
    fn filter(&mut self, node: Option<Expr>) -> Result<Expr, Fault> {
        let at = self.peek().at;
        let name = self.dotted()?;
        let args = if is(self.peek(), "(") { self.args()? } else { Args::default() };
        self.expr(at, ExprKind::Filter(node, name, args))
    }

    /// Filters, a `|` next.
    fn filters(&mut self, node: Option<Expr>) -> Result<Expr, Fault> {
        self.expect("|")?;
        let mut node = self.filter(node)?;
        while self.skip("|") {
            node = self.filter(Some(node))?;
        }
        Ok(node)
    }

    fn test(&mut self, node: Expr) -> Result<Expr, Fault> {
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
