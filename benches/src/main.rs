//! Quick figures for kernels at work: `tinyrustlm-benches MODEL [THREADS] [CONTEXT] [BATCH] [ROUNDS]`.

use tinyrustlm::core::kernels::Isa;
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::Plan;
use tinyrustlm::core::session::Session;
use tinyrustlm::measure::{Clock, decode_seconds, median, prefill_seconds, read_seconds};
use tinyrustlm::{Memory, ModelFile, Threads, detect};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize, usual: usize| arguments.get(i).and_then(|a| a.parse().ok()).unwrap_or(usual);
    let path = arguments.get(1).ok_or("usage: tinyrustlm-benches MODEL [THREADS] [CONTEXT] [BATCH] [ROUNDS]")?;
    let start = std::time::Instant::now();
    let file = ModelFile::open(path)?;
    let model = Model::parse(file.bytes())?;
    println!("load {:.3} s", start.elapsed().as_secs_f64());
    let threads = Threads::new(number(2, 1))?;
    let context = number(3, 640);
    let isa = if std::env::var_os("SCALAR").is_some() { Isa::Scalar } else { detect() };
    let plan = Plan::new(&model, context, number(4, 64))?.for_workers(number(2, 1))?;
    let mut memory = Memory::new(&plan)?;
    let mut session = Session::new(&model, plan, memory.blocks(), isa)?;
    let clock = if std::env::var_os("THREAD_CLOCK").is_some() { Clock::Thread } else { Clock::Wall };
    let weights = file.bytes().len() as f64;
    for round in 0..number(5, 5) {
        let read = read_seconds(clock, file.bytes(), &threads);
        let decode = median(decode_seconds(clock, &mut session, &threads, 1, 24)?);
        let tokens = 512.min(context);
        let prefill = prefill_seconds(clock, &mut session, &threads, tokens)?;
        let deep = median(decode_seconds(clock, &mut session, &threads, context - 16, 8)?);
        println!(
            "{round}: {} read {:.1} GB/s, decode {:.1} t/s = {:.0} % of read, prefill {tokens}: {:.0} t/s, decode at {}: {:.1} t/s",
            isa.name(),
            weights / read / 1e9,
            1.0 / decode,
            100.0 * read / decode,
            tokens as f64 / prefill,
            context - 16,
            1.0 / deep,
        );
    }
    Ok(())
}
