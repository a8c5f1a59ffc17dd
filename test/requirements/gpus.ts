import { section } from "./row.ts";

/** GPUs of the service's machine. */
export const GPUS = {
  ...section("docs/gpus.md: Which GPUs the service uses", {
    "gpus.choice": "MILLRACE_GPUS chooses all GPUs of the machine, none, or some by their numbers or UUIDs.",
    "gpus.found":
      "The service knows UUID, model, memory, bus id and device files of each GPU and of each MIG instance.",
    "gpus.readings":
      "The service knows how full and how busy a GPU is, and which processes have memory of it, where the driver says so.",
    "gpus.models": "An app names a GPU the way people write it; a MIG instance is named by its profile.",
    "gpus.fake": "For tests there are fake GPUs, without device files and with a loud warning.",
    "gpus.none": "A machine without GPUs costs nothing: no process is started, and nothing is logged.",
    "gpus.deploy-warning":
      "A build warns if the app asks for GPUs that the host does not have, and says what it has.",
  }),
  ...section("docs/gpus.md: GPUs that fail", {
    "gpus.faults":
      "A GPU that is lost, has failed memory or a fatal XID error is out of service, and says what to do.",
    "gpus.retry": "A faulty GPU is tried again after 30 s, and then less and less often.",
    "gpus.hang":
      "A driver that hangs or dies costs the service nothing: its GPUs are out of service until it answers.",
    "gpus.down":
      "While the driver does not answer, the service starts, and apps that ask for a GPU fail at once, with the reason.",
    "gpus.driver": "A driver that does not work is told in one line of the log, and tried again.",
  }),
  ...section("docs/gpus.md: Sharing a GPU", {
    "gpu.grant.whole": "A replica gets all its GPUs at once, whole unless it asks for a part of the memory.",
    "gpu.grant.models": "A replica gets GPUs of one model: the first it names that can serve it.",
    "gpu.grant.fault": "A GPU out of service is not granted until it works again.",
    "gpu.share.fit": "Shares go to the fullest GPU that has room.",
    "gpu.share.projects": "Apps of several projects share a GPU only if the operator allows it.",
    "gpu.order":
      "Replicas get GPUs in order of arrival; a later one never takes what an earlier one may need.",
    "gpu.evict.idle": "If a replica waits, the fewest idle ones make room, the longest idle first.",
    "gpu.evict.never": "No busy replica, none of the minimum and none of the same app is evicted.",
    "gpu.evict.hold": "An app that was just started is not evicted for a while.",
    "gpu.evict.race": "A replica that gets a call before it is stopped stays.",
    "gpu.release.late": "Memory is granted again once its processes are gone and it is seen to be free.",
    "gpu.release.bound": "If a driver does not show that memory is free, it counts as free after 10 s.",
    "gpu.release.unknown": "No memory is taken back while the driver does not answer.",
    "gpu.measured": "Memory that other programs use is not granted, nor what replicas have not taken yet.",
    "gpu.measured.whole": "A whole GPU is granted if 90 % of its memory is free.",
    "gpu.use": "What a replica uses of a GPU is known where the driver tells its processes apart.",
    "gpu.history":
      "The last hour of each GPU is kept, and of each app what it used; the driver is not read more often for that.",
    "gpu.evictions": "The latest evictions are kept, with both apps.",
  }),
  ...section("docs/decisions/0053-sharing-gpus.md", {
    "gpu.safe": "Whatever happens, no GPU memory is granted twice, and none is lost.",
    "gpu.live": "Every wish that can be served is served in the end.",
    "gpu.fewest": "No smaller set of evictions would have been enough.",
    "gpu.starvation": "A large wish is served when all that came before it has ended.",
    "gpu.deadlock": "Apps whose minimums fit all reach them.",
  }),
} as const;
