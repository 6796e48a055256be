/* Included before every file that is built for old systems: these functions got new versions in glibc
 * 2.29 that differ in errno alone. With the older ones what is built runs on the glibc before. */
#if defined __x86_64__
#define DBALLOC_OLDEST "GLIBC_2.2.5"
#elif defined __aarch64__
#define DBALLOC_OLDEST "GLIBC_2.17"
#endif
__asm__(".symver exp, exp@" DBALLOC_OLDEST);
__asm__(".symver exp2, exp2@" DBALLOC_OLDEST);
__asm__(".symver log, log@" DBALLOC_OLDEST);
__asm__(".symver log2, log2@" DBALLOC_OLDEST);
__asm__(".symver pow, pow@" DBALLOC_OLDEST);
