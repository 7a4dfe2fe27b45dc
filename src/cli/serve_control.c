/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a service answers at its control socket. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "cli/cli.h"
#include "cli/control.h"
#include "cli/serve.h"

static const struct config *the_config(void *ctx)
{
	struct serve *s = ctx;

	return s->live.config;
}

static int become(void *ctx, struct config *to, size_t *ret_steps, char *why, size_t room)
{
	struct serve *s = ctx;
	int error = serve_tls_check(&s->opt.tls.keys, s->opt.keys.count, to, why, room);

	if (!error && serve_looks(s, to))
		return -EINPROGRESS;
	if (!error)
		error = serve_become(s, to, ret_steps, why, room);
	if (!error)
		serve_answer(&s->say, "told to by process %d: %zu %s", s->control_pid, *ret_steps,
			     *ret_steps == 1 ? "change" : "changes");
	return error;
}

static void measure(void *ctx)
{
	serve_look_at_stores(ctx, time_now_ns());
}

static void add_text(struct json_object *obj, const char *key, const char *text)
{
	json_object_object_add(obj, key, json_object_new_string(text));
}

static void add_option(struct json_object *list, const char *fmt, ...) printf_like(2, 3);

static void add_option(struct json_object *list, const char *fmt, ...)
{
	char text[PATH_MAX + 300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_object_array_add(list, json_object_new_string(text));
}

/* What a service has besides its document, to be told to one that is to serve the same. */
static void tell_options(const struct serve *s, struct json_object *obj)
{
	struct json_object *list = json_object_new_array();

	json_object_object_add(obj, "options", list);
	if (s->opt.file.block_size)
		add_option(list, "--block-size=%u", s->opt.file.block_size);
	if (s->opt.file.read_only)
		add_option(list, "--read-only");
	if (s->opt.file.direct)
		add_option(list, "--direct");
	for (uint32_t i = 0; i < s->opt.tls.text_count; i++)
		add_option(list, "--tls-key=%s", s->opt.tls.texts[i]);
	if (s->opt.tls.file)
		add_option(list, "--tls-keys=%s", s->opt.tls.file);
	if (s->opt.tls.compat)
		add_option(list, "--tls-compat");
	if (s->opt.keys.count)
		add_option(list, "--dhchap-secret");
}

static void tell(void *ctx, struct json_object *obj)
{
	const struct serve *s = ctx;
	char path[PATH_MAX];

	json_object_object_add(obj, "pid", json_object_new_int(getpid()));
	add_text(obj, "control", control_path(s->control));
	if (getcwd(path, sizeof(path)))
		add_text(obj, "cwd", path);
	if (s->opt.config)
		add_text(obj, "config", realpath(s->opt.config, path) ? path : s->opt.config);
	tell_options(s, obj);
}

static void tell_namespaces(void *ctx, struct json_object *list)
{
	const struct serve *s = ctx;

	list_for_each(sub, &s->live.subsystems, const struct live_subsys, link)
		list_for_each(n, &sub->namespaces, const struct live_ns, link) {
			struct json_object *o = json_object_new_object();

			add_text(o, "nqn", sub->s.nqn);
			json_object_object_add(o, "nsid", json_object_new_int((int)n->ns.nsid));
			json_object_object_add(o, "bytes",
					       json_object_new_uint64(n->ns.store->size));
			json_object_object_add(o, "block_size",
					       json_object_new_int(1 << n->ns.lba_shift));
			json_object_object_add(o, "read_only",
					       json_object_new_boolean(n->ns.read_only));
			json_object_array_add(list, o);
		}
}

static char *answer(void *ctx, pid_t pid, const char *line, size_t len, size_t *ret_len,
		    bool *ret_later)
{
	struct serve *s = ctx;

	s->control_pid = pid;
	return control_request(&s->requests, line, len, ret_len, ret_later);
}

int serve_control(struct serve *s)
{
	const char *path = s->opt.control;
	struct control_socket socket;
	char why[512];
	int error;

	s->requests = (struct control_service){
		.ctx = s,
		.config = the_config,
		.become = become,
		.measure = measure,
		.tell = tell,
		.tell_namespaces = tell_namespaces,
	};
	if (path && strcmp(path, "none") == 0)
		return 0;
	error = control_listen(path, &socket, why, sizeof(why));
	if (!error) {
		error = control_create(&socket, answer, s, &s->control);
		if (error) {
			control_unlisten(&socket);
			snprintf(why, sizeof(why), "%s", strerrordesc_np(-error));
		}
	}
	if (!error)
		return 0;
	if (path)
		return cli_fail("--control: %s", why);
	if (error != -ENOENT) /* users need not have a place for it */
		cli_warn("`weft target` cannot change what is served: %s; --control PATH has its "
			 "socket elsewhere, --control none nowhere",
			 why);
	return 0;
}

void serve_control_end(struct serve *s)
{
	const uint64_t lost = s->requests.edits - s->requests.saved;

	if (s->control && lost && s->opt.config)
		cli_warn("%s: %llu %s by `weft target` %s not saved, and %s with the service",
			 s->opt.config, (unsigned long long)lost, lost == 1 ? "edit" : "edits",
			 lost == 1 ? "was" : "were", lost == 1 ? "ends" : "end");
	control_destroy(s->control);
	s->control = NULL;
}
