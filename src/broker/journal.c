/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "broker/exchange.h"

struct fd_entry { /* of a slot or a channel */
	struct list list;
	uint32_t nr;
	int fd;
	ino_t ino; /* the program may have closed it behind our back */
};

struct group_entry {
	struct list list;
	struct broker_group req;
};

struct id_entry {
	struct list list;
	struct broker_cm_saved saved;
	bool destroyed; /* the program has, and no broker knows of it yet */
};

void journal_init(struct journal *j)
{
	pthread_mutex_init(&j->lock, NULL);
	list_init(&j->slots);
	list_init(&j->inboxes);
	list_init(&j->groups);
	list_init(&j->channels);
	for (size_t i = 0; i < JOURNAL_BUCKETS; i++)
		list_init(&j->ids[i]);
	j->watch = 0;
}

static void empty(struct list *l, size_t list_at)
{
	struct list *n;

	while ((n = list_pop_head(l)))
		free((char *)n - list_at);
}

void journal_forget(struct journal *j)
{
	/* Another thread of the parent may have held the lock, with a list half changed. */
	journal_init(j);
}

void journal_fini(struct journal *j)
{
	empty(&j->slots, offsetof(struct fd_entry, list));
	empty(&j->inboxes, offsetof(struct fd_entry, list));
	empty(&j->groups, offsetof(struct group_entry, list));
	empty(&j->channels, offsetof(struct fd_entry, list));
	for (size_t i = 0; i < JOURNAL_BUCKETS; i++)
		empty(&j->ids[i], offsetof(struct id_entry, list));
	pthread_mutex_destroy(&j->lock);
}

/* ---- what there is --------------------------------------------------------------------------- */

static void out_of_memory(void)
{
	log_warn("broker", "out of memory: not all will be there after the broker's end");
}

static void add_fd(struct journal *j, struct list *to, uint32_t nr, int fd)
{
	struct fd_entry *e = malloc(sizeof(*e));
	struct stat st = {0};

	if (!e) {
		out_of_memory();
		return;
	}
	(void)!fstat(fd, &st);
	*e = (struct fd_entry){.nr = nr, .fd = fd, .ino = st.st_ino};
	pthread_mutex_lock(&j->lock);
	list_push_tail(to, &e->list);
	pthread_mutex_unlock(&j->lock);
}

void journal_slot(struct journal *j, uint32_t slot, int fd)
{
	add_fd(j, &j->slots, slot, fd);
}

void journal_inbox(struct journal *j, uint32_t slot, int fd)
{
	add_fd(j, &j->inboxes, slot, fd);
}

void journal_channel(struct journal *j, uint32_t nr, int fd)
{
	add_fd(j, &j->channels, nr, fd);
}

static void remove_channel(struct journal *j, uint32_t nr)
{
	list_for_each(e, &j->channels, struct fd_entry, list)
		if (e->nr == nr) {
			list_remove(&e->list);
			free(e);
		}
}

static void change_group(struct journal *j, const struct broker_group *req)
{
	struct group_entry *e;

	if (req->join) {
		e = malloc(sizeof(*e));
		if (!e) {
			out_of_memory();
			return;
		}
		e->req = *req;
		list_push_tail(&j->groups, &e->list);
		return;
	}
	list_for_each(old, &j->groups, struct group_entry, list)
		if (old->req.slot == req->slot && old->req.ifindex == req->ifindex &&
		    gid_equal(&old->req.group, &req->group)) {
			list_remove(&old->list);
			free(old);
			return;
		}
}

static void put_saved(struct journal *j, const struct broker_cm_saved *saved)
{
	struct list *bucket = &j->ids[saved->id % JOURNAL_BUCKETS];
	struct id_entry *e = NULL;

	if (!saved->id || saved->len > sizeof(saved->bytes))
		return;
	list_for_each(old, bucket, struct id_entry, list)
		if (old->saved.id == saved->id)
			e = old;
	if (e && e->destroyed)
		return;
	if (!saved->len) {
		if (e)
			list_remove(&e->list);
		free(e);
		return;
	}
	if (e && saved->serial < e->saved.serial)
		return; /* another thread was quicker with what came after it */
	if (!e) {
		e = malloc(sizeof(*e));
		if (!e) {
			out_of_memory();
			return;
		}
		e->destroyed = false;
		list_push_tail(bucket, &e->list);
	}
	e->saved = *saved;
}

void journal_saved(struct journal *j, const struct broker_cm_saved *saved)
{
	pthread_mutex_lock(&j->lock);
	put_saved(j, saved);
	pthread_mutex_unlock(&j->lock);
}

void journal_request(struct journal *j, const void *req, const struct broker_cm_saved *saved)
{
	const struct broker_cm_id *id = req; /* whatever it is begins so */

	pthread_mutex_lock(&j->lock);
	switch (id->msg.type) {
	case BROKER_GROUP:
		change_group(j, req);
		break;
	case BROKER_CM_CLOSE_CHANNEL:
		remove_channel(j, id->id);
		break;
	case BROKER_CM_WATCH:
		j->watch = id->id;
		break;
	default:
		if (saved)
			put_saved(j, saved);
	}
	pthread_mutex_unlock(&j->lock);
}

void journal_destroyed(struct journal *j, uint32_t id, int rc)
{
	pthread_mutex_lock(&j->lock);
	list_for_each(e, &j->ids[id % JOURNAL_BUCKETS], struct id_entry, list) {
		if (e->saved.id != id)
			continue;
		e->destroyed = true;
		if (rc == -ENOENT) {
			list_remove(&e->list);
			free(e);
		}
	}
	pthread_mutex_unlock(&j->lock);
}

/* ---- once more ------------------------------------------------------------------------------- */

static bool is_still(const struct fd_entry *e)
{
	struct stat st;

	return fstat(e->fd, &st) == 0 && st.st_ino == e->ino;
}

/* One request of it. What the broker refuses is lost. */
static int ask(int fd, const void *req, size_t len, int pass, const char *what, uint32_t nr,
	       struct journal_count *count)
{
	struct broker_msg resp;
	int rc = exchange(fd, req, len, pass, &resp, sizeof(resp), NULL, NULL);

	if (rc)
		return rc;
	if (resp.error) {
		count->lost++;
		log_err("broker", "%s %u is lost with the broker that has ended: %s", what, nr,
			strerror(-resp.error));
	}
	return 0;
}

static int resume_fds(struct list *entries, uint32_t type, int fd, const char *what,
		      unsigned *ret_n, struct journal_count *count)
{
	int rc = 0;

	list_for_each(e, entries, struct fd_entry, list) {
		/* struct broker_slot looks the same. */
		struct broker_cm_id req = {.msg.type = type, .id = e->nr};

		if (!rc && is_still(e)) {
			rc = ask(fd, &req, sizeof(req), e->fd, what, e->nr, count);
			++*ret_n;
		}
	}
	return rc;
}

_Static_assert(sizeof(struct broker_slot) == sizeof(struct broker_cm_id) &&
		       offsetof(struct broker_slot, slot) == offsetof(struct broker_cm_id, id),
	       "one request serves for both");

/* It is there again, to be destroyed: so its peer hears of it. */
static int finish(int fd, struct id_entry *e)
{
	struct broker_cm_id req = {.msg.type = BROKER_CM_DESTROY_ID, .id = e->saved.id};
	struct broker_msg resp;
	int rc = exchange(fd, &req, sizeof(req), -1, &resp, sizeof(resp), NULL, NULL);

	if (rc == 0) {
		list_remove(&e->list);
		free(e);
	}
	return rc;
}

static int resume_ids(struct journal *j, int fd, struct journal_count *count)
{
	int rc = 0;

	for (size_t i = 0; i < JOURNAL_BUCKETS; i++)
		list_for_each(e, &j->ids[i], struct id_entry, list) {
			struct broker_cm_resume req = {.msg.type = BROKER_CM_RESUME,
						       .saved = e->saved};

			if (!rc)
				rc = ask(fd, &req, sizeof(req), -1, "identifier", e->saved.id,
					 count);
			if (!rc && e->destroyed)
				rc = finish(fd, e);
			else
				count->ids++;
		}
	return rc;
}

int journal_resume(struct journal *j, int fd, struct journal_count *ret)
{
	struct broker_cm_id watch = {.msg.type = BROKER_CM_WATCH};
	int rc;

	*ret = (struct journal_count){0};
	pthread_mutex_lock(&j->lock);
	rc = resume_fds(&j->slots, BROKER_KEEP_SLOT, fd, "slot", &ret->slots, ret);
	if (!rc)
		rc = resume_fds(&j->inboxes, BROKER_OFFER_INBOX, fd, "inbox of slot",
				&(unsigned){0}, ret);
	list_for_each(g, &j->groups, struct group_entry, list)
		if (!rc)
			rc = ask(fd, &g->req, sizeof(g->req), -1, "a group of slot", g->req.slot,
				 ret);
	if (!rc)
		rc = resume_fds(&j->channels, BROKER_CM_RESUME_CHANNEL, fd, "event channel",
				&ret->channels, ret);
	watch.id = j->watch;
	if (!rc && j->watch)
		rc = ask(fd, &watch, sizeof(watch), -1, "event channel", j->watch, ret);
	if (!rc)
		rc = resume_ids(j, fd, ret);
	pthread_mutex_unlock(&j->lock);
	return rc;
}
