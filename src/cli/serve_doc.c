/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the command line says to serve, as the document that a configuration file would be. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <json-c/json.h>

#include "cli/serve.h"
#include "cli/serve_names.h"
#include "nvmf/common/command.h"
#include "nvmf/transport/address.h"

static struct json_object *text_of(const char *text)
{
	return json_object_new_string(text);
}

static void add_text(struct json_object *obj, const char *key, const char *text)
{
	json_object_object_add(obj, key, text_of(text));
}

static struct json_object *add_list(struct json_object *obj, const char *key)
{
	struct json_object *list = json_object_new_array();

	json_object_object_add(obj, key, list);
	return list;
}

static struct json_object *add_object(struct json_object *obj, const char *key)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(obj, key, o);
	return o;
}

static struct json_object *append_object(struct json_object *list)
{
	struct json_object *o = json_object_new_object();

	json_object_array_add(list, o);
	return o;
}

static void put_subsys(struct json_object *list, const struct serve_options *o, const char *nqn)
{
	struct json_object *s = append_object(list), *attr = add_object(s, "attr");
	struct json_object *hosts = add_list(s, "allowed_hosts");
	struct json_object *namespaces = add_list(s, "namespaces");

	add_text(s, "nqn", nqn);
	add_text(attr, "allow_any_host", o->host_count ? "0" : "1");
	if (o->serial)
		add_text(attr, "serial", o->serial);
	for (uint32_t i = 0; i < o->host_count; i++)
		json_object_array_add(hosts, text_of(o->hosts[i]));
	for (uint32_t i = 0; i < o->file_count; i++) {
		struct json_object *ns = append_object(namespaces);

		json_object_object_add(ns, "nsid", json_object_new_int((int)i + 1));
		json_object_object_add(ns, "enable", json_object_new_int(1));
		add_text(add_object(ns, "device"), "path", o->texts[i]);
	}
}

static void put_port(struct json_object *list, const struct nvme_uri *u, const char *address,
		     bool v6, const char *nqn)
{
	struct json_object *p = append_object(list), *addr = add_object(p, "addr");

	json_object_object_add(p, "portid",
			       json_object_new_int((int)json_object_array_length(list)));
	add_text(addr, "trtype", u->transport);
	add_text(addr, "adrfam", v6 ? "ipv6" : "ipv4");
	add_text(addr, "traddr", address);
	add_text(addr, "trsvcid", u->port);
	add_text(addr, "treq",
		 !u->tls	   ? "not specified"
		 : u->tls_optional ? "not required"
				   : "required");
	add_text(addr, "tsas", u->tls ? "tls1.3" : "none");
	json_object_array_add(add_list(p, "subsystems"), text_of(nqn));
	(void)add_list(p, "referrals");
}

/* A machine need not have IPv6. */
static bool has_ipv6(void)
{
	const struct sockaddr_in6 any = {.sin6_family = AF_INET6};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&any, sizeof(any)) == 0;

	if (fd >= 0)
		close(fd);
	return has;
}

/* A name is resolved now: a configuration has addresses. */
static int put_ports(struct json_object *list, const struct nvme_uri *u, const char *nqn, char *why,
		     size_t room)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
	char text[NVMF_TRADDR_LEN];
	int error;

	if (!u->host[0]) {
		put_port(list, u, "0.0.0.0", false, nqn);
		if (has_ipv6())
			put_port(list, u, "::", true, nqn);
		return 0;
	}
	error = getaddrinfo(u->host, u->port, &hints, &found);
	if (error) {
		snprintf(why, room, "%s is no address of this machine: %s", u->host,
			 gai_strerror(error));
		return -EINVAL;
	}
	address_text(found->ai_addr, text, sizeof(text));
	put_port(list, u, text, found->ai_family == AF_INET6, nqn);
	freeaddrinfo(found);
	return 0;
}

static bool given_twice(const struct serve_options *o, uint32_t i)
{
	for (uint32_t j = 0; j < i; j++)
		if (strcmp(o->listen[i].transport, o->listen[j].transport) == 0 &&
		    strcmp(o->listen[i].host, o->listen[j].host) == 0 &&
		    strcmp(o->listen[i].port, o->listen[j].port) == 0)
			return true;
	return false;
}

static int put_all_ports(struct json_object *list, const struct serve_options *o, const char *nqn,
			 char *why, size_t room)
{
	for (uint32_t i = 0; i < o->listen_count; i++) {
		const struct nvme_uri *u = &o->listen[i];

		if (given_twice(o, i)) {
			snprintf(why, room, "--listen has %s port %s twice; once is enough",
				 u->host[0] ? u->host : "every address", u->port);
			return -EINVAL;
		}
		if (put_ports(list, u, nqn, why, room) != 0)
			return -EINVAL;
	}
	return 0;
}

int serve_document(struct serve_options *o, struct json_object **ret, char *why, size_t room)
{
	struct json_object *doc = json_object_new_object();
	struct json_object *hosts = add_list(doc, "hosts");
	struct json_object *subsystems = add_list(doc, "subsystems");
	struct json_object *ports = add_list(doc, "ports");
	char real[4096], nqn[NVME_NQN_LEN];

	serve_real_path(o->files[0].path, real, sizeof(real));
	if (o->nqn)
		snprintf(nqn, sizeof(nqn), "%s", o->nqn);
	else
		serve_default_nqn(real, nqn);
	if (!nvmf_nqn_valid(nqn, sizeof(nqn))) {
		snprintf(why, room, "%s cannot name a subsystem; choose another with --nqn", nqn);
		json_object_put(doc);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < o->host_count; i++)
		add_text(append_object(hosts), "nqn", o->hosts[i]);
	put_subsys(subsystems, o, nqn);
	if (put_all_ports(ports, o, nqn, why, room) != 0) {
		json_object_put(doc);
		return -EINVAL;
	}
	*ret = doc;
	return 0;
}
