#!/usr/bin/env bash
# The core's unit tests under AddressSanitizer: all of them on this machine, then the kernels' in a Linux inside of Bochs,
# whose CPU has AVX-512 with VNNI. The buffers of those tests end where an allocation ends, so that a kernel which reads or
# writes one lane too many is named.
#
#     linker/sanitized/check.sh
#
# Needs a nightly toolchain, what linker/bochs.sh names, and Debian's apt-get, which fetches a kernel and busybox once, 28 MB,
# into target/ and installs neither. The emulator takes about three minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. linker/bochs.sh
target=x86_64-unknown-linux-gnu
work=$PWD/target/sanitized
linux=$work/linux
mkdir -p "$work"

# fail WHAT LOG: the report in the log, or its end, and the lines of source that the addresses of a report stand for.
fail() {
    echo "$1" >&2
    { sed -n '/ERROR: AddressSanitizer/,/^SUMMARY/p' "$2" | grep . || tail -n 60 "$2"; } >&2
    grep -oE '/tests\+0x[0-9a-f]+' "$2" | cut -d+ -f2 | xargs -r addr2line -ifCse "$binary" | paste - - | sed -n 1,20p >&2
    exit 1
}

binary=$(RUSTFLAGS=-Zsanitizer=address CARGO_PROFILE_RELEASE_CHECKED_DEBUG=line-tables-only cargo +nightly test --quiet --locked \
    -p tinyrustlm-core --lib --profile release-checked --target $target --target-dir "$work" --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
started=$SECONDS
ASAN_OPTIONS=allow_addr2line=1 "$binary" --test-threads=1 --nocapture >"$work/native.txt" 2>&1 ||
    fail "here, under AddressSanitizer:" "$work/native.txt"
echo "here: $(grep -oE '[0-9]+ passed' "$work/native.txt"), $(grep -o 'ran: .*' "$work/native.txt" | sort -u), $((SECONDS - started)) s"

if [ ! -f "$linux/vmlinuz" ]; then
    rm -rf "$linux"
    mkdir -p "$linux"
    kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
    [ -n "$kernel" ] || { echo "apt knows no linux-image-cloud-amd64; apt-get update" >&2; exit 1; }
    (cd "$linux" && apt-get -qq -o APT::Sandbox::User=root download "$kernel" busybox-static &&
        for deb in *.deb; do dpkg -x "$deb" .; done && mv boot/vmlinuz-* vmlinuz) >&2
fi

# A system of the tests, their libraries and a shell. What the emulator has no time for, the run above has looked at: frames
# of functions that have returned.
cd "$work"
rm -rf system disc
mkdir -p system/proc system/bin disc/isolinux
objcopy --strip-debug "$binary" system/tests
ldd "$binary" | grep -o '/[^ ]*' | while read -r library; do install -D "$library" "system$library"; done
cp "$(find "$linux" -path '*bin/busybox')" system/bin/busybox
cat >system/init <<'END'
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
export ASAN_OPTIONS=color=never:detect_stack_use_after_return=0
/tests --test-threads=1 --nocapture tests::kernels
echo "status $?"
# What was written has to leave the serial port.
/bin/busybox sleep 1
/bin/busybox poweroff -f
END
chmod +x system/init
(cd system && find . | bin/busybox cpio -o -H newc) >disc/initrd 2>/dev/null

cp "$linux/vmlinuz" disc/
# The emulator reports sizes for PKU and compact XSAVE that Linux rejects, and of the fast string moves only the newer kind,
# which Linux takes for both. Its time goes by instructions, 50 million a second.
cat >disc/isolinux/isolinux.cfg <<'END'
DEFAULT linux
LABEL linux
KERNEL /vmlinuz
APPEND initrd=/initrd console=ttyS0,115200 quiet panic=-1 clearcpuid=pku,xsavec,xsaves,fsrm tsc_early_khz=50000 tsc=reliable no_timer_check random.trust_cpu=on nokaslr mitigations=off lsm= initcall_blacklist=crypto_algapi_init,load_system_certificate_list
END
started=$SECONDS
boot_in_bochs 512 "model=corei7_icelake_u, ips=50000000, reset_on_triple_fault=0" 1800 serial.txt
tr -d '\r' <serial.txt >emulated.txt
sets=$(grep -o 'ran: .*' emulated.txt | sort -u)
wanted=$(grep -c '^test tests::kernels::' native.txt)
grep -qx 'status 0' emulated.txt && grep -q "^test result: ok. $wanted passed; 0 failed; 0 ignored" emulated.txt ||
    fail "in the emulator, under AddressSanitizer:" emulated.txt
[ "$sets" = "ran: scalar avx2 avx512" ] || fail "in the emulator, not every instruction set:" emulated.txt
echo "in the emulator: $wanted passed, $sets, $((SECONDS - started)) s"
