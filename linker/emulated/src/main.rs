//! Every instruction set of x86-64 against portable code, on an emulated CPU that has them all.
//!
//! Output, read by `check.sh`: lines `ISA KIND: N comparisons equal`; per instruction set and model
//! `ISA NAME ids 1,2,3 sha256 HEX` as the firmware writes them; at the end `done`, or `failed` with the reason.
#![no_std]
#![no_main]

#[path = "../../greedy.rs"]
mod greedy;

use core::arch::{asm, global_asm, x86_64::__cpuid_count};
use core::fmt::{self, Write as _};
use greedy::{IDS, model};
use tinyrustlm_core::container::DType;
use tinyrustlm_core::kernels::codes::encode;
use tinyrustlm_core::kernels::{Avx2, Avx512, Codes, Input, Isa, Product, Serial, Step, matmul};
use tinyrustlm_core::model::{Activation, Linear, Matrix, Model};
use tinyrustlm_core::ops::activation::{finish_logits, gate};
use tinyrustlm_core::ops::residual::add_scaled;
use tinyrustlm_core::ops::rms_norm::rms_norm;
use tinyrustlm_core::ops::rope::rotate;
use tinyrustlm_core::plan::Plan;
use tinyrustlm_core::session::Session;
use tinyrustlm_core::{Block64, Error};

global_asm!(include_str!("boot.s"), options(att_syntax));

const BLOCKS: usize = 65536;
static mut MEMORY: [Block64; BLOCKS] = [Block64::ZERO; BLOCKS];

#[unsafe(no_mangle)]
extern "C" fn main() {
    // Line control of the serial port: 8 bits.
    output(0x3fb, 3);
    let leaf = |leaf, sub| __cpuid_count(leaf, sub);
    let (one, seven) = (leaf(1, 0), leaf(7, 0));
    // F16C; AVX2, AVX512F, AVX512BW, AVX512VL; AVX512VNNI.
    let wanted = 1 << 5 | 1 << 16 | 1 << 30 | 1 << 31;
    if one.ecx >> 29 & 1 == 0 || seven.ebx & wanted != wanted || seven.ecx >> 11 & 1 == 0 {
        return end("failed: this CPU lacks AVX-512 with VNNI");
    }
    // SAFETY: just seen; `boot.s` turned the registers on.
    let all = unsafe { [Isa::Avx2(Avx2::assume()), Isa::Avx512(Avx512::assume())] };
    for isa in all {
        if !products(isa) || !operators(isa) {
            return end("failed: other bits than portable code");
        }
    }
    // SAFETY: `main` runs once and is the only place that names MEMORY.
    #[allow(clippy::deref_addrof)]
    let memory = unsafe { &mut *&raw mut MEMORY };
    for isa in [Isa::Scalar, all[0], all[1]] {
        if !matches!(generate_all(isa, memory), Ok(true)) {
            return end("failed: a model");
        }
    }
    end("done");
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// In -1..1.
    fn float(&mut self) -> f32 {
        self.word() as f32 / 2_147_483_648.0 - 1.0
    }
}

const MOST: usize = 69;
const TOKENS: usize = 17;

/// Matrix products of every size from 1 to 69, for 1 to 17 tokens.
fn products(isa: Isa) -> bool {
    let mut random = Random(21);
    let mut count = 0;
    let mut data = greedy::Aligned([0u8; MOST * MOST * 4 + 64]);
    let mut x = [0.0f32; TOKENS * MOST];
    let mut pairs = [0i32; TOKENS * 48];
    let mut steps = [Step { d: 0.0, sum: 0 }; TOKENS * 3];
    let mut outs = [[0.0f32; TOKENS * MOST]; 2];
    for rows in 1..=MOST {
        let cols = 1 + (rows * 29 + 7) % MOST;
        for dtype in [DType::F32, DType::Bf16, DType::Q8_0, DType::Q4_0, DType::Q4_1] {
            let blocks = cols.div_ceil(32);
            let (shift, len) = match dtype {
                DType::F32 => (rows % 4 * 4, rows * cols * 4),
                DType::Bf16 => (rows % 13 * 2, rows * cols * 2),
                _ => (rows % 13, rows.div_ceil(8) * blocks * dtype.group_bytes()),
            };
            let data = &mut data.0[shift..shift + len];
            fill(&mut random, dtype, data);
            for tokens in [1, 2, 3, 8, 13, TOKENS] {
                let x = &mut x[..tokens * cols];
                x.fill_with(|| random.float());
                let codes = bytemuck::cast_slice_mut(&mut pairs[..tokens * blocks * 16]);
                let steps = &mut steps[..tokens * blocks];
                let mut coded = [0; 2];
                for ((isa, out), coded) in [Isa::Scalar, isa].into_iter().zip(&mut outs).zip(&mut coded) {
                    encode(isa, x, cols, codes, steps);
                    let codes = Codes { codes, steps };
                    *coded = hash(&codes, isa, tokens, blocks);
                    out.fill(f32::NAN);
                    let input = Input { tokens, cols, floats: x, codes };
                    let linear = Linear { matrix: Matrix { dtype, rows, cols, data }, bias: None };
                    if matmul(isa, &Serial, &input, &[Product::new(&linear, &mut out[..tokens * rows])]).is_err() {
                        return false;
                    }
                }
                if coded[0] != coded[1] {
                    say(format_args!("{}: codes of {tokens} x {cols}", isa.name()));
                    return false;
                }
                if !equal(&outs[0], &outs[1]) {
                    say(format_args!("{}: {dtype:?} {rows} x {cols}, {tokens} tokens", isa.name()));
                    return false;
                }
                count += 1;
            }
        }
    }
    say(format_args!("{} products: {count} comparisons equal", isa.name()));
    true
}

/// FNV-1a, by words, of the codes in the order of their columns and of the steps.
fn hash(all: &Codes<'_>, isa: Isa, tokens: usize, blocks: usize) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut take = |word: u32| hash = (hash ^ u64::from(word)).wrapping_mul(0x100_0000_01b3);
    for token in 0..tokens {
        for index in 0..blocks {
            let (codes, step) = all.block(tokens, blocks, token, index);
            codes.as_chunks().0.iter().flat_map(|places| isa.columns(*places)).for_each(|code| take(code as u32));
            take(step.d.to_bits());
            take(isa.sum_of_codes(step.sum) as u32);
        }
    }
    hash
}

/// Weights: any codes, scales of either sign from 2^-8 to 2^-4; every seventh matrix all -128 (nibbles all 0 or 15).
fn fill(random: &mut Random, dtype: DType, data: &mut [u8]) {
    if !dtype.is_quantised() {
        let size = if dtype == DType::F32 { 4 } else { 2 };
        data.chunks_mut(size).for_each(|value| value.copy_from_slice(&random.float().to_le_bytes()[4 - size..]));
        return;
    }
    let extreme = [None, None, None, None, Some(0x80), Some(0xff), Some(0)][random.word() as usize % 7];
    for group in data.chunks_mut(dtype.group_bytes()) {
        let (scales, codes) = group.split_at_mut(2 * dtype.group_scales());
        for scale in scales.chunks_mut(2) {
            let bits = (random.word() as u16 & 0x8fff) + 0x1c00;
            scale.copy_from_slice(&bits.to_le_bytes());
        }
        codes.fill_with(|| extreme.unwrap_or(random.word() as u8));
    }
}

/// The operators over 1 to 69 floats, those that are not finite included.
fn operators(isa: Isa) -> bool {
    let special =
        [0.0, -0.0, f32::MIN_POSITIVE, 1e-42, -1e-42, 88.5, -103.0, f32::MAX, f32::INFINITY, -f32::INFINITY, f32::NAN];
    let mut random = Random(22);
    let mut count = 0;
    for n in 1..=MOST {
        let mut floats = [[0.0f32; MOST]; 2];
        for value in floats.as_flattened_mut() {
            *value = match random.word() % 3 {
                0 => special[random.word() as usize % special.len()],
                1 => random.float() * 100.0,
                _ => random.float(),
            };
        }
        let (x, y) = (&floats[0][..n], &floats[1][..n]);
        for operator in 0..6 {
            let mut out = [[0.0f32; 2 * MOST]; 2];
            let mut said = [true; 2];
            for ((isa, out), said) in [Isa::Scalar, isa].into_iter().zip(&mut out).zip(&mut said) {
                out[..n].copy_from_slice(x);
                out[n..2 * n].copy_from_slice(x);
                let (one, both) = (n, 2 * n);
                match operator {
                    0 => gate(isa, Activation::Silu, &mut out[..one], y),
                    1 => gate(isa, Activation::GeluTanh, &mut out[..one], y),
                    2 => *said = finish_logits(isa, &mut out[..one], 7.0, 30.0),
                    3 => *said = add_scaled(isa, &mut out[..one], y, 0.3),
                    4 => rms_norm(isa, &mut out[..one], y, 1e-5),
                    _ => rotate(isa, &mut out[..both], both, x, y),
                }
            }
            if said[0] != said[1] || !equal(&out[0], &out[1]) {
                say(format_args!("{}: operator {operator} of {n}", isa.name()));
                return false;
            }
            count += 1;
        }
    }
    say(format_args!("{} operators: {count} comparisons equal", isa.name()));
    true
}

/// The same bits; which NaN comes out is not part of the law.
fn equal(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
}

fn generate_all(isa: Isa, memory: &mut [Block64]) -> Result<bool, Error> {
    for (name, file) in [
        model!("tiny-f32"),
        model!("tiny-q8_0"),
        model!("tiny-q4_0"),
        model!("tiny-odd-f32"),
        model!("tiny-odd-bf16"),
        model!("tiny-odd-q8_0"),
        model!("tiny-odd-q4_0"),
        model!("tiny-odd-q4_1"),
    ] {
        if !generate(isa, name, file, memory)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn generate(isa: Isa, name: &str, file: &'static [u8], memory: &mut [Block64]) -> Result<bool, Error> {
    let model = Model::parse(file)?;
    let plan = Plan::new(&model, IDS, 16)?;
    let mut session = Session::new(&model, plan, memory, isa)?;
    let answer = greedy::generate(&mut session)?;
    // All of them once more, in passes of several tokens.
    session.reset();
    if greedy::digest(session.prefill(&answer.ids, &Serial)?) != answer.digest {
        say(format_args!("{} {name}: a prompt gives other logits than its tokens one by one", isa.name()));
        return Ok(false);
    }
    let _ = write!(Serial1, "{} ", isa.name());
    let _ = greedy::report(&mut Serial1, name, &answer);
    Ok(true)
}

/// The first serial port, which the emulator writes to a file.
struct Serial1;

impl fmt::Write for Serial1 {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| {
            // Bit 5 of the line status: room for a byte.
            while input(0x3fd) & 0x20 == 0 {}
            output(0x3f8, byte);
        });
        Ok(())
    }
}

fn input(port: u16) -> u8 {
    let value;
    // SAFETY: reading the serial port's status touches no memory.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) };
    value
}

fn output(port: u16, value: u8) {
    // SAFETY: no port written to here touches memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) };
}

fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(Serial1, "{line}");
}

/// The last line; Bochs then ends at the word it listens for.
fn end(line: &str) {
    say(format_args!("{line}"));
    // Bit 6: the last byte has left.
    while input(0x3fd) & 0x40 == 0 {}
    "Shutdown".bytes().for_each(|byte| output(0x8900, byte));
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    say(format_args!("{info}"));
    end("failed: panic");
    loop {}
}
