/* Motet: collectives between processes, over TCP and shared memory, by programs made for the network.
 *
 * Link with -lmotet_capi. Functions return a motet_status; what went wrong is motet_last_error(). All ranks make the same calls in
 * the same order. Any thread may call, but not two the same communicator's motet_destroy or motet_survivors and anything else.
 *
 * A call with `request` NULL waits for its end. Otherwise it returns at once with a request in *request, and until motet_wait has
 * returned, inputs must not be written and outputs not be touched. An input may be the output, or a part of it. Calls read and write
 * these buffers themselves, without a copy, where that can be (docs/torch.md). So after a call that failed its output holds anything,
 * also where it was the input; an input apart from it is as it was.
 * Counts are in elements; "a part" is what one rank gives or gets.
 */
#ifndef MOTET_H
#define MOTET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  MOTET_OK = 0,
  MOTET_INVALID = 1, /* an argument is wrong; nothing has happened */
  MOTET_CLUSTER = 2, /* the cluster file is wrong, or there is no program for it */
  MOTET_LOST = 3,    /* a rank is gone; motet_survivors goes on without it */
  MOTET_FAILED = 4,  /* anything else; also a call that took too long because a rank is there and does not call: on all ranks alike */
  MOTET_FAULT = 5    /* a fault in Motet */
} motet_status;

typedef enum {
  MOTET_F32 = 0,
  MOTET_BF16 = 1,
  MOTET_F16 = 2,
  MOTET_F64 = 3,
  MOTET_I8 = 4,
  MOTET_U8 = 5,
  MOTET_I32 = 6,
  MOTET_U32 = 7,
  MOTET_I64 = 8,
  MOTET_U64 = 9
} motet_type;

typedef enum {
  MOTET_SUM = 0, /* integers wrap around */
  MOTET_PRODUCT = 1,
  MOTET_MIN = 2,
  MOTET_MAX = 3,
  MOTET_AVERAGE = 4 /* the sum, divided; of integers it has wrapped around by then, and is rounded towards zero */
} motet_reduction;

typedef struct motet_comm motet_comm;
typedef struct motet_request motet_request;
typedef struct motet_store motet_store;

/* How a rank joins. Fill it with motet_options_init first; NULL and 0 mean the default. */
typedef struct {
  size_t struct_size;        /* set by motet_options_init */
  const char *store;         /* where ranks meet, "host:port"; rank 0 serves it */
  int32_t store_apart;       /* somebody else serves the store (motet_store_serve, `motet exec store`) */
  uint32_t rank;
  uint32_t ranks;
  const char *token;         /* what all ranks know [MOTET_EXEC_TOKEN]; needed outside loopback */
  const char *group;         /* groups of different names do not meet ["motet"] */
  const char *cluster;       /* the cluster file that programs are made for [MOTET_CLUSTER, or none] */
  const uint32_t *members;   /* which of the cluster's ranks these are, `ranks` numbers [all, in order] */
  const char *method;        /* how programs are made ["auto"]; `motet synth --list` */
  uint64_t seed;             /* of synthesis [1] */
  uint32_t streams;          /* TCP connections for data to each rank; 0: one to ranks nearby, more to those far away [0] */
  int32_t no_shared_memory;  /* TCP between ranks of one host too */
  int32_t checksums;         /* a checksum for all data */
  uint32_t wait_seconds;     /* how long all ranks may take to come [60] */
  uint32_t silence_seconds;  /* a rank that says nothing for so long is gone [10] */
  uint32_t deadline_seconds; /* the longest that a call may take [300] */
  uint64_t cache_bytes;      /* bytes of calls whose operations are kept [4 GiB] */
  /* TLS: files in PEM, on all ranks and the store, all three or none. Every connection is then encrypted, and both of its sides show a
   * certificate that the CA has signed. What ranks of one host share in memory is not encrypted. */
  const char *tls_certificate; /* this rank's certificate, with those between it and the CA [MOTET_EXEC_TLS_CERTIFICATE] */
  const char *tls_key;         /* its key [MOTET_EXEC_TLS_KEY] */
  const char *tls_ca;          /* who signed the group's certificates [MOTET_EXEC_TLS_CA] */
  const char *tls_name;        /* the DNS name that all of them are for [MOTET_EXEC_TLS_NAME, or "motet"] */
} motet_options;

/* What the last function that failed in this thread said. Never NULL; valid until the next failure in this thread. */
const char *motet_last_error(void);
/* The version of the library, "major.minor.patch". */
const char *motet_version(void);

/* New versions of Motet add fields at the end of motet_options. Programs that were compiled before go on as they were, because the size
 * of their motet_options is passed on. */
void motet_options_init(motet_options *options);
void motet_options_init_sized(motet_options *options, size_t size);
#define motet_options_init(options) motet_options_init_sized((options), sizeof(motet_options))
/* Joins the group, and waits until all ranks are there. */
motet_status motet_init(const motet_options *options, motet_comm **comm);
/* Leaves the group. What is still under way ends with an error; its requests must still be waited for. */
motet_status motet_destroy(motet_comm *comm);
motet_status motet_rank(const motet_comm *comm, uint32_t *rank);
motet_status motet_ranks(const motet_comm *comm, uint32_t *ranks);
/* The number that rank `rank` had when the group began. */
motet_status motet_first_rank(const motet_comm *comm, uint32_t rank, uint32_t *first);
/* After MOTET_LOST: goes on with the ranks that are left, numbered anew in the same order. All that are left call it; who has not
 * within grace_ms of the first is left out. With rank 0's store, rank 0 must be there. */
motet_status motet_survivors(motet_comm *comm, uint64_t grace_ms);

/* A store that serves until it is destroyed, with TLS where the environment has its files. `address` gets where it does, if it is not NULL.
 * Port 0 takes any that is free. */
motet_status motet_store_serve(const char *listen, const char *token, char *address, size_t address_size, motet_store **store);
/* The same at the options' store, with their token and TLS; its other fields do not matter. */
motet_status motet_store_serve_options(const motet_options *options, char *address, size_t address_size, motet_store **store);
motet_status motet_store_destroy(motet_store *store);

motet_status motet_allreduce(motet_comm *comm, const void *input, void *output, size_t count, motet_type type, motet_reduction reduction, motet_request **request);
/* input: ranks parts; output: one part */
motet_status motet_reducescatter(motet_comm *comm, const void *input, void *output, size_t part_count, motet_type type, motet_reduction reduction, motet_request **request);
/* input: one part; output: ranks parts */
motet_status motet_allgather(motet_comm *comm, const void *input, void *output, size_t part_count, motet_type type, motet_request **request);
/* input and output: ranks parts */
motet_status motet_alltoall(motet_comm *comm, const void *input, void *output, size_t part_count, motet_type type, motet_request **request);
/* `input` counts at the root only */
motet_status motet_broadcast(motet_comm *comm, const void *input, void *output, size_t count, motet_type type, uint32_t root, motet_request **request);
/* `output` counts at the root only */
motet_status motet_reduce(motet_comm *comm, const void *input, void *output, size_t count, motet_type type, motet_reduction reduction, uint32_t root, motet_request **request);
/* `output`: ranks parts, at the root only */
motet_status motet_gather(motet_comm *comm, const void *input, void *output, size_t part_count, motet_type type, uint32_t root, motet_request **request);
/* `input`: ranks parts, at the root only */
motet_status motet_scatter(motet_comm *comm, const void *input, void *output, size_t part_count, motet_type type, uint32_t root, motet_request **request);
/* Between two ranks, and called by these two only. Sends of one tag come in their order. */
motet_status motet_send(motet_comm *comm, const void *input, size_t count, motet_type type, uint32_t to, uint32_t tag, motet_request **request);
motet_status motet_receive(motet_comm *comm, void *output, size_t count, motet_type type, uint32_t from, uint32_t tag, motet_request **request);
/* Ends when all ranks have called it. */
motet_status motet_barrier(motet_comm *comm, motet_request **request);

/* Waits for a call and frees its request; how the call ended. */
motet_status motet_wait(motet_request *request);
/* Whether it has ended: 1 or 0 in *ended. motet_wait is still needed. */
motet_status motet_test(const motet_request *request, int32_t *ended);

#ifdef __cplusplus
}
#endif

#endif
