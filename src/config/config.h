/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a target is to be: the document that nvmetcli(8) saves and restores, as it is.
 *
 * The document itself is kept whole, with the keys that mean nothing here, and is what is edited
 * and written back; a struct config is what it says, checked. Both are immutable once made: an edit
 * makes another document, of it another config, and what differs between the two is a list of steps
 * (diff.h). A target begins as the difference from nothing.
 *
 * What is wrong is named by where it stands in the document, as "subsystems[0].namespaces[1].nsid",
 * and so is what means something to Linux's target and has no effect here: a warning.
 */
#ifndef WEFT_CONFIG_CONFIG_H
#define WEFT_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct json_object;

#define CONFIG_NSID_MAX	       1024
#define CONFIG_PORTS_MAX       1024
#define CONFIG_HOSTS_MAX       4096
#define CONFIG_SUBSYSTEMS_MAX  1024
#define CONFIG_REFERRALS_MAX   256 /* of a port */
#define CONFIG_WARNINGS_MAX    64
#define CONFIG_BYTES_MAX       (8u << 20) /* of a document */
#define CONFIG_DEPTH_MAX       16
#define CONFIG_ANSWER_MAX      (2u * CONFIG_BYTES_MAX)
#define CONFIG_INLINE_DATA_MAX 16384 /* bytes, as Linux has it by RDMA */
#define CONFIG_MDTS_MAX	       8
#define CONFIG_QUEUE_SIZE_MIN  16
#define CONFIG_QUEUE_SIZE_MAX  1024

/* All texts of a config belong to its document. */
struct config_host {
	const char *nqn;
	/* NULL: none. How the host proves who it is; ctrl_key: how it is proved to it. */
	const char *key, *ctrl_key, *hash, *dhgroup;
};

struct config_ns {
	uint32_t nsid;
	bool enable;
	const char *path;
	bool has_uuid, has_nguid; /* and are not all zeroes */
	uint8_t uuid[16], nguid[16];
};

struct config_subsys {
	const char *nqn;
	bool allow_any_host;
	const char **hosts; /* those allowed */
	uint32_t host_count;
	const char *serial, *model, *firmware; /* NULL: not told */
	uint16_t cntlid_min, cntlid_max;
	uint16_t qid_max;    /* 0: not told, as the next ones */
	uint16_t vid, ssvid; /* of PCI's vendors */
	uint32_t oui;	     /* IEEE's */
	uint32_t version;    /* as property VS has it */
	struct config_ns *ns;
	uint32_t ns_count;
};

struct config_addr {
	const char *trtype, *adrfam, *traddr, *trsvcid;
};

struct config_referral {
	const char *name;
	struct config_addr addr;
	uint16_t portid;
	bool enable;
};

/* As enum target_tls has it: what addr.tsas and addr.treq say together. */
enum config_tls { CONFIG_TLS_NONE, CONFIG_TLS_REQUIRED, CONFIG_TLS_OFFERED };

struct config_port {
	uint16_t portid;
	uint16_t max_queue_size;  /* 0: not told */
	uint8_t mdts;		  /* the same */
	int32_t inline_data_size; /* -1: not told */
	struct config_addr addr;
	enum config_tls tls;
	const char **subsystems; /* their NQNs */
	uint32_t subsys_count;
	struct config_referral *referrals;
	uint32_t referral_count;
};

struct config {
	struct json_object *doc;
	const char *discovery_nqn; /* besides the well-known name; NULL: none */
	struct config_host *hosts;
	uint32_t host_count;
	struct config_subsys *subsystems;
	uint32_t subsys_count;
	struct config_port *ports; /* without those of transports that there are not */
	uint32_t port_count;
	char *warnings[CONFIG_WARNINGS_MAX]; /* each "where: what" */
	uint32_t warning_count, warnings_left_out;
};

/*
 * Takes doc over. -EINVAL, -ENOMEM, and why (room bytes): where it is wrong and what to do; doc is
 * the caller's still.
 */
int config_read(struct json_object *doc, struct config **ret, char *why, size_t room) must_use;
/* NULL is nothing. */
void config_free(struct config *c);

const struct config_subsys *config_find_subsys(const struct config *c, const char *nqn);
const struct config_host *config_find_host(const struct config *c, const char *nqn);
/* How long a list of a document is; of what is none, 0. */
size_t config_length(const struct json_object *list);

/* --- secrets ---------------------------------------------------------------------------------
 */

/* All texts of a value, keys among them, are overwritten. NULL is nothing. */
void config_wipe(struct json_object *v);
/* The same by the last who knows the document, which is freed. */
void config_drop(struct json_object *doc);
/* Keys are overwritten, and stars stand in their place. */
void config_mask(struct json_object *doc);
/* Of keys in a message, which may repeat a word that is or has one, no more is left than their
 * form. */
void config_mask_text(char *text);
/* It is a key, or has one in it. */
bool config_is_key(const char *text);

/* --- as text ---------------------------------------------------------------------------------
 */

/* -EINVAL, and why with the line and column; -ENOMEM. */
int config_parse_text(const char *text, size_t len, struct json_object **ret, char *why,
		      size_t room) must_use;
/* The same of what has a document in it, and some more: up to CONFIG_ANSWER_MAX bytes. */
int config_parse_answer(const char *text, size_t len, struct json_object **ret, char *why,
			size_t room) must_use;
/* As nvmetcli writes it, with a line feed at the end: to be freed. NULL: no memory. */
char *config_text(struct json_object *doc);
/* The same in one line. */
char *config_line(struct json_object *doc);

/* --- as a file -------------------------------------------------------------------------------
 */

/* The document of a file; why names the file. */
int config_load(const char *path, struct json_object **ret, char *why, size_t room) must_use;
/* Whole or not at all, on stable storage; a file that is there keeps its owner and mode, another is
 * for the owner's eyes: secrets may be in it. One that says the same already stays as it is. */
int config_save(const char *path, struct json_object *doc, char *why, size_t room) must_use;

#endif
