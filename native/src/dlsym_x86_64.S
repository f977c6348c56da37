// dlsym and dlvsym: ask the router; return its answer, or jump to the C library's function with the
// caller's own return address still on the stack, so that RTLD_NEXT means the caller.

        .text
        .macro ROUTED name, router
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        call    \router
        movq    %rdx, %rcx
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rcx, %rcx
        jnz     1f
        jmp     *%rax
1:      ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

        ROUTED dlsym, jvgpu_route_dlsym
        ROUTED dlvsym, jvgpu_route_dlvsym

        .section .note.GNU-stack, "", @progbits
