/* Our own image: from the linker's word where it begins. */
#ifndef DBALLOC_PRELOAD_IMAGE_H
#define DBALLOC_PRELOAD_IMAGE_H

extern const char image_start[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));

#endif
