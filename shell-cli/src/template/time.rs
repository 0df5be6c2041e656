//! `strftime_now`: a format in the C locale becomes an expression over the parts of the host's time.

use super::Fault;
use super::ast::{Args, Expr, ExprKind};
use tinyrustlm_core::template::op::{binary, now};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

struct Builder {
    at: usize,
    parts: Vec<Expr>,
}

impl Builder {
    fn expr(&self, kind: ExprKind) -> Expr {
        Expr::new(self.at, kind)
    }

    fn text(&self, text: &str) -> Expr {
        self.expr(ExprKind::Str(text.to_owned()))
    }

    fn now(&self, field: u8) -> Expr {
        self.expr(ExprKind::Now(field))
    }

    /// What the library computes of the date: a filter whose name no template can write.
    fn of_date(&self, filter: &str) -> Expr {
        let args = Args { positional: vec![self.now(now::MONTH), self.now(now::DAY)], ..Args::default() };
        self.expr(ExprKind::Filter(Some(self.now(now::YEAR)), filter.to_owned(), args))
    }

    fn binary(&self, op: u8, a: Expr, b: i64) -> Expr {
        let b = self.expr(ExprKind::Int(b));
        self.expr(ExprKind::Binary(op, a, b))
    }

    /// The last `places` characters of the number behind that many fill characters.
    fn padded(&mut self, number: Expr, places: usize, fill: Option<char>) {
        let part = match fill {
            None => number,
            Some(fill) => {
                let filled = self.text(&fill.to_string().repeat(places));
                let whole = self.expr(ExprKind::Concat(vec![filled, number]));
                let from = self.expr(ExprKind::Int(-(places as i64)));
                self.expr(ExprKind::Slice(whole, [Some(from), None, None]))
            }
        };
        self.parts.push(part);
    }

    fn name(&mut self, names: &[&str], letters: usize, index: Expr) {
        let names = names.iter().map(|name| self.text(&name[..letters.min(name.len())])).collect();
        let list = self.expr(ExprKind::List(names));
        let name = self.expr(ExprKind::Item(list, index));
        self.parts.push(name);
    }

    fn push(&mut self, kind: ExprKind) {
        let part = self.expr(kind);
        self.parts.push(part);
    }

    fn format(&mut self, format: &str) -> Result<(), Fault> {
        let mut chars = format.chars();
        let mut literal = String::new();
        while let Some(c) = chars.next() {
            if c != '%' {
                literal.push(c);
                continue;
            }
            self.push(ExprKind::Str(std::mem::take(&mut literal)));
            let mut directive = chars.next();
            let mut fill = None;
            while let Some(flag @ ('-' | '_' | '0')) = directive {
                fill = Some(flag);
                directive = chars.next();
            }
            let filled = |usual: char| match fill {
                None => Some(usual),
                Some('-') => None,
                Some('_') => Some(' '),
                Some(_) => Some('0'),
            };
            let (zero, blank) = (filled('0'), filled(' '));
            let month = self.binary(binary::SUB, self.now(now::MONTH), 1);
            let hour12 = self.binary(binary::ADD, self.now(now::HOUR), 11);
            let hour12 = self.binary(binary::MOD, hour12, 12);
            let hour12 = self.binary(binary::ADD, hour12, 1);
            match directive {
                Some('a') => self.name(&DAYS, 3, self.of_date("day of week")),
                Some('A') => self.name(&DAYS, 9, self.of_date("day of week")),
                Some('b' | 'h') => self.name(&MONTHS, 3, month),
                Some('B') => self.name(&MONTHS, 9, month),
                Some('d') => self.padded(self.now(now::DAY), 2, zero),
                Some('e') => self.padded(self.now(now::DAY), 2, blank),
                Some('f') => literal.push_str("000000"),
                Some('H') => self.padded(self.now(now::HOUR), 2, zero),
                Some('I') => self.padded(hour12, 2, zero),
                Some('j') => self.padded(self.of_date("day of year"), 3, zero),
                Some('m') => self.padded(self.now(now::MONTH), 2, zero),
                Some('M') => self.padded(self.now(now::MINUTE), 2, zero),
                Some('n') => literal.push('\n'),
                Some('p') => {
                    let half = self.binary(binary::FLOORDIV, self.now(now::HOUR), 12);
                    self.name(&["AM", "PM"], 2, half);
                }
                Some('S') => self.padded(self.now(now::SECOND), 2, zero),
                Some('t') => literal.push('\t'),
                Some('w') => self.parts.push(self.of_date("day of week")),
                Some('y') => self.padded(self.binary(binary::MOD, self.now(now::YEAR), 100), 2, zero),
                Some('Y') => self.push(ExprKind::Now(now::YEAR)),
                // The time has no zone.
                Some('z' | 'Z') => {}
                Some('%') => literal.push('%'),
                Some('D' | 'x') => self.format("%m/%d/%y")?,
                Some('F') => self.format("%Y-%m-%d")?,
                Some('T' | 'X') => self.format("%H:%M:%S")?,
                Some('R') => self.format("%H:%M")?,
                Some('r') => self.format("%I:%M:%S %p")?,
                Some('c') => self.format("%a %b %e %H:%M:%S %Y")?,
                other => {
                    let directive = other.map_or(String::new(), String::from);
                    return Err(Fault::unsupported(self.at, format!("the date format `%{directive}`")));
                }
            }
        }
        self.push(ExprKind::Str(literal));
        Ok(())
    }
}

/// The value of `strftime_now(format)`. The format must be a constant.
pub(super) fn formatted(at: usize, args: &Args) -> Result<Expr, Fault> {
    let named = args.named.iter().map(|(name, value)| (name == "format").then_some(value));
    let given: Vec<Option<&Expr>> = args.positional.iter().map(Some).chain(named).collect();
    let [Some(format)] = given[..] else {
        return Err(Fault::unsupported(at, "`strftime_now` with these arguments"));
    };
    let ExprKind::Str(format) = &*format.kind else {
        return Err(Fault::unsupported(at, "`strftime_now` with a computed format"));
    };
    let mut builder = Builder { at, parts: Vec::new() };
    builder.format(format)?;
    Ok(Expr::new(at, ExprKind::Concat(builder.parts)))
}
