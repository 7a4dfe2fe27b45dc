/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "mdns/avahi.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libavahi-client.so.3"

int avahi_load(struct avahi *ret, char *why, size_t room)
{
	static const struct {
		const char *name;
		size_t at;
	} symbols[] = {
#define SYMBOL(name) {"avahi_" #name, offsetof(struct avahi, name)},
		AVAHI_CALLS(SYMBOL)
#undef SYMBOL
	};
	/* It stays until the process ends: D-Bus has no end. */
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		snprintf(why, room,
			 LIBRARY " cannot be loaded, by which avahi-daemon is spoken to: install "
				 "libavahi-client3 and avahi-daemon");
		return -ENOENT;
	}
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *f = dlsym(library, symbols[i].name); /* of libavahi-common, too */

		if (!f) {
			snprintf(why, room, LIBRARY " has no %s: it is another version",
				 symbols[i].name);
			return -ENOSYS;
		}
		memcpy((char *)ret + symbols[i].at, &f, sizeof(f));
	}
	return 0;
}
