#!/usr/bin/env bash
# Static musl binaries of `tinyrustlm` run prompts with the native bits: musl.sh [SLM]
#
# x86_64 as it is; aarch64 linked by rust-lld and run under qemu-user (NEON kernels), once with the emulator's newest CPU
# and once as a Cortex-A53, which has none of the later extensions.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
slm=${1:-$root/target/release/slm}
cd "$root"

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
    cargo build --quiet --release --locked -p tinyrustlm --bin tinyrustlm --target "$target"
    binary=target/$target/release/tinyrustlm
    if readelf -d "$binary" | grep -q NEEDED; then
        echo "$binary is not static" >&2
        exit 1
    fi
    case $target in
        x86_64*) runners=("") ;;
        *) runners=("qemu-aarch64-static" "qemu-aarch64-static -cpu cortex-a53") ;;
    esac
    for runner in "${runners[@]}"; do
        for model in fixtures/models/*.slm; do
            # shellcheck disable=SC2086 # the emulator and its arguments
            read -r _ ids _ digest < <($runner "$binary" "$model" --ids 256,72,101,108,108,111 -n 16)
            linker/compare.py "$slm" "$model" "$ids" "$digest"
        done
        # A prompt as text, all layers from tokenizer to stream, against the other program.
        model=fixtures/models/tiny-odd-q8_0.slm
        # shellcheck disable=SC2086
        here=$($runner "$binary" "$model" -p "Once upon a time" -n 24 | sha256sum)
        there=$("$slm" run "$model" -p "Once upon a time" -n 24 | sha256sum)
        [ "$here" = "$there" ] || { echo "$runner $binary: another text than slm run" >&2; exit 1; }
    done
    echo "$target: $(stat -c %s "$binary") bytes, static"
done
