/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Keys in what is said of a document, or of words. */
#include <string.h>

#include "base/compiler.h"
#include "config/config.h"

static const char *const forms[] = {"DHHC-1", "NVMeTLSkey-1"};

bool config_is_key(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		if (strstr(text, forms[i]))
			return true;
	return false;
}

/* Up to where a word ends in a message. What only tells how a key reads stays. */
static void mask_behind(char *text, const char *form)
{
	static const char told[] = "HH:BASE64:";

	while ((text = strstr(text, form))) {
		size_t n;

		text += strlen(form);
		text += *text == ':';
		n = strcspn(text, " '`]");
		if (strncmp(text, told, strlen(told)) != 0)
			memmove(text, text + n, strlen(text + n) + 1);
	}
}

void config_mask_text(char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		mask_behind(text, forms[i]);
	mask_behind(text, "key=");
}
