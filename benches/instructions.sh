#!/usr/bin/env bash
# Instructions of the matrix products, counted: instructions.sh [--write]
#
# Times of a shared machine tell a small loss of speed from noise badly; counts do not vary. For each type and number of
# tokens the instructions of one product of 576 x 576 weights, as callgrind counts them on the AVX2 path, are compared with
# benches/instructions.json: more than 3 % above it fails. --write takes the new counts for good. Needs valgrind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
baseline=benches/instructions.json
cargo build --quiet --release --locked -p tinyrustlm-benches --no-default-features --bin kernels
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Instructions of a run with so many products.
counted() {
    valgrind --tool=callgrind --callgrind-out-file="$scratch/out" target/release/kernels count "$1" "$2" "$3" >"$scratch/isa" 2>"$scratch/log" ||
        { cat "$scratch/log" >&2; exit 1; }
    [ "$(cat "$scratch/isa")" = avx2 ] || { echo "counted on $(cat "$scratch/isa"), not on avx2" >&2; exit 1; }
    sed -n 's/^summary: //p;s/^totals: //p' "$scratch/out" | head -n 1
}

for type in f32 bf16 q8_0 q4_0 q4_1; do
    for tokens in 1 8; do
        # The difference leaves out everything but the products.
        echo "$type $tokens $((($(counted $type $tokens 9) - $(counted $type $tokens 1)) / 8))"
    done
done >"$scratch/counts"

python3 - "$scratch/counts" "$baseline" "${1:-}" <<'PY'
import json, sys
counts = {}
for line in open(sys.argv[1]):
    kind, tokens, count = line.split()
    counts[f"{kind} x {tokens}"] = int(count)
if sys.argv[3] == "--write":
    json.dump(counts, open(sys.argv[2], "w"), indent=2)
    open(sys.argv[2], "a").write("\n")
known = json.load(open(sys.argv[2]))
failed = False
for name, count in counts.items():
    tokens = int(name.rsplit(" ", 1)[1])
    change = count / known[name] - 1
    failed |= change > 0.03
    print(f"{name:10} {count:10} instructions, {576 * 576 * tokens / count:5.2f} products each, {change:+.1%} {'TOO MANY' if change > 0.03 else ''}".rstrip())
sys.exit(failed)
PY
