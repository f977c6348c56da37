// dlsym and dlvsym: ask the router; return its answer, or jump to the C library's function with the
// caller's own return address still in x30, so that RTLD_NEXT means the caller.

        .text
        .macro ROUTED name, router
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:
        .cfi_startproc
        stp     x29, x30, [sp, #-48]!
        .cfi_def_cfa_offset 48
        .cfi_offset x29, -48
        .cfi_offset x30, -40
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        bl      \router
        mov     x16, x0
        mov     x17, x1
        ldr     x2, [sp, #32]
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #48
        .cfi_def_cfa_offset 0
        .cfi_restore x29
        .cfi_restore x30
        cbnz    x17, 1f
        br      x16
1:      mov     x0, x16
        ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

        ROUTED dlsym, jvgpu_route_dlsym
        ROUTED dlvsym, jvgpu_route_dlvsym

        .section .note.GNU-stack, "", %progbits
