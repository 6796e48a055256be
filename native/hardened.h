/* Included before every file of the native parts: what the compiler was not asked for leaves no
 * trace in what it builds where there is nothing to check at run time, so it is asked for here. */
#ifndef DBALLOC_HARDENED_H
#define DBALLOC_HARDENED_H

#ifndef __OPTIMIZE__
#error "built without optimisation, as _FORTIFY_SOURCE and the probe's frames need; set buildtype"
#endif
#if !defined _FORTIFY_SOURCE || _FORTIFY_SOURCE < 2
#error "built without _FORTIFY_SOURCE: see native/meson.build"
#endif
#ifndef __SSP_STRONG__
#error "built without -fstack-protector-strong: see native/meson.build"
#endif
#ifndef __PIC__
#error "built for a fixed address: see native/meson.build"
#endif

#endif
