#!/usr/bin/env bash
# Runs the AVX2 and AVX-512 kernels in Bochs, an emulator that knows both, and compares with portable code bit for bit:
#
#     linker/emulated/check.sh [SLM]
#
# SLM is the native program (target/release/slm). What the emulated machine compares it says itself (src/main.rs); the tokens
# and logits it gives for models, with each instruction set, must be the native ones. Needs bochs, bochsbios, vgabios,
# isolinux, syslinux-common and xorriso.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
slm=${1:-$root/target/release/slm}
work=$root/target/emulated/bochs
cd "$here"
cargo build --quiet --release --locked

rm -rf "$work"
mkdir -p "$work/disc/isolinux"
cd "$work"
objcopy -O binary "$root/target/emulated/x86_64-unknown-linux-gnu/release/emulated" disc/emulated
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/{ldlinux,libcom32,mboot}.c32 disc/isolinux/
echo 'DEFAULT mboot.c32 /emulated' >disc/isolinux/isolinux.cfg
xorriso -as mkisofs -quiet -o disc.iso -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 \
    -boot-info-table disc 2>xorriso.log

cat >bochsrc <<'END'
display_library: rfb, options="timeout=0"
megs: 128
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
cpu: model=corei7_icelake_u
ata0-master: type=cdrom, path=disc.iso, status=inserted
boot: cdrom
speaker: enabled=0
com1: enabled=1, mode=file, dev=output.txt
log: bochs.log
panic: action=fatal
END
echo continue >commands
# It ends by a panic, which is how a guest ends it; what counts is what was written.
timeout 300 bochs-bin -q -f bochsrc -rc commands </dev/null >screen.log 2>&1 || true
[ "$(tail -n 1 output.txt)" = done ] || { tail -n 5 output.txt bochs.log >&2; exit 1; }

grep equal$ output.txt
runs=0
while read -r isa name _ ids _ digest; do
    echo "$isa $("$root/linker/compare.py" "$slm" "$root/fixtures/models/$name.slm" "$ids" "$digest")"
    runs=$((runs + 1))
done < <(grep ' ids ' output.txt)
[ $runs -eq 24 ] || { echo "$runs runs of models, not 24" >&2; exit 1; }
echo "8 models equal to native with scalar, avx2 and avx512 in the emulator"
