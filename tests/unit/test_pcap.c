/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The filter that writes a capture, before a port that is not one of sockets. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "base/bytes.h"
#include "port/pcap/pcap_port.h"
#include "port/sim/sim_port.h"

#define N_MAX 100

/* Two ports at the ends of a wire that does nothing, the first with the filter before it. */
struct fixture {
	char dir[64], file[128], err[256];
	struct port *port, *other;
	uint64_t now;
	struct flow flow;
	struct packet_tx tx[N_MAX];
	size_t got;
};

static void carry_to_other(void *ctx, struct sim_packet *k)
{
	struct fixture *f = ctx;

	sim_port_arrive(f->other, k);
}

static struct port *behind; /* the filter */

static void carry_back(void *ctx, struct sim_packet *k)
{
	(void)ctx;
	sim_port_arrive(behind, k);
}

static uint64_t test_clock(void *ctx)
{
	struct fixture *f = ctx;

	return f->now;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	snprintf(f->dir, sizeof(f->dir), "/tmp/weft-test-pcap-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->file, sizeof(f->file), "%s/file", f->dir);
	assert_int_equal(sim_port_create(&f->port, carry_to_other, f), 0);
	assert_int_equal(sim_port_create(&f->other, carry_back, f), 0);
	behind = f->port;
	f->now = 0x123456789abcdef0;
	f->flow = (struct flow){.sgid = {.raw = {[10] = 0xff, 0xff, 10, 0, 0, 1}},
				.dgid = {.raw = {[10] = 0xff, 0xff, 10, 0, 0, 2}},
				.sport = 50000};
	for (size_t i = 0; i < N_MAX; i++) {
		f->tx[i].flow = &f->flow;
		f->tx[i].hdr_len = BTH_LEN;
		st_be24(f->tx[i].hdr + 9, (uint32_t)i);
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	if (f->port)
		port_destroy(f->port);
	port_destroy(f->other);
	snprintf(command, sizeof(command), "rm -r %s", f->dir);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

static void put_filter(struct fixture *f)
{
	assert_int_equal(pcap_port_before(&f->port, f->file, test_clock, f, f->err, sizeof(f->err)),
			 0);
}

/* The packets of a capture: how many were sent, and how many received. Its first one's time. */
struct tally {
	size_t heads, sent, received;
	uint64_t ns;
};

static struct tally read_file(const char *path)
{
	struct tally t = {0};
	FILE *in = fopen(path, "rb");
	uint32_t head[2];

	assert_non_null(in);
	while (fread(head, sizeof(head), 1, in) == 1) {
		uint8_t body[65536];
		uint32_t v[5], flags;

		assert_in_range(head[1], 12, sizeof(body));
		assert_int_equal(fread(body, head[1] - 8, 1, in), 1);
		memcpy(v, body + head[1] - 12, 4);
		assert_int_equal(v[0], head[1]);
		if (head[0] == 0x0a0d0d0a)
			t.heads++;
		if (head[0] != 6)
			continue;
		memcpy(v, body, sizeof(v));
		if (!t.ns)
			t.ns = (uint64_t)v[1] << 32 | v[2];
		memcpy(&flags, body + 20 + v[3] + (-v[3] & 3) + 4, 4);
		t.sent += flags == 2;
		t.received += flags == 1;
	}
	assert_true(feof(in));
	fclose(in);
	return t;
}

static bool take(void *ctx, const struct packet_rx *rx)
{
	struct fixture *f = ctx;

	(void)rx;
	f->got++;
	return true;
}

static void what_passes_is_in_the_file(void **state)
{
	struct fixture *f = *state;
	struct tally t;

	put_filter(f);
	assert_int_equal(port_tx(f->port, f->tx, 3, NULL), 3);
	assert_int_equal(port_tx(f->other, f->tx, 2, NULL), 2);
	assert_int_equal(port_rx(f->port, 1, take, f), 2);
	assert_int_equal(port_rx(f->other, 1, take, f), 3);
	assert_int_equal(f->got, 5);
	t = read_file(f->file);
	assert_int_equal(t.heads, 1);
	assert_int_equal(t.sent, 3);
	assert_int_equal(t.received, 2);
	assert_int_equal(t.ns, f->now);
}

static size_t every_second(struct port *p, const struct packet_tx *pkts, size_t n,
			   struct packet_sent *ret_sent)
{
	(void)p;
	for (size_t i = 0; i < n; i++)
		ret_sent[i] =
			(struct packet_sent){.sport = ld_be24(pkts[i].hdr + 9) & 1 ? 0 : 50000};
	return n / 2;
}

static void what_the_port_behind_refused_is_not_there(void **state)
{
	struct fixture *f = *state;
	struct port_ops ops = *f->port->ops;
	struct packet_sent sent[N_MAX];
	struct tally t;

	ops.tx = every_second;
	f->port->ops = &ops;
	put_filter(f);
	/* More at once than it keeps notes of; who calls may ask himself. */
	assert_int_equal(port_tx(f->port, f->tx, N_MAX, NULL), N_MAX / 2);
	assert_int_equal(port_tx(f->port, f->tx, N_MAX, sent), N_MAX / 2);
	for (size_t i = 0; i < N_MAX; i++)
		assert_int_equal(sent[i].sport, i & 1 ? 0 : 50000);
	t = read_file(f->file);
	assert_int_equal(t.sent, N_MAX);
	port_destroy(f->port); /* before its table goes */
	f->port = NULL;
}

static bool is_locked(const char *path)
{
	int fd = open(path, O_RDONLY);
	bool locked;

	assert_true(fd >= 0);
	locked = flock(fd, LOCK_EX | LOCK_NB) < 0;
	close(fd);
	return locked;
}

static void a_forked_child_writes_nothing_and_does_not_hold_the_file(void **state)
{
	struct fixture *f = *state;
	int status, hold[2];
	char c;
	pid_t pid;

	put_filter(f);
	assert_int_equal(pipe(hold), 0);
	assert_int_equal(port_tx(f->port, f->tx, 1, NULL), 1);
	pid = fork();
	if (pid == 0) {
		port_forked(f->port);
		(void)port_tx(f->port, f->tx, 1, NULL);
		close(hold[1]);
		(void)!read(hold[0], &c, 1);
		_exit(0);
	}
	close(hold[0]);
	assert_true(is_locked(f->file));
	port_destroy(f->port);
	f->port = NULL;
	for (int i = 0; i < 1000 && is_locked(f->file); i++) /* until the child has forked */
		usleep(10000);
	assert_false(is_locked(f->file));
	close(hold[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read_file(f->file).sent, 1);
}

static void who_comes_while_another_writes_goes_on_in_its_file(void **state)
{
	struct fixture *f = *state;
	struct tally t;

	put_filter(f);
	assert_int_equal(port_tx(f->port, f->tx, 1, NULL), 1);
	assert_int_equal(
		pcap_port_before(&f->other, f->file, test_clock, f, f->err, sizeof(f->err)), 0);
	assert_int_equal(port_rx(f->other, 1, take, f), 1);
	t = read_file(f->file);
	assert_int_equal(t.heads, 1);
	assert_int_equal(t.sent, 1);
	assert_int_equal(t.received, 1);
	/* When both are gone, the next begins anew. */
	port_destroy(f->port);
	assert_int_equal(sim_port_create(&f->port, carry_to_other, f), 0);
	port_destroy(f->other);
	assert_int_equal(sim_port_create(&f->other, carry_back, f), 0);
	behind = f->port;
	put_filter(f);
	t = read_file(f->file);
	assert_int_equal(t.heads, 1);
	assert_int_equal(t.sent + t.received, 0);
}

static void a_name_may_have_the_process_in_it(void **state)
{
	struct fixture *f = *state;
	char want[128];
	struct stat st;

	snprintf(f->file, sizeof(f->file), "%s/%%p-100%%%%-%%x", f->dir);
	snprintf(want, sizeof(want), "%s/%d-100%%-%%x", f->dir, getpid());
	put_filter(f);
	assert_int_equal(stat(want, &st), 0);
}

/* Whoever is watched does not end of it. */
static void a_file_as_large_as_may_be_ends_the_capture_alone(void **state)
{
	struct fixture *f = *state;
	struct rlimit before, limit;
	struct stat st;

	put_filter(f);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 2048;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (int i = 0; i < 50; i++)
		assert_int_equal(port_tx(f->port, f->tx, 2, NULL), 2);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(stat(f->file, &st), 0);
	assert_in_range(st.st_size, 1024, 2048);
	assert_true(read_file(f->file).sent > 0); /* whole packets */
	assert_int_equal(port_rx(f->other, 1, take, f), 100);
}

static bool put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) > 0;

	close(fd);
	return ok;
}

static bool may_mount(void)
{
	char uid[64], gid[64];

	snprintf(uid, sizeof(uid), "%u %u 1", geteuid(), geteuid());
	snprintf(gid, sizeof(gid), "%u %u 1", getegid(), getegid());
	return unshare(CLONE_NEWNS) == 0 ||
	       (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && put_text("/proc/self/uid_map", uid) &&
		put_text("/proc/self/setgroups", "deny") && put_text("/proc/self/gid_map", gid));
}

static void a_full_disk_leaves_whole_packets_and_room_for_others(void **state)
{
	static const char quarter[4096];
	struct fixture *f = *state;
	struct port *second;
	char ballast[128];
	struct tally t;
	size_t sent;
	int fd;

	if (!may_mount() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("little", f->dir, "tmpfs", 0, "size=16k") < 0)
		SKIP_CASE("no right to mount a file system here");
	snprintf(ballast, sizeof(ballast), "%s/ballast", f->dir);
	fd = open(ballast, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, quarter, sizeof(quarter)), sizeof(quarter));
	close(fd);
	put_filter(f);
	assert_int_equal(sim_port_create(&second, carry_to_other, f), 0);
	assert_int_equal(pcap_port_before(&second, f->file, test_clock, f, f->err, sizeof(f->err)),
			 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(port_tx(f->port, f->tx, 60, NULL), 60);
	t = read_file(f->file); /* whole packets */
	sent = t.sent;
	assert_in_range(sent, 60, 240);
	/* There is room again: the second goes on, the first does not. */
	assert_int_equal(unlink(ballast), 0);
	assert_int_equal(port_tx(second, f->tx, 1, NULL), 1);
	assert_int_equal(port_tx(f->port, f->tx, 1, NULL), 1);
	t = read_file(f->file);
	assert_int_equal(t.heads, 1);
	assert_int_equal(t.sent, sent + 1);
	port_destroy(second);
	assert_int_equal(umount2(f->dir, MNT_DETACH), 0);
}

static void what_is_no_file_is_refused(void **state)
{
	struct fixture *f = *state;
	struct port *before = f->port;

	assert_int_equal(mkfifo(f->file, 0600), 0);
	assert_int_equal(pcap_port_before(&f->port, f->file, NULL, NULL, f->err, sizeof(f->err)),
			 -EINVAL); /* and it does not wait for who reads it */
	assert_non_null(strstr(f->err, f->file));
	assert_int_equal(
		pcap_port_before(&f->port, "/dev/null", NULL, NULL, f->err, sizeof(f->err)),
		-EINVAL);
	assert_ptr_equal(f->port, before);
}

int main(void)
{
#define PCAP_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		PCAP_TEST(what_passes_is_in_the_file),
		PCAP_TEST(what_the_port_behind_refused_is_not_there),
		PCAP_TEST(a_forked_child_writes_nothing_and_does_not_hold_the_file),
		PCAP_TEST(who_comes_while_another_writes_goes_on_in_its_file),
		PCAP_TEST(a_name_may_have_the_process_in_it),
		PCAP_TEST(a_file_as_large_as_may_be_ends_the_capture_alone),
		PCAP_TEST(a_full_disk_leaves_whole_packets_and_room_for_others),
		PCAP_TEST(what_is_no_file_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
