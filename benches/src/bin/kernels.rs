//! The matrix products alone: `kernels [MILLISECONDS] [BACKEND]`, 200 for each figure by default; or
//! `kernels count TYPE TOKENS TIMES`, so many products of one kind and nothing else, for a program that counts instructions.
//!
//! The shapes are those of SmolLM2-135M. One token reads the weights from memory; more of them work from the cache, and
//! then the multiplications decide.

use std::hint::black_box;
use std::time::Instant;
use tinyrustlm::core::container::DType;
use tinyrustlm::core::kernels::codes::encode;
use tinyrustlm::core::kernels::{Codes, Input, Isa, Product, Serial, Step, matmul};
use tinyrustlm::core::model::{Linear, Matrix};
use tinyrustlm::detect;

const SHAPES: [(usize, usize); 4] = [(576, 576), (1536, 576), (576, 1536), (49152, 576)];
const TOKENS: [usize; 3] = [1, 8, 64];
const TYPES: [(DType, &str); 4] =
    [(DType::F32, "f32"), (DType::Q8_0, "q8_0"), (DType::Q4_0, "q4_0"), (DType::Q4_1, "q4_1")];

/// The same numbers on each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }
}

/// Weights of a shape; multiples of 8 rows and 32 columns.
fn weights(dtype: DType, rows: usize, cols: usize, random: &mut Random) -> Vec<u32> {
    if dtype == DType::F32 {
        return (0..rows * cols).map(|_| ((random.next() % 2001) as f32 / 1000.0 - 1.0).to_bits()).collect();
    }
    let words = dtype.group_bytes() / 4;
    let mut data: Vec<u32> = (0..rows / 8 * (cols / 32) * words).map(|_| random.next() << 1).collect();
    for group in data.chunks_exact_mut(words) {
        // Two f16 a word, all of them 2^-8.
        group[..dtype.group_scales() / 2].fill(0x1c00_1c00);
    }
    data
}

/// What is multiplied.
struct Inputs {
    tokens: usize,
    cols: usize,
    floats: Vec<f32>,
    codes: Vec<i16>,
    steps: Vec<Step>,
}

impl Inputs {
    fn new(tokens: usize, cols: usize, random: &mut Random) -> Self {
        let floats: Vec<f32> = (0..tokens * cols).map(|_| (random.next() % 2001) as f32 / 1000.0 - 1.0).collect();
        let (mut codes, mut steps) = (vec![0; floats.len()], vec![Step { d: 0.0, sum: 0 }; floats.len() / 32]);
        encode(Isa::Scalar, &floats, cols, &mut codes, &mut steps);
        Self { tokens, cols, floats, codes, steps }
    }

    fn view(&self) -> Input<'_> {
        let codes = Codes { codes: &self.codes, steps: &self.steps };
        Input { tokens: self.tokens, cols: self.cols, floats: &self.floats, codes }
    }
}

/// `times` products of 576 x 576 weights and `tokens` inputs.
fn repeat(dtype: &str, tokens: usize, times: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (dtype, _) = TYPES.into_iter().find(|(_, name)| *name == dtype).ok_or("no such type")?;
    let (rows, cols) = SHAPES[0];
    let mut random = Random(1);
    let data = weights(dtype, rows, cols, &mut random);
    let matrix = Matrix { dtype, rows, cols, data: bytemuck::cast_slice(&data) };
    let inputs = Inputs::new(tokens, cols, &mut random);
    let mut out = vec![0.0f32; tokens * rows];
    for _ in 0..times {
        matmul(detect(), &Serial, &inputs.view(), &[Product::new(&Linear { matrix, bias: None }, &mut out)])?;
        black_box(&mut out);
    }
    println!("{}", detect().name());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [count, dtype, tokens, times] = arguments.as_slice()
        && count == "count"
    {
        return repeat(dtype, tokens.parse()?, times.parse()?);
    }
    let mut arguments = arguments.into_iter();
    let least: f64 = arguments.next().map_or(Ok(200.0), |text| text.parse::<f64>())? / 1e3;
    let isa = if arguments.next().is_some_and(|name| name == "scalar") { Isa::Scalar } else { detect() };
    let mut random = Random(1);
    println!(
        "{:<5} {:>13} {:>7} {:>11} {:>10} {:>9}   {}",
        "type",
        "shape",
        "tokens",
        "us",
        "GMAC/s",
        "GB/s",
        isa.name()
    );
    for (dtype, name) in TYPES {
        for (rows, cols) in SHAPES {
            let data = weights(dtype, rows, cols, &mut random);
            let matrix = Matrix { dtype, rows, cols, data: bytemuck::cast_slice(&data) };
            for tokens in TOKENS {
                let inputs = Inputs::new(tokens, cols, &mut random);
                let input = inputs.view();
                let mut out = vec![0.0f32; tokens * rows];
                // The best of many short runs: what the kernel takes when nobody disturbs it.
                let again = (20_000_000 / (rows * cols * tokens)).max(1);
                let (mut best, all) = (f64::MAX, Instant::now());
                while all.elapsed().as_secs_f64() < least {
                    let start = Instant::now();
                    for _ in 0..again {
                        let linear = Linear { matrix, bias: None };
                        let product = Product::new(&linear, &mut out);
                        matmul(isa, &Serial, &input, &[product])?;
                        black_box(&mut out);
                    }
                    best = best.min(start.elapsed().as_secs_f64() / again as f64);
                }
                println!(
                    "{name:<5} {:>13} {tokens:>7} {:>11.1} {:>10.2} {:>9.2}",
                    format!("{rows}x{cols}"),
                    best * 1e6,
                    (rows * cols * tokens) as f64 / best / 1e9,
                    (data.len() * 4) as f64 / best / 1e9,
                );
            }
        }
    }
    Ok(())
}
