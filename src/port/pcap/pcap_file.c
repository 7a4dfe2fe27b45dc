/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/pcap/pcap_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "base/log.h"
#include "base/pcapng.h"
#include "base/uncancelled.h"
#include "base/units.h"
#include "wire/bth.h"

#define BUFFER_BYTES (256 << 10)
/* Another's lock that is not to share is for a moment: while it writes the head. */
#define LOCK_TRIES 100
#define LOCK_PAUSE ((struct timespec){.tv_nsec = 10 * NSEC_PER_MSEC})

#define IPV4_LEN  20
#define IPV6_LEN  40
#define UDP_LEN	  8
#define IPV4_DF	  0x4000
#define TTL_UNSET 64 /* what a kernel fills in where nobody has said */

/* Of a packet's block, besides the packet. */
#define PACKET_BLOCK_MAX (PCAPNG_PACKET_BEFORE + PCAPNG_PACKET_AFTER)
#define PACKET_MAX	 (IPV6_LEN + 65535)

_Static_assert(BUFFER_BYTES >= PACKET_MAX + PACKET_BLOCK_MAX, "any packet fits");

struct pcap_file {
	int fd; /* -1: no longer */
	char *path;
	size_t len;
	uint8_t buffer[BUFFER_BYTES];
};

/* ---- headers --------------------------------------------------------------------------------- */

/* The Internet's checksum goes on from a sum over an even number of bytes. */
static uint32_t sum(uint32_t s, const uint8_t *p, size_t len)
{
	for (; len > 1; len -= 2, p += 2) {
		s += ld_be16(p);
		s = (s & 0xffff) + (s >> 16);
	}
	if (len)
		s += (uint32_t)*p << 8;
	return (s & 0xffff) + (s >> 16);
}

static uint16_t sum_end(uint32_t s)
{
	return (uint16_t) ~((s & 0xffff) + (s >> 16));
}

static size_t put_ip(uint8_t *p, const struct pcap_packet *k, size_t udp_len)
{
	const struct flow *f = k->flow;
	uint8_t ttl = f->ttl ? f->ttl : TTL_UNSET;

	if (gid_is_ipv4(&f->dgid)) {
		p[0] = 0x45;
		p[1] = f->tos;
		st_be16(p + 2, (uint16_t)(IPV4_LEN + udp_len));
		st_be16(p + 4, k->ip_id);
		st_be16(p + 6, IPV4_DF);
		p[8] = ttl;
		p[9] = IPPROTO_UDP;
		st_be16(p + 10, 0);
		memcpy(p + 12, f->sgid.raw + 12, 4);
		memcpy(p + 16, f->dgid.raw + 12, 4);
		st_be16(p + 10, sum_end(sum(0, p, IPV4_LEN)));
		return IPV4_LEN;
	}
	st_be32(p, 6u << 28 | (uint32_t)f->tos << 20 | (f->flow_label & 0xfffff));
	st_be16(p + 4, (uint16_t)udp_len);
	p[6] = IPPROTO_UDP;
	p[7] = ttl;
	memcpy(p + 8, f->sgid.raw, 16);
	memcpy(p + 24, f->dgid.raw, 16);
	return IPV6_LEN;
}

static void put_udp_checksum(uint8_t *ip, size_t ip_len, size_t udp_len)
{
	/* Of the pseudo header: both addresses, length, protocol. */
	const uint8_t *addrs = ip + (ip_len == IPV4_LEN ? 12 : 8);
	uint32_t s = sum((uint32_t)udp_len + IPPROTO_UDP, addrs, ip_len == IPV4_LEN ? 8 : 32);
	uint16_t c = sum_end(sum(s, ip + ip_len, udp_len));

	st_be16(ip + ip_len + 6, c ? c : 0xffff);
}

void pcap_file_put(struct pcap_file *f, const struct pcap_packet *k)
{
	size_t udp_len = UDP_LEN, ip_len = gid_is_ipv4(&k->flow->dgid) ? IPV4_LEN : IPV6_LEN;
	uint8_t *block, *ip, *udp, *end;

	for (int i = 0; i < k->nudp; i++)
		udp_len += k->udp[i].iov_len;
	if (f->fd < 0 || udp_len > UINT16_MAX)
		return;
	if (f->len + PACKET_BLOCK_MAX + ip_len + udp_len > sizeof(f->buffer))
		pcap_file_flush(f);
	block = f->buffer + f->len;
	ip = block + PCAPNG_PACKET_BEFORE;
	udp = ip + put_ip(ip, k, udp_len);
	st_be16(udp, k->sport);
	st_be16(udp + 2, ROCEV2_UDP_PORT);
	st_be16(udp + 4, (uint16_t)udp_len);
	st_be16(udp + 6, 0);
	end = udp + UDP_LEN;
	for (int i = 0; i < k->nudp; i++)
		end = mempcpy(end, k->udp[i].iov_base, k->udp[i].iov_len);
	put_udp_checksum(ip, ip_len, udp_len);
	f->len += pcapng_packet(block, k->ns, ip_len + udp_len,
				k->sent ? PCAPNG_OUTBOUND : PCAPNG_INBOUND);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* To write beyond the limit of a process (RLIMIT_FSIZE) is a signal, of which it would end. */
static bool is_at_limit(const struct pcap_file *f, size_t more)
{
	struct rlimit limit;
	struct stat st;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	       fstat(f->fd, &st) == 0 && (rlim_t)st.st_size + more > limit.rlim_cur;
}

static ssize_t write_some(const struct pcap_file *f, const uint8_t *data, size_t len)
{
	if (!is_at_limit(f, len))
		return uncancelled_write(f->fd, data, len);
	errno = EFBIG;
	return -1;
}

/* Is it still where it was written? Another who cut off his own may have cut that off, too. */
static bool is_there(const struct pcap_file *f, off_t at, const uint8_t *data, size_t len)
{
	uint8_t there[4096];

	for (size_t done = 0, part; done < len; done += part) {
		part = min_of(len - done, sizeof(there));
		if (pread(f->fd, there, part, at + (off_t)done) != (ssize_t)part ||
		    memcmp(there, data + done, part) != 0)
			return false;
	}
	return true;
}

/*
 * Of what was to be written the file has taken so much: cuts it off where the last whole block
 * ends, that who reads finds what others append. What they have appended in the meantime goes with
 * it, unreadable as it is; of those who cut, the lock lets one at a time.
 */
static bool cut_off(const struct pcap_file *f, size_t taken)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	off_t end = lseek(f->fd, 0, SEEK_CUR), at;
	size_t whole = 0;
	bool done;
	int rc;

	for (uint32_t len; whole + 8 <= taken; whole += len) {
		memcpy(&len, f->buffer + whole + 4, sizeof(len));
		if (len > taken - whole)
			break;
	}
	if (whole == taken)
		return true;
	for (int i = 0; (rc = fcntl(f->fd, F_OFD_SETLK, &lock)) < 0 && i < LOCK_TRIES; i++)
		nanosleep(&LOCK_PAUSE, NULL);
	at = end - (off_t)(taken - whole);
	done = rc == 0 &&
	       (!is_there(f, at, f->buffer + whole, taken - whole) || ftruncate(f->fd, at) == 0);
	lock.l_type = F_UNLCK;
	fcntl(f->fd, F_OFD_SETLK, &lock);
	return done;
}

void pcap_file_flush(struct pcap_file *f)
{
	ssize_t n;

	if (f->fd < 0 || !f->len)
		return;
	do
		n = write_some(f, f->buffer, f->len);
	while (n < 0 && errno == EINTR);
	/* The rest is not tried again: others may have written behind the part. */
	if (n != (ssize_t)f->len) {
		const char *why = n < 0 ? errno_text(errno) : "no room";
		int before = uncancelled_begin();
		bool whole = n <= 0 || cut_off(f, (size_t)n);

		uncancelled_end(before);
		log_err("pcap", "cannot write the capture %s: %s; it ends here%s", f->path, why,
			whole ? "" : ", within a packet");
		close(f->fd);
		f->fd = -1;
	}
	f->len = 0;
}

static char *path_of(const char *name)
{
	char *path = NULL;
	size_t len;
	FILE *out = open_memstream(&path, &len);

	if (!out)
		return NULL;
	for (; *name; name++) {
		if (name[0] == '%' && name[1] == 'p')
			fprintf(out, "%d", getpid());
		else
			fputc(*name, out);
		name += name[0] == '%' && (name[1] == 'p' || name[1] == '%');
	}
	return fclose(out) ? NULL : path;
}

static int fail(char *err, size_t err_len, const char *name, int rc, const char *why)
{
	snprintf(err, err_len, "cannot write the capture %s: %s", name, why);
	return rc;
}

/* Shares the lock; who is the first to have it begins the capture. */
static int take_part(struct pcap_file *f)
{
	int rc;

	if (flock(f->fd, LOCK_EX | LOCK_NB) == 0) {
		if (ftruncate(f->fd, 0) < 0)
			return -errno;
		f->len += pcapng_head(f->buffer + f->len, PCAPNG_RAW, "weft");
		pcap_file_flush(f);
		if (f->fd < 0)
			return -EIO; /* the log has said why */
	}
	for (int i = 0; (rc = flock(f->fd, LOCK_SH | LOCK_NB)) < 0 && i < LOCK_TRIES; i++)
		nanosleep(&LOCK_PAUSE, NULL);
	return rc < 0 ? -errno : 0;
}

int pcap_file_open(struct pcap_file **ret, const char *name, char *err, size_t err_len)
{
	struct pcap_file *f = calloc(1, sizeof(*f));
	struct stat st;
	int rc;

	if (!f || !(f->path = path_of(name))) {
		free(f);
		return fail(err, err_len, name, -ENOMEM, errno_text(ENOMEM));
	}
	/* What is no file does not make us wait. */
	f->fd = open(f->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
		     0600);
	if (f->fd < 0 || fstat(f->fd, &st) < 0) {
		rc = fail(err, err_len, f->path, -errno, errno_text(errno));
	} else if (!S_ISREG(st.st_mode)) {
		rc = fail(err, err_len, f->path, -EINVAL, "it is no regular file");
	} else {
		rc = take_part(f);
		if (rc)
			rc = fail(err, err_len, f->path, rc,
				  rc == -EWOULDBLOCK ? "another program has locked it"
						     : errno_text(-rc));
	}
	if (rc)
		pcap_file_close(f);
	else
		*ret = f;
	return rc;
}

void pcap_file_close(struct pcap_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f->path);
	free(f);
}
