/* A link between two network namespaces: rate, delay, and a queue of 20 ms that drops at its tail. It passes packets
 * between two TUN devices that take large segments; a packet takes the line for as long as its segments would, with the
 * headers of each and 38 bytes of Ethernet. Lines "MBIT MS" on stdin change it while it runs.
 * Usage: wanlink NAMESPACE ADDRESS/BITS NAMESPACE ADDRESS/BITS DEVICE MBIT MS; prints "ready". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 8192, LONGEST = 70000, ONCE = 64 };
struct packet { double due; int length; char *bytes; };
struct way { struct packet ring[SLOTS]; unsigned head, tail; double free; };

/* Buffers that hold no packet. The last one given back is the next one taken, so that the few in use stay in the
 * processor's cache; with memory of its own for each packet, more than a quarter of the link's time was the system
 * clearing pages. */
static char *spare[2 * SLOTS + 1];
static int spares;

static char *take(void) { return spares > 0 ? spare[--spares] : malloc(LONGEST); }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void fail(const char *what) { perror(what); exit(1); }

static int open_tun(const char *space, const char *address, const char *name) {
    char path[256], command[512];
    int own = open("/proc/self/ns/net", O_RDONLY);
    snprintf(path, sizeof path, "/run/netns/%s", space);
    int there = open(path, O_RDONLY);
    if (there < 0 || setns(there, CLONE_NEWNET) != 0) fail(path);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    struct ifreq request;
    memset(&request, 0, sizeof request);
    request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0) fail("TUNSETIFF");
    if (ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) fail("TUNSETOFFLOAD");
    if (setns(own, CLONE_NEWNET) != 0) fail("setns");
    close(own);
    close(there);
    snprintf(command, sizeof command, "ip -n %s addr add %s dev %s && ip -n %s link set %s up txqueuelen 1000", space, address, name, space, name);
    if (system(command) != 0) exit(1);
    return device;
}

/* What a packet takes on the line. */
static double line_bytes(const char *bytes, int length) {
    const struct virtio_net_hdr *h = (const void *)bytes;
    int size = length - (int)sizeof *h;
    if (h->gso_size == 0) return size + 38;
    int count = (size - h->hdr_len + h->gso_size - 1) / h->gso_size;
    if (count < 1) count = 1;
    return size + (count - 1.0) * h->hdr_len + count * 38.0;
}

int main(int argc, char **argv) {
    if (argc != 8) return 2;
    static struct way ways[2];
    char *next = take();
    int devices[2] = {open_tun(argv[1], argv[2], argv[5]), open_tun(argv[3], argv[4], argv[5])};
    double mbit = atof(argv[6]), delay = atof(argv[7]) * 1e-3;
    struct sched_param priority = {.sched_priority = 20};
    sched_setscheduler(0, SCHED_FIFO, &priority); /* as well as it may */
    printf("ready\n");
    fflush(stdout);
    struct pollfd polled[3] = {{devices[0], POLLIN, 0}, {devices[1], POLLIN, 0}, {0, POLLIN, 0}};
    for (;;) {
        double at = now(), due = at + 1.0;
        for (int way = 0; way < 2; way++)
            if (ways[way].head != ways[way].tail && ways[way].ring[ways[way].head % SLOTS].due < due) due = ways[way].ring[ways[way].head % SLOTS].due;
        double left = due > at ? due - at : 0;
        struct timespec wait = {(time_t)left, (long)((left - (time_t)left) * 1e9)};
        ppoll(polled, 3, &wait, NULL);
        if (polled[2].revents & POLLIN) {
            char line[128];
            int length = (int)read(0, line, sizeof line - 1);
            if (length > 0) { line[length] = 0; double m, d; if (sscanf(line, "%lf %lf", &m, &d) == 2) { mbit = m; delay = d * 1e-3; } }
            else polled[2].fd = -1;
        }
        for (int way = 0; way < 2; way++) {
            struct way *it = &ways[way];
            for (int count = 0; count < ONCE; count++) {
                int length = (int)read(devices[way], next, LONGEST);
                if (length <= 0) break;
                at = now();
                if (it->tail - it->head >= SLOTS || it->free - at > 0.020) continue; /* dropped */
                if (it->free < at) it->free = at;
                it->free += line_bytes(next, length) * 8 / (mbit * 1e6);
                it->ring[it->tail++ % SLOTS] = (struct packet){it->free + delay, length, next};
                next = take();
                if (!next) fail("malloc");
            }
            at = now();
            while (it->head != it->tail && it->ring[it->head % SLOTS].due <= at) {
                struct packet *slot = &it->ring[it->head++ % SLOTS];
                if (write(devices[1 - way], slot->bytes, slot->length) < 0) { /* a full device drops, as a line would */ }
                spare[spares++] = slot->bytes;
            }
        }
    }
}
