/* What a server hands to a loadable function, and expects of it: MySQL's and MariaDB's public
 * interface of loadable functions (MySQL manual, "Adding a Loadable Function"; MariaDB,
 * "User-Defined Functions Calling Sequences").
 *
 * Declared here, so that no server's headers are needed to build. MariaDB's my_bool is a char of 0
 * or 1, MySQL's is bool: one byte with the same values, in the same place. The layouts are the same
 * since MySQL 5.0.
 */
#ifndef DBALLOC_UDF_ABI_H
#define DBALLOC_UDF_ABI_H

#include <stdbool.h>

struct udf_arguments {
    unsigned int count;
    int *types;
    char **values;
    unsigned long *lengths;
    char *maybe_null;
    char **names;
    unsigned long *name_lengths;
    void *extension;
};

struct udf {
    bool maybe_null;
    unsigned int decimals;
    unsigned long max_length; /* of the text that the function returns, bytes */
    char *own; /* what the function keeps from one call to the next: from init to deinit */
    bool constant;
    void *extension;
};

/* The server's buffer for the message of a refusal holds 512 bytes (MYSQL_ERRMSG_SIZE). */
enum { UDF_MESSAGE = 512 };

#define UDF_EXPORT __attribute__((visibility("default")))

#endif
