/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "iwcm_bed.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct iwcm_bed iwb = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static int begin(uint32_t qpn, int fd, const struct iw_conn *c, const void *early, size_t early_len,
		 struct iwcm_link *l)
{
	struct begun *b = &iwb.begun[qpn];
	int rc, slow, pause;

	pthread_mutex_lock(&iwb.lock);
	rc = iwb.begin_error;
	if (!rc) {
		*b = (struct begun){
			.fd = fd, .early_len = early_len, .agreed = c->agreed, .link = l};
		if (early_len)
			memcpy(b->early, early, early_len);
	}
	slow = qpn == 1 ? iwb.slow_begin_ms : 0;
	pause = qpn == 0 ? iwb.slow_ms : 0;
	pthread_mutex_unlock(&iwb.lock);
	if (slow) {
		iwcm_ended(l);
		usleep((useconds_t)slow * 1000);
	}
	usleep((useconds_t)pause * 1000);
	return rc;
}

static int may_begin(uint32_t qpn)
{
	int rc;

	(void)qpn;
	pthread_mutex_lock(&iwb.lock);
	rc = iwb.may_begin;
	pthread_mutex_unlock(&iwb.lock);
	return rc;
}

static int end(uint32_t qpn, const struct iwcm_link *l, bool at_once)
{
	pthread_mutex_lock(&iwb.lock);
	assert_ptr_equal(iwb.begun[qpn].link, l);
	(*(at_once ? &iwb.ended_at_once : &iwb.ended))++;
	pthread_mutex_unlock(&iwb.lock);
	return 0;
}

static int tell(uint32_t id, uint64_t nr, enum iwcm_said what, int status)
{
	int rc = 0;

	pthread_mutex_lock(&iwb.lock);
	if (iwb.refuse_to && id == (uint32_t)iwb.refuse_to) {
		rc = -ENOBUFS;
	} else if (iwb.refuse_tells) {
		iwb.refuse_tells--;
		rc = -ENOBUFS;
	} else if (iwb.n < TOLD_MAX) {
		iwb.told[iwb.n++] = (struct told){id, nr, what, status};
		pthread_cond_broadcast(&iwb.cond);
	}
	pthread_mutex_unlock(&iwb.lock);
	return rc;
}

static const struct iwcm_ops ops = {
	.may_begin = may_begin, .begin = begin, .end = end, .tell = tell};

int iwb_set(int *what, int to)
{
	int before;

	pthread_mutex_lock(&iwb.lock);
	before = *what;
	*what = to;
	pthread_mutex_unlock(&iwb.lock);
	return before;
}

struct told iwb_next_within(unsigned int s)
{
	struct told t = {0};
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += s;
	pthread_mutex_lock(&iwb.lock);
	while (iwb.taken == iwb.n && !rc)
		rc = pthread_cond_timedwait(&iwb.cond, &iwb.lock, &until);
	if (iwb.taken < iwb.n)
		t = iwb.told[iwb.taken++];
	pthread_mutex_unlock(&iwb.lock);
	return t;
}

struct told iwb_expect(uint32_t id, enum iwcm_said what, int status)
{
	struct told t = iwb_next_within(30);

	assert_int_equal(t.what, what);
	assert_int_equal(t.id, id);
	assert_int_equal(t.status, status);
	return t;
}

void iwb_listen_at(in_addr_t addr, int backlog)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(addr)}};
	uint16_t port;
	int fd;

	assert_int_equal(iwcm_bind((struct sockaddr *)&any, sizeof(any), false, &fd, &port), 0);
	assert_int_equal(iwcm_listen(fd, LISTENER, backlog, &iwb.listener), 0);
	iwb.at = any;
	iwb.at.sin_port = htons(port);
}

void iwb_listen(int backlog)
{
	iwb_listen_at(INADDR_LOOPBACK, backlog);
}

int iwb_open(void **state)
{
	(void)state;
	iwb.n = iwb.taken = 0;
	iwb.refuse_tells = iwb.begin_error = iwb.may_begin = iwb.slow_ms = 0;
	iwb.ended = iwb.ended_at_once = 0;
	memset(iwb.begun, 0, sizeof(iwb.begun));
	assert_int_equal(iwcm_open(&ops), 0);
	iwb_listen(0);
	return 0;
}

int iwb_close(void **state)
{
	(void)state;
	if (iwb.listener)
		iwcm_unlisten(iwb.listener);
	iwb.listener = NULL;
	return 0;
}

struct iw_params iwb_params(const char *data)
{
	return (struct iw_params){.rev = 2,
				  .crc = true,
				  .p2p = true,
				  .ird = 8,
				  .ord = 4,
				  .private_data = data,
				  .private_len = strlen(data)};
}

static struct iwcm_link *call_from(const struct sockaddr_in *src, const struct sockaddr_in *at,
				   const char *data, bool ask_first, bool brief)
{
	const struct iw_params p = iwb_params(data);
	const struct iwcm_call c = {.fd = -1,
				    .src = (const struct sockaddr *)src,
				    .dst = (const struct sockaddr *)at,
				    .src_len = sizeof(*src),
				    .dst_len = sizeof(*at),
				    .ask_first = ask_first,
				    .brief = brief,
				    .qpn = 0,
				    .id = CALLER};
	struct iwcm_link *l;

	assert_int_equal(iwcm_connect(&c, &p, &l), 0);
	return l;
}

struct iwcm_link *iwb_call_from(in_addr_t from, const struct sockaddr_in *at, const char *data,
				bool ask_first, bool brief)
{
	const struct sockaddr_in src = {.sin_family = AF_INET, .sin_addr = {from}};

	return call_from(&src, at, data, ask_first, brief);
}

struct iwcm_link *iwb_call_from_port(uint16_t port, const struct sockaddr_in *at, const char *data)
{
	struct sockaddr_in src = *at;

	src.sin_port = htons(port);
	return call_from(&src, at, data, false, false);
}

struct iwcm_link *iwb_call(const struct sockaddr_in *at, const char *data)
{
	return iwb_call_from(at->sin_addr.s_addr, at, data, false, false);
}

struct iwcm_link *iwb_take(void)
{
	struct told t = iwb_expect(LISTENER, IWCM_REQUEST, 0);
	struct iwcm_link *l = iwcm_take(LISTENER, t.nr);

	assert_non_null(l);
	assert_true(iwcm_nr(l) == t.nr);
	return l;
}

void iwb_end(struct iwcm_link *l, unsigned int qpn)
{
	close(iwb.begun[qpn].fd);
	iwcm_ended(l);
	iwcm_put(l);
}

unsigned int iwb_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}
