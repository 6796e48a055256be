/* The names in libgcc_s.so.1 that the native parts call, for linking alone: at run time it is the
 * system's own. */
#define STANDS_FOR(function) void function(void) {}
#pragma clang diagnostic ignored "-Wincompatible-library-redeclaration"

STANDS_FOR(_Unwind_GetIP)
STANDS_FOR(_Unwind_Resume)
STANDS_FOR(_Unwind_Backtrace)
STANDS_FOR(__gcc_personality_v0)
