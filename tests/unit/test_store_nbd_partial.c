/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The store behind an NBD server that sends less than it was asked for, and says that this was all.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "store_bed.h"

#define SIZE (1024u * 1024)
#define PART 512u
#define READ 16384u

/* --- the server: doc/proto.md of the NBD project ---------------------------------------------- */

#define OPT_GO		  7
#define OPT_STRUCTURED	  8
#define REP_ACK		  1
#define REP_INFO	  3
#define REP_ERR_UNSUP	  0x80000001u
#define CMD_READ	  0
#define CMD_DISC	  2
#define CHUNK_DONE	  1
#define CHUNK_NONE	  0
#define CHUNK_OFFSET_DATA 1

/* What a READ is answered with: pieces of PART bytes from its beginning on, the next one where the
 * one before ends, or again where that was. */
struct manner {
	unsigned pieces;
	bool same_place;
};

static void take(int fd, void *buf, size_t len)
{
	for (size_t n = 0; n < len;) {
		ssize_t got = read(fd, (uint8_t *)buf + n, len - n);

		if (got <= 0)
			_exit(0); /* the client has left */
		n += (size_t)got;
	}
}

static void give(int fd, const void *buf, size_t len)
{
	if (send(fd, buf, len, MSG_NOSIGNAL) != (ssize_t)len)
		_exit(0);
}

static void pass_over(int fd, uint32_t len)
{
	uint8_t byte;

	while (len--)
		take(fd, &byte, 1);
}

static void reply(int fd, uint32_t option, uint32_t type, const void *data, uint32_t len)
{
	uint8_t head[20];

	st_be64(head, 0x3e889045565a9);
	st_be32(head + 8, option);
	st_be32(head + 12, type);
	st_be32(head + 16, len);
	give(fd, head, sizeof(head));
	give(fd, data, len);
}

static void negotiate(int fd)
{
	uint8_t first[18] = "NBDMAGICIHAVEOPT", head[16], info[12] = {0};

	first[17] = 3; /* fixed newstyle, no zeroes */
	give(fd, first, sizeof(first));
	pass_over(fd, 4);
	st_be64(info + 2, SIZE);
	info[11] = 1; /* has flags */
	for (;;) {
		uint32_t option;

		take(fd, head, sizeof(head));
		option = ld_be32(head + 8);
		pass_over(fd, ld_be32(head + 12));
		if (option == OPT_GO) {
			reply(fd, option, REP_INFO, info, sizeof(info));
			reply(fd, option, REP_ACK, "", 0);
			return;
		}
		reply(fd, option, option == OPT_STRUCTURED ? REP_ACK : REP_ERR_UNSUP, "", 0);
	}
}

static void chunk(int fd, const uint8_t request[28], bool done, uint16_t type, uint64_t offset)
{
	uint8_t head[20 + 8 + PART];
	uint32_t len = type == CHUNK_OFFSET_DATA ? 8 + PART : 0;

	st_be32(head, 0x668e33ef);
	st_be16(head + 4, done ? CHUNK_DONE : 0);
	st_be16(head + 6, type);
	memcpy(head + 8, request + 8, 8);
	st_be32(head + 16, len);
	st_be64(head + 20, offset);
	memset(head + 28, 'N', PART);
	give(fd, head, 20 + len);
}

static void answer(int fd, const uint8_t request[28], const struct manner *how)
{
	uint64_t at = ld_be64(request + 16);

	for (unsigned i = 0; ld_be16(request + 6) == CMD_READ && i < how->pieces; i++)
		chunk(fd, request, false, CHUNK_OFFSET_DATA,
		      how->same_place ? at : at + (uint64_t)i * PART);
	chunk(fd, request, true, CHUNK_NONE, 0);
}

static void serve(int listener, const struct manner *how)
{
	int fd = accept(listener, NULL, NULL);
	uint8_t request[28];

	negotiate(fd);
	for (;;) {
		take(fd, request, sizeof(request));
		if (ld_be16(request + 6) == CMD_DISC)
			_exit(0);
		answer(fd, request, how);
	}
}

/* --- cases ------------------------------------------------------------------------------------ */

static char dir[] = "/tmp/weft-nbd-XXXXXX";
static uint8_t in[READ];

/* What a READ leaves in memory that has held another's bytes, and its result. */
static int read_from(const struct manner *how)
{
	const struct store_file_options options = {.block_size = 512};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), error;
	struct store_engine *engine;
	const char *why = "";
	struct store *s;
	char uri[128];
	pid_t server;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", dir);
	snprintf(uri, sizeof(uri), "nbd+unix:///?socket=%s", at.sun_path);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 4), 0);
	server = fork();
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(listener, how);
	}
	assert_true(server > 0);
	close(listener);
	assert_int_equal(store_engine_create(STORE_ENGINE_AUTO, &engine), 0);
	if (store_open(engine, uri, &options, &s, &why) != 0)
		fail_msg("%s: %s", uri, why);
	memset(in, 'S', sizeof(in));
	error = run(engine, s, STORE_READ, 0, sizeof(in), in, 0);
	store_destroy(s);
	store_engine_destroy(engine);
	assert_int_equal(waitpid(server, NULL, 0), server);
	unlink(at.sun_path);
	return error;
}

static void what_comes_in_pieces_is_whole(void **state)
{
	(void)state;
	assert_int_equal(read_from(&(struct manner){.pieces = READ / PART}), 0);
	for (size_t i = 0; i < sizeof(in); i++)
		assert_int_equal(in[i], 'N');
}

/* Who reads hears that it failed, and has nothing of what the memory has held before. */
static void what_is_left_out_is_an_error(void **state)
{
	static const struct manner manners[] = {{0}, {1}, {READ / PART - 1}};

	(void)state;
	for (size_t m = 0; m < ARRAY_SIZE(manners); m++) {
		assert_int_equal(read_from(&manners[m]), -EIO);
		assert_null(memchr(in, 'S', sizeof(in)));
	}
}

/* As many bytes as were asked for, but one place over and over. */
static void what_is_sent_twice_hides_nothing(void **state)
{
	(void)state;
	(void)read_from(&(struct manner){.pieces = READ / PART, .same_place = true});
	assert_null(memchr(in, 'S', sizeof(in)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_comes_in_pieces_is_whole),
		cmocka_unit_test(what_is_left_out_is_an_error),
		cmocka_unit_test(what_is_sent_twice_hides_nothing),
	};
	int failed;

	assert_non_null(mkdtemp(dir));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(dir);
	return failed;
}
