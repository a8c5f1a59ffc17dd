/* A stand-in for libnvidia-ml: an H100, and an A100 with two MIG instances. Files in the folder STATE say what it does:
   no-start, hang, crash, lost (until the library is loaded anew), unlisted, action, pages, xid, old, entry. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct thing {
  int index, gi, ci;
} *device;

enum { SUCCESS, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL, NOT_LOADED = 9, TIMEOUT, LOST = 15, MISMATCH = 25 };

static struct thing gpus[2] = {{0, -1, -1}, {1, -1, -1}};
static struct thing parts[2] = {{1, 1, 0}, {1, 2, 0}};
static int is_lost;

static int is(const char *name) {
  char path[512];
  snprintf(path, sizeof path, STATE "/%s", name);
  return access(path, F_OK) == 0;
}

static long number(const char *name, long otherwise) {
  char path[512];
  snprintf(path, sizeof path, STATE "/%s", name);
  FILE *file = fopen(path, "r");
  long value = otherwise;
  if (file && fscanf(file, "%ld", &value) != 1) value = otherwise;
  if (file) fclose(file);
  return value;
}

static int text(char *to, u32 size, const char *from) {
  if (strlen(from) >= size) return SMALL;
  strcpy(to, from);
  return SUCCESS;
}

static int check(device d) {
  while (is("hang")) pause();
  if (is("crash")) abort();
  if (d->index == 0 && is("lost")) is_lost = 1;
  return d->index == 0 && is_lost ? LOST : SUCCESS;
}

int nvmlInit_v2(void) { return is("no-start") ? NOT_LOADED : SUCCESS; }
const char *nvmlErrorString(int code) {
  return code == NOT_LOADED ? "Driver Not Loaded" : code == LOST ? "GPU is lost" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *to, u32 size) { return text(to, size, "580.95.05"); }
int nvmlDeviceGetCount_v2(u32 *count) { return *count = 2, SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(u32 index, device *d) {
  *d = &gpus[index];
  return index == 0 && is("unlisted") ? LOST : SUCCESS;
}
int nvmlDeviceGetUUID(device d, char *to, u32 size) {
  static const char *whole[] = {"GPU-11111111-aaaa-bbbb-cccc-000000000000", "GPU-22222222-aaaa-bbbb-cccc-000000000000"};
  static const char *part[] = {"MIG-33333333-aaaa-bbbb-cccc-000000000000", "MIG-44444444-aaaa-bbbb-cccc-000000000000"};
  return text(to, size, d->gi < 0 ? whole[d->index] : part[d->gi - 1]);
}
int nvmlDeviceGetName(device d, char *to, u32 size) {
  if (d->gi == 1) return text(to, size, "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
  return text(to, size, d->index ? "NVIDIA A100-SXM4-40GB" : "NVIDIA H100 80GB HBM3");
}
int nvmlDeviceGetMinorNumber(device d, u32 *minor) { return *minor = 3 + d->index, SUCCESS; }
typedef struct {
  char legacy[16];
  u32 domain, bus, device, id, subsystem;
  char bus_id[32];
} pci;
int nvmlDeviceGetPciInfo_v3(device d, pci *to) {
  memset(to, 0x7f, sizeof *to);
  return text(to->bus_id, sizeof to->bus_id, d->index ? "00000000:9A:00.0" : "00000000:1B:00.0");
}
int nvmlDeviceGetMigMode(device d, u32 *current, u32 *pending) {
  if (d->index == 0) return NOT_SUPPORTED;
  return *current = *pending = 1, SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(device d, u32 *count) { return (void)d, *count = 7, SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(device d, u32 index, device *part) {
  (void)d;
  /* One place in between is free. */
  if (index != 0 && index != 2) return NOT_FOUND;
  return *part = &parts[index / 2], SUCCESS;
}
int nvmlDeviceGetGpuInstanceId(device d, u32 *id) { return *id = d->gi, SUCCESS; }
int nvmlDeviceGetComputeInstanceId(device d, u32 *id) { return *id = d->ci, SUCCESS; }
typedef struct {
  u32 processors, copy, decoders, encoders, jpeg, flow, gpu_slices, compute_slices;
  u64 memory_mb;
} attributes;
int nvmlDeviceGetAttributes_v2(device d, attributes *to) {
  attributes found = {14, 1, 0, 0, 0, 0, d->gi, 1, 4864ull * d->gi};
  return *to = found, SUCCESS;
}

typedef struct {
  u32 version;
  u64 total, reserved, free, used;
} memory;
static u64 total_of(device d) { return d->gi < 0 ? (d->index ? 42949672960ull : 85520809984ull) : 5100273664ull * d->gi; }
int nvmlDeviceGetMemoryInfo_v2(device d, memory *to) {
  int code = check(d);
  if (code != SUCCESS) return code;
  if (to->version != (sizeof(memory) | 2 << 24) || is("old")) return MISMATCH;
  to->total = total_of(d), to->reserved = 1000, to->used = 2000, to->free = to->total - 3000;
  return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(device d, u64 *to) {
  if (check(d) != SUCCESS) return LOST;
  to[0] = total_of(d), to[1] = to[0] - 3000, to[2] = 3000;
  return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(device d, u32 *rates) {
  if (d->gi >= 0) return NOT_SUPPORTED;
  return rates[0] = 37, rates[1] = 12, check(d);
}
int nvmlDeviceGetPowerUsage(device d, u32 *milliwatts) { return *milliwatts = 123456, check(d); }
int nvmlDeviceGetTemperature(device d, u32 sensor, u32 *celsius) { return *celsius = sensor == 0 ? 41 : 0, check(d); }

/* An entry as drivers have it that call it `v1`, `v2` and, for a few releases, `v3`. */
static int list(u32 *count, unsigned char *to, const u32 *pids, const u64 *used, u32 length) {
  u32 size = number("entry", 24);
  if (*count < length) return *count = length, SMALL;
  *count = length;
  for (u32 i = 0; i < length; i++, to += size) {
    u32 instances[2] = {-1, -1};
    u64 guarded = 0;
    memcpy(to, &pids[i], 4);
    memcpy(to + 8, &used[i], 8);
    if (size >= 24) memcpy(to + 16, instances, 8);
    if (size >= 32) memcpy(to + 24, &guarded, 8);
  }
  return SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device d, u32 *count, void *to) {
  static const u32 pids[] = {4711, 4712};
  static const u64 used[] = {1073741824, -1};
  if (check(d) != SUCCESS) return LOST;
  return list(count, to, pids, used, d->gi < 0 ? 2 : 0);
}
int nvmlDeviceGetGraphicsRunningProcesses_v2(device d, u32 *count, void *to) {
  static const u32 pids[] = {4711, 4713};
  static const u64 used[] = {1073741824, 5};
  return list(count, to, pids, used, d->gi < 0 ? 2 : 0);
}

typedef struct {
  u32 field, scope;
  long long timestamp, latency;
  int type, result;
  u64 value;
} field;
int nvmlDeviceGetFieldValues(device d, int count, field *fields) {
  if (count != 1 || fields->field != 230) return NOT_SUPPORTED;
  fields->result = is("old") ? NOT_SUPPORTED : SUCCESS;
  fields->value = d->index ? 0 : number("action", 0);
  return SUCCESS;
}
int nvmlDeviceGetRemappedRows(device d, u32 *correctable, u32 *uncorrectable, u32 *pending, u32 *failed) {
  if (is("pages")) return NOT_SUPPORTED;
  *correctable = *uncorrectable = 1, *pending = 1;
  return *failed = d->index == 0 && is("rows"), SUCCESS;
}
int nvmlDeviceGetRetiredPagesPendingStatus(device d, u32 *pending) {
  return *pending = d->index == 0, SUCCESS;
}

typedef struct {
  device device;
  u64 type, data;
  u32 gpu_instance, compute_instance;
} event;
static device watched;
int nvmlEventSetCreate(void **events) { return *events = &watched, SUCCESS; }
int nvmlDeviceRegisterEvents(device d, u64 kinds, void *events) {
  if (kinds != 8 || events != &watched) return NOT_SUPPORTED;
  if (d->index == 0) watched = d;
  return SUCCESS;
}
int nvmlEventSetWait_v2(void *events, event *to, u32 milliseconds) {
  struct timespec step = {0, 2000000};
  for (u32 waited = 0; events == &watched && waited < milliseconds; waited += 2) {
    long xid = number("xid", 0);
    if (xid != 0) {
      event found = {watched, 8, xid, -1, -1};
      unlink(STATE "/xid");
      return *to = found, SUCCESS;
    }
    nanosleep(&step, NULL);
  }
  return TIMEOUT;
}
