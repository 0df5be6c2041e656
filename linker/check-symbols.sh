#!/usr/bin/env bash
# The core's compiled code calls neither a panic nor the allocator: check-symbols.sh [TARGET...]
#
# Builds the rlib of the core in release without LTO, so that every call is still a symbol, and lists the undefined ones
# of core::panicking and of the allocator. x86_64 is also searched for fused multiply-adds: their bits are others, and a
# CPU with AVX-512 has them, so that a compiler might use them. allowed-symbols.txt names exceptions, one symbol a line; it is meant to be empty.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
failed=0
for target in "${@:-$host}"; do
    CARGO_PROFILE_RELEASE_LTO=off cargo build --quiet --release --locked -p tinyrustlm-core --target "$target" \
        --target-dir target/symbols
    rlib=target/symbols/$target/release/libtinyrustlm_core.rlib
    # GNU nm reads foreign ELF objects by their generic form; the metadata member is no object, hence 2>/dev/null.
    symbols=$(nm -C "$rlib" 2>/dev/null || true)
    count=$(grep -c ' T ' <<<"$symbols" || true)
    # A check that reads nothing passes everything.
    [ "$count" -gt 0 ] || { echo "$rlib: no function found, nothing was checked" >&2; exit 1; }
    bad=$(sed -n 's/^ *U //p' <<<"$symbols" |
        grep -E '^core::.*(panic|fail|expect)|__rust_(alloc|realloc|dealloc)|__rg_alloc|alloc::alloc' |
        sort -u | grep -vxF -f <(grep -v '^#' linker/allowed-symbols.txt) || true)
    fused=
    case $target in x86_64*)
        code=$(objdump -d --no-show-raw-insn "$rlib" 2>/dev/null || true)
        grep -q 'vpdpbusd.*ymm' <<<"$code" || { echo "$rlib: no AVX-512 found, nothing was checked" >&2; exit 1; }
        fused=$(grep -E '\svfn?m(add|sub)' <<<"$code" | head -n 5 || true)
        ;;
    esac
    if [ -n "$fused" ]; then
        printf '%s: the core fuses multiplication and addition:\n%s\n' "$target" "$fused" >&2
        failed=1
    elif [ -n "$bad" ]; then
        echo "$target: the core calls" >&2
        sed 's/^/  /' <<<"$bad" >&2
        # objdump reads the host's code alone; an inlined caller shows as the function it went into.
        objdump -drC --no-show-raw-insn "$rlib" 2>/dev/null | awk -v bad="$bad" '
            BEGIN { split(bad, names, "\n") }
            /^[0-9a-f]+ <.*>:$/ { caller = $2 }
            /R_X86_64/ { for (i in names) if (index($0, names[i])) print "    " names[i] " in " caller }' | sort -u >&2
        failed=1
    else
        echo "$target: $count public functions, no call of a panic or an allocator"
    fi
done
exit $failed
