/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/sim_html.h"

#include <inttypes.h>
#include <string.h>

#include "cli/html.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "cli/sim_fields.h"
#include "cli/sim_files.h"
#include "cli/sim_plots.h"
#include "cli/sim_words.h"

enum { PORTS_TOP = 8 };

static const char style[] =
	":root{color-scheme:light dark;--page:#f4f4f1;--card:#fff;--ink:#1a1a18;--ink-2:#55554f;"
	"--line:#dcdcd6;--shade:#0000000d;--good:#00683f;--bad:#a32b00}\n"
	"@media (prefers-color-scheme:dark){:root{--page:#161615;--card:#1f1f1d;--ink:#f0f0ea;"
	"--ink-2:#b4b4aa;--line:#3a3a36;--shade:#ffffff12;--good:#4cc99a;--bad:#ff9466}}\n"
	"*{box-sizing:border-box}\n"
	"body{margin:0;background:var(--page);color:var(--ink);"
	"font:16px/1.5 system-ui,sans-serif}\n"
	"main{max-width:76rem;margin:0 auto;padding:1.5rem 1rem 3rem}\n"
	"h1{font-size:1.75rem;line-height:1.2;margin:0;overflow-wrap:anywhere}\n"
	"h2{font-size:1.2rem;margin:2.2rem 0 .7rem}\n"
	"h3{font-size:1rem;margin:0;overflow-wrap:anywhere}\n"
	".about{max-width:44rem;margin:.5rem 0 0;white-space:pre-line;overflow-wrap:anywhere}\n"
	".small,figcaption p{color:var(--ink-2);font-size:.875rem;margin:.1rem 0 .4rem}\n"
	".facts{display:flex;flex-wrap:wrap;gap:.4rem 2rem;margin:1rem 0 0}\n"
	".facts dt,.verdict dt{color:var(--ink-2);font-size:.875rem}\n"
	".facts dd,.verdict dd{margin:0;font-variant-numeric:tabular-nums}\n"
	".cards{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,"
	"minmax(min(100%,27rem),1fr));list-style:none;margin:0;padding:0}\n"
	".card,.plot{background:var(--card);border:1px solid var(--line);border-radius:8px;"
	"padding:1rem}\n"
	".verdict{border-left:5px solid var(--good)}\n"
	".verdict.not{border-left:5px dashed var(--bad)}\n"
	".verdict strong{color:var(--good)}\n"
	".verdict.not strong{color:var(--bad)}\n"
	".verdict dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem;"
	"margin:.5rem 0 0}\n"
	".verdict dd{overflow-wrap:anywhere}\n"
	".scroll{overflow-x:auto;padding:.5rem 1rem}\n"
	"table{border-collapse:collapse;font-size:.9rem;"
	"font-variant-numeric:tabular-nums}\n"
	"th,td{text-align:right;padding:.35rem .9rem;white-space:nowrap}\n"
	"th{color:var(--ink-2);font-weight:600;border-bottom:1px solid var(--line)}\n"
	"td{border-bottom:1px solid var(--line)}\n"
	"tr:last-child td{border-bottom:0}\n"
	".words{text-align:left}\n"
	"th:first-child,td:first-child{padding-left:0}\n"
	"th:last-child,td:last-child{padding-right:0}\n"
	"footer.small{margin-top:2rem}\n";

/* Digits in threes, which counts of millions need. */
static void put_number(FILE *f, const char *text)
{
	size_t n = strspn(text, "0123456789");
	bool count = text[n] == 0;

	for (; *text; text++, n--) {
		fputc(*text, f);
		if (count && n > 1 && (n - 1) % 3 == 0)
			fputs("&#8239;", f);
	}
}

static void put_cell(FILE *f, const struct sim_field *field, const void *record)
{
	char text[SIM_CELL_MAX];

	if (field->kind == SIM_TEXT)
		html_put(f, sim_field_words(field, record));
	else if (field->kind == SIM_COUNT || field->kind == SIM_SIZE)
		put_number(f, sim_field_text(text, field, record));
	else
		html_put(f, sim_field_text(text, field, record));
}

static const char *class_of(const struct sim_field *field)
{
	return sim_field_is_text(field) ? " class=\"words\"" : "";
}

static void put_table(FILE *f, const char *title, const struct sim_table *t)
{
	if (t->n == 0)
		return;
	fputs("<h2>", f);
	html_put(f, title);
	/* Reached by the keyboard, as it scrolls. */
	fputs("</h2>\n<div class=\"card scroll\" tabindex=\"0\"><table>\n<thead><tr>", f);
	for (size_t c = 0; c < t->shape->nfields; c++) {
		const struct sim_field *field = &t->shape->fields[c];

		if (!sim_field_shown(t, field))
			continue;
		fprintf(f, "<th scope=\"col\"%s>", class_of(field));
		html_put(f, field->title);
		fputs("</th>", f);
	}
	fputs("</tr></thead>\n<tbody>\n", f);
	for (size_t i = 0; i < t->n; i++) {
		fputs("<tr>", f);
		for (size_t c = 0; c < t->shape->nfields; c++) {
			const struct sim_field *field = &t->shape->fields[c];

			if (!sim_field_shown(t, field))
				continue;
			fprintf(f, "<td%s>", class_of(field));
			put_cell(f, field, sim_table_row(t, i));
			fputs("</td>", f);
		}
		fputs("</tr>\n", f);
	}
	fputs("</tbody>\n</table></div>\n", f);
}

static void put_fact(FILE *f, const char *name, const char *value)
{
	fputs("<div><dt>", f);
	html_put(f, name);
	fputs("</dt><dd>", f);
	html_put(f, value);
	fputs("</dd></div>\n", f);
}

static void put_head(FILE *f, const struct run_result *r)
{
	const struct scenario *s = r->scenario;
	char text[64];

	/* What it may load is said once more where the browser holds to it: nothing. */
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'\"/>\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
	      f);
	html_put(f, s->name ? s->name : "weft sim");
	fputs("</title>\n<style>\n", f);
	fputs(style, f);
	plot_put_style(f);
	fputs("</style>\n</head>\n<body>\n<main>\n<header>\n<h1>", f);
	html_put(f, s->name ? s->name : "weft sim");
	fputs("</h1>\n", f);
	if (s->about && *s->about) {
		fputs("<p class=\"about\">", f);
		html_put(f, s->about);
		fputs("</p>\n", f);
	}
	fputs("<dl class=\"facts\">\n", f);
	put_fact(f, "virtual time", text_duration(text, sizeof(text), r->totals.ended_ns));
	put_fact(f, "of which warm-up", text_duration(text, sizeof(text), s->warmup_ns));
	put_fact(f, "step", text_duration(text, sizeof(text), r->step_ns));
	snprintf(text, sizeof(text), "%" PRIu64, r->seed);
	put_fact(f, "seed", text);
	fputs("</dl>\n</header>\n", f);
}

static void put_verdict(FILE *f, const struct run_verdict *v)
{
	const struct expectation *e = v->expected;
	char subject[SIM_CELL_MAX], text[160];

	sim_subject_text(subject, sizeof(subject), e);
	fprintf(f, "<li class=\"card verdict%s\">\n<h3><strong>%s</strong> ", v->met ? "" : " not",
		v->met ? "✓ Met:" : "✗ Not met:");
	html_put(f, e->text ? e->text : subject);
	fputs("</h3>\n<dl>", f);
	if (e->text) {
		fputs("<dt>of</dt><dd>", f);
		html_put(f, subject);
		fputs("</dd>\n", f);
	}
	fputs("<dt>got</dt><dd>", f);
	html_put(f, sim_value_text(text, sizeof(text), e->figure ? sim_figure_unit(e->figure) : "",
				   v->got));
	fputs("</dd>\n<dt>expected</dt><dd>", f);
	html_put(f, sim_expected_text(text, sizeof(text), e));
	fputs("</dd>\n", f);
	if (e->published) {
		fputs("<dt>published</dt><dd>", f);
		html_put(f, e->published);
		fputs("</dd>\n", f);
	}
	fputs("</dl>\n</li>\n", f);
}

static void put_verdicts(FILE *f, const struct run_result *r)
{
	size_t met = sim_verdicts_met(r);

	if (r->nverdicts == 0)
		return;
	fprintf(f, "<h2>Expectations: %zu of %zu met</h2>\n<ul class=\"cards\">\n", met,
		r->nverdicts);
	for (size_t i = 0; i < r->nverdicts; i++)
		put_verdict(f, &r->verdicts[i]);
	fputs("</ul>\n", f);
}

static void put_totals(FILE *f, const struct run_result *r)
{
	const struct sim_table t = {.shape = &sim_totals, .records = &r->totals, .n = 1};

	fputs("<h2>Totals</h2>\n<dl class=\"facts card\">\n", f);
	for (size_t c = 0; c < t.shape->nfields; c++) {
		const struct sim_field *field = &t.shape->fields[c];

		if (!sim_field_shown(&t, field))
			continue;
		fputs("<div><dt>", f);
		html_put(f, field->title);
		fputs("</dt><dd>", f);
		put_cell(f, field, &r->totals);
		fputs("</dd></div>\n", f);
	}
	fputs("</dl>\n", f);
}

static void put_page(FILE *f, const struct run_result *r)
{
	size_t pick[PORTS_TOP];
	const struct sim_table groups = {
		.shape = &sim_groups, .records = r->groups, .n = r->ngroups};
	const struct sim_table sizes = {.shape = &sim_sizes, .records = r->sizes, .n = r->nsizes};
	const struct sim_table ports = {.shape = &sim_ports,
					.records = r->ports,
					.pick = pick,
					.n = sim_busiest(r, pick, PORTS_TOP)};
	size_t busy = sim_busy(r);
	char title[96] = "Ports with the longest queues";

	put_head(f, r);
	put_verdicts(f, r);
	put_table(f, "Traffic", &groups);
	fputs("<h2>Over time, and by flow</h2>\n", f);
	if (r->scenario->warmup_ns)
		fputs("<p class=\"small\">Shaded: the warm-up, which most figures leave out.</p>\n",
		      f);
	fputs("<div class=\"cards\">\n", f);
	if (!sim_plots_put(f, r))
		fputs("<p class=\"card\">Nothing was sent.</p>\n", f);
	fputs("</div>\n", f);
	put_table(f, "Slowdown by flow size", &sizes);
	if (ports.n < busy)
		snprintf(title, sizeof(title), "Ports with the longest queues: %zu of %zu", ports.n,
			 busy);
	put_table(f, title, &ports);
	put_totals(f, r);
	fputs("<footer class=\"small\">Made by weft sim. All times are the simulated network's; "
	      "the same scenario and seed give the same "
	      "page.</footer>\n</main>\n</body>\n</html>\n",
	      f);
}

int sim_html(const char *file, const struct run_result *r, char *err, size_t err_len)
{
	return sim_file_write(file, put_page, r, err, err_len);
}
