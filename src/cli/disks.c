/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/disks.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/serve_file.h"
#include "cli/size.h"

void disks_init(struct disks *d, struct store_engine *engine, const struct store_file_options *how)
{
	list_init(&d->all);
	d->engine = engine;
	d->how = *how;
}

void disks_share(struct disks *d, struct store_engine *const *engines, unsigned count)
{
	d->engines = engines;
	d->engine_count = count;
}

/* --- opening -------------------------------------------------------------------------------- */

/* A namespace has whole blocks, and one at least. */
static bool has_blocks(const struct disk *k)
{
	return k->store->size && !(k->store->size & ((1u << k->shift) - 1));
}

static const char too_small[] = "too small to be a namespace";

int disk_again(struct disk *k, char *why, size_t room)
{
	if (!has_blocks(k)) {
		snprintf(why, room, "%s: %s", k->path, too_small);
		return -EINVAL;
	}
	k->users++;
	return 0;
}

static int open_store(struct disks *d, struct disk *k, struct serve_file *f, const char **why)
{
	struct store_file_options how = d->how;

	how.read_only = serve_file_read_only(f, d->how.read_only);
	if (!f->made)
		return store_open(d->engine, f->path, &how, &k->store, why);
	if (!how.block_size)
		how.block_size = 512;
	k->made = true;
	k->forgets = f->made->forgets;
	if (size_parse(f->size, 512, UINT64_MAX >> 1, &f->made_bytes) != 0) {
		*why = "it is not a size of a disk; 512m and 1g are";
		return -EINVAL;
	}
	return serve_file_make(f, how.block_size, how.read_only, &k->store, why);
}

static void disk_free(struct disk *k)
{
	if (k->path)
		(void)disk_words_settle(&k->words, k->path, UINT64_MAX);
	if (k->store)
		store_destroy(k->store);
	free(k->path);
	free(k->text);
	free(k);
}

int disk_open(struct disks *d, const char *text, struct disk **ret, char *why, size_t room)
{
	struct disk *k = calloc(1, sizeof(*k));
	struct serve_file f = {0};
	const char *what = "out of memory";
	int error = -ENOMEM;

	if (k && (k->text = strdup(text)) && (error = serve_file_parse(text, &f)) == 0) {
		k->path = f.path;
		error = open_store(d, k, &f, &what);
		if (!error)
			k->shift = k->store->block_size == 4096 ? 12 : 9;
		if (!error && !has_blocks(k)) {
			what = too_small;
			error = -EINVAL;
		}
		if (!error)
			error = store_share(k->store, d->engines, d->engine_count);
	} else if (error == -EINVAL) {
		what = "it names no file";
	}
	if (error) {
		snprintf(why, room, "%s: %s", f.path ? f.path : text, what);
		if (k)
			disk_free(k);
		return error;
	}
	k->users = 1;
	list_push_tail(&d->all, &k->link);
	*ret = k;
	return 0;
}

/* --- ahead ---------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Their texts in order, in memory that is the caller's; NULL: there is none. */
static const char **open_ones(const struct disks *d, unsigned *ret_count)
{
	unsigned n = 0;
	const char **v;

	list_for_each(k, &d->all, const struct disk, link)
		n++;
	v = calloc(n + 1, sizeof(*v));
	n = 0;
	list_for_each(k, &d->all, const struct disk, link)
		if (v)
			v[n++] = k->text;
	if (v)
		qsort(v, n, sizeof(*v), by_text);
	*ret_count = n;
	return v;
}

static bool add_wanted(const struct disks *d, const char *text, struct store_wanted *ret)
{
	struct serve_file f = {0};

	if (serve_file_parse(text, &f) != 0)
		return false; /* opening it tells */
	if (f.made) {
		free(f.path);
		return false;
	}
	*ret = (struct store_wanted){f.path, serve_file_read_only(&f, d->how.read_only)};
	return true;
}

/* Those of the texts, which it puts in order, of which too few are open. */
static unsigned find_wanted(const struct disks *d, const char **texts, unsigned count,
			    struct store_wanted *ret)
{
	unsigned n = 0, open_count = 0, at = 0;
	const char **open = open_ones(d, &open_count);

	qsort(texts, count, sizeof(*texts), by_text);
	for (unsigned i = 0; open && i < count; i++) {
		while (at < open_count && strcmp(open[at], texts[i]) < 0)
			at++;
		if (at < open_count && strcmp(open[at], texts[i]) == 0)
			at++;
		else if (add_wanted(d, texts[i], &ret[n]))
			n++;
	}
	free(open);
	return n;
}

bool disks_look(struct disks *d, const char **texts, unsigned count)
{
	struct store_wanted *wanted = calloc(count + 1, sizeof(*wanted));
	unsigned n = wanted && count ? find_wanted(d, texts, count, wanted) : 0;
	bool has = d->how.ahead && store_ahead_is_for(d->how.ahead, wanted, n);
	int error = 0;

	if (!has)
		disks_look_end(d);
	if (n && !has)
		error = store_ahead_begin(wanted, n, &d->how, &d->how.ahead);
	for (unsigned i = 0; i < n; i++)
		free((char *)wanted[i].path);
	free(wanted);
	return n && !has && !error; /* else they are looked at when they are opened */
}

void disks_look_end(struct disks *d)
{
	store_ahead_end(d->how.ahead);
	d->how.ahead = NULL;
}

/* --- another size --------------------------------------------------------------------------- */

static int read_size(const struct disk *k, const char *text, struct disk_size *z, const char **why)
{
	struct serve_file f = {0};
	int error = serve_file_parse(text, &f);

	z->path = f.path;
	*why = "out of memory";
	z->text = strdup(text);
	if (error || !z->text)
		return error ? error : -ENOMEM;
	*why = "it is not a size of a disk; 512m and 1g are";
	if (size_parse(f.size, 512, UINT64_MAX >> 1, &z->bytes) != 0)
		return -EINVAL;
	*why = "its size is not a multiple of the block size; 4k, 1m and 1g are";
	return z->bytes & ((1u << k->shift) - 1) ? -EINVAL : 0;
}

int disk_size_prepare(struct disk *k, const char *text, struct disk_size *ret, char *why,
		      size_t room)
{
	const char *what;
	int error;

	*ret = (struct disk_size){.disk = k, .before = k->store->size};
	error = read_size(k, text, ret, &what);
	if (!error && ret->bytes > ret->before) {
		what = "there is not the memory to keep account of so large a disk; make it "
		       "smaller";
		error = store_resize(k->store, ret->bytes);
	}
	if (error) {
		snprintf(why, room, "%s: %s", text, what);
		ret->bytes = ret->before;
		disk_size_undo(ret);
	}
	return error;
}

/* Shrinking does not fail. */
static void shrink(struct disk *k, uint64_t bytes)
{
	int error = store_resize(k->store, bytes);

	assert(!error);
}

void disk_size_apply(struct disk_size *z)
{
	struct disk *k = z->disk;

	if (z->bytes < z->before)
		shrink(k, z->bytes);
	free(k->path);
	free(k->text);
	k->path = z->path;
	k->text = z->text;
	*z = (struct disk_size){0};
}

void disk_size_undo(struct disk_size *z)
{
	if (z->disk && z->bytes > z->before)
		shrink(z->disk, z->before);
	free(z->path);
	free(z->text);
	*z = (struct disk_size){0};
}

/* --- closing -------------------------------------------------------------------------------- */

static void say_error(const struct disk *k)
{
	if (k->error)
		(void)cli_fail("%s: writing to the disk fails: %s", k->path,
			       strerrordesc_np(-k->error));
	else if (k->lost)
		(void)cli_fail("%s: writing to the disk failed before: what hosts have sent may be "
			       "lost",
			       k->path);
}

static void flushed(struct store_op *op, int error)
{
	struct disk *k = container_of(op, struct disk, flush);

	k->flushing = false;
	k->flushed = true;
	k->error = error;
	if (!error)
		return;
	/* The kernel tells of it once; and whoever has taken the disk again meanwhile is to hear.
	 */
	k->lost = true;
	if (k->users)
		say_error(k);
}

static void flush(struct disk *k)
{
	k->flushed = k->store->read_only;
	k->error = 0;
	if (k->flushed)
		return;
	k->flush = (struct store_op){.opcode = STORE_FLUSH, .done = flushed};
	k->flushing = true;
	store_submit(k->store, &k->flush);
}

void disk_put(struct disk *k, bool unused)
{
	if (--k->users)
		return;
	if (k->flushing) {
		k->stale = true;
	} else if (unused) {
		list_remove(&k->link);
		disk_free(k);
	} else {
		flush(k);
	}
}

void disks_process(struct disks *d)
{
	list_for_each(k, &d->all, struct disk, link) {
		if (k->users || k->flushing)
			continue;
		if (k->stale) {
			k->stale = false;
			flush(k);
			continue;
		}
		say_error(k);
		list_remove(&k->link);
		disk_free(k);
	}
}

bool disks_settle(struct disks *d, uint64_t now_ns)
{
	bool more = false;

	list_for_each(k, &d->all, struct disk, link)
		more |= disk_words_settle(&k->words, k->path, now_ns);
	return more;
}

/* --- at the end ----------------------------------------------------------------------------- */

void disks_flush(struct disks *d)
{
	list_for_each(k, &d->all, struct disk, link)
		if (!k->flushing)
			flush(k);
}

bool disks_flushed(const struct disks *d)
{
	list_for_each(k, &d->all, const struct disk, link)
		if (!k->flushed)
			return false;
	return true;
}

int disks_last_words(const struct disks *d, unsigned int seconds)
{
	int status = EXIT_OK;

	list_for_each(k, &d->all, const struct disk, link) {
		if (!k->flushed)
			status = cli_fail("%s: the disk has not written what hosts have sent "
					  "within %u s; giving up",
					  k->path, seconds);
		else
			say_error(k);
		if (k->error || k->lost)
			status = EXIT_FAILED;
	}
	return status;
}

void disks_close(struct disks *d)
{
	list_for_each(k, &d->all, struct disk, link) {
		list_remove(&k->link);
		disk_free(k);
	}
}
