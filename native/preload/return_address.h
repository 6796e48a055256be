/* Return addresses as they are in frames: on aarch64 a program may have been built to sign them
 * (-mbranch-protection), and some of its libraries not.
 */
#ifndef DBALLOC_PRELOAD_RETURN_ADDRESS_H
#define DBALLOC_PRELOAD_RETURN_ADDRESS_H

#include <stdint.h>

/* The address without its signature; the same where it has none. XPACLRI (Arm Architecture Reference
 * Manual, C6.2) lies among the hints, so a processor that cannot sign, and so has not, does nothing:
 * nobody needs to know how anything was built, or what it runs on. It works on x30 alone. */
static inline uintptr_t return_address_strip(uintptr_t address)
{
#if defined __aarch64__
    register uintptr_t lr __asm__("x30") = address;
    __asm__("hint #7" : "+r"(lr));
    return lr;
#else
    return address;
#endif
}

#endif
