//! Filters and tests to instructions: which there are, and how each is done.

use super::Fault;
use super::ast::{Args, Expr, ExprKind};
use super::codegen::{Codegen, NEGATED};
use tinyrustlm_core::Code;
use tinyrustlm_core::template::op::{self, binary, native, test};
use tinyrustlm_core::template::value::{self, Value};

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
    /// As a string.
    Text,
    /// By an operation of the machine with these further operands.
    Native(u8, &'static [i64]),
    /// The same, with the value as a string.
    OfString(u8, &'static [i64]),
    /// By the library's function.
    Library(&'static str),
    /// The same, with the value as a string.
    LibraryOfString(&'static str),
}

use Way::{Library, LibraryOfString, Native, OfString, Text};

/// Name, way, parameters in order.
type Filter = (&'static str, Way, &'static [(&'static str, Absent)]);

const DEFAULT: &[(&str, Absent)] = &[("default_value", Str("")), ("boolean", False)];
const DATE: &[(&str, Absent)] = &[("month", Required), ("day", Required)];
const BY: &[(&str, Absent)] = &[("case_sensitive", False), ("attribute", Nothing)];

const FILTERS: &[Filter] = &[
    ("abs", Library("filter_abs"), &[]),
    ("capitalize", Library("filter_capitalize"), &[]),
    ("count", Native(native::LENGTH, &[]), &[]),
    ("d", Library("filter_default"), DEFAULT),
    ("day of week", Library("day_of_week"), DATE),
    ("day of year", Library("day_of_year"), DATE),
    ("default", Library("filter_default"), DEFAULT),
    ("dictsort", Library("filter_dictsort"), &[("case_sensitive", False), ("by", Str("key")), ("reverse", False)]),
    ("e", Library("filter_escape"), &[]),
    ("escape", Library("filter_escape"), &[]),
    ("first", Library("filter_first"), &[]),
    ("float", Library("filter_float"), &[("default", Float(0.0))]),
    ("indent", Library("filter_indent"), &[("width", Int(4)), ("first", False), ("blank", False)]),
    ("int", Library("filter_int"), &[("default", Int(0)), ("base", Int(10))]),
    ("items", Library("filter_items"), &[]),
    ("join", Library("filter_join"), &[("d", Str("")), ("attribute", Nothing)]),
    ("last", Library("filter_last"), &[]),
    ("length", Native(native::LENGTH, &[]), &[]),
    ("list", Library("list"), &[]),
    ("lower", LibraryOfString("method_lower"), &[]),
    ("max", Library("filter_max"), BY),
    ("min", Library("filter_min"), BY),
    ("replace", Library("filter_replace"), &[("old", Required), ("new", Required), ("count", Nothing)]),
    ("reverse", Library("filter_reverse"), &[]),
    ("safe", OfString(native::FLAGS, &[]), &[]),
    ("sort", Library("filter_sort"), &[("reverse", False), ("case_sensitive", False), ("attribute", Nothing)]),
    ("string", Text, &[]),
    ("sum", Library("filter_sum"), &[("attribute", Nothing), ("start", Int(0))]),
    ("title", Library("filter_title"), &[]),
    (
        "tojson",
        Library("filter_tojson"),
        &[("ensure_ascii", False), ("indent", Nothing), ("separators", Nothing), ("sort_keys", False)],
    ),
    ("trim", LibraryOfString("filter_trim"), &[("chars", Nothing)]),
    ("unique", Library("filter_unique"), BY),
    ("upper", OfString(native::MAP, &[4]), &[]),
];

/// The machine's own operations, as the library names them.
const NATIVES: &[(&str, u8)] = &[
    ("_bits", native::BITS),
    ("_bytes", native::BYTES),
    ("_code", native::CODE),
    ("_find", native::FIND),
    ("_flags", native::FLAGS),
    ("_float", native::FLOAT),
    ("_has", native::HAS),
    ("_integer", native::INTEGER),
    ("_length", native::LENGTH),
    ("_like", native::LIKE),
    ("_loop", native::LOOP),
    ("_map", native::MAP),
    ("_offset", native::OFFSET),
    ("_part", native::PART),
    ("_peek", native::PEEK),
    ("_put", native::PUT),
    ("_slot", native::SLOT),
    ("_span", native::SPAN),
];

/// Kinds of values, for [`native::AS`] as the library names it.
const KINDS: &[(&str, u8)] = &[
    ("_as_dict", value::DICT),
    ("_as_generator", value::GENERATOR),
    ("_as_items", value::ITEMS),
    ("_as_keys", value::KEYS),
    ("_as_list", value::LIST),
    ("_as_namespace", value::NAMESPACE),
    ("_as_range", value::RANGE),
    ("_as_tuple", value::TUPLE),
    ("_as_values", value::VALUES),
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
    ("_bound", test::NONE | test::INTEGER | test::BOOLEAN),
    ("_generator", test::GENERATORS),
    ("_items", test::STRING | test::LISTS | test::TUPLES),
    ("_list", test::LISTS),
    ("_loop", test::LOOPS),
    ("_namespace", test::NAMESPACES),
    ("_range", test::RANGES),
    ("_refused", test::REFUSED),
    ("_safe", test::ANY | test::SAFE),
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
    ("!=", binary::EQ | NEGATED),
    ("<", binary::LT),
    ("<=", binary::LE),
    ("==", binary::EQ),
    (">", binary::GT),
    (">=", binary::GE),
    ("eq", binary::EQ),
    ("equalto", binary::EQ),
    ("ge", binary::GE),
    ("greaterthan", binary::GT),
    ("gt", binary::GT),
    ("in", binary::IN),
    ("le", binary::LE),
    ("lessthan", binary::LT),
    ("lt", binary::LT),
    ("ne", binary::EQ | NEGATED),
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
            self.binary(which)?;
        } else if let Some(remainder) = remainder {
            if args.is_empty() {
                self.int(2);
            }
            self.binary(binary::MOD)?;
            self.int(remainder);
            self.binary(binary::EQ)?;
        }
        Ok(())
    }

    /// A filter of the value on the stack.
    pub(super) fn filter(&mut self, at: usize, name: &str, args: &Args) -> Result<(), Fault> {
        match name {
            "map" => return self.map(at, args),
            "select" | "reject" | "selectattr" | "rejectattr" => return self.select(at, name, args),
            "format" => {
                self.op(op::TEXT);
                let args = self.plain(at, args)?;
                for arg in &args {
                    self.expr(arg)?;
                }
                self.make(at, value::TUPLE, args.len())?;
                return self.binary(binary::MOD);
            }
            _ => {}
        }
        let known = |table: &[(&str, u8)]| table.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        if self.in_library()
            && let (operation, kind) = (known(NATIVES), known(KINDS))
            && (operation.is_some() || kind.is_some())
        {
            if let Some(kind) = kind {
                self.int(kind as i64);
            }
            let args = self.plain(at, args)?;
            for arg in &args {
                self.expr(arg)?;
            }
            let count = 1 + kind.is_some() as usize + args.len();
            self.native(operation.unwrap_or(native::AS), count as u8);
            return Ok(());
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
        if matches!(way, OfString(..) | LibraryOfString(_)) {
            self.op(op::TEXT);
        }
        let mut complete = true;
        for (index, (_, default)) in params.iter().enumerate() {
            match given(index) {
                Some(value) => self.expr(value)?,
                None => match default {
                    Required => complete = false,
                    Nothing => self.push(Value::of(value::NONE)),
                    False => self.push(Value::bool(false)),
                    Int(value) => self.int(*value),
                    Float(value) => self.float(*value),
                    Str(text) => self.text(at, text)?,
                },
            }
        }
        if !fits || !complete {
            return self.fail(at, Code::TemplateTypeError, &format!("filter `{name}`: wrong arguments"));
        }
        self.mark(at);
        match way {
            Text => {
                self.op(op::TEXT);
                Ok(())
            }
            Native(number, extra) | OfString(number, extra) => {
                extra.iter().for_each(|operand| self.int(*operand));
                self.native(*number, (1 + params.len() + extra.len()) as u8);
                Ok(())
            }
            Library(function) | LibraryOfString(function) => self.call_library(function),
        }
    }

    /// Begins a loop over the value on the stack, which has no items when it is false.
    fn iterate_if_true(&mut self, at: usize) -> Result<u16, Fault> {
        let given = self.jump(&[op::OR]);
        self.make(at, value::TUPLE, 0)?;
        self.land(given);
        self.mark(at);
        self.iterate()
    }

    fn map(&mut self, at: usize, args: &Args) -> Result<(), Fault> {
        if args.spread.is_some() || args.spread_named.is_some() {
            return Err(Fault::unsupported(at, "spread arguments of a filter"));
        }
        let named = |name: &str| args.named.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let state = self.iterate_if_true(at)?;
        let collected = self.begin_collecting()?;
        let next = self.here();
        let end = self.next(state);
        match (args.positional.split_first(), named("attribute")) {
            (None, Some(attribute)) => {
                self.expr(attribute)?;
                self.call_library("attribute")?;
                if let Some(default) = named("default") {
                    self.expr(default)?;
                    self.push(Value::bool(false));
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
        self.jump_back(op::JUMP, next);
        self.land(end);
        self.collected(value::LIST, collected);
        self.call_library("generator")
    }

    fn select(&mut self, at: usize, name: &str, args: &Args) -> Result<(), Fault> {
        let args = self.plain(at, args)?;
        let (attribute, rest) = match (name.ends_with("attr"), args.split_first()) {
            (true, Some((attribute, rest))) => (Some(*attribute), rest),
            (true, None) => return self.fail(at, Code::TemplateRuntimeError, "Missing parameter for attribute name"),
            (false, _) => (None, &args[..]),
        };
        let state = self.iterate_if_true(at)?;
        self.collecting(state, |codegen| {
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
        })?;
        self.call_library("generator")
    }
}
