//! The syntax tree of a template.

/// An expression, where it begins, and how deep it nests.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: Box<ExprKind>,
    /// Byte offset in the source.
    pub at: usize,
    /// Levels, itself included.
    pub depth: usize,
}

/// What an expression is.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum ExprKind {
    Str(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    None,
    Name(String),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Attr(Expr, String),
    Item(Expr, Expr),
    Slice(Expr, [Option<Expr>; 3]),
    Call(Expr, Args),
    /// Without a value in filter blocks: there it stands on the stack.
    Filter(Option<Expr>, String, Args),
    Test(Expr, String, Args),
    Not(Expr),
    Neg(Expr),
    Pos(Expr),
    Binary(u8, Expr, Expr),
    And(Expr, Expr),
    Or(Expr, Expr),
    Compare(Expr, Vec<(u8, Expr)>),
    Concat(Vec<Expr>),
    Cond(Expr, Expr, Option<Expr>),
    /// A part of the time; made of `strftime_now`.
    Now(u8),
}

/// Arguments of a call, filter or test.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Args {
    /// By position.
    pub positional: Vec<Expr>,
    /// By name.
    pub named: Vec<(String, Expr)>,
    /// `*list`
    pub spread: Option<Expr>,
    /// `**dict`
    pub spread_named: Option<Expr>,
}

impl Args {
    /// All expressions in the order they are evaluated.
    pub fn all(&self) -> impl Iterator<Item = &Expr> {
        self.positional.iter().chain(self.named.iter().map(|(_, e)| e)).chain(&self.spread).chain(&self.spread_named)
    }
}

impl Expr {
    /// An expression with its depth.
    pub fn new(at: usize, kind: ExprKind) -> Self {
        let mut expr = Self { kind: Box::new(kind), at, depth: 0 };
        let mut depth = 0;
        expr.children(&mut |child| depth = depth.max(child.depth));
        expr.depth = depth + 1;
        expr
    }

    /// Visits the direct parts in the order the reference visits them.
    pub fn children<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        match &*self.kind {
            ExprKind::Str(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::None
            | ExprKind::Name(_)
            | ExprKind::Now(_) => {}
            ExprKind::List(items) | ExprKind::Tuple(items) | ExprKind::Concat(items) => items.iter().for_each(visit),
            ExprKind::Dict(pairs) => pairs.iter().for_each(|(key, value)| {
                visit(key);
                visit(value);
            }),
            ExprKind::Attr(object, _) | ExprKind::Not(object) | ExprKind::Neg(object) | ExprKind::Pos(object) => {
                visit(object)
            }
            ExprKind::Item(a, b) | ExprKind::Binary(_, a, b) | ExprKind::And(a, b) | ExprKind::Or(a, b) => {
                visit(a);
                visit(b);
            }
            ExprKind::Slice(object, bounds) => {
                visit(object);
                bounds.iter().flatten().for_each(visit);
            }
            ExprKind::Call(callee, args) | ExprKind::Test(callee, _, args) => {
                visit(callee);
                args.all().for_each(visit);
            }
            ExprKind::Filter(value, _, args) => value.iter().chain(args.all()).for_each(visit),
            ExprKind::Compare(first, rest) => {
                visit(first);
                rest.iter().for_each(|(_, e)| visit(e));
            }
            ExprKind::Cond(test, then, otherwise) => {
                visit(test);
                visit(then);
                otherwise.iter().for_each(visit);
            }
        }
    }
}

/// What is assigned to.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Target {
    Name(String),
    Tuple(Vec<Target>),
    /// `namespace.attribute`
    Attr(String, String),
}

/// A statement and where it begins.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Byte offset in the source.
    pub at: usize,
}

/// A macro's or call block's parameter with its default.
pub type Param = (String, Option<Expr>);

/// What a statement is.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum StmtKind {
    Data(String),
    Print(Expr),
    If {
        test: Expr,
        body: Vec<Stmt>,
        elifs: Vec<(Expr, Vec<Stmt>)>,
        otherwise: Vec<Stmt>,
    },
    For {
        target: Target,
        iter: Expr,
        test: Option<Expr>,
        body: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    Set(Target, Expr),
    SetBlock {
        target: Target,
        filter: Option<Expr>,
        body: Vec<Stmt>,
    },
    Macro {
        name: String,
        params: Vec<Param>,
        body: Vec<Stmt>,
    },
    CallBlock {
        params: Vec<Param>,
        call: Expr,
        body: Vec<Stmt>,
    },
    FilterBlock {
        filter: Expr,
        body: Vec<Stmt>,
    },
    Generation(Vec<Stmt>),
    With {
        targets: Vec<(Target, Expr)>,
        body: Vec<Stmt>,
    },
    Break,
    Continue,
    // Of the library alone.
    /// Ends the function with a value.
    Return(Expr),
    /// A loop until `break`.
    Forever(Vec<Stmt>),
    /// What is collected inside becomes a variable of this kind; with `each`, once for each item.
    Gather {
        kind: u8,
        name: String,
        each: Option<(Target, Expr)>,
        body: Vec<Stmt>,
    },
    Collect(Expr),
}
