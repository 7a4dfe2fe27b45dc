/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * By libnftables' text interface, loaded at run time: who serves one user only, and every other
 * subcommand of weft, does without it.
 */
#include "broker/nft.h"

#include <dlfcn.h>
#include <errno.h>
#include <nftables/libnftables.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define TABLE "inet weft_broker"

struct nft {
	void *library;
	struct nft_ctx *ctx;
	__typeof__(&nft_ctx_new) ctx_new;
	__typeof__(&nft_ctx_free) ctx_free;
	__typeof__(&nft_ctx_buffer_error) buffer_error;
	__typeof__(&nft_ctx_get_error_buffer) get_error;
	__typeof__(&nft_run_cmd_from_buffer) run;
};

static int load(struct nft *n)
{
	static const struct {
		const char *name;
		size_t at;
	} symbols[] = {
		{"nft_ctx_new", offsetof(struct nft, ctx_new)},
		{"nft_ctx_free", offsetof(struct nft, ctx_free)},
		{"nft_ctx_buffer_error", offsetof(struct nft, buffer_error)},
		{"nft_ctx_get_error_buffer", offsetof(struct nft, get_error)},
		{"nft_run_cmd_from_buffer", offsetof(struct nft, run)},
	};

	n->library = dlopen("libnftables.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!n->library)
		return -ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *f = dlsym(n->library, symbols[i].name);

		if (!f)
			return -ENOSYS;
		memcpy((char *)n + symbols[i].at, &f, sizeof(f));
	}
	n->ctx = n->ctx_new(NFT_CTX_DEFAULT);
	if (!n->ctx)
		return -ENOMEM;
	n->buffer_error(n->ctx);
	return 0;
}

__attribute__((format(printf, 2, 3))) static int command(struct nft *n, const char *format, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	/* It says no more than that it failed; what there is to know is in its text. */
	return n->run(n->ctx, text) ? -EOPNOTSUPP : 0;
}

/* The first line of what libnftables had to say. */
static const char *complaint(struct nft *n)
{
	char *text = (char *)(uintptr_t)n->get_error(n->ctx);

	if (!text || !*text)
		return "no reason given";
	text[strcspn(text, "\n")] = 0;
	return text;
}

int nft_open(struct nft **ret, uint16_t port, char *err, size_t err_len)
{
	struct nft *n = calloc(1, sizeof(*n));
	int rc = n ? load(n) : -ENOMEM;

	if (rc) {
		snprintf(err, err_len, "libnftables.so.1 cannot be used: %s", strerror(-rc));
		goto fail;
	}
	/* Before conntrack (-200) sees the datagram, and before any other rule. */
	rc = command(n,
		     "table " TABLE " {\n"
		     "	flags owner\n"
		     "	map slots {\n"
		     "		typeof @th,104,8 : udp dport\n"
		     "	}\n"
		     "	chain turn {\n"
		     "		type filter hook prerouting priority -350\n"
		     "		udp dport %u udp dport set @th,104,8 map @slots\n"
		     "	}\n"
		     "}\n",
		     port);
	if (rc) {
		snprintf(err, err_len, "nftables cannot be used: %s", complaint(n));
		goto fail;
	}
	*ret = n;
	return 0;
fail:
	nft_close(n);
	return rc;
}

void nft_close(struct nft *n)
{
	if (!n)
		return;
	if (n->ctx)
		n->ctx_free(n->ctx);
	if (n->library)
		dlclose(n->library);
	free(n);
}

int nft_turn(struct nft *n, uint8_t byte5, uint16_t port)
{
	int rc = command(n, "add element " TABLE " slots { %u : %u }", byte5, port);

	if (rc)
		log_err("broker", "nftables: %s", complaint(n));
	return rc;
}

void nft_turn_back(struct nft *n, uint8_t byte5)
{
	if (command(n, "delete element " TABLE " slots { %u }", byte5))
		log_err("broker", "nftables: %s", complaint(n));
}
