/*
 * Test program that checks proofs, using only lineside_spv.h. Each input line is a case. Numbers are decimal; all other
 * words are hexadecimal. The forms of a line are:
 *	header LIMIT HEADER                                   prints the result and the hash
 *	proof LIMIT COUNT INDEX HEADER PATH TXID              prints the result; an empty PATH is -
 *	raw LIMIT COUNT INDEX HEADER PATH TRANSACTION         prints the result for the bytes of the transaction
 *	witness LIMIT COUNT INDEX HEADER PATH WTXID COINBASE COINBASE_PATH RESERVED
 *	time LIMIT COUNT INDEX HEADER PATH TXID               prints the time of a check in ns, the least of many rounds
 */
#include "../lineside_spv.h"
#if LINESIDE_SPV_VERSION < 1000
#error "LINESIDE_SPV_VERSION is below 0.1.0, or not a number for the preprocessor"
#endif
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LINE_BYTES (1 << 20)
#define WORDS_MAX 10
#define ROUNDS 200
#define CHECKS 100

struct bytes {
	uint8_t *at;
	size_t count;
};

/* Decodes a hexadecimal word in place: the bytes overwrite its digits. */
static struct bytes bytes_of(char *word)
{
	struct bytes bytes = { (uint8_t *)word, 0 };

	if (word[0] == '-')
		return bytes;
	while (word[0] != 0 && word[1] != 0) {
		char pair[3] = { word[0], word[1], 0 };

		bytes.at[bytes.count++] = (uint8_t)strtoul(pair, NULL, 16);
		word += 2;
	}
	return bytes;
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static unsigned long best_time_ns(uint32_t limit, const struct lineside_spv_proof *proof, const uint8_t *txid)
{
	uint64_t best = UINT64_MAX;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = now_ns(), spent;

		for (int i = 0; i < CHECKS; i++)
			if (lineside_spv_verify(limit, proof, txid) != LINESIDE_SPV_OK)
				exit(3);
		spent = (now_ns() - begin) / CHECKS;
		best = spent < best ? spent : best;
	}
	return (unsigned long)best;
}

int main(void)
{
	char *line = malloc(LINE_BYTES), *words[WORDS_MAX];

	while (line != NULL && fgets(line, LINE_BYTES, stdin) != NULL) {
		struct lineside_spv_witness_proof witness;
		struct lineside_spv_proof *proof = &witness.proof;
		struct bytes path, last, coinbase;
		uint8_t hash[32];
		uint32_t limit;
		int count = 0;

		for (char *word = strtok(line, " \n"); word != NULL && count < WORDS_MAX; word = strtok(NULL, " \n"))
			words[count++] = word;
		if (count < 3)
			return 2;
		limit = (uint32_t)strtoul(words[1], NULL, 16);
		if (strcmp(words[0], "header") == 0) {
			proof->header = bytes_of(words[2]).at;
			lineside_spv_header_hash(proof->header, hash);
			printf("%d ", lineside_spv_check_proof_of_work(limit, proof->header));
			for (int i = 0; i < 32; i++)
				printf("%02x", hash[i]);
			printf("\n");
			continue;
		}
		if (count < 7)
			return 2;
		proof->transaction_count = (uint32_t)strtoul(words[2], NULL, 10);
		proof->index = (uint32_t)strtoul(words[3], NULL, 10);
		proof->header = bytes_of(words[4]).at;
		path = bytes_of(words[5]);
		proof->path = path.at;
		proof->path_hashes = (uint32_t)(path.count / 32);
		last = bytes_of(words[6]);
		if (strcmp(words[0], "proof") == 0) {
			printf("%d\n", lineside_spv_verify(limit, proof, last.at));
		} else if (strcmp(words[0], "time") == 0) {
			printf("%lu\n", best_time_ns(limit, proof, last.at));
		} else if (strcmp(words[0], "raw") == 0) {
			printf("%d\n", lineside_spv_verify_transaction(limit, proof, last.at, last.count, hash));
		} else if (strcmp(words[0], "witness") == 0 && count == 10) {
			coinbase = bytes_of(words[7]);
			witness.coinbase = coinbase.at;
			witness.coinbase_bytes = coinbase.count;
			path = bytes_of(words[8]);
			witness.coinbase_path = path.at;
			witness.coinbase_path_hashes = (uint32_t)(path.count / 32);
			witness.witness_reserved = bytes_of(words[9]).at;
			printf("%d\n", lineside_spv_verify_witness(limit, &witness, last.at));
		} else {
			return 2;
		}
	}
	free(line);
	return 0;
}
