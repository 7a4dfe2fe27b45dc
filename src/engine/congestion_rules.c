/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/congestion_rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/log.h"

#define RULES_MAX      256
#define LINE_MAX_BYTES 1022
#define BLANKS	       " \t\r"
#define DEVICE_PREFIX  "weft_"
#define MAPPED_BITS    96 /* of an IPv4 address among those of IPv6 */

struct congestion_rules {
	bool variable; /* WEFT_CC says it */
	char *file;    /* or this; NULL: nobody does */
	size_t count;
	struct congestion v[RULES_MAX + 1];
};

static struct congestion normally(void)
{
	return (struct congestion){.params = cc_defaults, .dscp = -1};
}

/* ---- a line ---------------------------------------------------------------------------------- */

/* True if the whole text is a number up to most. */
static bool read_number(const char *text, unsigned long most, unsigned long *ret)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	*ret = strtoul(text, &end, 10);
	return !*end && *ret <= most;
}

/* An interface's name alone, such as eth0, is no device's. */
static bool read_device(struct congestion *c, const char *value)
{
	size_t plain = strcspn(value, "*?[\\"), all = strlen(DEVICE_PREFIX);

	return strncmp(value, DEVICE_PREFIX, value[plain] ? min_of(plain, all) : all) == 0 &&
	       (size_t)snprintf(c->device, sizeof(c->device), "%s", value) < sizeof(c->device);
}

static bool read_dscp(struct congestion *c, const char *value)
{
	unsigned long n;

	if (!read_number(value, 63, &n))
		return false;
	c->dscp = (int)n;
	return true;
}

static bool read_peer(struct congestion *c, const char *value)
{
	char address[INET6_ADDRSTRLEN];
	size_t len = strcspn(value, "/");
	struct gid mapped = {.raw = {[10] = 0xff, [11] = 0xff}};
	unsigned long bits, all = 128;

	if (len >= sizeof(address))
		return false;
	memcpy(address, value, len);
	address[len] = '\0';
	if (inet_pton(AF_INET, address, mapped.raw + 12) == 1) {
		c->peer = mapped;
		all = 32;
	} else if (inet_pton(AF_INET6, address, c->peer.raw) != 1) {
		return false;
	}
	bits = all;
	if (value[len] && !read_number(value + len + 1, all, &bits))
		return false;
	c->peer_bits = (uint8_t)(bits + (all == 32 ? MAPPED_BITS : 0));
	return true;
}

static const struct {
	const char *name;
	bool (*read)(struct congestion *, const char *value);
	const char *wants;
} conditions[] = {
	{"device", read_device, "a device's name, such as weft_eth0"},
	{"dscp", read_dscp, "a number from 0 to 63"},
	{"peer", read_peer, "an address or a network, such as 10.0.0.0/8 or fd00::/8"},
};

static size_t find_condition(const char *word)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(conditions) && strcmp(conditions[i].name, word) != 0)
		i++;
	return i;
}

/* place: the file and the line, for the log. */
static bool read_line(struct congestion *c, char *line, const char *place)
{
	unsigned int had = 0;
	char *save, *word = strtok_r(line, BLANKS, &save), *value;
	size_t i;

	while (word && (i = find_condition(word)) < ARRAY_SIZE(conditions)) {
		value = strtok_r(NULL, BLANKS, &save);
		if (!value || !conditions[i].read(c, value)) {
			log_warn("engine", "%s: %s wants %s, not '%s'; the line is passed over",
				 place, word, conditions[i].wants, value ? value : "");
			return false;
		}
		if (had & 1u << i) {
			log_warn("engine",
				 "%s: there is %s twice, and a line for each is what is wanted; "
				 "the line is passed over",
				 place, word);
			return false;
		}
		had |= 1u << i;
		word = strtok_r(NULL, BLANKS, &save);
	}
	if (!word) {
		log_warn("engine",
			 "%s: it is not said what is to be, such as dcqcn, at the end; the line is "
			 "passed over",
			 place);
		return false;
	}
	if (strtok_r(NULL, BLANKS, &save)) {
		log_warn("engine",
			 "%s: %s is none of device, dscp and peer, and not at the end, where what "
			 "is to be stands in one word, with commas and no blanks; the line is "
			 "passed over",
			 place, word);
		return false;
	}
	return congestion_say(word, (struct congestion_place){place, true}, &c->cc, &c->params);
}

/* ---- a file ---------------------------------------------------------------------------------- */

static void read_file(struct congestion_rules *r, FILE *f)
{
	char *line = NULL, place[CONGESTION_TEXT_MAX + 16];
	size_t room = 0;
	ssize_t len;

	for (unsigned int nr = 1; (len = getline(&line, &room, f)) >= 0; nr++) {
		struct congestion c = normally();

		c.line = nr;
		snprintf(place, sizeof(place), "%s:%u", r->file, nr);
		if (len && line[len - 1] == '\n')
			line[--len] = '\0';
		if (len > LINE_MAX_BYTES || strlen(line) != (size_t)len) {
			log_warn("engine",
				 "%s: a line is text of at most %d bytes; it is passed over", place,
				 LINE_MAX_BYTES);
			continue;
		}
		line[strcspn(line, "#")] = '\0';
		if (!line[strspn(line, BLANKS)] || !read_line(&c, line, place))
			continue;
		if (r->count == RULES_MAX) {
			log_warn("engine",
				 "%s: it is the %dth that says something, and the last that there "
				 "is room for is before it; this one and the rest are passed over",
				 place, RULES_MAX + 1);
			break;
		}
		r->v[r->count++] = c;
	}
	if (ferror(f))
		log_warn("engine", "%s cannot be read to its end: %s", r->file, errno_text(errno));
	free(line);
}

/* What is no file must not hold up who opens a device. */
static FILE *open_regular(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	FILE *f = NULL;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
		errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
	else
		f = fdopen(fd, "r");
	if (!f)
		close(fd);
	return f;
}

static bool open_file(struct congestion_rules *r)
{
	const char *named = secure_getenv("WEFT_CC_FILE");
	const char *path = named ? named : CONGESTION_FILE;
	FILE *f;

	if (!*path)
		return true;
	f = open_regular(path);
	if (!f) {
		/* Without descriptors what follows will tell. */
		if (errno != EMFILE && errno != ENFILE && (named || errno != ENOENT))
			log_warn("engine",
				 "%s%s cannot be read: %s; congestion control is the default",
				 named ? "WEFT_CC_FILE=" : "", path, errno_text(errno));
		return true;
	}
	r->file = strdup(path);
	if (r->file)
		read_file(r, f);
	fclose(f);
	return r->file;
}

/* ---- all of it ------------------------------------------------------------------------------- */

struct congestion_rules *congestion_read(void)
{
	const char *says = secure_getenv("WEFT_CC"), *words = says && *says ? says : NULL;
	struct congestion_rules *r = calloc(1, sizeof(*r));
	struct congestion *last;

	if (!r)
		return NULL;
	r->variable = words;
	if (!words && !open_file(r)) {
		congestion_free(r);
		return NULL;
	}
	last = &r->v[r->count++];
	*last = normally();
	if (words)
		(void)!congestion_say(words, (struct congestion_place){"WEFT_CC", false}, &last->cc,
				      &last->params);
	return r;
}

void congestion_free(struct congestion_rules *r)
{
	if (r)
		free(r->file);
	free(r);
}

static bool within(const struct gid *g, const struct gid *net, unsigned int bits)
{
	unsigned int bytes = bits / 8, rest = bits % 8;

	return memcmp(g->raw, net->raw, bytes) == 0 &&
	       (!rest || (g->raw[bytes] ^ net->raw[bytes]) >> (8 - rest) == 0);
}

static bool is_of(const struct congestion *c, const char *device)
{
	return !c->device[0] || (device && fnmatch(c->device, device, 0) == 0);
}

static bool goes(const struct congestion *c, const struct flow *f)
{
	if (!f)
		return c->dscp < 0 && !c->peer_bits;
	return (c->dscp < 0 || c->dscp == f->tos >> FLOW_DSCP_SHIFT) &&
	       within(&f->dgid, &c->peer, c->peer_bits);
}

const struct congestion *congestion_choose(const struct congestion_rules *r, const char *device,
					   const struct flow *f)
{
	const struct congestion *c = r->v;

	while (!is_of(c, device) || !goes(c, f)) /* the last is anybody's */
		c++;
	return c;
}

const struct congestion *congestion_next(const struct congestion_rules *r, const char *device,
					 const struct congestion *c)
{
	if (c && goes(c, NULL))
		return NULL;
	c = c ? c + 1 : r->v;
	while (!is_of(c, device))
		c++;
	return c;
}

/* ---- in words -------------------------------------------------------------------------------- */

const char *congestion_whom(const struct congestion *c, char buf[CONGESTION_TEXT_MAX])
{
	char address[INET6_ADDRSTRLEN];
	bool v4 = gid_is_ipv4(&c->peer) && c->peer_bits >= MAPPED_BITS;
	size_t n = 0;

	buf[0] = '\0';
	if (c->device[0])
		n += (size_t)snprintf(buf, CONGESTION_TEXT_MAX, "device %s", c->device);
	if (c->dscp >= 0)
		n += (size_t)snprintf(buf + n, CONGESTION_TEXT_MAX - n, "%sdscp %d", n ? " " : "",
				      c->dscp);
	if (c->peer_bits) {
		inet_ntop(v4 ? AF_INET : AF_INET6, c->peer.raw + (v4 ? 12 : 0), address,
			  sizeof(address));
		snprintf(buf + n, CONGESTION_TEXT_MAX - n, "%speer %s/%d", n ? " " : "", address,
			 c->peer_bits - (v4 ? MAPPED_BITS : 0));
	}
	return buf;
}

const char *congestion_said_by(const struct congestion_rules *r, const struct congestion *c,
			       char buf[CONGESTION_TEXT_MAX])
{
	if (c->line)
		snprintf(buf, CONGESTION_TEXT_MAX, "%s:%u", r->file, c->line);
	else
		snprintf(buf, CONGESTION_TEXT_MAX, "%s", r->variable ? "WEFT_CC" : "default");
	return buf;
}
