/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/plot.h"

#include <math.h>

#include "base/compiler.h"
#include "cli/html.h"
#include "cli/plot_axis.h"

/* The picture's own units; on the screen it is as wide as there is room. The margins are for the
 * larger text of small screens. */
enum {
	WIDTH = 560,
	HEIGHT = 300,
	LEFT = 62,
	RIGHT = 26,
	TOP = 30,
	BOTTOM = 52,
	X_TICKS = 6,
	Y_TICKS = 5,
	DOTS_MAX = 40, /* so few points are each marked */
	DENSE = 200,   /* so many are drawn finer: they cross one another often */
};

/* --- what is drawn -----------------------------------------------------------------------------
 */

static double x_of(const struct plot_series *s, size_t i)
{
	return s->x ? s->x[i] : (double)i * s->x_step;
}

static bool drawable(const struct plot *p, const struct plot_series *s, size_t i)
{
	return axis_can(p->x.scale, x_of(s, i)) && axis_can(p->y.scale, s->y[i]);
}

/* A step that nothing follows holds as long as it would until the next one. */
static double end_of(const struct plot *p, const struct plot_series *s, size_t i)
{
	return x_of(s, i) + (p->step && !s->x ? s->x_step : 0);
}

static bool ranges(const struct plot *p, double x[2], double y[2])
{
	bool any = false;

	for (size_t k = 0; k < p->nseries; k++) {
		const struct plot_series *s = &p->series[k];

		for (size_t i = 0; i < s->n; i++) {
			if (!drawable(p, s, i))
				continue;
			x[0] = any ? fmin(x[0], x_of(s, i)) : x_of(s, i);
			x[1] = any ? fmax(x[1], end_of(p, s, i)) : end_of(p, s, i);
			y[0] = any ? fmin(y[0], s->y[i]) : s->y[i];
			y[1] = any ? fmax(y[1], s->y[i]) : s->y[i];
			any = true;
		}
	}
	return any;
}

/* --- axes --------------------------------------------------------------------------------------
 */

static void put_grid(FILE *f, const struct plot *p, const struct axis *x, const struct axis *y)
{
	char text[48];

	fputs("<g class=\"plot-grid\">\n", f);
	if (p->shade_until > x->least && p->shade_until < x->most) {
		fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"><title>", LEFT,
			TOP, axis_at(x, p->shade_until) - LEFT, HEIGHT - TOP - BOTTOM);
		html_put(f, p->shade_name);
		fputs("</title></rect>\n", f);
	}
	for (size_t i = 0; i < y->nticks; i++) {
		double at = axis_at(y, y->tick[i]);

		fprintf(f, "<path d=\"M%d %.1fH%d\"/>", LEFT, at, WIDTH - RIGHT);
		fprintf(f, "<text class=\"plot-y\" x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT - 8,
			at + 5, axis_text(text, sizeof(text), y, y->tick[i]));
	}
	for (size_t i = 0; i < x->nticks; i++) {
		double at = axis_at(x, x->tick[i]);

		fprintf(f, "<path d=\"M%.1f %dv5\"/>", at, HEIGHT - BOTTOM);
		fprintf(f, "<text class=\"plot-x\" x=\"%.1f\" y=\"%d\">%s</text>\n", at,
			HEIGHT - BOTTOM + 21, axis_text(text, sizeof(text), x, x->tick[i]));
	}
	fprintf(f, "<path class=\"plot-base\" d=\"M%d %dH%d\"/>\n", LEFT, HEIGHT - BOTTOM,
		WIDTH - RIGHT);
	fprintf(f, "<text class=\"plot-name\" x=\"%d\" y=\"15\">", 4);
	html_put(f, p->y.label);
	fprintf(f, "%s%s</text>\n", *y->unit_name ? ", " : "", y->unit_name);
	fprintf(f, "<text class=\"plot-name plot-y\" x=\"%d\" y=\"%d\">", WIDTH - RIGHT,
		HEIGHT - 8);
	html_put(f, p->x.label);
	fprintf(f, "%s%s</text>\n</g>\n", *x->unit_name ? ", " : "", x->unit_name);
}

/* --- lines -------------------------------------------------------------------------------------
 */

/* A path as it comes about: a gap, or where it is and whether anything is there. */
struct pen {
	FILE *f;
	bool step, down;
	double x, y;
};

static void pen_to(struct pen *n, double x, double y)
{
	if (!n->down)
		fprintf(n->f, "M%.1f %.1f", x, y);
	else if (!n->step)
		fprintf(n->f, "L%.1f %.1f", x, y);
	else if (fabs(y - n->y) < 0.05)
		return; /* the same height: one line, when it ends */
	else
		fprintf(n->f, "H%.1fV%.1f", x, y);
	n->down = true;
	n->x = x;
	n->y = y;
}

static void pen_up(struct pen *n, double x)
{
	/* A line of no length is a dot, for its ends are round. */
	if (n->down)
		fprintf(n->f, "H%.1f", n->step ? x : n->x);
	n->down = false;
}

/* Of a bucket of points: the lowest and the highest, in their order, or a gap. */
static void put_bucket(struct pen *n, const struct plot *p, const struct plot_series *s,
		       const struct axis *x, const struct axis *y, size_t from, size_t to)
{
	size_t low = to, high = to;

	for (size_t i = from; i < to; i++) {
		if (!drawable(p, s, i))
			continue;
		if (low == to || s->y[i] < s->y[low])
			low = i;
		if (high == to || s->y[i] > s->y[high])
			high = i;
	}
	if (low == to) {
		pen_up(n, from > 0 && n->down ? axis_at(x, end_of(p, s, from - 1)) : 0);
		return;
	}
	pen_to(n, axis_at(x, x_of(s, min_of(low, high))), axis_at(y, s->y[min_of(low, high)]));
	if (low != high)
		pen_to(n, axis_at(x, x_of(s, max_of(low, high))),
		       axis_at(y, s->y[max_of(low, high)]));
}

static void put_line(FILE *f, const struct plot *p, size_t k, const struct axis *x,
		     const struct axis *y)
{
	const struct plot_series *s = &p->series[k];
	struct pen n = {.f = f, .step = p->step};
	/* Two points of each bucket are drawn. */
	size_t buckets = s->n > PLOT_POINTS_MAX ? PLOT_POINTS_MAX / 2 : s->n;

	fprintf(f, "<g class=\"plot-c%zu plot-d%zu%s\"><title>", k % PLOT_COLOURS,
		k / PLOT_COLOURS % 2, p->step && s->n > DENSE ? " plot-fine" : "");
	html_put(f, s->name);
	fputs("</title><path d=\"", f);
	for (size_t b = 0; b < buckets; b++)
		put_bucket(&n, p, s, x, y, s->n * b / buckets, s->n * (b + 1) / buckets);
	if (n.down)
		pen_up(&n, axis_at(x, fmin(end_of(p, s, s->n - 1), x->most)));
	fputs("\"/>", f);
	for (size_t i = 0; i < s->n && s->n <= DOTS_MAX && !p->step; i++)
		if (drawable(p, s, i))
			fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>",
				axis_at(x, x_of(s, i)), axis_at(y, s->y[i]));
	fputs("</g>\n", f);
}

static bool has_points(const struct plot *p, const struct plot_series *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (drawable(p, s, i))
			return true;
	return false;
}

/* One series alone is what the title says. */
static void put_legend(FILE *f, const struct plot *p)
{
	if (p->nseries < 2)
		return;
	fputs("<ul class=\"plot-legend\">\n", f);
	for (size_t k = 0; k < p->nseries; k++) {
		if (!has_points(p, &p->series[k]))
			continue;
		fprintf(f,
			"<li><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><g class=\"plot-c%zu "
			"plot-d%zu\"><path d=\"M2 5H24\"/></g></svg>",
			k % PLOT_COLOURS, k / PLOT_COLOURS % 2);
		html_put(f, p->series[k].name);
		fputs("</li>\n", f);
	}
	fputs("</ul>\n", f);
}

bool plot_put(FILE *f, const struct plot *p)
{
	struct axis x = {.start = LEFT, .length = WIDTH - LEFT - RIGHT};
	struct axis y = {.start = HEIGHT - BOTTOM, .length = -(HEIGHT - TOP - BOTTOM)};
	double xr[2] = {0, 0}, yr[2] = {0, 0};

	if (!ranges(p, xr, yr))
		return false;
	axis_init(&x, &p->x, xr[0], xr[1], X_TICKS);
	axis_init(&y, &p->y, yr[0], yr[1], Y_TICKS);
	fputs("<figure class=\"plot\">\n<figcaption><h3>", f);
	html_put(f, p->title);
	fputs("</h3>", f);
	if (p->text) {
		fputs("<p>", f);
		html_put(f, p->text);
		fputs("</p>", f);
	}
	fprintf(f, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH,
		HEIGHT);
	html_put(f, p->title);
	fputs("\">\n", f);
	put_grid(f, p, &x, &y);
	for (size_t k = 0; k < p->nseries; k++)
		if (has_points(p, &p->series[k]))
			put_line(f, p, k, &x, &y);
	fputs("</svg>\n", f);
	put_legend(f, p);
	fputs("</figure>\n", f);
	return true;
}

void plot_put_style(FILE *f)
{
	/* After Okabe and Ito, and moved until any two of them differ by 20 or more in CIELAB, also
	 * to those who lack a cone, and all stand out from the card by 3:1. */
	static const char *const light[PLOT_COLOURS] = {"#1f5fbf", "#e06a10", "#009e73",
							"#c0569f", "#404040", "#6b2c00"};
	static const char *const dark[PLOT_COLOURS] = {"#3f8fe0", "#e8742a", "#5fe0b0",
						       "#f0a0d8", "#ffffff", "#ece05a"};

	fputs(":root{", f);
	for (int i = 0; i < PLOT_COLOURS; i++)
		fprintf(f, "--c%d:%s;", i, light[i]);
	fputs("}\n@media (prefers-color-scheme:dark){:root{", f);
	for (int i = 0; i < PLOT_COLOURS; i++)
		fprintf(f, "--c%d:%s;", i, dark[i]);
	fputs("}}\n", f);
	for (int i = 0; i < PLOT_COLOURS; i++)
		fprintf(f, ".plot-c%d{stroke:var(--c%d);fill:var(--c%d)}\n", i, i, i);
	fputs(".plot{margin:0;min-width:0}\n"
	      ".plot svg{display:block;width:100%;height:auto;overflow:visible}\n"
	      ".plot path{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n"
	      ".plot .plot-fine path{stroke-width:1.4}\n"
	      ".plot circle{stroke:var(--card);stroke-width:1.5}\n"
	      ".plot-d1 path{stroke-dasharray:6 4}\n"
	      ".plot-grid path{stroke:var(--line);stroke-width:1}\n"
	      ".plot-grid rect{fill:var(--shade);stroke:none}\n"
	      ".plot-grid .plot-base{stroke:var(--ink-2)}\n"
	      ".plot text{font:13px system-ui,sans-serif;fill:var(--ink-2);stroke:none;"
	      "font-variant-numeric:tabular-nums}\n"
	      ".plot text.plot-x{text-anchor:middle}\n"
	      ".plot text.plot-y{text-anchor:end}\n"
	      ".plot text.plot-name{fill:var(--ink)}\n"
	      "@media (max-width:520px){.plot text{font-size:17px}}\n"
	      ".plot-legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none;"
	      "margin:.3rem 0 0;padding:0;font-size:.875rem}\n"
	      ".plot-legend li{display:flex;align-items:center;gap:.4rem;overflow-wrap:anywhere}\n"
	      ".plot-legend svg{width:26px;height:10px;flex:none}\n",
	      f);
}
