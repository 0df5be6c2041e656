# Sourced by the scripts that run something in Bochs. Needs bochs, bochsbios, vgabios, isolinux, syslinux-common and xorriso.

# boot_in_bochs MEGABYTES CPU SECONDS SERIAL: boots a CD of the folder ./disc, whose isolinux/isolinux.cfg says what runs, on a
# machine of that memory and CPU, for at most so long. What the guest writes to its serial port goes to the file SERIAL.
boot_in_bochs() {
    cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/{ldlinux,libcom32,mboot}.c32 disc/isolinux/
    xorriso -as mkisofs -quiet -o disc.iso -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 \
        -boot-info-table disc 2>xorriso.log
    # No sound: on a machine without a sound card the thread that mixes it can end Bochs by a buffer overflow.
    cat >bochsrc <<END
display_library: rfb, options="timeout=0"
megs: $1
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
cpu: $2
ata0-master: type=cdrom, path=disc.iso, status=inserted
boot: cdrom
speaker: enabled=0
sound: driver=dummy, waveoutdrv=dummy, waveindrv=dummy, midioutdrv=dummy
com1: enabled=1, mode=file, dev=$4
log: bochs.log
panic: action=fatal
END
    echo continue >commands
    rm -f "$4"
    # A guest ends the emulator by a panic; what counts is what was written.
    timeout "$3" bochs-bin -q -f bochsrc -rc commands </dev/null >screen.log 2>&1 || true
}
