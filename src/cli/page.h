/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the verbs share that have a controller hand out one structure and show it: Identify's and
 * log pages. A verb is a row of pages.def, which says what it is called, which options it takes,
 * how the structure is fetched and how it is shown; its command, its help and with that the
 * completion of shells are made of the row.
 */
#ifndef WEFT_CLI_PAGE_H
#define WEFT_CLI_PAGE_H

#include "cli/remote.h"
#include "wire/nvme_log.h"

/* Options beside nvme-cli's of a connection. -o binary has each of them. */
enum page_takes {
	TAKES_RAW = 1 << 0,
	TAKES_HUMAN = 1 << 1,
	TAKES_ALL = 1 << 2,
	TAKES_CSI = 1 << 3,
	TAKES_ENTRIES = 1 << 4,
	TAKES_CNTID = 1 << 5,
	TAKES_GROUPS = 1 << 6,
	TAKES_VENDOR = 1 << 7,
	TAKES_NSID = 1 << 8,
	TAKES_CONTROLLER_ID = 1 << 9, /* TAKES_CNTID by another word */
	TAKES_EFFECTS_CSI = 1 << 10,  /* TAKES_CSI by another letter */
	TAKES_UUID = 1 << 11,
	TAKES_UNATTACHED = 1 << 12,
	TAKES_VERBOSE = 1 << 13,
};

struct page_verb;

struct page {
	const struct page_verb *verb;
	struct nvme_opts opts;
	bool raw, human, all, groups, vendor, unattached;
	int csi;      /* -1: not said */
	uint8_t uuid; /* index of the UUID list */
	uint32_t entries, cntid;

	struct remote *remote;
	const char *nqn;      /* the subsystem's: what nvme-cli has the device's name for */
	struct nvme_id_ns ns; /* it, where that says how the structure is read */
	uint32_t nsid;	      /* of the namespace it is about, if it is about one */
	uint8_t *data;	      /* as it came */
	uint32_t len;
};

/* All of them, where none is named. */
static inline uint32_t page_nsid(const struct page *p)
{
	return p->nsid ? p->nsid : NVME_NSID_ALL;
}

/* The I/O command set that a page is of. */
static inline uint8_t page_csi(const struct page *p)
{
	return p->csi < 0 ? NVME_CSI_NVM : (uint8_t)p->csi;
}

struct page_verb {
	const char *name, *doc;
	enum nvme_opts_target target;
	unsigned int takes;
	/* Sets data and len; false: told. */
	bool (*fetch)(struct page *p);
	void (*show)(struct output *o, const struct page *p);
};

int page_run(const struct page_verb *v, int argc, char **argv);

#define PAGE(id, ...)                    \
	bool fetch_##id(struct page *p); \
	void show_##id(struct output *o, const struct page *p);
#include "cli/pages.def"

/* Connects, as the options say; false: told. The remote is to be closed either way. */
bool page_open(struct page *p) must_use;
/* Identify; what: for messages. The remote's page has it then. */
bool page_identify(struct page *p, enum nvme_cns cns, uint32_t nsid, uint32_t cntid, uint8_t csi,
		   const char *what) must_use;
/* A log page, in pieces that every controller transfers: log->len bytes of the remote's memory. */
bool page_log(struct page *p, const struct nvme_get_log *log, uint32_t nsid) must_use;

/* --- what several show ------------------------------------------------------------------------ */

/* Text that is padded with spaces or zeroes; what cannot be printed becomes '?'. */
void show_padded(struct output *o, const char *key, const char *src, size_t len);
/* Bytes as hexadecimal digits; text holds two for each and a zero. */
const char *hex_text(char *text, const uint8_t *v, size_t len);

/* One line for each set of bits in a number, for people: rows end with a NULL label. */
struct bits {
	const char *label;
	uint8_t low, count;
	/* By value, the last one for all above; NULL: a number, in unit. */
	const char *const *words;
	const char *unit;
	uint32_t times, plus; /* value * times + plus; times 0: 1 */
};
void show_bits(struct output *o, const struct bits *rows, uint64_t value);

#endif
