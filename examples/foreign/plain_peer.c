/* The four wire formats in C with libzmq, by the documents alone: this program has never heard of hopwire.

     plain_peer ask tcp://127.0.0.1:7400 V5 Ada [secret]    asks a node for a greeting, and prints the answer
     plain_peer answer legacy-1 [secret]                    listens, prints where, and answers until its input ends

   cc plain_peer.c -lzmq -o plain_peer

   One body frame, no routing entries, eight callback points at most. Every length from the wire is looked at before it
   is used. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

enum { MOST_FRAMES = 64, MOST_POINTS = 8, ROOM = 1 << 16, MAC_BYTES = 32 };

typedef struct { const uint8_t *at; size_t size; } bytes;

typedef struct { bytes identity, partition; int version; } point;

typedef struct {
    bytes identity, partition, body, correlation_id, receiver, receiver_node;
    bytes callback_receiver, callback_node, domain, signature;
    int version;
    int64_t key, ttl_ticks;
    point points[MOST_POINTS];
    int point_count;
} message;

static bytes frames[MOST_FRAMES];
static int frame_count;
static uint8_t room[ROOM]; /* what is written, until it is sent */
static size_t used;

static void fail(const char *why) { fprintf(stderr, "%s\n", why); exit(1); }

static bytes text(const char *words) { return (bytes){(const uint8_t *)words, strlen(words)}; }

static int same(bytes one, bytes other) {
    return one.size == other.size && (one.size == 0 || memcmp(one.at, other.at, one.size) == 0);
}

static bytes kept(const void *data, size_t size) {
    if (size > ROOM - used) fail("no room");
    if (size) memcpy(room + used, data, size);
    used += size;
    return (bytes){room + used - size, size};
}

/* numbers are little-endian, whatever this machine is */
static bytes number(int64_t value, int size) {
    uint8_t data[8];
    for (int i = 0; i < size; i++) data[i] = (uint8_t)((uint64_t)value >> (8 * i));
    return kept(data, (size_t)size);
}

static bytes word(int first, int second, int third, int fourth) {
    return number((int64_t)((uint64_t)first | (uint64_t)second << 16 | (uint64_t)third << 32 | (uint64_t)fourth << 48), 8);
}

static int64_t value_of(bytes data) {
    uint64_t value = 0;
    for (size_t i = 0; i < data.size && i < 8; i++) value |= (uint64_t)data.at[i] << (8 * i);
    return (int64_t)value;
}

static int lane(bytes data, size_t which) {
    return data.size < 2 * which + 2 ? 0 : data.at[2 * which] | data.at[2 * which + 1] << 8;
}

static bytes version_of(int fmt, int version) {
    if (fmt >= 5) return number(version, 2);
    if (version != 1) fail("V3 and V4 spell version 1 alone");
    return text("1.0");
}

static int version_from(int fmt, bytes data) { return fmt >= 5 ? lane(data, 0) : 1; }

/* -- the signature: HMAC-SHA256 over five fields, nothing between them */

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void add_block(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[7] + (turned(v[4], 6) ^ turned(v[4], 11) ^ turned(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) + K[i] + w[i];
        uint32_t b = (turned(v[0], 2) ^ turned(v[0], 13) ^ turned(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += a;
        v[0] = a + b;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

static void sha256(const uint8_t *data, size_t size, uint8_t digest[MAC_BYTES]) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t last[128] = {0};
    size_t rest = size % 64, whole = size - rest, padded = rest < 56 ? 64 : 128;
    for (size_t at = 0; at < whole; at += 64) add_block(state, data + at);
    memcpy(last, data + whole, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++) last[padded - 1 - i] = (uint8_t)((uint64_t)size * 8 >> (8 * i));
    for (size_t at = 0; at < padded; at += 64) add_block(state, last + at);
    for (int i = 0; i < MAC_BYTES; i++) digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

static bytes mac(int fmt, const message *m, const char *secret) {
    static uint8_t data[ROOM + 64];
    uint8_t outer[64 + MAC_BYTES], digest[MAC_BYTES];
    bytes fields[] = {m->identity, version_of(fmt, m->version), m->partition, m->body, m->callback_receiver};
    size_t size = 64, length = strlen(secret);
    if (length > 64) fail("a secret of more than 64 bytes");
    for (size_t i = 0; i < 64; i++) {
        uint8_t byte = i < length ? (uint8_t)secret[i] : 0;
        data[i] = byte ^ 0x36;
        outer[i] = byte ^ 0x5c;
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].size > sizeof data - size) fail("no room");
        if (fields[i].size) memcpy(data + size, fields[i].at, fields[i].size);
        size += fields[i].size;
    }
    sha256(data, size, outer + 64);
    sha256(outer, sizeof outer, digest);
    return kept(digest, sizeof digest);
}

/* -- writing */

static void add(bytes frame) {
    if (frame_count == MOST_FRAMES) fail("too many frames");
    frames[frame_count++] = frame;
}

static void add_points(int fmt, const message *m) { /* each from top to bottom: partition, version, identity */
    for (int i = 0; i < m->point_count; i++) {
        add(m->points[i].partition);
        add(version_of(fmt, m->points[i].version));
        add(m->points[i].identity);
    }
}

static void write_v3(const message *m) {
    bytes none = {0};
    int count = m->point_count;
    add_points(3, m);
    add(number(3, 4));
    add(number(2, 4));
    add(m->partition);
    add(m->receiver_node);
    add(number(0, 4));
    add(none);
    add(none);
    add(number(0, 8));
    add(version_of(3, m->version));
    add(m->identity);
    add(m->receiver);
    add(number(0, 4));
    add(m->correlation_id);
    add(count ? number(count, 4) : none);
    add(count ? number(21, 4) : none); /* the last callback point ends at n-21 */
    add(m->callback_receiver);
    add(number(m->ttl_ticks, 8));
    add(number(3, 4));
    add(none);
    add(m->body);
}

static void write_v4_v5(int fmt, const message *m) {
    int tail = fmt == 4 ? 15 : 17, count = m->point_count;
    add(m->body);
    add_points(fmt, m);
    if (fmt == 5) {
        add(m->callback_node);
        add(number(m->key, 8));
    }
    add(m->domain);
    add(m->signature);
    add(word(0, 0, 2, 0));
    add(word(count ? tail + 1 : 0, count, 3, 0));
    add(m->receiver);
    add(m->callback_receiver);
    add(m->receiver_node);
    add(m->partition);
    add(version_of(fmt, m->version));
    add(m->identity);
    add(word(0, 0, 0, 0));
    add(m->correlation_id);
    add(number(m->ttl_ticks, 8));
    add(word(tail + 1 + 3 * count, 1, 0, 0)); /* where the body stands */
    add(number(fmt, fmt == 4 ? 4 : 2));
}

static void put(bytes data) { /* a blob of the meta frame: its length, then its bytes */
    number((int64_t)data.size, 4);
    kept(data.at, data.size);
}

static void write_v6(const message *m) {
    size_t begin = used;
    number(6, 2);
    put(m->partition);
    number(m->version, 2);
    put(m->identity);
    put(m->receiver);
    put(m->receiver_node);
    word(0, 0, 0, 0);
    put(m->callback_node);
    number(m->key, 8);
    put(m->domain);
    put(m->signature);
    word(0, 0, 0, 0);
    number(m->point_count, 2);
    for (int i = 0; i < m->point_count; i++) {
        number((int64_t)(4 + m->points[i].partition.size + 2 + 4 + m->points[i].identity.size), 4);
        put(m->points[i].partition);
        number(m->points[i].version, 2);
        put(m->points[i].identity);
    }
    put(m->callback_receiver);
    put(m->correlation_id);
    number(m->ttl_ticks, 8);
    word(2, 1, 0, 0);
    add(m->body);
    add((bytes){room + begin, used - begin});
}

static void write_message(int fmt, const message *m) { /* the caller has begun the frames */
    add((bytes){0});
    if (fmt == 3) write_v3(m);
    else if (fmt == 6) write_v6(m);
    else write_v4_v5(fmt, m);
}

/* -- reading */

static bytes from_end(int k) { return k >= 1 && k <= frame_count ? frames[frame_count - k] : (bytes){0}; }

static void read_points(int fmt, message *m, int offset, int count, int stride) {
    if (count < 0 || count > MOST_POINTS || stride < 3 || offset < 1 || offset + count * stride > frame_count)
        fail("callback points that are not there");
    m->point_count = count;
    for (int i = 0; i < count; i++) {
        int k = offset + (count - 1 - i) * stride;
        m->points[i] = (point){from_end(k), from_end(k + 2), version_from(fmt, from_end(k + 1))};
    }
}

static void read_v3(message *m) {
    m->identity = from_end(11);
    m->version = version_from(3, from_end(12));
    m->partition = from_end(18);
    m->body = from_end(1);
    m->correlation_id = from_end(8);
    m->receiver = from_end(10);
    m->receiver_node = from_end(17);
    m->callback_receiver = from_end(5);
    if (from_end(7).size) read_points(3, m, lane(from_end(6), 0), lane(from_end(7), 0), lane(from_end(20), 0));
}

static void read_v4_v5(int fmt, message *m) {
    bytes points = from_end(12);
    m->identity = from_end(6);
    m->version = version_from(fmt, from_end(7));
    m->partition = from_end(8);
    m->body = from_end(lane(from_end(2), 0));
    m->correlation_id = from_end(4);
    m->receiver = from_end(11);
    m->receiver_node = from_end(9);
    m->callback_receiver = from_end(10);
    m->domain = from_end(15);
    m->signature = from_end(14);
    if (fmt == 5) {
        m->callback_node = from_end(17);
        m->key = value_of(from_end(16));
    }
    if (lane(points, 1)) read_points(fmt, m, lane(points, 0), lane(points, 1), lane(points, 2));
}

static bytes take(bytes *meta, size_t size) {
    bytes taken = {meta->at, size};
    if (size > meta->size) fail("a meta frame that ends too early");
    meta->at += size;
    meta->size -= size;
    return taken;
}

static bytes take_blob(bytes *meta) {
    int64_t size = value_of(take(meta, 4));
    if (size < 0 || (uint64_t)size > meta->size) fail("a length beyond the end of the meta frame");
    return take(meta, (size_t)size);
}

static void read_v6(message *m) {
    bytes meta = from_end(1);
    take(&meta, 2);
    m->partition = take_blob(&meta);
    m->version = lane(take(&meta, 2), 0);
    m->identity = take_blob(&meta);
    m->receiver = take_blob(&meta);
    m->receiver_node = take_blob(&meta);
    take(&meta, 8);
    m->callback_node = take_blob(&meta);
    m->key = value_of(take(&meta, 8));
    m->domain = take_blob(&meta);
    m->signature = take_blob(&meta);
    for (int left = lane(take(&meta, 8), 0); left > 0; left--) take_blob(&meta);
    m->point_count = lane(take(&meta, 2), 0);
    if (m->point_count > MOST_POINTS) fail("too many callback points");
    for (int i = 0; i < m->point_count; i++) {
        bytes entry = take_blob(&meta);
        m->points[i].partition = take_blob(&entry);
        m->points[i].version = lane(take(&entry, 2), 0);
        m->points[i].identity = take_blob(&entry);
    }
    m->callback_receiver = take_blob(&meta);
    m->correlation_id = take_blob(&meta);
    m->ttl_ticks = value_of(take(&meta, 8));
    m->body = from_end(lane(take(&meta, 2), 0));
}

static int read_message(message *m) {
    bytes last = from_end(1);
    *m = (message){0};
    if (last.size > 4 && lane(last, 0) == 6) return read_v6(m), 6;
    if (frame_count > 20 && from_end(3).size == 4 && value_of(from_end(3)) == 3) return read_v3(m), 3;
    if (last.size == 4 && value_of(last) == 4 && frame_count > 15) return read_v4_v5(4, m), 4;
    if (last.size == 2 && value_of(last) == 5 && frame_count > 17) return read_v4_v5(5, m), 5;
    fail("a format that no document describes");
    return 0;
}

/* -- ZeroMQ */

static void send_frames(void *socket) {
    for (int i = 0; i < frame_count; i++)
        if (zmq_send(socket, frames[i].at, frames[i].size, i + 1 < frame_count ? ZMQ_SNDMORE : 0) < 0) fail(zmq_strerror(zmq_errno()));
}

static zmq_msg_t received[MOST_FRAMES];

static void receive_frames(void *socket) {
    int more = 1;
    for (int i = 0; i < frame_count; i++) zmq_msg_close(&received[i]);
    for (frame_count = 0; more; more = zmq_msg_more(&received[frame_count - 1])) {
        if (frame_count == MOST_FRAMES) fail("too many frames");
        zmq_msg_t *frame = &received[frame_count];
        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, socket, 0) < 0) fail(zmq_strerror(zmq_errno()));
        frames[frame_count++] = (bytes){zmq_msg_data(frame), zmq_msg_size(frame)};
    }
}

/* -- asking, and answering */

static void sign(int fmt, message *m, bytes domain, const char *secret) {
    if (!secret || fmt == 3) return; /* V3 has no place for a signature */
    m->domain = domain;
    m->signature = mac(fmt, m, secret);
}

static void check(int fmt, const message *m, const char *secret) {
    if (secret && fmt != 3 && !same(m->signature, mac(fmt, m, secret))) fail("a signature that is wrong");
}

/* the value behind "name": in a small JSON object of texts */
static bytes value_in(bytes json, const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; i + length + 2 < json.size; i++) {
        if (json.at[i] != '"' || memcmp(json.at + i + 1, name, length) || json.at[i + 1 + length] != '"') continue;
        size_t begin = i + length + 2;
        while (begin < json.size && json.at[begin] != '"') begin++;
        size_t end = ++begin;
        while (end < json.size && json.at[end] != '"') end++;
        return end < json.size ? (bytes){json.at + begin, end - begin} : (bytes){0};
    }
    return (bytes){0};
}

static void ask(void *context, const char *uri, const char *format, const char *name, const char *secret) {
    void *dealer = zmq_socket(context, ZMQ_DEALER);
    int fmt = format[0] == 'V' ? atoi(format + 1) : 0, linger = 0, timeout = 5000;
    char body[512];
    message question = {0}, answer;
    if (fmt < 3 || fmt > 6) fail("a format is V3, V4, V5 or V6");
    snprintf(body, sizeof body, "{\"name\":\"%s\"}", name);
    question.identity = text("plain.greet");
    question.version = 1;
    question.body = text(body);
    question.correlation_id = text("c0ffee00-0000-4000-8000-000000000001");
    question.callback_receiver = (bytes){(const uint8_t *)"\0plain-peer-hub", 15};
    question.callback_node = fmt >= 5 ? text("plain-peer") : (bytes){0};
    question.key = fmt >= 5 ? 7 : 0;
    question.ttl_ticks = 50000000; /* 5 s */
    question.points[0] = (point){text("plain.greeting"), {0}, 1};
    question.points[1] = (point){text("KINO.EXCEPTION"), {0}, 1};
    question.point_count = 2;
    sign(fmt, &question, text("plain"), secret);
    zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &timeout, sizeof timeout);
    if (zmq_connect(dealer, uri) < 0) fail(zmq_strerror(zmq_errno()));
    write_message(fmt, &question);
    send_frames(dealer);
    frame_count = 0;
    receive_frames(dealer);
    if (read_message(&answer) != fmt) fail("an answer in another format");
    if (!same(answer.receiver, question.callback_receiver) || answer.key != question.key) fail("an answer for somebody else");
    if (!same(answer.correlation_id, question.correlation_id)) fail("an answer of another flow");
    check(fmt, &answer, secret);
    if (same(answer.identity, text("plain.greeting"))) {
        bytes said = value_in(answer.body, "text");
        printf("%.*s\n", (int)said.size, (const char *)said.at);
    } else {
        printf("%.*s\n", (int)answer.identity.size, (const char *)answer.identity.at);
    }
    zmq_close(dealer);
}

static void answer_one(void *router, const char *secret) {
    message question, answer = {0};
    char body[512];
    used = 0;
    receive_frames(router);
    bytes node = frames[0];
    int fmt = read_message(&question), count = frame_count;
    check(fmt, &question, secret);
    bytes name = value_in(question.body, "name");
    snprintf(body, sizeof body, "{\"text\":\"hello %.*s\"}", (int)name.size, name.size ? (const char *)name.at : "");
    answer = question; /* flow, partition and callback are copied */
    answer.identity = text("plain.greeting");
    answer.body = text(body);
    answer.ttl_ticks = 0;
    answer.receiver = answer.receiver_node = answer.signature = (bytes){0};
    for (int i = 0; i < answer.point_count; i++) /* a callback point is addressed to who waits */
        if (same(answer.points[i].identity, answer.identity) && same(answer.points[i].partition, answer.partition) && answer.points[i].version == answer.version) {
            answer.receiver = question.callback_receiver;
            answer.receiver_node = question.callback_node;
        }
    sign(fmt, &answer, question.domain, secret);
    frame_count = 0;
    add(node);
    write_message(fmt, &answer);
    send_frames(router);
    frame_count = count; /* of what was received, and has to be closed */
}

static void listen_and_answer(void *context, const char *identity, const char *secret) {
    void *router = zmq_socket(context, ZMQ_ROUTER);
    char address[256];
    size_t size = sizeof address;
    int linger = 0;
    zmq_setsockopt(router, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(router, ZMQ_IDENTITY, identity, strlen(identity));
    if (zmq_bind(router, "tcp://127.0.0.1:*") < 0) fail(zmq_strerror(zmq_errno()));
    zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, address, &size);
    printf("%s\n", address);
    fflush(stdout);
    for (;;) {
        zmq_pollitem_t items[] = {{router, 0, ZMQ_POLLIN, 0}, {NULL, STDIN_FILENO, ZMQ_POLLIN, 0}};
        if (zmq_poll(items, 2, -1) < 0) fail(zmq_strerror(zmq_errno()));
        if (!(items[0].revents & ZMQ_POLLIN)) break; /* the input has ended */
        answer_one(router, secret);
    }
    zmq_close(router);
}

int main(int count, char **words) {
    void *context = zmq_ctx_new();
    if (count >= 5 && !strcmp(words[1], "ask")) ask(context, words[2], words[3], words[4], count > 5 ? words[5] : NULL);
    else if (count >= 3 && !strcmp(words[1], "answer")) listen_and_answer(context, words[2], count > 3 ? words[3] : NULL);
    else fail("plain_peer ask ADDRESS FORMAT NAME [SECRET], or plain_peer answer IDENTITY [SECRET]");
    zmq_ctx_term(context);
    return 0;
}
