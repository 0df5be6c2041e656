//! What loading a model costs, step by step, beside what reading its bytes takes at least.
//!
//!     cargo run --release -p tinyrustlm-benches --no-default-features --bin load -- [ROUNDS] MODEL.slm...
//!
//! 5 rounds by default, in which all files take turns. They are in the page cache: each is read once before. One thread.
//! Printed are medians; the limit is the time to read the mapped file once more in the same round, and a share is the limit's
//! part of a step's time in that round. With several files the cost of each step for a megabyte is printed too,
//! the smallest file first: where it stays the same, the cost grows with the file.
//!
//! `read, ordinary pages` is a copy in pages the system gives unasked. Where `transparent_hugepage` is `always` these are
//! huge, too.

use std::error::Error;
use tinyrustlm::core::container::checksum;
use tinyrustlm::core::kernels::Serial;
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::{DEFAULT_BATCH, DEFAULT_CONTEXT, Plan};
use tinyrustlm::core::session::Session;
use tinyrustlm::measure::{Clock, read_seconds};
use tinyrustlm::{Backing, Memory, ModelFile, describe, detect};
use tinyrustlm_benches::{Table, Turns, timed};

const USAGE: &str = "usage: load [ROUNDS] MODEL.slm...";

/// What is measured, in its order, and whether it reads the whole file.
const STEPS: [(&str, bool); 15] = [
    ("open, mapped", false),
    ("first read, mapped", true),
    ("limit: second read", true),
    ("checksum", true),
    ("parse, checksum included", true),
    ("tokenizer", false),
    ("plan and memory", false),
    ("first step", false),
    ("second step", false),
    ("read, ordinary pages", true),
    ("read, huge pages", true),
    ("limit, huge pages", true),
    ("checksum, huge pages", true),
    ("all to the first step, mapped", true),
    ("all to the first step, huge pages", true),
];
const LIMIT: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let rounds = arguments.next_if(|word| word.parse::<usize>().is_ok()).map_or(Ok(5), |word| word.parse::<usize>())?;
    let paths: Vec<String> = arguments.collect();
    if rounds == 0 || paths.is_empty() || paths.iter().any(|path| path.starts_with('-')) {
        return Err(USAGE.into());
    }
    let mut files = vec![];
    for path in paths {
        let bytes = std::fs::read(&path).map_err(|e| format!("{path}: {e}"))?.len();
        files.push((bytes, path, Turns::new(STEPS.len())));
    }
    files.sort_by_key(|(bytes, ..)| *bytes);
    for _ in 0..rounds {
        for (_, path, turns) in &mut files {
            let seconds = measure(path).map_err(|e| format!("{path}: {e}"))?;
            seconds.into_iter().enumerate().for_each(|(step, seconds)| turns.put(step, seconds));
        }
    }
    let pages = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    println!("{rounds} rounds, {}, one thread; huge pages: {}", detect().name(), pages.trim());
    for (bytes, path, turns) in &files {
        println!("\n{path}, {:.1} MB", *bytes as f64 / 1e6);
        let table = Table::new(&[("step", 33), ("ms", 10), ("MB/s", 9), ("of the limit", 13)]);
        for (step, (name, whole)) in STEPS.into_iter().enumerate() {
            let seconds = turns.median(step);
            let rate = whole.then(|| format!("{:.0}", *bytes as f64 / seconds / 1e6));
            let share = whole.then(|| format!("{:.0} %", 100.0 * turns.ratio(LIMIT, step)));
            let cells = [name.to_owned(), format!("{:.3}", seconds * 1e3), rate.unwrap_or_default()];
            table.row(cells.into_iter().chain(share));
        }
    }
    if files.len() > 1 {
        println!();
        let sizes: Vec<String> = files.iter().map(|(bytes, ..)| format!("{:.1} MB", *bytes as f64 / 1e6)).collect();
        let columns: Vec<(&str, usize)> = sizes.iter().map(|size| (size.as_str(), 10)).collect();
        let table = Table::new(&[&[("us for a megabyte", 33)], columns.as_slice()].concat());
        for (step, (name, _)) in STEPS.into_iter().enumerate() {
            let figures =
                files.iter().map(|(bytes, _, turns)| format!("{:.2}", turns.median(step) * 1e12 / *bytes as f64));
            table.row([name.to_owned()].into_iter().chain(figures));
        }
    }
    Ok(())
}

/// Seconds of each of [`STEPS`].
fn measure(path: &str) -> Result<[f64; STEPS.len()], Box<dyn Error>> {
    let (open, file) = timed(|| ModelFile::open(path));
    let file = file?;
    let said = |e| describe(e, Some(file.bytes()));
    let first_read = read_seconds(Clock::Wall, file.bytes(), &Serial);
    let limit = read_seconds(Clock::Wall, file.bytes(), &Serial);
    let (sum, _) = timed(|| std::hint::black_box(checksum(file.bytes())));
    let (parse, model) = timed(|| Model::parse(file.bytes()));
    let model = model.map_err(said)?;
    let (tokenizer, checked) = timed(|| model.tokenizer());
    checked.map_err(said)?;
    let (planned, started) = timed(|| planned(&model));
    let (plan, mut memory) = started.map_err(|e| e.to_string())?;
    let (made, session) = timed(|| Session::new(&model, plan, memory.blocks(), detect()));
    let mut session = session.map_err(said)?;
    let (first, done) = timed(|| session.step(0, &Serial).map(|_| ()));
    done.map_err(said)?;
    let (second, done) = timed(|| session.step(0, &Serial).map(|_| ()));
    done.map_err(said)?;

    let (ordinary, copy) = timed(|| std::fs::read(path));
    drop(copy?);
    let (huge, copy) = timed(|| ModelFile::open_as(path, Backing::HugePages));
    let copy = copy?;
    let huge_limit = read_seconds(Clock::Wall, copy.bytes(), &Serial);
    let (huge_sum, _) = timed(|| std::hint::black_box(checksum(copy.bytes())));
    drop(copy);
    let all = |backing| {
        let (seconds, done) = timed(|| start(path, backing));
        done.map(|()| seconds)
    };
    Ok([
        open,
        first_read,
        limit,
        sum,
        parse,
        tokenizer,
        planned + made,
        first,
        second,
        ordinary,
        huge,
        huge_limit,
        huge_sum,
        all(Backing::Mapped)?,
        all(Backing::HugePages)?,
    ])
}

/// The plan a program makes where nobody says otherwise, and its memory.
fn planned(model: &Model<'_>) -> Result<(Plan, Memory), Box<dyn Error>> {
    let context = DEFAULT_CONTEXT.min(model.config.max_context);
    let plan = Plan::new(model, context, DEFAULT_BATCH).map_err(|e| describe(e, None))?;
    Ok((plan, Memory::new(&plan)?))
}

/// What a program does before its first token is there, in one go.
fn start(path: &str, backing: Backing) -> Result<(), Box<dyn Error>> {
    let file = ModelFile::open_as(path, backing)?;
    let said = |e| describe(e, Some(file.bytes()));
    let model = Model::parse(file.bytes()).map_err(said)?;
    model.tokenizer().map_err(said)?;
    let (plan, mut memory) = planned(&model)?;
    let mut session = Session::new(&model, plan, memory.blocks(), detect()).map_err(said)?;
    session.step(0, &Serial).map_err(said)?;
    Ok(())
}
