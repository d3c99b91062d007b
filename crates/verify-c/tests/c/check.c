/*
 * Test program of lineside_verify.h. Its argument is the flags of the verifier. It prints the layout of lineside_item,
 * checks the errors of all functions, and then reads cases from standard input, one a line: curve, encoding, key,
 * digest, signature; the last three in hexadecimal digits, "-" for an empty signature. It verifies all cases in one
 * batch, half of them with prepared keys, and prints a line with validity and reason for each.
 */
#include "lineside_verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES_MAX 512
/* Wycheproof's longest signature, which is malformed, has 4172 bytes. */
#define SIGNATURE_MAX 4200

static void require(int holds, const char *what, int line)
{
    if (!holds) {
        fprintf(stderr, "check.c:%d: %s\n", line, what);
        exit(1);
    }
}
#define REQUIRE(condition) require((condition), #condition, __LINE__)

/* Reads hexadecimal digits, and returns the number of bytes. */
static size_t read_hex(const char *text, uint8_t *bytes, size_t room)
{
    size_t count = strcmp(text, "-") == 0 ? 0 : strlen(text) / 2;
    REQUIRE(count <= room);
    for (size_t i = 0; i < count; i++) {
        unsigned value;
        REQUIRE(sscanf(text + 2 * i, "%2x", &value) == 1);
        bytes[i] = (uint8_t)value;
    }
    return count;
}

/* The generator of P-256, as a compressed key. */
static const char GENERATOR[] = "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296";

static void check_errors(void)
{
    lineside_verifier *verifier = NULL;
    lineside_public_key *key = NULL;
    lineside_prepared_key *prepared = NULL;
    uint8_t bytes[65] = {0}, digest[LINESIDE_DIGEST_BYTES] = {7}, valid[2] = {9, 9}, reasons[2] = {9, 9};

    REQUIRE(lineside_verify_abi_version() == LINESIDE_VERIFY_ABI_VERSION);
    for (int32_t status = -1; status < 8; status++)
        REQUIRE(strlen(lineside_status_text(status)) > 10);

    REQUIRE(lineside_verifier_new(0, 0, NULL) == LINESIDE_NULL_POINTER);
    REQUIRE(lineside_verifier_new(0, 2, &verifier) == LINESIDE_UNKNOWN_OPTION);
    REQUIRE(verifier == NULL);
    REQUIRE(lineside_verifier_new(1 << 20, LINESIDE_LOW_S, &verifier) == LINESIDE_OK);

    REQUIRE(read_hex(GENERATOR, bytes, sizeof bytes) == 33);
    REQUIRE(lineside_public_key_new(LINESIDE_P256, bytes, 33, NULL) == LINESIDE_NULL_POINTER);
    REQUIRE(lineside_public_key_new(LINESIDE_P256, NULL, 33, &key) == LINESIDE_NULL_POINTER);
    REQUIRE(lineside_public_key_new(0, bytes, 33, &key) == LINESIDE_UNKNOWN_OPTION);
    REQUIRE(lineside_public_key_new(LINESIDE_P256, bytes, 32, &key) == LINESIDE_BAD_KEY);
    REQUIRE(lineside_public_key_new(LINESIDE_P256, bytes, 0, &key) == LINESIDE_BAD_KEY);
    bytes[1] = 0xff;
    memset(bytes + 1, 0xff, 32);
    REQUIRE(lineside_public_key_new(LINESIDE_P256, bytes, 33, &key) == LINESIDE_BAD_KEY);
    REQUIRE(key == NULL);
    read_hex(GENERATOR, bytes, sizeof bytes);
    REQUIRE(lineside_public_key_new(LINESIDE_P256, bytes, 33, &key) == LINESIDE_OK);

    REQUIRE(lineside_prepared_key_new(NULL, key, 0, &prepared) == LINESIDE_NULL_POINTER);
    REQUIRE(lineside_prepared_key_new(verifier, NULL, 0, &prepared) == LINESIDE_NULL_POINTER);
    REQUIRE(lineside_prepared_key_new(verifier, key, 0, NULL) == LINESIDE_NULL_POINTER);
    REQUIRE(prepared == NULL);
    {
        lineside_verifier *small = NULL;
        REQUIRE(lineside_verifier_new(1, 0, &small) == LINESIDE_OK);
        REQUIRE(lineside_prepared_key_new(small, key, 0, &prepared) == LINESIDE_NO_ROOM);
        lineside_verifier_free(small);
    }

    lineside_item items[2];
    for (int i = 0; i < 2; i++) {
        items[i].key = key;
        items[i].digest = digest;
        items[i].signature = NULL;
        items[i].signature_bytes = 0;
        items[i].encoding = LINESIDE_COMPACT;
    }
    REQUIRE(lineside_verify_batch(NULL, items, 2, valid, reasons) == LINESIDE_NULL_POINTER);
    REQUIRE(valid[0] == 0 && valid[1] == 0 && reasons[0] == 9);
    REQUIRE(lineside_verify_batch(verifier, NULL, 2, valid, reasons) == LINESIDE_NULL_POINTER);
    REQUIRE(lineside_verify_batch(verifier, items, 2, NULL, reasons) == LINESIDE_NULL_POINTER);
    REQUIRE(lineside_verify_batch(verifier, NULL, 0, NULL, NULL) == LINESIDE_OK);
    REQUIRE(lineside_verify_batch(verifier, items, 2, valid, NULL) == LINESIDE_OK);
    REQUIRE(lineside_verify_batch(verifier, items, 2, valid, reasons) == LINESIDE_OK);
    REQUIRE(valid[0] == 0 && reasons[0] == LINESIDE_REASON_MALFORMED);
    items[1].encoding = 3;
    REQUIRE(lineside_verify_batch(verifier, items, 2, valid, reasons) == LINESIDE_UNKNOWN_OPTION);
    items[1].encoding = LINESIDE_DER;
    items[1].digest = NULL;
    REQUIRE(lineside_verify_batch(verifier, items, 2, valid, reasons) == LINESIDE_NULL_POINTER);
    items[1].digest = digest;
    items[1].key = NULL;
    REQUIRE(lineside_verify_batch(verifier, items, 2, valid, reasons) == LINESIDE_NULL_POINTER);
    items[1].key = key;
    items[1].signature_bytes = 1;
    REQUIRE(lineside_verify_batch(verifier, items, 2, valid, reasons) == LINESIDE_NULL_POINTER);

    /* Objects may be freed in any order, and NULL is freed without effect. */
    REQUIRE(lineside_prepared_key_new(verifier, key, 300, &prepared) == LINESIDE_OK);
    lineside_verifier_free(verifier);
    lineside_public_key_free(key);
    lineside_prepared_key_free(prepared);
    lineside_verifier_free(NULL);
    lineside_public_key_free(NULL);
    lineside_prepared_key_free(NULL);
}

int main(int arguments, char **argument)
{
    static lineside_item items[CASES_MAX];
    static lineside_prepared_key *prepared[CASES_MAX];
    static uint8_t digests[CASES_MAX][LINESIDE_DIGEST_BYTES], signatures[CASES_MAX][SIGNATURE_MAX];
    static uint8_t valid[CASES_MAX], reasons[CASES_MAX];
    static char key_text[256], digest_text[256], signature_text[2 * SIGNATURE_MAX + 1];
    unsigned curve, encoding;
    size_t count = 0;

    printf("%zu %zu %zu %zu %zu %zu\n", sizeof(lineside_item), offsetof(lineside_item, key),
           offsetof(lineside_item, digest), offsetof(lineside_item, signature),
           offsetof(lineside_item, signature_bytes), offsetof(lineside_item, encoding));
    check_errors();

    lineside_verifier *verifier = NULL;
    REQUIRE(arguments == 2);
    REQUIRE(lineside_verifier_new(0, (uint32_t)atoi(argument[1]), &verifier) == LINESIDE_OK);
    while (scanf("%u %u %255s %255s %8400s", &curve, &encoding, key_text, digest_text, signature_text) == 5) {
        uint8_t key_bytes[65];
        lineside_public_key *key = NULL;
        REQUIRE(count < CASES_MAX);
        size_t length = read_hex(key_text, key_bytes, sizeof key_bytes);
        REQUIRE(lineside_public_key_new(curve, key_bytes, length, &key) == LINESIDE_OK);
        REQUIRE(read_hex(digest_text, digests[count], LINESIDE_DIGEST_BYTES) == LINESIDE_DIGEST_BYTES);
        items[count].key = key;
        items[count].digest = digests[count];
        items[count].signature = signatures[count];
        items[count].signature_bytes = read_hex(signature_text, signatures[count], sizeof signatures[count]);
        items[count].encoding = encoding;
        if (count % 2 == 0)
            REQUIRE(lineside_prepared_key_new(verifier, key, 10, &prepared[count]) == LINESIDE_OK);
        count++;
    }
    REQUIRE(lineside_verify_batch(verifier, items, count, valid, reasons) == LINESIDE_OK);
    for (size_t i = 0; i < count; i++) {
        printf("%u %u\n", (unsigned)valid[i], (unsigned)reasons[i]);
        lineside_prepared_key_free(prepared[i]);
        lineside_public_key_free((lineside_public_key *)items[i].key);
    }
    lineside_verifier_free(verifier);
    return 0;
}
