//! Filters and tests to instructions: which there are, and how each is done.

use super::Fault;
use super::ast::{Args, Expr, ExprKind};
use super::codegen::Codegen;
use tinyrustlm_core::Code;
use tinyrustlm_core::template::op::{self, compare, literal, native, test};

/// A default of a filter's parameter.
#[derive(Clone, Copy)]
enum Absent {
    Required,
    None,
    False,
    Int(i64),
    Float(f64),
    Str(&'static str),
}

use Absent::{False, Float, Int, None as Nothing, Required, Str};

/// How a filter is done once its value and parameters are on the stack.
#[derive(Clone, Copy)]
enum Way {
    /// By an operation of the machine with these further operands.
    Native(u8, &'static [i64]),
    /// The same, with the value as a string.
    OfString(u8, &'static [i64]),
    /// By the library's function.
    Library(&'static str),
    /// By an operation when the last parameter is not given, else by the library's function.
    Either(u8, &'static [i64], &'static str),
}

use Way::{Either, Library, Native, OfString};

/// Name, way, parameters in order.
type Filter = (&'static str, Way, &'static [(&'static str, Absent)]);

const DEFAULT: &[(&str, Absent)] = &[("default_value", Str("")), ("boolean", False)];
const BY: &[(&str, Absent)] = &[("case_sensitive", False), ("attribute", Nothing)];

const FILTERS: &[Filter] = &[
    ("abs", Library("filter_abs"), &[]),
    ("capitalize", Library("filter_capitalize"), &[]),
    ("count", Native(native::LENGTH, &[]), &[]),
    ("d", Library("filter_default"), DEFAULT),
    ("default", Library("filter_default"), DEFAULT),
    ("dictsort", Library("filter_dictsort"), &[("case_sensitive", False), ("by", Str("key")), ("reverse", False)]),
    ("e", Library("filter_escape"), &[]),
    ("escape", Library("filter_escape"), &[]),
    ("first", Library("filter_first"), &[]),
    ("float", Library("filter_float"), &[("default", Float(0.0))]),
    ("indent", Library("filter_indent"), &[("width", Int(4)), ("first", False), ("blank", False)]),
    ("int", Library("filter_int"), &[("default", Int(0)), ("base", Int(10))]),
    ("items", Library("filter_items"), &[]),
    ("join", Either(native::JOIN, &[1], "filter_join"), &[("d", Str("")), ("attribute", Nothing)]),
    ("last", Library("filter_last"), &[]),
    ("length", Native(native::LENGTH, &[]), &[]),
    ("list", Native(native::LIST, &[]), &[]),
    ("lower", OfString(native::CASE, &[0]), &[]),
    ("max", Library("filter_max"), BY),
    ("min", Library("filter_min"), BY),
    ("replace", Library("filter_replace"), &[("old", Required), ("new", Required), ("count", Nothing)]),
    ("reverse", Library("filter_reverse"), &[]),
    ("safe", OfString(native::FLAGS, &[]), &[]),
    ("sort", Library("filter_sort"), &[("reverse", False), ("case_sensitive", False), ("attribute", Nothing)]),
    ("string", Native(native::STRING, &[]), &[]),
    ("sum", Library("filter_sum"), &[("attribute", Nothing), ("start", Int(0))]),
    ("title", Library("filter_title"), &[]),
    (
        "tojson",
        Either(native::JSON, &[], "filter_tojson"),
        &[("ensure_ascii", False), ("indent", Nothing), ("separators", Nothing), ("sort_keys", False)],
    ),
    ("trim", OfString(native::STRIP, &[3]), &[("chars", Nothing)]),
    ("unique", Library("filter_unique"), BY),
    ("upper", OfString(native::CASE, &[1]), &[]),
];

/// The machine's own operations, as the library names them.
const NATIVES: &[(&str, u8)] = &[
    ("_bytes", native::BYTES),
    ("_case", native::CASE),
    ("_dict", native::DICT),
    ("_find", native::FIND),
    ("_flags", native::FLAGS),
    ("_generator", native::GENERATOR),
    ("_get", native::GET),
    ("_has", native::HAS),
    ("_join", native::JOIN),
    ("_json", native::JSON),
    ("_length", native::LENGTH),
    ("_list", native::LIST),
    ("_namespace", native::NAMESPACE),
    ("_number", native::NUMBER),
    ("_put", native::PUT),
    ("_raise", native::RAISE),
    ("_range", native::RANGE),
    ("_replace", native::REPLACE),
    ("_repr", native::REPR),
    ("_split", native::SPLIT),
    ("_string", native::STRING),
    ("_strip", native::STRIP),
    ("_truncate", native::TRUNCATE),
    ("_view", native::VIEW),
];

/// What the reference has and this compiler refuses.
const OTHER_FILTERS: &[&str] = &[
    "attr",
    "batch",
    "center",
    "filesizeformat",
    "forceescape",
    "groupby",
    "pprint",
    "random",
    "round",
    "slice",
    "striptags",
    "truncate",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
];

/// Tests that only the library knows.
const LIBRARY_TESTS: &[(&str, u64)] = &[
    ("_generator", test::GENERATORS),
    ("_list", test::LISTS),
    ("_namespace", test::NAMESPACES),
    ("_tuple", test::TUPLES),
];

const TESTS: &[(&str, u64)] = &[
    ("boolean", test::BOOLEAN),
    ("callable", test::CALLABLE),
    ("defined", test::ANY & !test::UNDEFINED),
    ("false", test::BOOLEAN | test::FALSE),
    ("float", test::FLOAT),
    ("integer", test::INTEGER),
    ("iterable", test::ITERABLE),
    ("mapping", test::MAPPING),
    ("none", test::NONE),
    ("number", test::NUMBER),
    ("sequence", test::SEQUENCE),
    ("string", test::STRING),
    ("true", test::BOOLEAN | test::TRUE),
    ("undefined", test::UNDEFINED),
];

const COMPARING_TESTS: &[(&str, u8)] = &[
    ("!=", compare::NE),
    ("<", compare::LT),
    ("<=", compare::LE),
    ("==", compare::EQ),
    (">", compare::GT),
    (">=", compare::GE),
    ("eq", compare::EQ),
    ("equalto", compare::EQ),
    ("ge", compare::GE),
    ("greaterthan", compare::GT),
    ("gt", compare::GT),
    ("in", compare::IN),
    ("le", compare::LE),
    ("lessthan", compare::LT),
    ("lt", compare::LT),
    ("ne", compare::NE),
];

const OTHER_TESTS: &[&str] = &["escaped", "filter", "lower", "sameas", "test", "upper"];

impl Codegen {
    /// A name the reference does not know fails when it is reached inside of a condition, and at once elsewhere.
    fn unknown(&mut self, at: usize, what: &str, name: &str, other: &[&str], args: &[&Expr]) -> Result<(), Fault> {
        if other.contains(&name) {
            return Err(Fault::unsupported(at, format!("the {what} `{name}`")));
        }
        if !self.soft {
            return Err(Fault::syntax(at, format!("no {what} named `{name}`")));
        }
        for arg in args {
            self.expr(arg)?;
        }
        self.fail(at, Code::TemplateRuntimeError, &format!("No {what} named '{name}' found."))
    }

    /// A test of the value on the stack.
    pub(super) fn test(&mut self, at: usize, name: &str, args: &[&Expr]) -> Result<(), Fault> {
        let own = if self.in_library() { LIBRARY_TESTS } else { &[] };
        let kinds = TESTS.iter().chain(own).find(|(known, _)| *known == name).map(|(_, set)| *set);
        let comparing = COMPARING_TESTS.iter().find(|(known, _)| *known == name).map(|(_, which)| *which);
        // Tests of the remainder: `divisibleby(n)`, and odd and even as remainders of 2.
        let remainder = match name {
            "divisibleby" | "even" => Some(0),
            "odd" => Some(1),
            _ => None,
        };
        if kinds.is_none() && comparing.is_none() && remainder.is_none() {
            return self.unknown(at, "test", name, OTHER_TESTS, args);
        }
        for arg in args {
            self.expr(arg)?;
        }
        if args.len() != (comparing.is_some() || name == "divisibleby") as usize {
            return self.fail(at, Code::TemplateTypeError, &format!("test `{name}`: wrong number of arguments"));
        }
        self.mark(at);
        if let Some(set) = kinds {
            self.op(op::TEST);
            self.out.code.extend(set.to_le_bytes());
        } else if let Some(which) = comparing {
            self.op8(op::COMPARE, which);
        } else if let Some(remainder) = remainder {
            if args.is_empty() {
                self.int(2);
            }
            self.binary(op::binary::MOD)?;
            self.int(remainder);
            self.op8(op::COMPARE, compare::EQ);
        }
        Ok(())
    }

    pub(super) fn int(&mut self, value: i64) {
        self.op(op::INT);
        self.out.code.extend(value.to_le_bytes());
    }

    /// A filter of the value on the stack.
    pub(super) fn filter(&mut self, at: usize, name: &str, args: &Args) -> Result<(), Fault> {
        match name {
            "map" => return self.map(at, args),
            "select" | "reject" | "selectattr" | "rejectattr" => return self.select(at, name, args),
            "format" => {
                self.native(native::STRING, 1)?;
                let args = self.plain(at, args)?;
                for arg in &args {
                    self.expr(arg)?;
                }
                self.op16(op::TUPLE, Self::count(at, args.len())?);
                return self.binary(op::binary::MOD);
            }
            _ => {}
        }
        if let (true, Some((_, which))) = (self.in_library(), NATIVES.iter().find(|(known, _)| *known == name)) {
            let args = self.plain(at, args)?;
            for arg in &args {
                self.expr(arg)?;
            }
            return self.native(*which, args.len() as u8 + 1);
        }
        let Some((_, way, params)) = FILTERS.iter().find(|(known, ..)| *known == name) else {
            let all: Vec<&Expr> = args.all().collect();
            return self.unknown(at, "filter", name, OTHER_FILTERS, &all);
        };
        if args.spread.is_some() || args.spread_named.is_some() {
            return Err(Fault::unsupported(at, "spread arguments of a filter"));
        }
        let fits = args.positional.len() <= params.len()
            && args
                .named
                .iter()
                .all(|(name, _)| params.iter().skip(args.positional.len()).any(|(param, _)| param == name));
        let given = |index: usize| {
            let named = args.named.iter().find(|(name, _)| params.get(index).is_some_and(|(param, _)| name == param));
            args.positional.get(index).or(named.map(|(_, value)| value))
        };
        let mut count = params.len();
        let way = match *way {
            Either(number, extra, _) if given(count - 1).is_none() => {
                count -= 1;
                Native(number, extra)
            }
            Either(_, _, function) => Library(function),
            way => way,
        };
        if matches!(way, OfString(..)) {
            self.native(native::STRING, 1)?;
        }
        let mut complete = true;
        for (index, (_, default)) in params.iter().take(count).enumerate() {
            match given(index) {
                Some(value) => self.expr(value)?,
                None => match default {
                    Required => complete = false,
                    Nothing => self.op8(op::LITERAL, literal::NONE),
                    False => self.op8(op::LITERAL, literal::FALSE),
                    Int(value) => self.int(*value),
                    Float(value) => {
                        self.op(op::FLOAT);
                        self.out.code.extend(value.to_le_bytes());
                    }
                    Str(text) => self.text(at, text)?,
                },
            }
        }
        if !fits || !complete {
            return self.fail(at, Code::TemplateTypeError, &format!("filter `{name}`: wrong arguments"));
        }
        self.mark(at);
        match way {
            Native(number, extra) | OfString(number, extra) | Either(number, extra, _) => {
                extra.iter().for_each(|operand| self.int(*operand));
                self.native(number, (1 + count + extra.len()) as u8)
            }
            Library(function) => self.call_library(function),
        }
    }

    /// Begins a loop over the value on the stack, which has no items when it is false.
    fn iterate_if_true(&mut self, at: usize) {
        let given = self.jump(&[op::OR]);
        self.op16(op::TUPLE, 0);
        self.land(given);
        self.mark(at);
        self.op(op::ITER);
    }

    fn map(&mut self, at: usize, args: &Args) -> Result<(), Fault> {
        if args.spread.is_some() || args.spread_named.is_some() {
            return Err(Fault::unsupported(at, "spread arguments of a filter"));
        }
        let named = |name: &str| args.named.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        self.iterate_if_true(at);
        let next = self.here();
        let end = self.jump(&[op::NEXT]);
        match (args.positional.split_first(), named("attribute")) {
            (None, Some(attribute)) => {
                self.expr(attribute)?;
                self.call_library("attribute")?;
                if let Some(default) = named("default") {
                    self.expr(default)?;
                    self.op8(op::LITERAL, literal::FALSE);
                    self.call_library("filter_default")?;
                }
            }
            (Some((first, rest)), None) => {
                let ExprKind::Str(name) = &*first.kind else {
                    return Err(Fault::unsupported(at, "`map` with a computed filter"));
                };
                let args = Args { positional: rest.to_vec(), named: args.named.clone(), ..Args::default() };
                // Unknown names fail when they are reached.
                let soft = std::mem::replace(&mut self.soft, true);
                self.filter(at, name, &args)?;
                self.soft = soft;
            }
            _ => self.fail(at, Code::TemplateRuntimeError, "map requires a filter argument")?,
        }
        self.op(op::COLLECT);
        self.jump_back(op::JUMP, next);
        self.land(end);
        self.op8(op::COLLECTED, 1);
        Ok(())
    }

    fn select(&mut self, at: usize, name: &str, args: &Args) -> Result<(), Fault> {
        let args = self.plain(at, args)?;
        let (attribute, rest) = match (name.ends_with("attr"), args.split_first()) {
            (true, Some((attribute, rest))) => (Some(*attribute), rest),
            (true, None) => return self.fail(at, Code::TemplateRuntimeError, "Missing parameter for attribute name"),
            (false, _) => (None, &args[..]),
        };
        self.iterate_if_true(at);
        self.collecting(1, |codegen| {
            codegen.op(op::DUP);
            if let Some(attribute) = attribute {
                codegen.expr(attribute)?;
                codegen.call_library("attribute")?;
            }
            match rest.split_first() {
                None => {
                    codegen.op(op::NOT);
                    codegen.op(op::NOT);
                }
                Some((test, args)) => {
                    let ExprKind::Str(test) = &*test.kind else {
                        return Err(Fault::unsupported(at, format!("`{name}` with a computed test")));
                    };
                    let soft = std::mem::replace(&mut codegen.soft, true);
                    codegen.test(at, test, args)?;
                    codegen.soft = soft;
                }
            }
            if name.starts_with("reject") {
                codegen.op(op::NOT);
            }
            Ok(())
        })
    }
}
