/* Runs the aarch64 program beside it, PROGRAM.aarch64, under qemu-user: see machine.py. Static, so
 * that what is preloaded into that program is not preloaded into this one. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words)
{
    char program[PATH_MAX + sizeof ".aarch64"];
    const ssize_t length = readlink("/proc/self/exe", program, PATH_MAX);
    char **command = calloc((size_t)count + 4, sizeof *command);
    if (length < 0 || length == PATH_MAX || command == NULL) {
        perror("run_under_qemu");
        return 127;
    }
    memcpy(program + length, ".aarch64", sizeof ".aarch64");
    command[0] = "qemu-aarch64";
    command[1] = "-L";
    command[2] = ROOT;
    command[3] = program;
    for (int i = 1; i < count; i++)
        command[i + 3] = words[i];
    execv(QEMU, command);
    perror(QEMU);
    return 127;
}
