#!/usr/bin/env bash
# Runs the AVX2 and AVX-512 kernels in Bochs, an emulator that knows both, and compares with portable code bit for bit:
#
#     linker/emulated/check.sh [SLM]
#
# SLM is the native program (target/release/slm). What the emulated machine compares it says itself (src/main.rs); the tokens
# and logits it gives for models, with each instruction set, must be the native ones. Needs what linker/bochs.sh names.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/linker/bochs.sh"
slm=$(realpath "${1:-$root/target/release/slm}")
work=$root/target/emulated/bochs
cd "$here"
cargo build --quiet --release --locked

rm -rf "$work"
mkdir -p "$work/disc/isolinux"
cd "$work"
objcopy -O binary "$root/target/emulated/x86_64-unknown-linux-gnu/release/emulated" disc/emulated
echo 'DEFAULT mboot.c32 /emulated' >disc/isolinux/isolinux.cfg
boot_in_bochs 128 model=corei7_icelake_u 300 output.txt
[ "$(tail -n 1 output.txt)" = done ] || { tail -n 5 output.txt bochs.log >&2; exit 1; }

grep equal$ output.txt || { echo "nothing was compared" >&2; exit 1; }
runs=0
while read -r isa name _ ids _ digest; do
    # Assigned first: within another command a failure would pass unseen.
    equal=$("$root/linker/compare.py" "$slm" "$root/fixtures/models/$name.slm" "$ids" "$digest")
    echo "$isa $equal"
    runs=$((runs + 1))
done < <(grep ' ids ' output.txt)
[ $runs -eq 24 ] || { echo "$runs runs of models, not 24" >&2; exit 1; }
echo "8 models equal to native with scalar, avx2 and avx512 in the emulator"
