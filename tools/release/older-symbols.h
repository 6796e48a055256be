/* Included before every file of the interpreter: these functions got new versions in glibc 2.29 that
 * differ in errno alone. The older ones let the portable file run on the glibc before. */
#ifdef __x86_64__
__asm__(".symver exp, exp@GLIBC_2.2.5");
__asm__(".symver exp2, exp2@GLIBC_2.2.5");
__asm__(".symver log, log@GLIBC_2.2.5");
__asm__(".symver log2, log2@GLIBC_2.2.5");
__asm__(".symver pow, pow@GLIBC_2.2.5");
#endif
