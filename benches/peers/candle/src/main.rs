//! Prefill and decode rates of candle on the CPU: candle-peer MODEL.gguf PROMPT TOKENS THREADS
//!
//! PROMPT is a number of made-up ids, after which decoding begins anew at one id, as llama.mjs does; or ids with commas,
//! which decoding continues. Prints one line of JSON.

use anyhow::{Context, Result, ensure};
use candle_peer::Peer;
use std::fs::File;
use std::io::BufReader;
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, prompt, tokens, threads] = args.as_slice() else {
        anyhow::bail!("candle-peer MODEL.gguf PROMPT TOKENS THREADS");
    };
    let tokens: usize = tokens.parse().context("TOKENS")?;
    ensure!(tokens > 1, "TOKENS: the first one is the prompt's");
    // SAFETY: there is no other thread yet.
    unsafe { std::env::set_var("RAYON_NUM_THREADS", threads) };
    // Without this even one thread would hand its work to another one.
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.parse().context("THREADS")?)
        .use_current_thread()
        .build_global()?;

    let start = Instant::now();
    let mut peer = Peer::new(BufReader::new(File::open(file)?))?;
    let load = start.elapsed();

    let continued = prompt.contains(',');
    let ids: Vec<u32> = if continued {
        prompt.split(',').map(str::parse).collect::<Result<_, _>>().context("PROMPT")?
    } else {
        (0..prompt.parse().context("PROMPT")?).map(|i: u64| (i * 2654435761 % 49152) as u32).collect()
    };
    let start = Instant::now();
    let mut generated = vec![peer.next(&ids)?];
    let prefill = start.elapsed();
    if !continued {
        peer.reset();
        generated = vec![peer.next(&ids[..1])?];
    }
    let mut times = Vec::new();
    while generated.len() < tokens {
        let start = Instant::now();
        let next = peer.next(&generated[generated.len() - 1..])?;
        times.push(start.elapsed());
        generated.push(next);
    }
    let decode = if continued {
        times.iter().sum::<Duration>() / times.len() as u32
    } else {
        times.sort_unstable();
        times[times.len() / 2]
    };
    println!(
        "{{\"load_seconds\":{},\"prefill_tokens_per_second\":{},\"decode_tokens_per_second\":{},\"ids\":{generated:?}}}",
        load.as_secs_f64(),
        ids.len() as f64 / prefill.as_secs_f64(),
        1.0 / decode.as_secs_f64(),
    );
    Ok(())
}
