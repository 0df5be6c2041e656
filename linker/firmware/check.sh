#!/usr/bin/env bash
# Boots the firmware in QEMU and compares tokens and logits with the native ones, bit for bit: check.sh [SLM]
#
# SLM is the native program (target/release/slm). Each generated token must be the native argmax of the tokens before it,
# and the digest of the last logits the native one.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
slm=${1:-$root/target/release/slm}
elf=$root/target/firmware/thumbv7em-none-eabihf/release/firmware
out=$root/target/firmware/output.txt

# The configuration beside the manifest names target and runner.
(cd "$here" && cargo build --quiet --release --locked)
timeout 120 qemu-system-arm -M mps2-an386 -nographic -semihosting-config enable=on,target=native -kernel "$elf" \
    </dev/null >"$out"
# Every frame must be readable; the first model's are shown.
"$here/frames.py" "$elf" <"$out" >"$out.events"
sed -n 1,4p "$out.events"
grep -v '^defmt ' "$out" >"$out.models"

models=0
while read -r name _ ids _ digest; do
    "$root/linker/compare.py" "$slm" "$root/fixtures/models/$name.slm" "$ids" "$digest"
    models=$((models + 1))
done <"$out.models"
[ "$models" -eq 5 ] || { echo "the firmware ran $models models, not 5" >&2; exit 1; }
size=$(size -A "$elf" | awk '$1 == ".text" || $1 == ".data" { n += $2 } END { print n }')
echo "$models models equal to native; code and data of the firmware: $size bytes"
