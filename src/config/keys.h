/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The keys of nvmetcli's document, section by section, and reading by them. */
#ifndef WEFT_CONFIG_KEYS_H
#define WEFT_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "config/config.h"

enum section {
	SECTION_TOP,
	SECTION_DISCOVERY,
	SECTION_HOST,
	SECTION_DHCHAP,
	SECTION_SUBSYS,
	SECTION_ATTR,
	SECTION_NS,
	SECTION_DEVICE,
	SECTION_ANA,
	SECTION_RESV,
	SECTION_PASSTHRU,
	SECTION_PASSTHRU_DEVICE,
	SECTION_PORT,
	SECTION_ADDR,
	SECTION_PARAM,
	SECTION_ANA_GROUP,
	SECTION_ANA_STATE,
	SECTION_REFERRAL,
	SECTION_REFERRAL_ADDR,
};

/* Where one is in the document, and what was found to be wrong first. */
struct reader {
	char path[512];
	size_t len;
	struct config *config;
	char *why;
	size_t room;
	int error; /* 0: nothing is wrong yet */
};

/* One step further, by a key or to an element; back to what the reader's len was. */
void reader_enter(struct reader *r, const char *key);
void reader_enter_element(struct reader *r, size_t i);
void reader_back(struct reader *r, size_t len);
/* The first one counts. key: NULL, or the one of this object that it is about. */
void reader_fail(struct reader *r, const char *key, const char *fmt, ...) printf_like(3, 4);
void reader_warn(struct reader *r, const char *key, const char *fmt, ...) printf_like(3, 4);

/* Whether all keys of an object are of the kind they should be, with a warning for each that has no
 * effect here. False: it is no object, or something in it is wrong; so is a key that is not known
 * and looks like one that is, or like one that says who may connect. */
bool reader_check(struct reader *r, enum section section, struct json_object *obj);

/* The i-th key of a section whose value is a text or a number; NULL: there are no more. */
const char *section_value(enum section section, unsigned int i);

/* NULL: there is none. Objects and lists are of the kind they should be once they were checked. */
struct json_object *member(struct json_object *obj, const char *key);
/* What was written as text or as a number; "": neither. */
const char *member_text(struct json_object *obj, const char *key);
/* A number, in decimal or as 0x..., of [min, max]; otherwise if there is none. */
uint64_t member_number(struct reader *r, struct json_object *obj, const char *key, uint64_t min,
		       uint64_t max, uint64_t otherwise);

#endif
