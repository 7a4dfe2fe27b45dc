// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Streams of stdio(3) on a socket. */
#include "case.h"

static void stdio_lines(void)
{
	int fd = joined();
	FILE *f = fdopen(fd, server ? "r" : "w");
	char line[32];

	need(f);
	if (server) {
		while (fgets(line, sizeof(line), f))
			say("%.*s", (int)strcspn(line, "\n"), line);
		say("at the end: %d, wrong: %d", !!feof(f), !!ferror(f));
	} else {
		T(fprintf(f, "line %d\n", 1));
		T(fputs("and two\n", f) >= 0);
		T(fputc('3', f));
		T(fflush(f));
		T((int)fwrite("4\n5", 1, 3, f));
	}
	T(fclose(f));
	T(fcntl(fd, F_GETFD));
	meet();
}

/* Both ways by one stream, and by two. */
static void stdio_both_ways(void)
{
	int fd = joined();
	FILE *f = fdopen(fd, "r+");
	char line[32] = "";

	need(f);
	setvbuf(f, NULL, _IONBF, 0);
	if (server) {
		T(fprintf(f, "220 ready\n"));
		need(fgets(line, sizeof(line), f));
	} else {
		need(fgets(line, sizeof(line), f));
		T(fprintf(f, "EHLO\n"));
	}
	say("%.*s", (int)strcspn(line, "\n"), line);
	meet();
	T(fclose(f));
}

static void stdio_two_streams(void)
{
	int fd = joined();
	FILE *in = fdopen(fd, "r"), *to = fdopen(dup(fd), "w");
	char *line = NULL;
	size_t room = 0;

	need(in && to);
	setlinebuf(to);
	for (int i = 0; i < 3; i++) {
		if (server)
			fprintf(to, "question %d\n", i);
		need(getline(&line, &room, in) > 0);
		say("%.*s", (int)strcspn(line, "\n"), line);
		if (!server)
			fprintf(to, "answer %d\n", i);
	}
	T(fclose(to));
	if (server)
		T(shutdown(fd, SHUT_WR));
	T((int)getline(&line, &room, in));
	T(fclose(in));
	free(line);
}

static void stdio_much(void)
{
	enum { LONG = 500000 };
	int fd = joined();
	FILE *f = fdopen(fd, server ? "r" : "w");
	uint8_t *buf = malloc(LONG), *due = malloc(LONG);

	need(f && buf && due);
	fill(due, 8, 0, LONG);
	if (server) {
		T((long)fread(buf, 1, LONG, f));
		say("the same: %d", !memcmp(buf, due, LONG));
		T((long)fread(buf, 1, 1, f));
		say("at the end: %d", !!feof(f));
	} else {
		T((long)fwrite(due, 1, LONG, f));
	}
	T(fclose(f));
	free(buf);
	free(due);
	meet();
}

/* What was in the stream's buffer goes out with fclose() and with exit(). */
static void stdio_exit(void)
{
	int fd = joined();
	FILE *f;

	if (server) {
		f = fdopen(fd, "w");
		need(f && fputs("unflushed", f) >= 0);
		exit(0);
	}
	drain(fd);
}

static void stdio_closed(void)
{
	int fd = joined();
	FILE *f;

	if (server) {
		f = fdopen(fd, "w");
		need(f && fputs("unflushed", f) >= 0);
		T(fclose(f));
		meet();
	} else {
		meet();
		drain(fd);
	}
	meet();
}

/* freopen() of a stream on a socket: closes that. */
static void stdio_reopened(void)
{
	int fd = joined();
	FILE *f;

	if (server) {
		f = fdopen(fd, "w");
		need(f && fputs("first", f) >= 0);
		f = freopen("/dev/null", "w", f);
		need(f);
		T(fputs("not for the peer", f) >= 0);
		T(fclose(f));
	} else {
		drain(fd);
	}
	meet();
}

/* Standard input and output are the connection. */
static void stdio_standard(void)
{
	int fd = joined(), n = 0;
	char word[32] = "";

	need(dup2(fd, 0) == 0 && dup2(fd, 1) == 1 && !close(fd));
	if (server) {
		T(printf("%s %d\n", "number", 42));
		T(fflush(stdout));
		T(getchar());
	} else {
		T(scanf("%31s %d", word, &n));
		say("%s %d", word, n);
		T(putchar('!'));
		T(fflush(stdout));
	}
	meet();
}

static void stdio_wrong(void)
{
	int fd = joined();
	FILE *f = fdopen(fd, "r+");
	char c;

	need(f);
	if (server) {
		nonblocking(fd, true);
		T((int)fread(&c, 1, 1, f));
		say("wrong: %d", !!ferror(f));
		clearerr(f);
		T(fseek(f, 0, SEEK_SET));
		T((int)ftell(f));
		signal(SIGPIPE, SIG_IGN);
		T(shutdown(fd, SHUT_WR));
		T(fputs("x", f));
		T(fflush(f));
	}
	meet();
	if (!server) {
		T((int)fread(&c, 1, 1, f));
		say("at the end: %d", !!feof(f));
	}
	meet();
}

static void stdio_dprintf(void)
{
	int fd = joined();

	if (server)
		T(dprintf(fd, "%0*d", 3000, 7));
	else
		R(fd, 3000, MSG_WAITALL);
	meet();
}

const struct test_case stdio_cases[] = {
	CASE(stdio_lines),
	CASE(stdio_both_ways),
	CASE(stdio_two_streams),
	CASE(stdio_much),
	CASE(stdio_exit),
	CASE(stdio_closed),
	CASE(stdio_reopened),
	CASE(stdio_standard),
	CASE(stdio_wrong),
	CASE(stdio_dprintf),
	{0},
};
