/* The archive, which PAYLOAD names, as read-only data between two symbols. */
    .section .rodata.payload, "a"
    .balign 4096
    .globl payload_start
    .globl payload_end
    .hidden payload_start
    .hidden payload_end
payload_start:
    .incbin PAYLOAD
payload_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
