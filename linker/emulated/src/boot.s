# From the boot loader (Multiboot 1, 32 bits, paging off) to 64 bits with every vector register on.
    .section .multiboot, "a"
    .align 4
header:
    .long 0x1badb002, 0x00010000, -(0x1badb002 + 0x00010000)
    .long header, header, 0, bss_end, start

    .section .text.start, "ax"
    .code32
    .globl start
start:
    mov $stack_end, %esp
    # The first GiB where it is, in pages of 2 MiB.
    movl $level3 + 3, level4
    movl $level2 + 3, level3
    mov $level2, %edi
    mov $0x83, %eax
1:  mov %eax, (%edi)
    add $0x200000, %eax
    add $8, %edi
    cmp $level2 + 4096, %edi
    jb 1b
    mov $level4, %eax
    mov %eax, %cr3
    # Physical address extension, SSE and its exceptions, XSAVE.
    mov %cr4, %eax
    or $0x40620, %eax
    mov %eax, %cr4
    mov $0xc0000080, %ecx
    rdmsr
    or $0x100, %eax
    wrmsr
    # Paging on, no emulation of the FPU.
    mov %cr0, %eax
    and $~4, %eax
    or $0x80000003, %eax
    mov %eax, %cr0
    lgdt table_pointer
    ljmp $8, $start64
    .code64
start64:
    mov $16, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov $stack_end, %esp
    # x87, SSE, AVX and the three parts of AVX-512.
    xor %ecx, %ecx
    xor %edx, %edx
    mov $0xe7, %eax
    xsetbv
    call main
2:  hlt
    jmp 2b

    .globl memcpy, memmove, memset, memcmp, bcmp
memcpy:
    mov %rdi, %rax
    mov %rdx, %rcx
    rep movsb
    ret
memmove:
    cmp %rsi, %rdi
    jbe memcpy
    mov %rdi, %rax
    mov %rdx, %rcx
    lea -1(%rdi, %rdx), %rdi
    lea -1(%rsi, %rdx), %rsi
    std
    rep movsb
    cld
    ret
memset:
    mov %rdi, %r8
    mov %esi, %eax
    mov %rdx, %rcx
    rep stosb
    mov %r8, %rax
    ret
memcmp:
bcmp:
    xor %eax, %eax
    mov %rdx, %rcx
    test %rcx, %rcx
    jz 3f
    repe cmpsb
    movzbl -1(%rdi), %eax
    movzbl -1(%rsi), %edx
    sub %edx, %eax
3:  ret

    .section .rodata.table, "a"
    .align 8
table:
    .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
table_pointer:
    .word 23
    .long table

    .section .bss.boot, "aw", @nobits
    .align 4096
level4: .skip 4096
level3: .skip 4096
level2: .skip 4096
    .skip 0x100000
stack_end:
