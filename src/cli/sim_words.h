/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the text and the page of `weft sim` say in the same words, and which ports they are about.
 */
#ifndef WEFT_CLI_SIM_WORDS_H
#define WEFT_CLI_SIM_WORDS_H

#include <stddef.h>
#include <stdint.h>

struct expectation;
struct run_result;

/* Of 1000, as scenarios and what is published about networks have them. Returns buf. */
const char *sim_bytes_text(char *buf, size_t room, uint64_t bytes);
/* A number with its unit, "ns" and "bytes" in those that suit it; "-" if it is none. Returns buf.
 */
const char *sim_value_text(char *buf, size_t room, const char *unit, double v);
/* The unit of `figure:`, "" for none. */
const char *sim_figure_unit(const char *figure);
/* "goodput_gbps of rpc, flows up to 10 KB": what the expectation is about. Returns buf. */
const char *sim_subject_text(char *buf, size_t room, const struct expectation *e);
/* "90 to 110 Gb/s (100 Gb/s within 10 %)", "at most 2". Returns buf. */
const char *sim_expected_text(char *buf, size_t room, const struct expectation *e);
size_t sim_verdicts_met(const struct run_result *r);
/* The indices of ports that saw anything, those with the longest queues first, at most so many. */
size_t sim_busiest(const struct run_result *r, size_t *ret_pick, size_t room);
/* How many there are of them. */
size_t sim_busy(const struct run_result *r);

#endif
