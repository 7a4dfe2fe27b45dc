/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Programs that end in the midst of a call, as programs do: exit() in the handler of a signal. */
#include "first_device.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- signals --------------------------------------------------------------------------------- */

static void leave(int sig)
{
	(void)sig;
	exit(0);
}

/* Polls until a signal comes, most of the time within the library. */
static void __attribute__((noreturn)) poll_until_signal(void)
{
	struct itimerval soon = {.it_value = {.tv_usec = 20000}};
	struct ibv_context *ctx = first_device();
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_wc wc;

	if (!cq || signal(SIGALRM, leave) == SIG_ERR || setitimer(ITIMER_REAL, &soon, NULL))
		_exit(1);
	for (;;)
		if (ibv_poll_cq(cq, 1, &wc))
			_exit(2);
}

static void a_program_that_exits_in_a_signal_handler_is_gone(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();
		time_t end = time(NULL) + 10;
		int status;
		pid_t got;

		assert_true(pid >= 0);
		if (pid == 0)
			poll_until_signal();
		while (!(got = waitpid(pid, &status, WNOHANG)) && time(NULL) < end)
			usleep(1000);
		if (!got) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			fail_msg("it hangs in exit()");
		}
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_that_exits_in_a_signal_handler_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
